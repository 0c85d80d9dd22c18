/* Blocks before main, in a library's constructor and the program's own, behind main, and enough of them that a little memory for the record does not do. */
#include <stdlib.h>

#include "expect.h"

int early_library(void);
static void* volatile first;
APART static void* before_main(void) { return malloc(700); }
__attribute__((constructor(101))) static void begin(void) { first = before_main(); }
__attribute__((destructor(101))) static void end(void) { free(first); }

static void* volatile many[200000];
APART static void allocate_many(void) {
  for (int i = 0; i < 200000; ++i) EXPECT((many[i] = malloc(24)) != NULL);
}

int main(void) {
  EXPECT(early_library());
  allocate_many();
  for (int i = 0; i < 200000; i += 2) free(many[i]);
  return 0;
}
