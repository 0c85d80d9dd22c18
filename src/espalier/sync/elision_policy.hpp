#pragma once

// The policy of lock elision, without its mechanism: how often a section is attempted as a transaction, which
// sections are not attempted at all, and what is counted. Values without shared state; sync/elided_lock and the
// preloaded library each store them in their own way. Header only.
//
// Sources: D. Dice, Y. Lev, M. Moir and D. Nussbaum, "Early Experience with a Commercial Hardware Transactional Memory
// Implementation", ASPLOS 2009, for the lemming effect; D. Dice, T. Harris, A. Kogan and Y. Lev, "The Influence of
// Malloc Placement on TSX Hardware Transactional Memory", 2015, for aborts that no retry cures. Deviation from the
// latter: conflicts are not retried for ever, since the processor reports a read set that overflows as a conflict.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "espalier/hw/htm.hpp"

namespace espalier {

/// A transaction that elides one lock found another one taken: it cannot wait for that one from outside.
inline constexpr hw::abort_code inner_lock_held = hw::abort_code::user_1;
/// The section can never be a transaction.
inline constexpr hw::abort_code not_elidable = hw::abort_code::user_2;

/// How often one section may be attempted again, by what aborted the attempt before.
struct elision_budgets {
  unsigned conflict = 8;    ///< each after a pause
  unsigned capacity = 0;    ///< what does not fit now does not fit then
  unsigned lock_held = 16;  ///< each after the lock was seen free; takes nothing from the other budgets
  unsigned other = 1;       ///< an interrupt does not come again at once; a page fault or a system call does
};

/// What kept a section from committing, as far as its last attempt tells.
enum class elision_obstacle : std::uint8_t {
  others,  ///< threads that won a conflict, or held the lock: perhaps gone the next time
  mendable,  ///< a run under the lock may remove it for the next time: a page that was never touched, lines that were
             ///< not in the cache
  lasting,  ///< the section itself
};

/// The attempts of one section: at most one more than the budgets have together.
class elision_attempts {
 public:
  enum class next : std::uint8_t {
    again,        ///< at once
    after_pause,  ///< so that the thread that won can go on
    when_free,    ///< when the lock is free
    give_up,      ///< take the lock
  };

  explicit constexpr elision_attempts(const elision_budgets& budgets) noexcept : left_(budgets) {}

  /// What to do about an abort.
  [[nodiscard]] constexpr next after(hw::abort_status status) noexcept {
    obstacle_ = elision_obstacle::others;
    if (const auto code = status.code()) {
      if (*code == inner_lock_held) return spend(left_.lock_held, next::after_pause);
      if (*code == hw::abort_code::lock_held) return spend(left_.lock_held, next::when_free);
      obstacle_ = elision_obstacle::lasting;
      return *code == not_elidable ? next::give_up : spend(left_.other, next::again);
    }
    switch (status.cause()) {
      case hw::abort_cause::conflict:
        return spend(left_.conflict, next::after_pause);
      case hw::abort_cause::capacity:
        obstacle_ = elision_obstacle::mendable;
        return spend(left_.capacity, next::again);
      default:
        obstacle_ = elision_obstacle::mendable;
        return spend(left_.other, next::again);
    }
  }

  /// What caused the last abort; `others` if there was none.
  [[nodiscard]] constexpr elision_obstacle obstacle() const noexcept { return obstacle_; }

 private:
  static constexpr next spend(unsigned& left, next then) noexcept {
    if (left == 0) return next::give_up;
    --left;
    return then;
  }

  elision_budgets left_;
  elision_obstacle obstacle_ = elision_obstacle::others;
};

/// The outcomes of a lock's sections so far, in one word: how many of the next sections to skip, that is, not to
/// attempt. The first section that falls back skips none yet. Each further one doubles the number, up to
/// most_skipped, and each commit halves it. Sections that lost to other threads say little about the next ones, so
/// only more than `patience` of them in a row count: attempts that often lose are still better than the lock, at
/// which all threads wait. The caller copies the word, and stores it again; a lost update does no harm.
class elision_history {
 public:
  static constexpr std::uint32_t most_skipped = 1024;
  static constexpr std::uint32_t patience = 7;

  constexpr elision_history() noexcept = default;
  explicit constexpr elision_history(std::uint32_t word) noexcept : word_(word) {}
  [[nodiscard]] constexpr std::uint32_t word() const noexcept { return word_; }

