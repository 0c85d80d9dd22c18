#include "preload/elision/next_mutex.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>

#include "preload/elision/futex_mutex.hpp"
#include "preload/elision/mutex_words.hpp"
#include "preload/kernel/kept_errno.hpp"

namespace espalier::preload {
namespace {

template <class Function>
bool find(const char* name, Function*& to) noexcept {
  to = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  return to != nullptr;
}

struct words {
  int lock;
  int owner;
  unsigned users;
};

bool has(const pthread_mutex_t& mutex, words expected) noexcept {
  return mutex.__data.__lock == expected.lock && mutex.__data.__owner == expected.owner &&
         mutex.__data.__nusers == expected.users;
}

constexpr words free_words{mutex_free, 0, 0};

/// The C library takes and releases the mutex, and respects a mutex that this library took.
bool locks_as_known(const next_mutex& functions, pthread_mutex_t& mutex, words held) noexcept {
  if (!has(mutex, free_words) || functions.lock(&mutex) != 0) return false;
  const bool locked = has(mutex, held) && functions.trylock(&mutex) == EBUSY && has(mutex, held);
  if (functions.unlock(&mutex) != 0 || !has(mutex, free_words)) return false;
  acquire(mutex_words(mutex), held.owner);
  const bool seen = has(mutex, held) && functions.trylock(&mutex) == EBUSY;
  if (functions.unlock(&mutex) != 0) return false;
  return locked && seen && has(mutex, free_words);
}

/// A wait on a condition leaves a mutex of this library "awaited", because it cannot know whether there is a waiter.
bool waits_as_known(pthread_mutex_t& mutex, words held) noexcept {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  constexpr timespec long_ago{1, 0};
  acquire(mutex_words(mutex), held.owner);
  const int failed = pthread_cond_timedwait(&condition, &mutex, &long_ago);
  const bool kept = has(mutex, {mutex_awaited, held.owner, held.users});
  release(mutex_words(mutex));
  pthread_cond_destroy(&condition);
  return failed == ETIMEDOUT && kept && has(mutex, free_words);
}

}  // namespace

bool look_up(next_mutex& to) noexcept {
  bool all = find("pthread_mutex_lock", to.lock);
  all &= find("pthread_mutex_trylock", to.trylock);
  all &= find("pthread_mutex_timedlock", to.timedlock);
  all &= find("pthread_mutex_clocklock", to.clocklock);
  all &= find("pthread_mutex_unlock", to.unlock);
  all &= find("pthread_mutex_init", to.init);
  all &= find("pthread_mutex_destroy", to.destroy);
  return all;
}

bool keeps_known_words(const next_mutex& functions) noexcept {
  const kept_errno keep;
  const words held{mutex_taken, static_cast<int>(gettid()), 1};
  // Normal by attribute: the C library may elide other mutexes itself, and then their words show nothing.
  pthread_mutexattr_t normal{};
  pthread_mutex_t mutex{};
  bool known = pthread_mutexattr_init(&normal) == 0 &&
               pthread_mutexattr_settype(&normal, PTHREAD_MUTEX_NORMAL) == 0 &&
               functions.init(&mutex, &normal) == 0;
  pthread_mutexattr_destroy(&normal);
  known = known && mutex_words(mutex).is_plain() && !mutex_words(mutex).may_be_elided() &&
          locks_as_known(functions, mutex, held) && waits_as_known(mutex, held) &&
          functions.destroy(&mutex) == 0;
  pthread_mutex_t initialised = PTHREAD_MUTEX_INITIALIZER;
  known = known && mutex_words(initialised).is_plain() && mutex_words(initialised).may_be_elided() &&
          has(initialised, free_words);
  return known;
}

}  // namespace espalier::preload
