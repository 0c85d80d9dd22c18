/* Threads that end and leave blocks to others; blocks that destructors of thread-specific values give back and take,
   in every round of them. */

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

enum { generations = 40, threads = 8, left = 200 };
static void* kept[threads][left];
static pthread_key_t keys[3];

struct value {
  int rounds;
  char* text;
};

static void ends(void* argument, int number) {
  struct value* value = argument;
  EXPECT(strcmp(value->text, "held by a thread") == 0);
  free(value->text);
  free(malloc(10 + (size_t)number * 1000));
  if (--value->rounds == 0) {
    free(value);
    return;
  }
  value->text = strdup("held by a thread");
  EXPECT(pthread_setspecific(keys[number], value) == 0);
}
static void end_one(void* value) { ends(value, 0); }
static void end_two(void* value) { ends(value, 1); }
static void end_three(void* value) { ends(value, 2); }

static void* work(void* argument) {
  const long me = (long)argument;
  for (int i = 0; i < 3; ++i) {
    struct value* value = malloc(sizeof *value);
    value->rounds = 4;
    value->text = strdup("held by a thread");
    EXPECT(pthread_setspecific(keys[i], value) == 0);
  }
  for (int i = 0; i < left; ++i) {
    /* Of the thread before. */
    free(kept[me][i]);
    const size_t bytes = (size_t)(i * 37 % 3000);
    unsigned char* block = kept[me][i] = malloc(bytes);
    EXPECT(block != NULL);
    memset(block, i, bytes);
  }
  return NULL;
}

int main(void) {
  EXPECT(pthread_key_create(&keys[0], end_one) == 0);
  EXPECT(pthread_key_create(&keys[1], end_two) == 0);
  /* Beyond those that have their place in the thread. */
  for (int i = 0; i < 40; ++i) EXPECT(pthread_key_create(&keys[2], end_three) == 0);
  for (int g = 0; g < generations; ++g) {
    pthread_t all[threads];
    for (long i = 0; i < threads; ++i) EXPECT(pthread_create(&all[i], NULL, work, (void*)i) == 0);
    for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  }
  for (int t = 0; t < threads; ++t) {
    for (int i = 0; i < left; ++i) free(kept[t][i]);
  }
  puts("threads");
  return 0;
}
