/* What the programs of these tests need of threads, moments, mutexes and copies of themselves. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"
#include "rounds.h"

static inline void start_all(pthread_t* all, int n, void* (*work)(void*), void* argument) {
  for (int i = 0; i < n; ++i) EXPECT(pthread_create(&all[i], NULL, work, argument) == 0);
}
static inline void join_all(pthread_t* all, int n) {
  for (int i = 0; i < n; ++i) EXPECT(pthread_join(all[i], NULL) == 0);
}
static inline void* on_thread(void* (*work)(void*), void* argument) {
  pthread_t thread;
  void* result = NULL;
  EXPECT(pthread_create(&thread, NULL, work, argument) == 0);
  EXPECT(pthread_join(thread, &result) == 0);
  return result;
}
static inline struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec moment;
  clock_gettime(clock, &moment);
  moment.tv_nsec += ms % 1000 * 1000000;
  moment.tv_sec += ms / 1000 + moment.tv_nsec / 1000000000;
  moment.tv_nsec %= 1000000000;
  return moment;
}
static inline int is_past(clockid_t clock, struct timespec moment) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec > moment.tv_sec || (now.tv_sec == moment.tv_sec && now.tv_nsec >= moment.tv_nsec);
}

static inline void* tries(void* mutex) {
  const int failed = pthread_mutex_trylock(mutex);
  if (failed == 0) EXPECT(pthread_mutex_unlock(mutex) == 0);
  return (void*)(intptr_t)failed;
}
static inline int tried_elsewhere(pthread_mutex_t* mutex) { return (int)(intptr_t)on_thread(tries, mutex); }

static inline pthread_mutex_t of_type(int type) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  memset(&mutex, 0xaa, sizeof mutex);
  EXPECT(pthread_mutexattr_init(&attributes) == 0);
  EXPECT(pthread_mutexattr_settype(&attributes, type) == 0);
  EXPECT(pthread_mutex_init(&mutex, &attributes) == 0);
  EXPECT(pthread_mutexattr_destroy(&attributes) == 0);
  return mutex;
}

/* In a copy of this process, which must come to the end of the work. */
static inline void in_child_process(void (*work)(void)) {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    work();
    _exit(7);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
