#pragma once

// Transactional lock elision: a critical section runs as a transaction that only reads the lock, so that sections
// without conflicts run side by side; one that does not commit takes the lock.
//
//     elision_site site;  // a word, in the object that owns the locks
//     elide(leaf.lock, site, [&leaf]() noexcept { ++leaf.count; });
//
// elide() needs nothing beside the lock, which may be as small as the four bytes of a ttas_lock in a node. sync/elided_lock
// is a lock with a site of its own. attempt_elision() is the loop of both, and of the preloaded mutexes, whose
// transactions begin and end in two calls (preload/elision). Header only.
//
// Sources: R. Rajwar and J. Goodman, "Speculative Lock Elision", MICRO 2001; D. Dice, Y. Lev, M. Moir and D. Nussbaum,
// "Early Experience with a Commercial Hardware Transactional Memory Implementation", ASPLOS 2009, for doing it in
// software, and for the lemming effect; D. Dice, T. Harris, A. Kogan, Y. Lev and M. Moir, "Pitfalls of Lazy
// Subscription", WTTM 2014, for why the lock is read first; D. Dice, T. Harris, A. Kogan and Y. Lev, "The Influence of
// Malloc Placement on TSX Hardware Transactional Memory", 2015, for aborts that no retry cures. Deviation from the
// latter: conflicts are not retried for ever, since the processor reports a read set that overflows as a conflict.
//
// Invariants
//  1. A transaction reads the lock before anything of the section, and aborts if it is taken. From then on a
//     thread that takes the lock aborts the transaction. So no section runs on a half-done change of the holder.
//  2. A transaction begins only after the lock was seen free, the first attempt included: one fallback does not
//     drive the threads that wait for it onto the lock after it (lemming effect).
//  3. The history and the counts are written outside transactions only.
//
// Orderings
//   (1) elide (lock) <-> subscribe (seq_cst): the transaction reads the lock before it reads anything of the section,
//       and a thread that takes the lock aborts it by that store. The fence binds the compiler only: to other
//       processors all reads of a transaction happen at once.
// Sections are ordered by the lock, and by the commits of the transactional memory.

#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

/// A transaction that elides one lock found another one taken: it cannot wait for that one from outside.
inline constexpr hw::abort_code inner_lock_held = hw::abort_code::user_1;
/// The section can never be a transaction.
inline constexpr hw::abort_code not_elidable = hw::abort_code::user_2;

/// How often one section may be attempted again, by what aborted the attempt before.
struct elision_budgets {
  unsigned conflict = 8;    ///< each after a pause, unless there are none
  unsigned capacity = 0;    ///< what does not fit now does not fit then
  unsigned lock_held = 16;  ///< each after the lock was seen free; takes nothing from the other budgets
  unsigned other = 1;       ///< an interrupt does not come again at once; a page fault or a system call does
  bool pauses = true;       ///< so that the thread that won a conflict can go on
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
        return spend(left_.conflict, left_.pauses ? next::after_pause : next::again);
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

  /// The same, but the next section is attempted.
  [[nodiscard]] constexpr elision_history without_skips() const noexcept {
    return made_of(0, penalty(), lost(), heals());
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

  constexpr elision_counts& operator+=(const elision_counts& other) noexcept {
    for (std::size_t e = 0; e < elision_events; ++e) of_event[e] += other.of_event[e];
    return *this;
  }
  constexpr elision_counts& operator-=(const elision_counts& earlier) noexcept {
    for (std::size_t e = 0; e < elision_events; ++e) of_event[e] -= earlier.of_event[e];
    return *this;
  }
  friend constexpr bool operator==(const elision_counts&, const elision_counts&) = default;

 private:
  static constexpr std::size_t attempt_ends = 5;
};

/// What one thread reads and writes about the sections of a site: their history, and their counts if it has any.
template <class Record>
concept elision_record = requires(Record& record, elision_history history, elision_event event) {
  { record.history() } noexcept -> std::same_as<elision_history>;
  { record.learn(history) } noexcept;
  { record.count(event) } noexcept;
};

/// Where sections leave their records: local() is the record of the calling thread. It may throw.
template <class Site>
concept records_elision =
    requires(Site& site) { requires elision_record<std::remove_reference_t<decltype(site.local())>>; };

/// The history of the sections of one site, in a word that its threads share, without counts. A site is what the
/// sections have in common: a map, one of its operations, or a lock and the place that takes it. Concurrent updates may
/// be lost, which costs only attempts or missed chances. The word is read before each transaction. It is written where
/// something went wrong, and by commits until it is back in its initial state.
class elision_site {
 public:
  // relaxed throughout: a figure that guards no data.
  [[nodiscard]] elision_history history() const noexcept {
    return elision_history{word_.load(std::memory_order_relaxed)};
  }
  void learn(elision_history history) noexcept {
    if (history != this->history()) word_.store(history.word(), std::memory_order_relaxed);
  }
  void count(elision_event) noexcept {}
  [[nodiscard]] elision_site& local() noexcept { return *this; }

 private:
  std::atomic<std::uint32_t> word_{0};
};
static_assert(records_elision<elision_site> && sizeof(elision_site) == 4);

/// Sites in a table of fixed size, each in a line of its own, for more sections than there are objects to keep their
/// history. Sections with the same place share one. Constant-initialised.
class elision_sites {
 public:
  static constexpr std::size_t places = 1024;

  /// The upper bits of a key depend on all that it names.
  [[nodiscard]] elision_site& of(std::uint64_t key) noexcept {
    return places_[key >> (64 - std::bit_width(places - 1))].site;
  }

