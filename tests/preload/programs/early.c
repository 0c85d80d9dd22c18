/* Blocks before main, in a library's constructor and the program's own, behind main, and enough of them that a little memory for the record does not do. */

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p
// RUN same: %record %p
// THEN: %tell snapshot
// LINES: before_main 1 700 | in_library 1 750 | allocate_many 100000 2400000
// EXPECT: ^allocations recorded: (?P<allocations>\d+)$

// What was recorded before memory ran out is true after it: every second block is freed.
// WITH mebibytes least: 1 0 | 5 0 | 8 10000
// RUN same: %record ESPALIER_INSPECT_MEMORY=%mebibytes %p
// THEN: %tell snapshot
// EXPECT: ^recording stopped: the memory for\b
// EXPECT: ^all: (?P<many>\d+) blocks
// EXPECT: ^bytes of the recording: (?P<own_bytes>\d+)$
// EXPECT: ^allocations recorded: (?P<entered>\d+)$
// CHECK: %least <= many < 100000 and own_bytes <= %mebibytes << 20 and (%least == 0 or abs(many - entered / 2) <= 2000)

// RUN same: %record ESPALIER_INSPECT_SAMPLE=blocks:20 %p
// THEN: %tell snapshot
// LINES: sampling: blocks:20
// EXPECT: ^allocate_many (?P<many>\d+)\b
// EXPECT: ^allocations recorded: (?P<entered>\d+)$
// EXPECT: ^allocations passed over: (?P<passed_over>\d+)$
// CHECK: abs(many - 5000) <= 500 and entered + passed_over == allocations
// RUN same: %record ESPALIER_INSPECT_SAMPLE=bytes:240 %p
// THEN: %tell snapshot
// EXPECT: ^allocate_many (?P<many>\d+)\b
// CHECK: abs(many - 10000) <= 700
// Chosen regions are whole: in one of 64 KiB each block of 32 bytes but for every second, which is freed.
// RUN same: %record ESPALIER_INSPECT_SAMPLE=regions:4 %p
// THEN: %tell snapshot
// COUNT regions: ^region:
// COUNT whole: ^region: 1024 blocks$
// CHECK: 5 < regions < 60 and whole > regions - 4

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
