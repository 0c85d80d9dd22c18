#pragma once

// Transactional lock elision for mutexes with sections that lie between two calls of a program, which is not aware of
// it. Attempts, their bounds and their history are those of espalier/sync/elision.hpp, with a site for each mutex and
// call site.
//
// What differs from elide():
//  1. A transaction begins in lock() and ends in unlock(), through hw::open_rtm.
//  2. Sections of several mutexes nest in one transaction: the inner ones only read their mutex, and the transaction
//     ends with the last of them, in whatever order they end. Beyond thread_sections::most_nested, and for an inner
//     mutex that must not be elided, the transaction takes the mutex by its words, which is equally correct.
//  3. A transaction aborts where the program waits for a condition, writes output, or has a page fault. Execution
//     then resumes in lock(), which takes the mutex. glibc's condition variables find the words that they expect
//     (elision/futex_mutex.hpp).
//  4. If a mutex word is not free while this thread elides the mutex, other code locked it inside the transaction:
//     that is never committed.

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/htm.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/sync/elision.hpp"
#include "preload/elision/futex_mutex.hpp"
#include "preload/elision/section_counts.hpp"
#include "preload/kernel/futex_lock.hpp"

namespace espalier::preload {

/// A number for the pair of a mutex and a place that locks it. Never 0.
[[nodiscard]] constexpr std::uint64_t section_key(std::uintptr_t mutex, std::uintptr_t site) noexcept {
  return measure::mix64(measure::mix64(mutex) + site) | 1U;
}

/// The places for a section's history and counts.
struct section_place {
  elision_site* learned = nullptr;
  section_counts::index counted = section_counts::nowhere;
};

/// A thread's state between its calls. It exists from the thread's first instruction to its last. An abort restores
/// it with all other memory, so it never contains sections that did not happen.
class thread_sections {
 public:
  /// The most mutexes that one thread elides at once, all in one transaction.
  static constexpr std::size_t most_nested = 8;

  /// True in a transaction of this library.
  [[nodiscard]] bool eliding() const noexcept { return nested_ != 0; }
  [[nodiscard]] bool full() const noexcept { return nested_ == most_nested; }
  [[nodiscard]] bool elides(const pthread_mutex_t& mutex) const noexcept {
    return std::find(begin(), end(), &mutex) != end();
  }

  /// Not where full().
  void push(const pthread_mutex_t& mutex) noexcept { elided_[nested_++] = &mutex; }
  /// Sections may end in any order.
  void drop(const pthread_mutex_t& mutex) noexcept {
    *std::find(elided_.begin(), elided_.begin() + nested_, &mutex) = elided_[nested_ - 1];
    --nested_;
  }
  void clear() noexcept { nested_ = 0; }

  /// The outermost section.
  section_place outermost;

  /// The thread's number in the kernel. It is asked once per thread, and not in a transaction, which the question
  /// aborts.
  [[nodiscard]] int id() noexcept { return id_ != 0 ? id_ : ask_id(); }
  /// For striped counts.
  [[nodiscard]] unsigned stripe() noexcept { return stripe_ != 0 ? stripe_ : ask_stripe(); }
  /// In a child of fork(): its thread has another number.
  void forget_id() noexcept { id_ = 0; }

 private:
  [[nodiscard]] const pthread_mutex_t* const* begin() const noexcept { return elided_.data(); }
  [[nodiscard]] const pthread_mutex_t* const* end() const noexcept { return elided_.data() + nested_; }
  [[gnu::noinline]] int ask_id() noexcept { return id_ = static_cast<int>(gettid()); }
  [[gnu::noinline]] unsigned ask_stripe() noexcept {
    static constinit std::atomic<unsigned> given{0};
    // relaxed: any number will do.
    return stripe_ = given.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  std::size_t nested_ = 0;
  std::array<const pthread_mutex_t*, most_nested> elided_{};
  int id_ = 0;
  unsigned stripe_ = 0;
};

inline thread_local constinit thread_sections sections_of_thread;

/// Plain mutexes (mutex_words::is_plain()) under the policies `tts` and `tle`. Functions return what pthread's
/// functions of the same names return, and preserve errno. `site` is the return address of the program's call. Any
/// thread, any time. Constant-initialised, never destroyed.
template <hw::open_backend Htm>
class mutex_engine {
 public:
  /// How often a section checks for a free mutex before it queues. It is less than in elide(), since threads may
  /// sleep on these mutexes.
  static constexpr unsigned most_looks = 64;

