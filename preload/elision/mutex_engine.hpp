#pragma once

// Transactional lock elision for mutexes whose sections lie between two calls of a program that knows nothing of it.
// The rules are those of espalier/sync/elided_lock.hpp: the mutex is read first, inside; no attempt begins while it is
// held; attempts are bounded by cause; a place that keeps falling back is left alone for a while. Sources there.
//
// What is different here
//  1. A transaction begins in lock() and ends in unlock(), through hw/open_transaction.
//  2. Sections of several mutexes nest in one transaction: the inner ones only read their mutex, and the transaction
//     ends with the last of them, in whatever order they end. Beyond thread_sections::most_nested, and where an inner
//     mutex is not to be elided, it is taken by its words inside the transaction, which is as good.
//  3. The program's wait for a condition, its output, its page faults abort. It then goes on at lock(), which takes
//     the mutex. glibc's condition variables find the words as they know them (elision/mutex_words.hpp).
//  4. A mutex word that is not free while this thread elides the mutex means that somebody else's code locked it inside
//     our transaction: that is never committed.

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

#include "espalier/hw/open_transaction.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/elision_policy.hpp"
#include "preload/elision/futex_mutex.hpp"
#include "preload/elision/learned_sites.hpp"
#include "preload/elision/mutex_words.hpp"
#include "preload/elision/section_counts.hpp"
#include "preload/elision/thread_sections.hpp"
#include "preload/recording/futex_lock.hpp"

namespace espalier::preload {

/// Plain mutexes (mutex_words::is_plain()) as the policies `tts` and `tle` have them. Functions return what pthread's
/// of the same name return, and keep errno. `site` is the return address of the program's call. Any thread, any time.
/// Constant-initialised, never destroyed.
template <hw::open_backend Htm>
class mutex_engine {
 public:
  /// Looks for a free mutex that one section makes before it queues, as in `elided`; fewer, since behind these mutexes
  /// threads may sleep.
  static constexpr unsigned most_looks = 64;

  explicit constexpr mutex_engine(section_counts& counts) noexcept : counts_(counts) {}
  mutex_engine(const mutex_engine&) = delete;
  mutex_engine& operator=(const mutex_engine&) = delete;

  struct manner {
    elision_budgets budgets{};
    bool learns = true;       ///< sections that keep falling back are passed over
    bool even_alone = false;  ///< where there is one thread, too, which gains nothing by it: for tests
  };

  /// Sections are elided from now on: whoever says so knows that transactions work.
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
    // Before any transaction: asking aborts.
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
    // Waiting for a moment is not for the way to an attempt.
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

  /// Before a mutex is destroyed: if it is held it must look so to the C library, which then refuses.
  void before_destroy(const pthread_mutex_t& mutex) noexcept {
    thread_sections& mine = sections_of_thread;
    if (!mine.eliding() || !mine.elides(mutex)) return;
    Htm::template abort<not_elidable>();
    mine.clear();
  }

  /// In a child of fork(): what was learnt of the mutexes still holds.
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

  /// In a transaction: whether the mutex is elided in it too. If not, it is for the caller to take.
  bool join(thread_sections& mine, pthread_mutex_t& mutex) noexcept {
    const mutex_words words(mutex);
    if (mine.elides(mutex)) {
      // Locked again by its holder. Without the transaction the program shows what it does then.
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

  /// Whether the thread is now in a transaction that elides the mutex. `looks` are those that it may make for the mutex
  /// to become free; none at all for those who have something better to do than wait, and who then learn nothing
  /// from finding it held.
  bool elide(thread_sections& mine, pthread_mutex_t& mutex, section_place at, unsigned looks) noexcept {
    const unsigned stripe = mine.stripe();
    const elision_history history = at.learned->read();
    if (how_.learns && history.skips()) {
      at.learned->write(history.after_skipped());
      counts_.add(at.counted, stripe, elision_event::skipped);
      return false;
    }
    const mutex_words words(mutex);
    const bool waits = looks != 0;
    elision_attempts attempts(how_.budgets);
    backoff pause;
    for (auto next = elision_attempts::next::again; next != elision_attempts::next::give_up;) {
      if (next == elision_attempts::next::after_pause) pause.wait();
      if (!seen_free(words, looks)) {
        if (!waits) return false;
        break;
      }
      hw::abort_status status;
      if (const auto aborted = Htm::begin()) {
        status = *aborted;
      } else if (words.looks_free()) {
        mine.push(mutex);
        mine.outermost = at;
        return true;
      } else {
        Htm::template abort<hw::abort_code::lock_held>();
        status = hw::abort_status::asked_for(hw::abort_code::lock_held);
      }
      counts_.add(at.counted, stripe, event_of(status));
      next = attempts.after(status);
    }
    counts_.add(at.counted, stripe, elision_event::fallback);
    at.learned->write(history.after_fallback(attempts.obstacle()));
    return false;
  }

  /// Not past those who sleep, who come first, as in acquire(): a thread that stayed awake would be there before them
  /// again and again, where a condition variable wakes one thread at a time to take the mutex.
  static bool seen_free(mutex_words words, unsigned& looks) noexcept {
    for (backoff pause; !words.looks_free(); pause.wait()) {
      if (looks == 0 || words.looks_awaited()) return false;
      --looks;
    }
    return true;
  }

  void committed(thread_sections& mine) noexcept {
    const section_place at = mine.outermost;
    const elision_history history = at.learned->read();
    counts_.add(at.counted, mine.stripe(), elision_event::commit);
    if (history.heals()) counts_.add(at.counted, mine.stripe(), elision_event::healed);
    at.learned->write(history.after_commit());
  }

  section_counts& counts_;
  bool eliding_ = false;
  manner how_;
  learned_sites learned_;
};

}  // namespace espalier::preload
