/* malloc_counts same N: malloc and free of 48 bytes, N times. malloc_counts mixed N: N times, the oldest of 200 blocks of
   1 to 1500 bytes is given back and another had. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"

int main(int count, char** arguments) {
  EXPECT(count == 3);
  const long times = atol(arguments[2]);
  if (strcmp(arguments[1], "same") == 0) {
    for (long i = 0; i < times; ++i) {
      void* volatile block = malloc(48);
      free(block);
    }
    return 0;
  }
  static void* blocks[200];
  unsigned random = 1;
  for (long i = 0; i < times; ++i) {
    random = random * 1664525U + 1013904223U;
    void** const place = &blocks[(random >> 8) % 200];
    free(*place);
    *place = malloc(1 + (random >> 16) % ((random & 7U << 28) == 0 ? 1500 : 200));
  }
  return 0;
}
