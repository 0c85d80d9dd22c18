/* pairs N: nothing but malloc and free, N times. */
#include <stdlib.h>

#include "expect.h"

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const long pairs = atol(arguments[1]);
  for (long i = 0; i < pairs; ++i) {
    void* volatile block = malloc(32);
    free(block);
  }
  return 0;
}