  /// Whether the next section takes the lock without an attempt.
  [[nodiscard]] constexpr bool skips() const noexcept { return left() != 0; }
  [[nodiscard]] constexpr elision_history after_skipped() const noexcept {
    return made_of(left() - 1, penalty(), lost(), heals());
  }
  [[nodiscard]] constexpr elision_history after_fallback(elision_obstacle met) const noexcept {
    if (met == elision_obstacle::others && lost() < patience)
      return made_of(left(), penalty(), lost() + 1, false);
    const std::uint32_t doubled = penalty() == 0 ? 1 : 2 * penalty();
    return made_of(penalty(), doubled > most_skipped ? most_skipped : doubled, lost(),
                   met == elision_obstacle::mendable);
  }
  [[nodiscard]] constexpr elision_history after_commit() const noexcept {
    return made_of(0, penalty() / 2, 0, false);
  }

  /// Whether a commit now shows that the run under the lock before it removed the cause of the abort before that.
  [[nodiscard]] constexpr bool heals() const noexcept { return (word_ & heals_bit) != 0; }

  friend constexpr bool operator==(elision_history, elision_history) = default;

 private:
  // Bits 0 to 10: sections still to skip. 11 to 21: how many the next fallback will skip. 22 to 24: sections in a row
  // that lost to other threads. 25: heals().
  static constexpr unsigned penalty_shift = 11;
  static constexpr std::uint32_t field = (1U << penalty_shift) - 1;
  static constexpr unsigned lost_shift = 2 * penalty_shift;
  static constexpr std::uint32_t lost_field = 7;
  static constexpr std::uint32_t heals_bit = 1U << 25;
  static_assert(most_skipped <= field && patience <= lost_field, "the counters do not fit their fields");

  static constexpr elision_history made_of(std::uint32_t left, std::uint32_t penalty, std::uint32_t lost,
                                           bool heals) noexcept {
    return elision_history{left | penalty << penalty_shift | lost << lost_shift | (heals ? heals_bit : 0)};
  }
  [[nodiscard]] constexpr std::uint32_t left() const noexcept { return word_ & field; }
  [[nodiscard]] constexpr std::uint32_t penalty() const noexcept { return word_ >> penalty_shift & field; }
  [[nodiscard]] constexpr std::uint32_t lost() const noexcept { return word_ >> lost_shift & lost_field; }

  std::uint32_t word_ = 0;
};

/// The events that are counted. An attempt ends in one of the first five.
enum class elision_event : std::uint8_t {
  commit,
  conflict,
  capacity,
  lock_held,  ///< the lock itself, or another one inside
  other,
  fallback,  ///< attempts were made, or the lock never looked free: the section took it
  healed,    ///< a commit after a fallback that capacity or other caused
  skipped,   ///< the section took the lock without an attempt, because of its history
};
inline constexpr std::size_t elision_events = 8;

[[nodiscard]] constexpr elision_event event_of(hw::abort_status status) noexcept {
  if (const auto code = status.code()) {
    return *code == hw::abort_code::lock_held || *code == inner_lock_held ? elision_event::lock_held
                                                                          : elision_event::other;
  }
  switch (status.cause()) {
    case hw::abort_cause::conflict:
      return elision_event::conflict;
    case hw::abort_cause::capacity:
      return elision_event::capacity;
    default:
      return elision_event::other;
  }
}

/// Sums of events.
struct elision_counts {
  std::array<std::uint64_t, elision_events> of_event{};

  [[nodiscard]] constexpr std::uint64_t of(elision_event e) const noexcept {
    return of_event[static_cast<std::size_t>(e)];
  }
  /// Transactions begun.
  [[nodiscard]] constexpr std::uint64_t attempts() const noexcept {
    return std::accumulate(of_event.begin(), of_event.begin() + attempt_ends, std::uint64_t{0});
  }
  /// Sections, those without an attempt included.
  [[nodiscard]] constexpr std::uint64_t sections() const noexcept {
    return of(elision_event::commit) + of(elision_event::fallback) + of(elision_event::skipped);
  }

  friend constexpr bool operator==(const elision_counts&, const elision_counts&) = default;

 private:
  static constexpr std::size_t attempt_ends = 5;
};

}  // namespace espalier
