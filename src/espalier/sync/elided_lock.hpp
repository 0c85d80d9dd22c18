#pragma once

// Transactional lock elision: a critical section runs as a transaction that only reads the lock, so that sections
// without conflicts run side by side; one that does not commit takes the lock.
//
// Sources: R. Rajwar and J. Goodman, "Speculative Lock Elision", MICRO 2001; D. Dice, Y. Lev, M. Moir and D. Nussbaum,
// ASPLOS 2009, for doing it in software, and for the lemming effect; D. Dice, T. Harris, A. Kogan, Y. Lev and M. Moir,
// "Pitfalls of Lazy Subscription", WTTM 2014, for why the lock is read first.
//
// Invariants
//  1. A transaction reads the lock before anything of the section, and aborts if it is taken. From then on a
//     thread that takes the lock aborts the transaction. So no section runs on a half-done change of the holder.
//  2. A transaction begins only after the lock was seen free, the first attempt included: one fallback does not
//     drive the threads that wait for it onto the lock after it (lemming effect).
//  3. The history and the counts lie in the thread's own lines and are written outside transactions only.
//
// Orderings
//   (1) locked (lock) <-> subscribe (seq_cst): the transaction reads the lock before it reads anything of the section,
//       and a store to the lock by locked() aborts it. The fence binds the compiler only: to other processors all
//       reads of a transaction happen at once.
// Sections are ordered by the lock, and by the commits of the transactional memory.

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/elision_policy.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// A critical section that may be a transaction: it follows the rules of hw/htm for bodies, and its result, if it
/// has one, is plain data.
template <class Section>
concept elidable_section =
    std::is_nothrow_invocable_v<Section&> && (std::is_void_v<std::invoke_result_t<Section&>> ||
                                              (std::is_trivially_copyable_v<std::invoke_result_t<Section&>> &&
                                               std::default_initializable<std::invoke_result_t<Section&>>));

/// A lock with sections that are elided, and others that are not. All of them appear to exclude one another. Not
/// recursive. The lock has cache lines of its own. The object suits locks that are few and contended: it takes some
/// 2.5 KiB, and 2 KiB more for each sixteen threads that use it.
///
/// Progress: that of `Lock`; a section makes no more attempts than its budgets allow, and looks at most most_looks
/// times for a free lock, before it queues for it.
template <elidable Lock, hw::transactional_backend Htm = hw::rtm>
class elided {
 public:
  /// How often one section may look for a free lock, with growing pauses; beyond that the lock is so busy that
  /// eliding it gains nothing.
  static constexpr unsigned most_looks = 512;

  elided() = default;
  explicit elided(const elision_budgets& budgets) noexcept : budgets_(budgets) {}

  /// Runs a section, elided if possible, and returns its result. The section may run several times; all runs but the
  /// last are undone. It cannot throw: no exception leaves a transaction. Inside a transaction, of this or of other
  /// code, it joins that one, and the outermost section is retried for both.
  ///
  /// Throws, before the section runs, what per_thread::local() throws at a thread's first call, and what lock()
  /// throws. Where there are no transactions it is locked(), and nothing is counted.
  template <elidable_section Section>
  std::invoke_result_t<Section&> elide(Section&& section) {
    using result_type = std::invoke_result_t<Section&>;
    if constexpr (std::is_void_v<result_type>) {
      run(section);
    } else {
      result_type result{};
      auto storing = [&]() noexcept { result = section(); };
      run(storing);
      return result;
    }
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

  /// Sums over all threads; exact when no section runs.
  [[nodiscard]] elision_counts counts() const noexcept {
    elision_counts sums;
    // relaxed: exact only when no section runs.
    stripes_.for_each([&sums](std::uint32_t, const stripe& s) {
      for (std::size_t e = 0; e < elision_events; ++e)
        sums.of_event[e] += s.events[e].load(std::memory_order_relaxed);
    });
    return sums;
  }

 private:
  struct stripe {
    std::array<std::atomic<std::uint64_t>, elision_events> events{};
    elision_history history;

    void count(elision_event e) noexcept {
      // relaxed, and no read-modify-write: only this thread writes the word, and a sum needs no order.
      std::atomic<std::uint64_t>& sum = events[static_cast<std::size_t>(e)];
      sum.store(sum.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  };

  template <class Section>
  void run(Section& section) {
    if (Htm::available()) {
      if (Htm::active()) {
        // Only the outermost section sees the outcome.
        static_cast<void>(transact(section, inner_lock_held));
        return;
      }
      if (attempt(section, stripes_.local())) return;
    }
    locked(section);
  }

  template <class Section>
  hw::transaction_outcome transact(Section& section, hw::abort_code where_held) noexcept {
    return Htm::run([&]() noexcept {
      if (lock_.is_locked()) return hw::transaction_verdict::abort(where_held);
      // order (1): subscribe, seq_cst: the compiler may not move anything of the section before the read of the lock.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      section();
      return hw::transaction_verdict::commit();
    });
  }

  /// Whether the section has run.
  template <class Section>
  bool attempt(Section& section, stripe& mine) noexcept {
    if (mine.history.skips()) {
      mine.history = mine.history.after_skipped();
      mine.count(elision_event::skipped);
      return false;
    }
    elision_attempts attempts(budgets_);
    backoff pause;
    unsigned looks = most_looks;
    for (auto next = elision_attempts::next::again; next != elision_attempts::next::give_up;) {
      if (next == elision_attempts::next::after_pause) pause.wait();
      if (!seen_free(looks)) break;
      const hw::transaction_outcome outcome = transact(section, hw::abort_code::lock_held);
      if (outcome.committed) {
        mine.count(elision_event::commit);
        if (mine.history.heals()) mine.count(elision_event::healed);
        mine.history = mine.history.after_commit();
        return true;
      }
      mine.count(event_of(outcome.status));
      next = attempts.after(outcome.status);
    }
    mine.count(elision_event::fallback);
    mine.history = mine.history.after_fallback(attempts.obstacle());
    return false;
  }

  [[nodiscard]] bool seen_free(unsigned& looks) const noexcept {
    for (backoff pause; lock_.is_locked(); pause.wait()) {
      if (looks == 0) return false;
      --looks;
    }
    return true;
  }

  // Alone in its lines: every store to them aborts all transactions.
  alignas(hw::false_sharing_bytes) Lock lock_;
  alignas(hw::false_sharing_bytes) const elision_budgets budgets_{};
  per_thread<stripe> stripes_;
};

}  // namespace espalier
