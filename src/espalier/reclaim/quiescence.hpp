#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/reclaim/domain_guard.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/reclaim/retired_list.hpp"
#include "espalier/sync/per_thread.hpp"

// Reclamation by the times at which threads enter and leave (ParSec: Wang, Stamler and Parmer, "Parallel Sections: Scaling
// System-Level Data-Structures", EuroSys 2016), as an object.
//
// Protocol. The domain has a clock C. A thread that enters announces the time that it reads, and 0 when it leaves. Entries wait in
// bags. A bag that is full gets the time t: its thread passes a fence, and then increments C from t to t + 1. The bag is
// reclaimed once each thread is outside, or has entered after t.
//
// Why that is safe. Let a thread that is inside hold a pointer to an object of the bag. It has read the pointer before the object
// was unlinked, and has announced its time s before. (a) s <= t. If s were larger, the thread would have read C behind the increment
// to t + 1, with acquire; then everything before the increment, the unlinking too, would come before its read of the pointer
// (ordering 3). (b) A look behind the fence of the bag sees this announcement, or a later one of the thread (ordering 1).
//
// Why the clock is a counter. ParSec reads the time-stamp counter. Its reads need a fence on each side, about 40 cycles an entry, and a
// retirement a full one. And the memory would be safe only if the counters of all processors are synchronised: a processor
// says that its counter is invariant, but nothing says that those of two sockets agree, or of a virtual machine before and after
// it moves. The counter changes once per bag. So its line stays in each reader's cache, as that of an epoch does.
//
// It differs from an epoch_domain in what a thread delays that stays inside: there everything that is retired later and in the two
// epochs before; here what is retired later. The clock never waits.
//
// Orderings
//   (1) enter (light) <-> stamp (heavy): a look behind the stamp sees the announcement, or the thread sees that the objects of the bag
//       are unlinked.
//   (2) announce, leave (release) -> look (acquire): what a thread read inside comes before the memory is reclaimed.
//       announce is a release because the look may see the next announcement and miss the exit before it.
//   (3) tick (acq_rel) -> enter (acquire): a thread that enters at a time later than a bag's sees its objects unlinked. Where the
//       fence is a membarrier, it says so already.
//   (4) tick (acq_rel) -> look (acquire): a look that finds a time later than a bag's comes after the bag's fence.
//
// Cost: entering is a load, a store and, where membarrier works, no fence (hw/asymmetric_fence.hpp); leaving is a store. retire takes
// an uncontended lock. A thread looks at all others once per bag of retired entries, and once per 64 KiB that they free.
//
// Progress: entering and leaving are wait-free, but for a thread's first entry. A thread that stays inside stops the reclamation of
// what is retired later; statistics() names it.
//
// After fork() (map/map_concept.hpp) a domain has the sections of the thread that forked and no others.

namespace espalier {

class quiescence_domain {
  struct record;
  friend domain_guard<quiescence_domain>;

 public:
  static constexpr bool reclaims = true;

  using guard = domain_guard<quiescence_domain>;

  struct stall {
    /// hw::thread_slot() of the thread that has been inside for longest, and the operating system's number of it.
    std::uint32_t slot;
    std::int32_t thread;
    /// How far the clock has moved since it entered.
    std::uint64_t lag;
    /// Attempts to reclaim since the last one that no thread delayed.
    std::uint64_t refusals;
  };

  struct counters {
    std::uint64_t time;
    std::uint64_t pinned_threads;
    std::uint64_t retired;
    std::uint64_t reclaimed;
    /// Empty when no thread is inside.
    std::optional<stall> oldest;
  };

  quiescence_domain() = default;
  quiescence_domain(const quiescence_domain&) = delete;
  quiescence_domain& operator=(const quiescence_domain&) = delete;
  /// Reclaims everything. No thread may be inside.
  ~quiescence_domain();

  /// Throws std::bad_alloc at a thread's first entry into this domain, std::system_error beyond 4096 threads.
  [[nodiscard, gnu::always_inline]] guard pin() {
    record& r = records_.local();
    if (r.depth++ == 0) enter(r);
    return guard(*this, r);
  }

  void purge(void* owner) noexcept;

  /// Reclaims what it can, for every thread, the ended ones included. Returns the number of entries that still wait. Not from inside
  /// a guard of this domain, which would delay its own work.
  std::size_t collect() noexcept;

  /// Of the domain, its records, and the lists of what was retired.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// The sums are exact at quiescence, otherwise a recent state.
  [[nodiscard]] counters statistics() const noexcept;

 private:
  struct record {
    std::atomic<std::uint64_t> entered{0};  // the time; 0: outside
    std::uint32_t depth = 0;                // owner only: nested guards
    std::uint32_t adopt_next = 0;           // owner only
    retired_list waiting;

    record() = default;
    record(const record&) = delete;
    record& operator=(const record&) = delete;
    ~record();

    void recover_in_child(bool lost) noexcept;
  };

  // order (2): leave, release
  [[gnu::always_inline]] static void leave(record& r) noexcept {
    if (--r.depth == 0) r.entered.store(0, std::memory_order_release);
  }
  /// Of a thread that is outside, or that needs nothing any more of what it has reached.
  [[gnu::always_inline]] void enter(record& r) noexcept {
    const std::uint64_t now = clock_.load(std::memory_order_acquire);  // order (3): enter, acquire
    r.entered.store(now, std::memory_order_release);                   // order (2): announce, release
    hw::fence_light();                                                 // order (1): enter, light
  }
  std::uint64_t next_time() noexcept;
  [[nodiscard]] std::uint64_t oldest_entry() const noexcept;
  /// A bag has no stamp before it is sealed.
  [[nodiscard]] static std::uint64_t stamp_of(const record&) noexcept { return retired_list::no_stamp; }
  /// Gives the sealed bags their stamp first.
  void collect_some(record& r) noexcept;

  // Every entry reads clock_: words that change more often lie in other lines.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> clock_{1};
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> refusals_{0};
  per_thread<record> records_;
};

static_assert(reclaimer<quiescence_domain>);

}  // namespace espalier
