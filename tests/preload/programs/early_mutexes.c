/* Mutexes that are used before the C library has the environment, before any library's constructor, and behind main. */

// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings %p
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_POLICY=tle %p

#define _GNU_SOURCE
#include "mutex_program.h"

int mutex_of_library_works(void);

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t plain_over_main = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t normal, recursive, checked, robust, shared, inheriting;
static int early_errors = -1;

static int made(pthread_mutex_t* mutex, int (*set)(pthread_mutexattr_t*, int), int to) {
  pthread_mutexattr_t attributes;
  memset(mutex, 0xaa, sizeof *mutex);
  return pthread_mutexattr_init(&attributes) == 0 && set(&attributes, to) == 0 &&
         pthread_mutex_init(mutex, &attributes) == 0 && pthread_mutexattr_destroy(&attributes) == 0;
}

/* Nothing is there to end the program with: errors are counted. */
static void begin_before_all(int count, char** arguments, char** environment) {
  (void)count;
  (void)arguments;
  (void)environment;
  const struct timespec past = {1, 0};
  int wrong = 0;
  wrong += pthread_mutex_lock(&plain) != 0 || pthread_mutex_trylock(&plain) != EBUSY;
  wrong += pthread_mutex_timedlock(&plain, &past) != ETIMEDOUT;
  wrong += pthread_mutex_unlock(&plain) != 0 || pthread_mutex_trylock(&plain) != 0 ||
           pthread_mutex_unlock(&plain) != 0;
  wrong += pthread_mutex_lock(&plain_over_main) != 0;
  wrong += !made(&normal, pthread_mutexattr_settype, PTHREAD_MUTEX_NORMAL);
  wrong += pthread_mutex_lock(&normal) != 0 || pthread_mutex_destroy(&normal) != EBUSY;
  wrong += !made(&recursive, pthread_mutexattr_settype, PTHREAD_MUTEX_RECURSIVE);
  wrong += pthread_mutex_lock(&recursive) != 0 || pthread_mutex_lock(&recursive) != 0;
  wrong += !made(&checked, pthread_mutexattr_settype, PTHREAD_MUTEX_ERRORCHECK);
  wrong += pthread_mutex_unlock(&checked) != EPERM || pthread_mutex_lock(&checked) != 0;
  wrong += pthread_mutex_lock(&checked) != EDEADLK;
  wrong += !made(&robust, pthread_mutexattr_setrobust, PTHREAD_MUTEX_ROBUST);
  wrong += !made(&shared, pthread_mutexattr_setpshared, PTHREAD_PROCESS_SHARED);
  wrong += !made(&inheriting, pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT);
  early_errors = wrong;
}
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(int, char**,
                                                                                   char**) = begin_before_all;

static int in_constructor;
__attribute__((constructor(101))) static void begin(void) {
  EXPECT(early_errors == 0);
  EXPECT(pthread_mutex_lock(&plain) == 0);
  ++in_constructor;
  EXPECT(pthread_mutex_unlock(&plain) == 0);
  EXPECT(pthread_mutex_trylock(&plain_over_main) == EBUSY);
}
__attribute__((destructor(101))) static void end(void) {
  EXPECT(pthread_mutex_lock(&plain) == 0);
  EXPECT(in_constructor == 2);
  EXPECT(pthread_mutex_unlock(&plain) == 0);
}

static void* dies_with_it(void* mutex) {
  EXPECT(pthread_mutex_lock(mutex) == 0);
  return NULL;
}

int main(void) {
  pthread_mutex_t other;
  EXPECT(mutex_of_library_works());
  EXPECT(in_constructor++ == 1);
  EXPECT(tried_elsewhere(&plain_over_main) == EBUSY && pthread_mutex_unlock(&plain_over_main) == 0);
  EXPECT(tried_elsewhere(&plain_over_main) == 0);
  EXPECT(tried_elsewhere(&normal) == EBUSY && pthread_mutex_unlock(&normal) == 0 &&
         tried_elsewhere(&normal) == 0);
  EXPECT(pthread_mutex_unlock(&recursive) == 0 && tried_elsewhere(&recursive) == EBUSY);
  EXPECT(pthread_mutex_unlock(&recursive) == 0 && tried_elsewhere(&recursive) == 0);
  EXPECT(tried_elsewhere(&checked) == EBUSY && pthread_mutex_lock(&checked) == EDEADLK);
  EXPECT(pthread_mutex_unlock(&checked) == 0 && pthread_mutex_unlock(&checked) == EPERM);
  on_thread(dies_with_it, &robust);
  EXPECT(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
  EXPECT(pthread_mutex_unlock(&robust) == 0);
  /* As those that were made later. */
  EXPECT(made(&other, pthread_mutexattr_setpshared, PTHREAD_PROCESS_SHARED));
  EXPECT(memcmp(&other, &shared, sizeof other) == 0);
  EXPECT(made(&other, pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT));
  EXPECT(memcmp(&other, &inheriting, sizeof other) == 0);
  EXPECT(tried_elsewhere(&inheriting) == 0 && tried_elsewhere(&shared) == 0);
  pthread_mutex_t* const all[] = {&plain_over_main, &normal, &recursive, &checked,
                                  &robust,          &shared, &inheriting};
  for (int i = 0; i < 7; ++i) EXPECT(pthread_mutex_destroy(all[i]) == 0);
  puts("early");
  return 0;
}
