/* signals N: a thread sends SIGUSR2 N times while others allocate. "own" has a handler of its own for it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expect.h"

static atomic_int stop;
static atomic_int handled;
static void on_signal(int number) { handled += number == SIGUSR2; }

APART static void* allocate(size_t bytes) { return malloc(bytes); }

static void* work(void* unused) {
  void* blocks[512] = {NULL};
  for (unsigned i = 0; !stop; ++i) {
    free(blocks[i % 512]);
    blocks[i % 512] = allocate(16 + i % 300);
  }
  for (unsigned i = 0; i < 512; ++i) free(blocks[i]);
  return unused;
}

int main(int count, char** arguments) {
  const int own = count > 1 && strcmp(arguments[1], "own") == 0;
  const int times = own || count < 2 ? 5 : atoi(arguments[1]);
  if (own) signal(SIGUSR2, on_signal);
  pthread_t all[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&all[i], NULL, work, NULL) == 0);
  for (int i = 0; i < times; ++i) {
    EXPECT(pthread_kill(all[i % 2], SIGUSR2) == 0);
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(all[i], NULL);
  EXPECT(allocate(123) != NULL);
  return own ? handled : 0;
}
