#pragma once

// A lock whose sections are elided (sync/elision), with all that eliding needs.
//
// Orderings
//   (1) locked (lock) <-> subscribe (seq_cst) in sync/elision.hpp: a section that takes the lock aborts the transactions
//       that have read it.

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// A site with counts for each thread, and with a history if it learns, in the thread's own lines: no section writes what
/// another thread reads. It takes some 2 KiB, and 2 KiB more for each sixteen threads that use it. Without a history
/// each section is attempted, whatever became of those before it.
template <bool Learns>
class elision_records {
 public:
  class record {
   public:
    [[nodiscard]] elision_history history() const noexcept { return history_; }
    void learn(elision_history history) noexcept {
      if constexpr (Learns) history_ = history;
    }
    /// Exact when the thread runs no section.
    [[nodiscard]] elision_counts counts() const noexcept {
      elision_counts sums;
      // relaxed: as count().
      for (std::size_t e = 0; e < elision_events; ++e)
        sums.of_event[e] = events_[e].load(std::memory_order_relaxed);
      return sums;
    }
    void count(elision_event e) noexcept {
      // relaxed, and no read-modify-write: only this thread writes the word, and a sum needs no order.
      std::atomic<std::uint64_t>& sum = events_[static_cast<std::size_t>(e)];
      sum.store(sum.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

   private:
    std::array<std::atomic<std::uint64_t>, elision_events> events_{};
    elision_history history_;
  };

  /// Throws what per_thread::local() throws at a thread's first call.
  [[nodiscard]] record& local() { return records_.local(); }

  /// Sums over all threads; exact when no section runs.
  [[nodiscard]] elision_counts counts() const noexcept {
    elision_counts sums;
    records_.for_each([&sums](std::uint32_t, const record& of) { sums += of.counts(); });
    return sums;
  }

 private:
  per_thread<record> records_;
};
using elision_by_thread = elision_records<true>;
using elision_counts_by_thread = elision_records<false>;

/// A lock with sections that are elided, and others that are not. All of them appear to exclude one another. Not
/// recursive. The lock has cache lines of its own. With an elision_site as its site the object takes four lines, and has
/// no counts.
template <elidable Lock, hw::transactional_backend Htm = hw::rtm, records_elision Site = elision_by_thread>
class elided {
 public:
  elided() = default;
  explicit elided(const elision_budgets& budgets) noexcept : budgets_(budgets) {}

  /// Runs a section, elided if possible, and returns its result: espalier::elide() of this lock.
  template <elidable_section Section>
  std::invoke_result_t<Section&> elide(Section&& section) {
    return espalier::elide<Htm>(lock_, site_, section, budgets_);
  }

  /// Runs a section under the lock itself: one that calls the system, waits, or may throw. An exception leaves it
  /// with the lock free. Not inside a transaction: it would abort for ever where another thread waits for it.
  template <std::invocable Section>
  decltype(auto) locked(Section&& section) {
    // order (1): locked, lock
    const lock_guard hold(lock_);
    return section();
  }

  /// Whether a thread holds the lock itself.
  [[nodiscard]] bool is_locked() const noexcept { return lock_.is_locked(); }

  /// The events of the elided sections of all threads; exact when no section runs.
  [[nodiscard]] elision_counts counts() const noexcept
    requires requires(const Site& site) { site.counts(); }
  {
    return site_.counts();
  }

 private:
  // Alone in its lines: every store to them aborts all transactions.
  alignas(hw::false_sharing_bytes) Lock lock_;
  alignas(hw::false_sharing_bytes) const elision_budgets budgets_{};
  Site site_;
};

}  // namespace espalier
