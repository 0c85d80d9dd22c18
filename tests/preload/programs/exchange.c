/* Threads give back each other's blocks, often while these are young, and snapshots are asked for meanwhile. In the
   end 1000 blocks of 77 bytes are left. */

// RUN same: LD_PRELOAD=%malloc %p
// Blocks that overlap would be left out of a snapshot: none is there twice, or has been freed.
// WITH round: 1 | 2
// RUN: LD_PRELOAD=%inspect ESPALIER_INSPECT_FILE=%%n %p
// THEN: %tell facts *
// COUNT files: ^file:
// COUNT whole: ^blocks left out: 0$
// CHECK: whole == files > 5
// THEN: %tell $(ls | sort -n | tail -1)
// LINES: keep 1000 77000 | calls not seen: 0
// EXPECT 0: ^work\b
// EXPECT: ^allocations recorded: (?P<recorded_%round>\d+)$
// CHECK: recorded_%round == recorded_1 > 4 * 3 * 40000
// The peak is written beside the snapshots that are requested.
// RUN: LD_PRELOAD=%inspect ESPALIER_INSPECT_FILE=%%n ESPALIER_INSPECT_PEAK=1 %p
// THEN: rm peak; %tell facts *
// COUNT files: ^file:
// COUNT numbered: ^file: (\d+)$(?:\n(?!file: ).*)*?\nsnapshot: \1$
// CHECK: numbered == files
// THEN: %tell $(ls | sort -n | tail -1)
// LINES: keep 1000 77000 | calls not seen: 0

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

enum { threads = 4, rounds = 3, places = 1024, steps = 40000 };
static _Atomic(void*) shared[places];
static atomic_int stop;
static int listens; /* whether a signal leaves a snapshot */

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
  /* There are some snapshots, however fast the threads or slow these. */
  while (!stop || (listens && access("4", F_OK) != 0)) {
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
  listens = before.sa_handler != SIG_DFL;
  if (!listens) signal(SIGUSR2, SIG_IGN);
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
