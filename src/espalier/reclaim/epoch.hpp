#pragma once

#if !defined(__cpp_exceptions)
#error "Espalier reports failed allocations by exceptions: compile without -fno-exceptions"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/instrumentation.hpp"
#include "espalier/reclaim/domain_guard.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/reclaim/retired_list.hpp"
#include "espalier/sync/per_thread.hpp"

// Epoch-based reclamation (Fraser, PhD thesis, Cambridge 2004, section 5.2.3), as an object.
//
// Protocol. The domain has an epoch E. A pinned thread announces the epoch it saw, p. E moves from e to e+1
// only when every pinned thread announces e. An entry retired under a pin of epoch p is stamped p and is
// reclaimed once E >= p + 3.
//
// Why p + 3 is safe. While a thread is pinned at p, E is p or p + 1: the second advance would have to see
// its announcement (ordering 1). So when a thread pinned at p unlinks an object, E <= p + 1. Any thread that
// can still reach the object pinned before that, at q <= p + 1. E >= p + 3 means E >= q + 2, which that
// thread's announcement excludes until it unpins. The stamp is the retiring thread's own announcement, so
// retire() reads no shared word and needs no fence. The price is one epoch more of delay than a new reading
// of E would allow.
//
// Orderings
//   (1) pin (light) <-> scan (heavy): the scan sees the announcement, or the pin reads an E at least as new as
//       the one that the scan is for. Without it an advance misses a thread that is pinned in an older epoch.
//   (2) publish_pin, unpin (release) -> scan (acquire): what a thread read and unlinked under a pin comes before
//       an advance that no longer sees this pin. publish_pin is a release because the scan may see the next
//       announcement and miss the unpin between.
//   (3) advance (acq_rel) -> pin (acquire): a reader in an epoch in which an object may be reclaimed sees that
//       the object is unlinked.
//   (4) advance (acq_rel) -> collect (acquire): the readers' accesses come before their memory is reclaimed.
//   (5) advance (acq_rel) -> advance (acquire): an advance passes on what earlier scans saw. All stores to E are
//       read-modify-writes, one release sequence, so (3) and (4) would hold without this acquire.
//   (6) advance (acq_rel) -> statistics (acquire): announcements read later are as new as those that the scan
//       saw, hence the bound of stall::lag.
//
// Cost: pin is two loads, a store and, where membarrier works, no fence (hw/asymmetric_fence.hpp). It is always inlined, as
// is the end of a guard: otherwise the compiler calls them, for half as many instructions again. retire takes an uncontended
// lock. A thread attempts an advance once per bag of retired entries, and once per 64 KiB that they free: what waits of a
// thread is a few times that, where no pin delays it, or 250 small entries.
//
// Progress: pin and unpin are wait-free (population-oblivious but for the first pin of a thread). A thread
// that stays pinned stops all reclamation; statistics() names it.
//
// After fork() (map/map_concept.hpp) a domain has the pins of the thread that forked and no others. Bags that a lost
// thread was changing are leaked: their entries count as never retired.

namespace espalier {

class epoch_domain {
  struct record;
  friend domain_guard<epoch_domain>;

 public:
  static constexpr bool reclaims = true;

  using guard = domain_guard<epoch_domain>;

  struct stall {
    /// hw::thread_slot() of the pinned thread that is furthest behind, and the operating system's number of it.
    std::uint32_t slot;
    std::int32_t thread;
    /// Epochs it is behind: 0 while it delays no advance, at most 1 for a pin that is complete. A thread that was
    /// stopped inside pin() may for a moment announce an older epoch.
    std::uint64_t lag;
    /// Attempts to advance that it has refused since the last one that succeeded.
    std::uint64_t refusals;
  };

  struct counters {
    std::uint64_t epoch;
    std::uint64_t pinned_threads;
    std::uint64_t retired;
    std::uint64_t reclaimed;
    /// Empty when no thread is pinned.
    std::optional<stall> oldest;
  };

  epoch_domain() = default;
  epoch_domain(const epoch_domain&) = delete;
  epoch_domain& operator=(const epoch_domain&) = delete;
  /// Reclaims everything. No thread may be pinned.
  ~epoch_domain();

  /// Throws std::bad_alloc at a thread's first pin in this domain, std::system_error beyond 4096 threads.
  [[nodiscard, gnu::always_inline]] guard pin() {
    record& r = records_.local();
    if (r.depth++ == 0) enter(r);
    return guard(*this, r);
  }

