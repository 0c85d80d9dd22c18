/* Threads give back each other's blocks, often while these are young, and snapshots are asked for meanwhile. In the
   end 1000 blocks of 77 bytes are left. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

enum { threads = 4, rounds = 3, places = 1024, steps = 40000 };
static _Atomic(void*) shared[places];
static atomic_int stop;

static void* work(void* seed) {
  unsigned random = (unsigned)(size_t)seed * 977 + 1;
  for (int i = 0; i < steps; ++i) {
    random = random * 1664525U + 1013904223U;
    void* block = malloc(16 + (random >> 20) % 200);
    if ((random >> 8) % 3 != 0) {
      block = realloc(block, 32 + (random >> 18) % 300);
      block = atomic_exchange(&shared[(random >> 9) % places], block);
    }
    free(block);
  }
  return NULL;
}

static void* ask(void* unused) {
  while (!stop) {
    kill(getpid(), SIGUSR2);
    usleep(5000);
  }
  return unused;
}

static void* volatile kept[1000];
APART static void keep(void) {
  for (int i = 0; i < 1000; ++i) kept[i] = malloc(77);
}

int main(void) {
  pthread_t asking;
  pthread_t working[threads];
  /* Where nobody listens the signal would end the program. */
  struct sigaction before;
  sigaction(SIGUSR2, NULL, &before);
  if (before.sa_handler == SIG_DFL) signal(SIGUSR2, SIG_IGN);
  EXPECT(pthread_create(&asking, NULL, ask, NULL) == 0);
  for (int round = 0; round < rounds; ++round) {
    for (int t = 0; t < threads; ++t)
      EXPECT(pthread_create(&working[t], NULL, work, (void*)(size_t)(10 * round + t + 1)) == 0);
    for (int t = 0; t < threads; ++t) pthread_join(working[t], NULL);
  }
  stop = 1;
  pthread_join(asking, NULL);
  for (int i = 0; i < places; ++i) free(shared[i]);
  keep();
  return 0;
}
