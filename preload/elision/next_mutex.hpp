#pragma once

#include <pthread.h>
#include <time.h>

namespace espalier::preload {

/// The functions that the program would have without us: the next definition of each in the order of the dynamic
/// linker.
struct next_mutex {
  int (*lock)(pthread_mutex_t*);
  int (*trylock)(pthread_mutex_t*);
  int (*timedlock)(pthread_mutex_t*, const timespec*);
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*unlock)(pthread_mutex_t*);
  int (*init)(pthread_mutex_t*, const pthread_mutexattr_t*);
  int (*destroy)(pthread_mutex_t*);
};

/// Looks them up. False where one is missing.
[[nodiscard]] bool look_up(next_mutex& to) noexcept;

/// Whether these functions, and the condition variables of this process, leave the words of a mutex as
/// elision/mutex_words.hpp has them. Takes a few mutexes of its own; nobody waits.
[[nodiscard]] bool keeps_known_words(const next_mutex& functions) noexcept;

}  // namespace espalier::preload