  /// A pin that ends where its user says. It can be passed on in a register, which a guard cannot.
  class bare_pin;
  /// Calls no function: the pin is nothing at a thread's first pin, and where a table of records has grown.
  [[nodiscard, gnu::always_inline]] bare_pin pin_at_hand() noexcept;

  void purge(void* owner) noexcept;

  /// Advances as far as pinned threads permit and reclaims what it can, for every thread, the ended ones
  /// included. Returns the number of entries that still wait. Not from inside a guard of this domain, which
  /// would delay its own work.
  std::size_t collect() noexcept;

  /// Of the domain, its records, and the lists of what was retired.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// The sums are exact at quiescence, otherwise a recent state.
  [[nodiscard]] counters statistics() const noexcept;

 private:
  /// Epochs from the stamp of an entry to its reclamation.
  static constexpr std::uint64_t grace = 3;

  struct record {
    // Written by the owning thread at every pin, read by every advance.
    std::atomic<std::uint64_t> announced{0};  // 0, or epoch << 1 | 1
    std::uint32_t depth = 0;                  // owner only: nested guards
    std::uint32_t adopt_next = 0;             // owner only
    retired_list waiting;

    record() = default;
    record(const record&) = delete;
    record& operator=(const record&) = delete;
    ~record();

    void recover_in_child(bool lost) noexcept;
  };

  // order (2): unpin, release
  [[gnu::always_inline]] static void leave(record& r) noexcept {
    if (--r.depth == 0) r.announced.store(0, std::memory_order_release);
  }

  /// Of a record that announces nothing, or an epoch under which its thread needs nothing any more.
  [[gnu::always_inline]] void enter(record& r) noexcept {
    // relaxed: a first guess, which the acquire load below confirms.
    std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    while (true) {
      // order (2): publish_pin, release: what this thread read under an earlier pin stays before an advance
      // that sees only the newer announcement.
      r.announced.store(epoch << 1U | 1U, std::memory_order_release);
      hw::fence_light();  // order (1): pin, light
      // order (3): pin, acquire
      const std::uint64_t now = epoch_.load(std::memory_order_acquire);
      if (now == epoch) break;  // at most two rounds: the announcement stops E from moving again
      epoch = now;
    }
  }
  bool try_advance() noexcept;
  void adopt_one(record& mine) noexcept;
  /// Of a pinned thread.
  [[nodiscard]] static std::uint64_t stamp_of(const record& r) noexcept {
    return r.announced.load(std::memory_order_relaxed) >> 1U;  // relaxed: only this thread writes it
  }
  /// Advances first, if it can.
  void collect_some(record& r) noexcept;

  // Every pin reads epoch_: words that change more often lie in other lines.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> epoch_{1};
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> refusals_{0};
  per_thread<record> records_;
};

class epoch_domain::bare_pin {
 public:
  [[nodiscard]] explicit operator bool() const noexcept { return record_ != nullptr; }
  [[gnu::always_inline]] void end() const noexcept { leave(*record_); }

 private:
  friend epoch_domain;
  explicit bare_pin(record* r) noexcept : record_(r) {}
  record* record_;
};

[[gnu::always_inline]] inline epoch_domain::bare_pin epoch_domain::pin_at_hand() noexcept {
  record* const mine = records_.if_at_hand();
  if (mine != nullptr && mine->depth++ == 0) enter(*mine);
  return bare_pin(mine);
}

static_assert(reclaimer<epoch_domain>);

// A sanitizer that instruments a program must see the library's own files too. Otherwise it reports a block that they
// recycled as freed, and every access that they ordered as a race. Such a program does not link with a library built
// without that sanitizer: the name of the missing symbol says why. (The package has the files as
// espalier::map_source, to be compiled with the program's own flags.)
#if defined(ESPALIER_ADDRESS_SANITIZER)
extern "C" const char espalier_needs_map_source_with_address_sanitizer;
[[gnu::used]] inline const char* const compiled_with_sanitizer =
    &espalier_needs_map_source_with_address_sanitizer;
#elif defined(ESPALIER_THREAD_SANITIZER)
extern "C" const char espalier_needs_map_source_with_thread_sanitizer;
[[gnu::used]] inline const char* const compiled_with_sanitizer =
    &espalier_needs_map_source_with_thread_sanitizer;
#endif
// The library throws and takes types of its C++ library. The package has it with one: g++'s, as a rule.
#if defined(_LIBCPP_VERSION)
extern "C" const char espalier_needs_map_source_with_libcxx;
[[gnu::used]] inline const char* const compiled_with_libcxx = &espalier_needs_map_source_with_libcxx;
#endif

}  // namespace espalier
