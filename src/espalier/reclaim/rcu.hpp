#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/sync/per_thread.hpp"

// Read-copy update (McKenney and Slingwine, "Read-Copy Update: Using Execution History to Solve Concurrency
// Problems", PDCS 1998), as an object: the reader's side and the grace period, nothing else. It frees no
// memory and is no reclaimer. It answers when every search that began before a change has ended.
//
// Protocol. Each thread counts its own entries into and exits from read sections, so an odd count says that
// it is inside. synchronize() reads every count once. It does not wait for an even one. It waits for an odd
// one until the count changes: that section has ended, and later sections of the thread do not concern this
// call. Counts of 64 bits do not wrap. This is the form that Arbel and Attiya propose in the paper of citrus:
// calls of synchronize() share no lock and no word, so they do not wait for one another.
//
// Why no section is missed. Let a section begin before the call does. If the call sees the entry, it waits.
// If not, then everything that the section reads behind its fence comes after the caller's fence: the section
// sees what the caller wrote before, and the call need not wait for it (Dekker's pattern).
//
// Orderings
//   (1) enter (light) <-> synchronize (heavy): the call sees the entry and waits, or the section sees what was
//       written before the call.
//   (2) enter, leave (release) -> look (acquire): what older sections read comes before what the caller does after
//       the call. enter is a release because a look that sees it may have missed the exit of the section before.
//
// Cost: entering is a store to a line that no other thread writes and, where membarrier works, no fence
// (hw/asymmetric_fence.hpp; ESPALIER_FENCE=fence moves the price from the call to the sections). Leaving is a
// store. synchronize() is the heavy fence, a load for each thread that ever used the domain, and the wait.
//
// Progress: entering and leaving are wait-free, but for the first entry of a thread. synchronize() blocks: a
// thread that stops inside a section stops every later call. A call waits for one section of each thread at
// most, so a reader that enters again and again does not delay it for ever.

namespace espalier {

class rcu_domain {
  struct record {
    std::atomic<std::uint64_t> crossings{0};  // odd: inside

    void recover_in_child(bool lost) noexcept;
  };

 public:
  /// The calling thread is in a read section while this lives. Sections of one thread in one domain do not
  /// nest; they are short, and take no lock that a caller of synchronize() may hold.
  class [[nodiscard]] read_section {
   public:
    /// Throws std::bad_alloc at a thread's first entry, std::system_error beyond 4096 threads.
    explicit read_section(rcu_domain& domain) : record_(domain.records_.local()) {
      // relaxed: only this thread writes it.
      const std::uint64_t before = record_.crossings.load(std::memory_order_relaxed);
      assert(!inside(before) && "read sections do not nest");
      // order (2): enter, release; order (1): enter, light
      record_.crossings.store(before + 1, std::memory_order_release);
      hw::fence_light();
    }
    read_section(const read_section&) = delete;
    read_section& operator=(const read_section&) = delete;
    ~read_section() {
      // order (2): leave, release. relaxed: only this thread writes the count.
      record_.crossings.store(record_.crossings.load(std::memory_order_relaxed) + 1,
                              std::memory_order_release);
    }

   private:
    record& record_;
  };

  rcu_domain() = default;
  rcu_domain(const rcu_domain&) = delete;
  rcu_domain& operator=(const rcu_domain&) = delete;

  /// A grace period: returns when every section that began before the call has ended. Not from inside a
  /// section of this domain: it would wait for itself.
  void synchronize() const noexcept;

 private:
  static constexpr bool inside(std::uint64_t crossings) noexcept { return (crossings & 1U) != 0; }
  /// For assertions.
  [[nodiscard]] bool caller_is_inside() const noexcept;

  per_thread<record> records_;
};

}  // namespace espalier