  explicit constexpr mutex_engine(section_counts& counts) noexcept : counts_(counts) {}
  mutex_engine(const mutex_engine&) = delete;
  mutex_engine& operator=(const mutex_engine&) = delete;

  struct manner {
    elision_budgets budgets{};
    bool learns = true;       ///< sections that keep falling back are skipped
    bool even_alone = false;  ///< also where there is one thread, which gains nothing by it: for tests
  };

  /// From now on sections are elided. The caller has checked that transactions work.
  void start_eliding(const manner& how) noexcept {
    how_ = how;
    eliding_ = true;
  }

  int lock(pthread_mutex_t& mutex, std::uintptr_t site) noexcept {
    thread_sections& mine = sections_of_thread;
    const mutex_words words(mutex);
    if (mine.eliding()) [[unlikely]] {
      if (join(mine, mutex)) return 0;
      acquire(words, mine.id());
      return 0;
    }
    // Before any transaction: the system call for the id would abort it.
    const int owner = mine.id();
    const section_place at = place_of(mutex, site);
    if (worth_eliding(words) && elide(mine, mutex, at, most_looks)) return 0;
    count_taking(mine, at, words);
    acquire(words, owner);
    return 0;
  }

  int trylock(pthread_mutex_t& mutex, std::uintptr_t site) noexcept {
    thread_sections& mine = sections_of_thread;
    const mutex_words words(mutex);
    if (mine.eliding()) [[unlikely]] {
      if (mine.elides(mutex) || !words.looks_free()) return EBUSY;
      if (join(mine, mutex)) return 0;
      return try_acquire(words, mine.id()) ? 0 : EBUSY;
    }
    const int owner = mine.id();
    if (!words.looks_free()) return EBUSY;
    const section_place at = place_of(mutex, site);
    if (worth_eliding(words) && elide(mine, mutex, at, 0)) return 0;
    if (!try_acquire(words, owner)) return EBUSY;
    counts_.add(at.counted, mine.stripe(), section_counts::taken);
    return 0;
  }

  int clocklock(pthread_mutex_t& mutex, clockid_t clock, const timespec& moment,
                std::uintptr_t site) noexcept {
    if (!is_waitable(clock)) return EINVAL;
    thread_sections& mine = sections_of_thread;
    const mutex_words words(mutex);
    if (mine.eliding()) [[unlikely]] {
      if (join(mine, mutex)) return 0;
      return acquire_until(words, mine.id(), clock, moment);
    }
    const int owner = mine.id();
    const section_place at = place_of(mutex, site);
    // A wait with a time limit does not wait for an attempt.
    if (worth_eliding(words) && elide(mine, mutex, at, 0)) return 0;
    count_taking(mine, at, words);
    return acquire_until(words, owner, clock, moment);
  }

  int unlock(pthread_mutex_t& mutex) noexcept {
    thread_sections& mine = sections_of_thread;
    const mutex_words words(mutex);
    if (!mine.eliding() || !mine.elides(mutex)) [[likely]] {
      release(words);
      return 0;
    }
    if (!words.looks_free()) {
      Htm::template abort<not_elidable>();
      mine.clear();
      return 0;
    }
    mine.drop(mutex);
    if (mine.eliding()) return 0;
    Htm::end();
    committed(mine);
    return 0;
  }

