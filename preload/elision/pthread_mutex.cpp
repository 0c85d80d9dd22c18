// The interposed pthread_mutex functions. Mutexes for which mutex_words::is_plain() is false are forwarded to the
// next definition. All are where the C library differs from the known one.

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "espalier/hw/pause.hpp"
#include "preload/elision/futex_mutex.hpp"
#include "preload/elision/mutex_backend.hpp"
#include "preload/elision/mutex_engine.hpp"
#include "preload/elision/section_counts.hpp"
#include "preload/elision/settings.hpp"
#include "preload/endings/process_ends.hpp"
#include "preload/environment/output.hpp"
#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

enum class stage : std::uint8_t {
  unknown,
  starting,
  forwarding,  ///< all mutexes are forwarded
  running,     ///< plain mutexes are the engine's
};

constinit std::atomic<stage> now{stage::unknown};
constinit next_mutex following{};
constinit elision_settings settings;
constinit memory_budget budget;
constinit section_counts counts{budget};
constinit mutex_engine<mutex_backend> engine{counts};
constinit const char* policy_followed = "";
constinit last_words words_at_end;
constinit said_once report_at_end;
thread_local constinit bool starts = false;

void say(const char* what) noexcept { say_line("espalier elide: ", what); }

/// Applies the policy, as far as this processor allows.
void follow_policy() noexcept {
  if (settings.policy == elision_policy::tts) {
    policy_followed = "tts";
  } else if (!settings.rtm) {
    policy_followed = "tle without transactions, which ESPALIER_ELIDE_RTM turns off";
  } else if (transactions_work()) {
    policy_followed = "tle";
    engine.start_eliding({.learns = settings.learns});
  } else {
    policy_followed = "tle without transactions, which this processor has not";
    if (settings.policy_asked && !settings.rtm_asked)
      say("this processor has no transactions; mutexes are taken, none is elided");
  }
}

stage start() noexcept {
  const saved_errno keep;
  stage next = stage::forwarding;
  read_elision_settings(environ, settings, say);
  next_mutex found{};
  const bool all = look_up(found);
  // All at once: a lock that a search takes by one of these functions is released by another.
  following = found;
  if (!all || !keeps_known_words(following)) {
    say("the mutexes of this C library are not as known; they are left as they are");
  } else {
    if (settings.counting()) {
      words_at_end.keep();
      if (!counts.start()) say("no memory to count in");
      counts.wipe_in_children();
    }
    report_at_end.begin();
    follow_policy();
    pthread_atfork(nullptr, nullptr, [] {
      engine.after_fork_in_child();
      report_at_end.begin();
    });
    next = stage::running;
  }
  return next;
}

/// Without an environment, in the first code that an executable runs: only finds the functions. There is one thread.
void look_up_early() noexcept {
  if (following.lock != nullptr) return;
  const saved_errno keep;
  starts = true;
  next_mutex found{};
  if (look_up(found)) following = found;
  starts = false;
}

/// The first mutex of a process starts the library: constructors of other libraries lock before this library's runs.
[[gnu::noinline]] stage find_stage() noexcept {
  // The search for functions took a mutex: most likely malloc's, which is plain.
  if (starts) return stage::starting;
  if (environ == nullptr) {
    look_up_early();
    return stage::starting;
  }
  stage seen = stage::unknown;
  // order: find_stage (acquire) <- the store below (release)
  if (!now.compare_exchange_strong(seen, stage::starting, std::memory_order_acquire)) {
    // Another thread starts the library, and needs no mutex that this one may hold.
    while ((seen = now.load(std::memory_order_acquire)) == stage::starting) hw::park();
    return seen;
  }
  starts = true;
  const stage found = start();
  starts = false;
  now.store(found, std::memory_order_release);
  return found;
}

[[nodiscard]] inline stage current_stage() noexcept {
  const stage seen = now.load(std::memory_order_acquire);
  return seen >= stage::forwarding ? seen : find_stage();
}

/// Whether a mutex is the engine's. While the library starts, a plain one is too: the words are the same.
[[nodiscard]] inline bool is_ours(pthread_mutex_t* mutex) noexcept {
  return current_stage() != stage::forwarding && mutex_words(*mutex).is_plain();
}

/// Calls the next definition, for mutexes that are not the engine's. While it is being looked up there is none; then
/// there is one thread, which needs no lock.
template <class Function, class... Arguments>
int forward(Function* function, Arguments... arguments) noexcept {
  return function == nullptr ? 0 : function(arguments...);
}

/// Replaces the C library's pthread_mutex_init. Of the attributes only the type matters for mutexes that malloc may
/// have.
int initialise(pthread_mutex_t& mutex, const pthread_mutexattr_t* attributes) noexcept {
  int type = PTHREAD_MUTEX_TIMED_NP;
  mutex = PTHREAD_MUTEX_INITIALIZER;
  if (attributes != nullptr) pthread_mutexattr_gettype(attributes, &type);
  mutex.__data.__kind = type;
  return 0;
}

[[gnu::always_inline]] inline std::uintptr_t caller() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
}

__attribute__((constructor)) void begin_with_library() { static_cast<void>(current_stage()); }

void report() noexcept {
  if (!report_counts(settings, counts, policy_followed, words_at_end.descriptor()))
    say("the counts could not be written where ESPALIER_ELIDE_STATS says");
}

/// Sections in later handlers and destructors are not counted.
__attribute__((destructor)) void end_with_library() {
  if (counts.counting() && report_at_end.is_due()) report();
}

}  // namespace

/// A child that was made for another program and did not become it has counted nothing, and reports nothing.
void process_ends(const char*) noexcept {
  if (counts.counted() && report_at_end.is_due()) report();
}

}  // namespace espalier::preload

using namespace espalier::preload;

#pragma GCC visibility push(default)
extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (!is_ours(mutex)) return forward(following.lock, mutex);
  return engine.lock(*mutex, caller());
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (!is_ours(mutex)) return forward(following.trylock, mutex);
  return engine.trylock(*mutex, caller());
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* moment) noexcept {
  if (!is_ours(mutex)) return forward(following.timedlock, mutex, moment);
  return engine.clocklock(*mutex, CLOCK_REALTIME, *moment, caller());
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* moment) noexcept {
  if (!is_ours(mutex)) return forward(following.clocklock, mutex, clock, moment);
  return engine.clocklock(*mutex, clock, *moment, caller());
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (!is_ours(mutex)) return forward(following.unlock, mutex);
  return engine.unlock(*mutex);
}

int pthread_mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) noexcept {
  static_cast<void>(current_stage());
  if (following.init == nullptr) return initialise(*mutex, attributes);
  return following.init(mutex, attributes);
}

int pthread_mutex_destroy(pthread_mutex_t* mutex) noexcept {
  if (is_ours(mutex)) engine.before_destroy(*mutex);
  return forward(following.destroy, mutex);
}

// The names that libraries built against old versions of glibc call.
int __pthread_mutex_lock(pthread_mutex_t*) noexcept __attribute__((nonnull, alias("pthread_mutex_lock")));
int __pthread_mutex_trylock(pthread_mutex_t*) noexcept
    __attribute__((nonnull, alias("pthread_mutex_trylock")));
int __pthread_mutex_unlock(pthread_mutex_t*) noexcept __attribute__((nonnull, alias("pthread_mutex_unlock")));

}  // extern "C"
#pragma GCC visibility pop
