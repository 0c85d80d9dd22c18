/* A module with a mutex of its own. */
#include <pthread.h>
#include <stddef.h>

#include "rounds.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long value;

void* count_in_plugin(void* unused) {
  (void)unused;
  for (int i = 0; i < rounds_of(1000); ++i) {
    pthread_mutex_lock(&mutex);
    ++value;
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

long counted_in_plugin(void) { return value; }