  /// Called before a mutex is destroyed: a held mutex must look held to the C library, which then refuses.
  void before_destroy(const pthread_mutex_t& mutex) noexcept {
    thread_sections& mine = sections_of_thread;
    if (!mine.eliding() || !mine.elides(mutex)) return;
    Htm::template abort<not_elidable>();
    mine.clear();
  }

  /// In a child of fork(). The histories of the mutexes stay valid.
  void after_fork_in_child() noexcept {
    sections_of_thread.forget_id();
    counts_.clear();
  }

 private:
  [[nodiscard]] bool worth_eliding(mutex_words words) const noexcept {
    return eliding_ && words.may_be_elided() && (how_.even_alone || !alone_in_process());
  }

  [[nodiscard]] section_place place_of(const pthread_mutex_t& mutex, std::uintptr_t site) noexcept {
    if (!eliding_ && !counts_.counting()) return {};
    const auto address = reinterpret_cast<std::uintptr_t>(&mutex);
    const std::uint64_t key = section_key(address, site);
    return {&learned_.of(key), counts_.find(key, address, site)};
  }

  void count_taking(thread_sections& mine, section_place at, mutex_words words) noexcept {
    if (at.counted == section_counts::nowhere) return;
    counts_.add(at.counted, mine.stripe(), section_counts::taken);
    if (!words.looks_free()) counts_.add(at.counted, mine.stripe(), section_counts::waited);
  }

  /// In a transaction: elides the mutex in it too. If false, the caller must take it.
  bool join(thread_sections& mine, pthread_mutex_t& mutex) noexcept {
    const mutex_words words(mutex);
    if (mine.elides(mutex)) {
      // The holder locks the mutex again. Without the transaction the program shows its own behaviour.
      Htm::template abort<not_elidable>();
      mine.clear();
      return false;
    }
    if (mine.full() || !words.may_be_elided()) return false;
    if (!words.looks_free()) {
      Htm::template abort<inner_lock_held>();
      mine.clear();
      return false;
    }
    mine.push(mutex);
    return true;
  }

  /// A thread's record of the sections of one place.
  struct record {
    section_counts& counts;
    section_place at;
    unsigned stripe;
    bool learns;

    [[nodiscard]] elision_history history() const noexcept {
      const elision_history all = at.learned->history();
      return learns ? all : all.without_skips();
    }
    void learn(elision_history history) noexcept { at.learned->learn(history); }
    void count(elision_event e) noexcept { counts.add(at.counted, stripe, e); }
  };
  [[nodiscard]] record record_of(thread_sections& mine, section_place at) noexcept {
    return {counts_, at, mine.stripe(), how_.learns};
  }

  /// Whether the thread is now in a transaction that elides the mutex. `looks` is as for attempt_elision().
  bool elide(thread_sections& mine, pthread_mutex_t& mutex, section_place at, unsigned looks) noexcept {
    const mutex_words words(mutex);
    record outcomes = record_of(mine, at);
    // Threads that sleep for the mutex come first, as in acquire(). A thread that stayed awake would overtake them again
    // and again where a condition variable wakes one thread at a time to take it.
    const auto look = [words]() noexcept {
      if (words.looks_free()) return lock_look::free;
      return words.looks_awaited() ? lock_look::awaited : lock_look::held;
    };
    const auto attempt = [&]() noexcept -> hw::transaction_outcome {
      if (const auto aborted = Htm::begin()) return {false, *aborted};
      if (!words.looks_free()) {
        Htm::template abort<hw::abort_code::lock_held>();
        return {false, hw::abort_status::asked_for(hw::abort_code::lock_held)};
      }
      mine.push(mutex);
      mine.outermost = at;
      return {true, {}};
    };
    return attempt_elision(outcomes, how_.budgets, looks, look, attempt);
  }

  void committed(thread_sections& mine) noexcept {
    record outcomes = record_of(mine, mine.outermost);
    record_commit(outcomes);
  }

  section_counts& counts_;
  bool eliding_ = false;
  manner how_;
  elision_sites learned_;
};

}  // namespace espalier::preload