 private:
  struct alignas(hw::cache_line_bytes) line {
    elision_site site;
  };
  std::array<line, places> places_{};
};

/// What a look at a lock shows.
enum class lock_look : std::uint8_t {
  free,
  held,
  awaited,  ///< threads sleep until it is free: they come first, and no further look is worth the time
};

/// How often one section may look for a free lock, with growing pauses; beyond that the lock is so busy that eliding it
/// gains nothing.
inline constexpr unsigned most_elision_looks = 512;

/// The attempts of attempt_elision(), from the one that `next` says. A caller that has made the first one itself passes
/// what `attempts` says of it.
// Inlined: what its functions capture then stays in registers, of which an operation of a map has a dozen.
template <elision_record Record, std::invocable Look, std::invocable Attempt>
[[nodiscard, gnu::always_inline]] inline bool continue_elision(Record& record, elision_attempts& attempts,
                                                               elision_attempts::next next, unsigned looks,
                                                               Look look, Attempt attempt) noexcept {
  unsigned left = looks;
  const auto seen_free = [&]() noexcept {
    for (backoff pause;; pause.wait()) {
      const lock_look seen = look();
      if (seen == lock_look::free) return true;
      if (left == 0 || seen == lock_look::awaited) return false;
      --left;
    }
  };
  backoff pause;
  while (next != elision_attempts::next::give_up) {
    if (next == elision_attempts::next::after_pause) pause.wait();
    if (!seen_free()) {
      if (looks == 0) return false;
      break;
    }
    const hw::transaction_outcome outcome = attempt();
    if (outcome.committed) return true;
    record.count(event_of(outcome.status));
    next = attempts.after(outcome.status);
  }
  record.count(elision_event::fallback);
  record.learn(record.history().after_fallback(attempts.obstacle()));
  return false;
}

/// Attempts to elide a section, as often as its history and the budgets allow. True if `attempt` says so: committed, or
/// for a transaction that the caller ends, begun. After the commit the caller calls record_commit(). If false, the
/// caller takes the lock.
///
/// `look` returns a lock_look, outside transactions; `attempt` looks again inside. `looks` is how often all attempts
/// together may find the lock held. A caller that must not wait passes 0; a lock that is held then leaves no trace.
template <elision_record Record, std::invocable Look, std::invocable Attempt>
[[nodiscard, gnu::always_inline]] inline bool attempt_elision(Record& record, const elision_budgets& budgets,
                                                              unsigned looks, Look look,
                                                              Attempt attempt) noexcept {
  const elision_history history = record.history();
  if (history.skips()) {
    record.learn(history.after_skipped());
    record.count(elision_event::skipped);
    return false;
  }
  elision_attempts attempts(budgets);
  return continue_elision(record, attempts, elision_attempts::next::again, looks, look, attempt);
}

/// A section for which attempt_elision() was true has committed.
template <elision_record Record>
void record_commit(Record& record) noexcept {
  const elision_history history = record.history();
  record.count(elision_event::commit);
  if (history.heals()) record.count(elision_event::healed);
  record.learn(history.after_commit());
}

/// One transaction that elides a section, and aborts with that code where it finds the lock held.
template <hw::transactional_backend Htm, hw::abort_code WhereHeld, elidable Lock, class Section>
[[nodiscard]] hw::transaction_outcome attempt_section(const Lock& lock, Section& section) noexcept {
  return Htm::run([&]() noexcept {
    if (lock.is_locked()) return hw::transaction_verdict::abort(WhereHeld);
    // order (1): subscribe, seq_cst: the compiler may not move anything of the section before the read of the lock.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    section();
    return hw::transaction_verdict::commit();
  });
}

/// A critical section that may be a transaction: it follows the rules of hw/htm for bodies, and its result, if it
/// has one, is plain data.
template <class Section>
concept elidable_section =
    std::is_nothrow_invocable_v<Section&> && (std::is_void_v<std::invoke_result_t<Section&>> ||
                                              (std::is_trivially_copyable_v<std::invoke_result_t<Section&>> &&
                                               std::default_initializable<std::invoke_result_t<Section&>>));

/// Runs a section of a lock, elided if possible, and returns its result. All sections of the lock appear to exclude one
/// another. The section may run several times; all runs but the last are undone. It cannot throw: no exception leaves a
/// transaction. Inside a transaction, of this or of other code, it joins that one, and the outermost section is retried
/// for both.
///
/// The lock is not recursive. Every store to its cache line aborts the transactions that elide it.
///
/// Progress: that of `Lock`; a section makes no more attempts than its budgets allow, and looks at most
/// most_elision_looks times for a free lock, before it queues for it.
///
/// Throws, before the section runs, what site.local() and lock() throw. Where there are no transactions the section
/// takes the lock, and nothing is recorded.
template <hw::transactional_backend Htm = hw::rtm, elidable Lock, records_elision Site,
          elidable_section Section>
std::invoke_result_t<Section&> elide(Lock& lock, Site& site, Section&& section,
                                     const elision_budgets& budgets = {}) {
  using result_type = std::invoke_result_t<Section&>;
  if constexpr (!std::is_void_v<result_type>) {
    result_type result{};
    elide<Htm>(lock, site, [&]() noexcept { result = section(); }, budgets);
    return result;
  } else {
    if (Htm::available()) {
      if (Htm::active()) {
        // Only the outermost section sees the outcome.
        static_cast<void>(attempt_section<Htm, inner_lock_held>(lock, section));
        return;
      }
      auto& record = site.local();
      const auto look = [&lock]() noexcept { return lock.is_locked() ? lock_look::held : lock_look::free; };
      const auto attempt = [&]() noexcept {
        return attempt_section<Htm, hw::abort_code::lock_held>(lock, section);
      };
      if (attempt_elision(record, budgets, most_elision_looks, look, attempt)) return record_commit(record);
    }
    // order (1): elide, lock
    const lock_guard hold(lock);
    section();
  }
}

}  // namespace espalier
