/* Gives back what it does not have, as its argument says. */

// RUN SIGABRT: LD_PRELOAD=%malloc %p inside
// EXPECT: espalier: free\(\): invalid pointer 0x
// WITH how: twice | small_twice | small_twice_running
// RUN SIGABRT: LD_PRELOAD=%malloc %p %how
// EXPECT: espalier: free\(\): double free, or never handed out: 0x
// RUN 3: LD_PRELOAD=%malloc %p foreign
// EXPECT: \A\Z

#include <string.h>

#include "expect.h"

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const char* how = arguments[1];
  char* block = malloc(100);
  char* volatile large = malloc(500000);
  if (strcmp(how, "inside") == 0) free(large + 64);
  if (strcmp(how, "twice") == 0) {
    free(large);
    free(large);
  }
  if (strcmp(how, "small_twice") == 0) {
    /* The only one of its class. */
    char* volatile small = malloc(3000);
    free(small);
    free(small);
  }
  if (strcmp(how, "small_twice_running") == 0) {
    /* One of many. */
    char* volatile many[50];
    for (int i = 0; i < 50; ++i) many[i] = malloc(48);
    free(many[20]);
    free(many[7]);
    free(many[7]);
  }
  if (strcmp(how, "foreign") == 0) {
    /* Nobody's: ignored, and the program goes on. */
    static char none[64];
    char* volatile foreign = none + 16;
    free(foreign);
  }
  free(block);
  return 3;
}
