/* Functions that a stripped program still names, and others that it does not. */

// A function without a name has that of its caller, unless that calls everything, as main does.
// RUN: strip --strip-all -o stripped %p; %record ./stripped
// THEN: %tell snapshot
// EXPECT: ^type: 1 111 exported_one \(stripped\) > stripped\+0x
// EXPECT: ^type: 1 222 exported_two \(stripped\) > stripped\+0x
// EXPECT: ^type: 1 333 exported_two \(stripped\)$
// EXPECT: ^type: 1 444 stripped\+0x
// LINES: named: 0 by debug information, 333 by symbol, 333 by caller, 444 by table

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
