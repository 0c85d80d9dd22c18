#pragma once

#include <pthread.h>
#include <time.h>

namespace espalier::preload {

/// The functions that the program would have without this library: the next definition of each in the dynamic
/// linker's order.
struct next_mutex {
  int (*lock)(pthread_mutex_t*);
  int (*trylock)(pthread_mutex_t*);
  int (*timedlock)(pthread_mutex_t*, const timespec*);
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*unlock)(pthread_mutex_t*);
  int (*init)(pthread_mutex_t*, const pthread_mutexattr_t*);
  int (*destroy)(pthread_mutex_t*);
};

/// Finds the functions. False where one is missing.
[[nodiscard]] bool look_up(next_mutex& to) noexcept;

/// Whether these functions, and the condition variables of this process, use the words of a mutex as described in
/// elision/mutex_words.hpp. It takes a few mutexes of its own; no thread waits.
[[nodiscard]] bool keeps_known_words(const next_mutex& functions) noexcept;

}  // namespace espalier::preload
