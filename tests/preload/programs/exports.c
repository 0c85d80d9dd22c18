/* Functions that a stripped program still names, and others that it does not. */
#include <stdlib.h>

#include "expect.h"

void* kept[4];

APART static void* hidden(size_t bytes) { return malloc(bytes); }
APART static void* hidden_too(size_t bytes) { return hidden(bytes); }
APART void exported_one(void) { kept[0] = hidden_too(111); }
APART void exported_two(void) {
  kept[1] = hidden(222);
  kept[2] = malloc(333);
}

int main(void) {
  exported_one();
  exported_two();
  kept[3] = hidden(444);
  EXPECT(kept[0] != NULL && kept[1] != NULL && kept[2] != NULL && kept[3] != NULL);
  return 0;
}
