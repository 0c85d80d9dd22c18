#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/instrumentation.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"

// Epoch-based reclamation (Fraser, PhD thesis, Cambridge 2004, section 5.2.3), as an object.
//
// Protocol. The domain has an epoch E. A pinned thread announces the epoch it saw, p. E moves from e to e+1
// only when every pinned thread announces e. An entry retired under a pin of epoch p is stamped p and is
// given back once E >= p + 3.
//
// Why p + 3 is safe. While a thread is pinned at p, E is p or p + 1: the second advance would have to see
// its announcement (order: pin's fence_light <-> advance's fence_heavy). So when an object is detached by a
// thread pinned at p, E <= p + 1, and any thread that can still reach the object pinned before that, at
// q <= p + 1. E >= p + 3 means E >= q + 2, which that thread's announcement excludes until it unpins. The
// stamp is the retiring thread's own announcement, so retire() reads no shared word and needs no fence; the
// price is one epoch more of delay than a fresh reading of E would allow.
//
// Orderings:
//   publish_pin (release), fence_light   <-> fence_heavy, scan (acquire)   the advance sees every old pin
//   unpin (release)                      ->  scan (acquire)                what the reader read comes before
//   advance (acq_rel)                    ->  collect's load of E (acquire)   ... its memory is given back
//
// Cost: pin is two loads, a store and, where membarrier works, no fence (hw/asymmetric_fence.hpp); retire
// takes an uncontended lock. Advancing is attempted once per bag of retired entries.
//
// Progress: pin and unpin are wait-free (population-oblivious but for the first pin of a thread). A thread
// that stays pinned stops all giving back; statistics() names it.
//
// After fork() (map/map_concept.hpp) a domain has the pins of the thread that forked and no others. Bags that a lost
// thread was changing are leaked: their entries count as never retired.

namespace espalier {

class epoch_domain {
  struct record;

 public:
  static constexpr bool gives_back = true;

  /// Most entries that one reserve() can be asked for.
  static constexpr std::size_t max_reserve = 16;

  class [[nodiscard]] guard {
   public:
    guard(guard&& other) noexcept : domain_(other.domain_), record_(other.record_) {
      other.record_ = nullptr;
    }
    guard& operator=(guard&& other) noexcept {
      if (this != &other) {
        release();
        domain_ = other.domain_;
        record_ = other.record_;
        other.record_ = nullptr;
      }
      return *this;
    }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { release(); }

    /// n <= max_reserve. Throws std::bad_alloc with nothing changed.
    void reserve(std::size_t n) { domain_->reserve(*record_, n); }
    void retire(const retired& entry) noexcept { domain_->retire(*record_, entry); }

   private:
    friend class epoch_domain;
    guard(epoch_domain& domain, record& r) noexcept : domain_(&domain), record_(&r) {}
    void release() noexcept {
      if (record_ != nullptr) unpin(*record_);
    }

    epoch_domain* domain_;
    record* record_;
  };

  struct stall {
    /// hw::thread_slot() of the pinned thread that is furthest behind, and its operating-system number.
    std::uint32_t slot;
    std::int32_t thread;
    /// Epochs it is behind: 0 while it holds nothing up, never more than 1.
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
  /// Gives everything back. No thread may be pinned.
  ~epoch_domain();

  /// Throws std::bad_alloc at a thread's first pin in this domain, std::system_error beyond 4096 threads.
  [[nodiscard]] guard pin() {
    record& r = records_.local();
    if (r.depth++ == 0) {
      std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
      while (true) {
        // order: publish_pin (release) -> scan (acquire): release, so that what this thread read under an
        // earlier pin stays ordered before an advance which only sees the newer announcement.
        r.announced.store(epoch << 1U | 1U, std::memory_order_release);
        hw::fence_light();
        // order: pin (acquire) <- advance (acq_rel)
        const std::uint64_t now = epoch_.load(std::memory_order_acquire);
        if (now == epoch) break;  // at most two rounds: the announcement stops E from moving again
        epoch = now;
      }
    }
    return guard(*this, r);
  }

  void purge(void* owner) noexcept;

  /// Advances as far as pinned threads permit and gives back what it can, for every thread, the ended ones
  /// included. Returns the number of entries still waiting. Not from inside a guard of this domain, which
  /// would hold up its own work.
  std::size_t collect() noexcept;

  /// The sums are exact at quiescence, otherwise a recent state.
  [[nodiscard]] counters statistics() const noexcept;

 private:
  struct bag;

  struct record {
    // Written by the owning thread at every pin, read by every advance.
    std::atomic<std::uint64_t> announced{0};  // 0, or epoch << 1 | 1
    std::uint32_t depth = 0;                  // owner only: nested guards

    // What the thread has retired. Under `lock`, so that others can take over what an ended thread left.
    alignas(hw::cache_line_bytes) ttas_lock lock;
    std::uint32_t adopt_next = 0;
    bag* current = nullptr;
    bag* sealed_first = nullptr;
    bag* sealed_last = nullptr;
    bag* spare = nullptr;
    std::atomic<std::uint64_t> retired{0};
    std::atomic<std::uint64_t> reclaimed{0};

    record() = default;
    record(const record&) = delete;
    record& operator=(const record&) = delete;
    ~record();

    void recover_in_child(bool lost) noexcept;
  };

  // order: unpin (release) -> scan (acquire)
  static void unpin(record& r) noexcept {
    if (--r.depth == 0) r.announced.store(0, std::memory_order_release);
  }

  void reserve(record& r, std::size_t n);
  void retire(record& r, const retired& entry) noexcept;
  bool try_advance() noexcept;
  void collect_record(record& r, std::uint64_t epoch) noexcept;
  void adopt_one(record& mine) noexcept;
  static void seal(record& r) noexcept;

  // Every pin reads epoch_: what changes more often lies elsewhere.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> epoch_{1};
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> refusals_{0};
  per_thread<record> records_;
};

static_assert(reclaimer<epoch_domain>);

// Where a sanitizer instruments a program, it has to see what the library's own files do as well: else it reports a block
// that they recycled as freed, and every access that they ordered as a race. A program that is linked with a library
// without that sanitizer does not link: the symbol that is missing says so. (The package has the files as
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

}  // namespace espalier
