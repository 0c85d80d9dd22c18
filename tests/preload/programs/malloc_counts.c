/* malloc_counts same N: malloc and free of 48 bytes, N times. malloc_counts mixed N: N times, the oldest of 200 blocks of
   1 to 1500 bytes is given back and another had. */

// The difference of two runs has neither the program's beginning nor its end in it. The heap takes no more than glibc's.
// WITH how times name variables: same 30000 glibc "" | same 20000 glibc "" | same 30000 ours LD_PRELOAD=%malloc | same 20000 ours LD_PRELOAD=%malloc | mixed 30000 glibc "" | mixed 20000 glibc "" | mixed 30000 ours LD_PRELOAD=%malloc | mixed 20000 ours LD_PRELOAD=%malloc
// IF: test -n "%callgrind"
// RUN: %variables %callgrind %p %how %times
// EXPECT: refs: +(?P<%name%times>[\d,]+)
// CHECK: "%name%times" != "ours20000" or 150000 < ours30000 - ours20000 <= glibc30000 - glibc20000

// Recording takes 3 times as many in a release; a heap that comes and goes by one block has its peak.
// WITH peak: 0 | 1
// WITH times: 30000 | 20000
// IF: test -n "%callgrind"
// RUN: %record ESPALIER_INSPECT_FOLLOW=all ESPALIER_INSPECT_PEAK=%peak %callgrind %p same %times
// EXPECT: refs: +(?P<peak%peak%times>[\d,]+)
// WITH times: 30000 | 20000
// IF: test -n "%callgrind"
// RUN: %callgrind %p same %times
// EXPECT: refs: +(?P<plain%times>[\d,]+)
// CHECK: %times == 30000 or 200000 < plain30000 - plain20000 < (peak030000 - peak020000) / 1.2
// CHECK: %times == 30000 or peak030000 - peak020000 < 4 * (plain30000 - plain20000)
// CHECK: %times == 30000 or peak130000 - peak120000 < 1.01 * (peak030000 - peak020000)
// RUN same: %record %p same 20000
// THEN: %tell snapshot
// EXPECT: ^allocations recorded: (?P<entered>\d+)$
// CHECK: 20000 <= entered < 20100

// RUN: LD_PRELOAD=%random ESPALIER_RANDOM_BYTES=lots %p same 1000
// EXPECT: \Aespalier: .*ESPALIER_RANDOM_BYTES.*65536.*\n\Z
// WITH bytes added: 64 "[1-9]\d* added \(\d+ %%\)" | 0 "0 added \(0 %%\)"
// RUN: LD_PRELOAD=%random ESPALIER_RANDOM_BYTES=%bytes ESPALIER_RANDOM_STATS=1 %p same 1000
// EXPECT: \Aespalier: random, process \d+: [1-9]\d* blocks, [1-9]\d* bytes asked for, %added\n\Z
// RUN: LD_PRELOAD=%random %p same 1000
// EXPECT: \A\Z

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
