/* signals N: a thread sends SIGUSR2 N times while others allocate. "own" has a handler of its own for it; "alternate"
   is sent it once while it has an alternate stack. */

// Signals that come while one is handled are one. The last may find its thread in the recorder, which then frees its blocks; its
// snapshot is taken with the next block that is allocated.
// RUN: LD_PRELOAD=%inspect ESPALIER_INSPECT_FILE=%%n %p 40
// THEN: ls
// EXPECT 0: part
// THEN: %tell facts $(ls | sort -n)
// COUNT files: ^file:
// COUNT by_signal: ^taken at: signal$
// COUNT numbered: ^file: (\d+)$(?:\n(?!file: ).*)*?\nsnapshot: \1$
// COUNT large: ^blocks: \d{3,}$
// CHECK: 5 < files <= 41 and by_signal == files - 1 and numbered == files and large >= files - 2
// THEN: %tell $(ls | sort -n | tail -1)
// LINES: taken at: return from main | allocate 1 123
// RUN: LD_PRELOAD=%inspect ESPALIER_INSPECT_FILE=%%n %p alternate
// THEN: ls; %tell 0
// EXPECT: \A0\n1\nfile:
// The snapshot is taken with the block that comes after the signal.
// LINES: taken at: signal
// EXPECT: ^allocate 1\b
// Its own handler stays, and there is one snapshot, at the end.
// RUN same 5: %record %p own
// THEN: %tell snapshot
// LINES: snapshot: 0
// Another signal, or none, ends the program as ever.
// WITH listens status: none SIGUSR2 | USR1 SIGUSR2 | 12 0
// RUN %status: %record ESPALIER_INSPECT_SIGNAL=%listens %p 3

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static atomic_int stop;
static atomic_int handled;
static atomic_int filled; /* threads that have as many blocks as they will have */
static void on_signal(int number) { handled += number == SIGUSR2; }

APART static void* allocate(size_t bytes) { return malloc(bytes); }

static void* work(void* unused) {
  void* blocks[512] = {NULL};
  for (unsigned i = 0; !stop; ++i) {
    free(blocks[i % 512]);
    blocks[i % 512] = allocate(16 + i % 300);
    if (i == 511) ++filled;
  }
  for (unsigned i = 0; i < 512; ++i) free(blocks[i]);
  return unused;
}

static int on_alternate_stack(void) {
  static char space[65536];
  const stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  raise(SIGUSR2);
  EXPECT(allocate(321) != NULL);
  return 0;
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "alternate") == 0) return on_alternate_stack();
  const int own = count > 1 && strcmp(arguments[1], "own") == 0;
  const int times = own || count < 2 ? 5 : atoi(arguments[1]);
  if (own) signal(SIGUSR2, on_signal);
  pthread_t all[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&all[i], NULL, work, NULL) == 0);
  while (filled != 2) nanosleep(&(struct timespec){0, 100000}, NULL);
  /* Of many there are some snapshots, however long each takes. */
  for (int i = 0; i < times || (times > 5 && access("4", F_OK) != 0); ++i) {
    EXPECT(pthread_kill(all[i % 2], SIGUSR2) == 0);
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    /* Two of one kind that wait are one. */
    while (own && handled <= i) nanosleep(&(struct timespec){0, 100000}, NULL);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(all[i], NULL);
  EXPECT(allocate(123) != NULL);
  return own ? handled : 0;
}
