/* Its constructor runs before that of a preloaded library, and so does its handler behind fork() in the copy; before
   fork() it comes last. Its handlers allocate. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static int handled;

static void allocate(void) {
  static const size_t sizes[] = {10, 100, 3000, 30000, 300000, 20000000};
  for (int i = 0; i < 6; ++i) {
    char* block = malloc(sizes[i]);
    EXPECT(block != NULL);
    block[0] = block[sizes[i] - 1] = 1;
    block = realloc(block, 2 * sizes[i]);
    EXPECT(block != NULL && block[0] == 1);
    free(block);
  }
  ++handled;
}

__attribute__((constructor)) static void begin(void) {
  EXPECT(pthread_atfork(allocate, allocate, allocate) == 0);
}

int handled_by_library(void) { return handled; }
