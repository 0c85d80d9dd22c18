/* A mutex that the C library's own functions took first, found past all others: where it elides by itself, it marks such a
   mutex. Then everybody takes it, and waits with it. */

// Where the C library elides its own mutexes, these are ours; without transactions it does not, and says nothing.
// WITH settings: ESPALIER_ELIDE_POLICY=tts | "" | ESPALIER_ELIDE_RTM=off
// RUN same: LD_PRELOAD=%elide %settings GLIBC_TUNABLES=glibc.elision.enable=1 %p
// RUN same: LD_PRELOAD=%aborting ESPALIER_ELIDE_POLICY=tle GLIBC_TUNABLES=glibc.elision.enable=1 %p

#define _GNU_SOURCE
#include <dlfcn.h>

#include "mutex_program.h"

enum { threads = 4, rounds = 3000, turns = 500 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int counter;
static int turn;

static void take_past_all(void) {
  void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  EXPECT(library != NULL);
  int (*lock)(pthread_mutex_t*) = (int (*)(pthread_mutex_t*))dlsym(library, "pthread_mutex_lock");
  int (*unlock)(pthread_mutex_t*) = (int (*)(pthread_mutex_t*))dlsym(library, "pthread_mutex_unlock");
  for (int i = 0; i < 10; ++i) {
    EXPECT(lock(&mutex) == 0);
    ++counter;
    EXPECT(unlock(&mutex) == 0);
  }
}

static void* adds(void* unused) {
  for (int i = 0; i < rounds; ++i) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    ++counter;
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
  }
  return unused;
}

static void* takes_turns(void* argument) {
  const int mine = argument != NULL;
  for (int i = 0; i < turns; ++i) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    while (turn % 2 != mine) EXPECT(pthread_cond_wait(&changed, &mutex) == 0);
    ++turn;
    EXPECT(pthread_cond_signal(&changed) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
  }
  return NULL;
}

int main(void) {
  pthread_t all[threads];
  take_past_all();
  start_all(all, threads, adds, NULL);
  join_all(all, threads);
  EXPECT(counter == 10 + threads * rounds);
  EXPECT(pthread_create(&all[0], NULL, takes_turns, NULL) == 0);
  EXPECT(pthread_create(&all[1], NULL, takes_turns, &turn) == 0);
  join_all(all, 2);
  EXPECT(turn == 2 * turns);
  EXPECT(pthread_mutex_lock(&mutex) == 0);
  EXPECT(tried_elsewhere(&mutex) == EBUSY);
  EXPECT(pthread_mutex_unlock(&mutex) == 0);
  EXPECT(tried_elsewhere(&mutex) == 0);
  EXPECT(pthread_mutex_destroy(&mutex) == 0);
  puts("shared");
  return 0;
}
