/* Threads, one after the other, that allocate for the first time in the destructor of a thread-specific value: in the
   round of destructors that the first argument says. With a second one the figures of the malloc follow. */

// A thread may leave a heap behind, which another one gets.
// WITH round: 1 | 2 | 3 | 4
// RUN: LD_PRELOAD=%malloc %p %round figures
// EXPECT: \Alate\n(?:.*\n)* *heaps of threads +(?P<heaps>\d+)
// CHECK: heaps <= 24

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { threads = 500 };
static pthread_key_t key;
static intptr_t wanted_round;

static void ends(void* value) {
  const intptr_t round = (intptr_t)value;
  if (round < wanted_round) {
    EXPECT(pthread_setspecific(key, (void*)(round + 1)) == 0);
    return;
  }
  char* block = malloc(100);
  EXPECT(block != NULL);
  memset(block, 1, 100);
  free(block);
}

static void* work(void* unused) {
  (void)unused;
  EXPECT(pthread_setspecific(key, (void*)1) == 0);
  return NULL;
}

int main(int count, char** arguments) {
  EXPECT(count > 1);
  wanted_round = atoi(arguments[1]);
  free(malloc(1));
  EXPECT(pthread_key_create(&key, ends) == 0);
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  puts("late");
  fflush(stdout);
  if (count > 2) malloc_stats();
  return 0;
}
