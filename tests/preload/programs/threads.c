/* Threads that give back what others allocated. Each leaves 100 blocks of 48 bytes. */

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p
// WITH behind: libjemalloc.so.2 | libtcmalloc_minimal.so.4 | libmimalloc.so.2.0
// IF: test -e %installed/%behind
// RUN same: LD_PRELOAD=%random:%installed/%behind %p
// RUN same: %record %p
// THEN: %tell snapshot
// LINES: allocate 400 19200
// EXPECT: ^allocations recorded: (?P<recorded>\d+)$
// CHECK: recorded >= 80400

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "expect.h"

enum { threads = 4, rounds = 20000, left = 100 };
static _Atomic(void*) mailboxes[threads][64];

APART static void* allocate(void) { return malloc(48); }

static void* work(void* argument) {
  const long me = (long)argument;
  for (int i = 0; i < rounds; ++i) {
    void* block = allocate();
    EXPECT(block != NULL);
    free(atomic_exchange(&mailboxes[(me + i) % threads][i % 64], block));
  }
  for (int i = 0; i < left; ++i) EXPECT(allocate() != NULL);
  return NULL;
}

int main(void) {
  pthread_t all[threads];
  for (long i = 0; i < threads; ++i) EXPECT(pthread_create(&all[i], NULL, work, (void*)i) == 0);
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  for (int t = 0; t < threads; ++t) {
    for (int i = 0; i < 64; ++i) free(mailboxes[t][i]);
  }
  return 0;
}
