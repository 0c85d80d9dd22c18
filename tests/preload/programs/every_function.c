/* Every function of malloc's kin, at its edges. What is kept is told by the function that keeps it. */

// RUN same: LD_PRELOAD=%malloc %p
// WITH bytes: "" | ESPALIER_RANDOM_BYTES=65536 | ESPALIER_RANDOM_BYTES=0
// RUN same: LD_PRELOAD=%random %bytes %p

// A snapshot has each block that is kept, as large as it was requested, and no half-written file is left.
// WITH padding: "" | :%random
// RUN same: LD_PRELOAD=%inspect%padding ESPALIER_INSPECT_FILE=snapshot %p
// THEN: ls; %tell snapshot
// EXPECT: \Asnapshot\nfile:
// LINES: keep_plain 3 100 | keep_zeroed 2 210 | keep_resized_null 1 300 | keep_grown 1 100000 | keep_shrunk 1 40
// LINES: keep_what_cannot_grow 1 77 | keep_array 1 341 | keep_posix 1 400 | keep_aligned 1 128 | keep_old_aligned 1 500
// LINES: keep_page 1 600 | keep_whole_pages 1 700 | keep_text 1 12
// EXPECT 0: ^(free_by_resizing|fail|keep_nothing|main) \d
// EXPECT: ^all: (?P<blocks>\d+) blocks, \d+ bytes, 0 misplaced$
// CHECK: blocks >= 16
// LINES: taken at: return from main | sampling: all | blocks left out: 0 | allocations passed over: 0
// EXPECT: ^allocations recorded: \d{4,}$
// EXPECT: ^bytes of the recording: [1-9]
// EXPECT 0: ^(recording stopped|malloc of its own):
// EXPECT: ^subject: .*%p$
// EXPECT: ^links unknown: .

// Names come from debug information, from symbols, or are the beginning of a function in the unwinding table.
// RUN: %record %p
// THEN: %tell snapshot
// EXPECT: ^named: (?P<named>[1-9]\d*) by debug information, 0 by symbol, 0 by caller, 0 by table$
// EXPECT: ^functions: (?P<functions>\d+)$
// EXPECT: ^all: (?P<all>.*)$
// RUN: strip --strip-debug -o stripped %p; %record ./stripped
// THEN: %tell snapshot
// LINES: keep_plain 3 100 | keep_zeroed 2 210 | keep_what_cannot_grow 1 77 | keep_text 1 12
// EXPECT: ^named: 0 by debug information, (?P<by_symbol>\d+) by symbol, 0 by caller, 0 by table$
// EXPECT: ^functions: (?P<functions_by_symbol>\d+)$
// EXPECT: ^all: (?P<all_by_symbol>.*)$
// CHECK: by_symbol == named and functions_by_symbol == functions and all_by_symbol == all
// RUN: strip --strip-all -o stripped %p; %record ./stripped
// THEN: %tell snapshot
// EXPECT: ^named: 0 by debug information, 0 by symbol, 0 by caller, (?P<by_table>\d+) by table$
// COUNT functions_by_table: ^stripped\+0x
// CHECK: by_table == named and functions_by_table == functions

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

void* volatile kept[64];
static int count;
static void keep(void* block) {
  EXPECT(block != NULL);
  kept[count++] = block;
}
static int lies_on(const void* block, size_t to) { return (uintptr_t)block % to == 0; }

/* Sizes that the compiler must not look through. */
static volatile size_t none = 0;
static volatile size_t too_much = PTRDIFF_MAX;

APART static void keep_plain(void) {
  keep(malloc(100));
  keep(malloc(none));
  keep(malloc(none));
  EXPECT(kept[count - 1] != kept[count - 2]);
}

APART static void keep_zeroed(void) {
  unsigned char* block = calloc(3, 70);
  for (int i = 0; i < 210; ++i) EXPECT(block[i] == 0);
  keep(block);
  keep(calloc(none, 8));
}

APART static void keep_resized_null(void) { keep(realloc(NULL, 300)); }

APART static void keep_grown(void) {
  char* block = malloc(16);
  memset(block, 7, 16);
  char* moved = realloc(block, 100000);
  for (int i = 0; i < 16; ++i) EXPECT(moved[i] == 7);
  keep(moved);
}

APART static void keep_shrunk(void) { keep(realloc(malloc(5000), 40)); }

APART static void keep_what_cannot_grow(void) {
  void* block = malloc(77);
  errno = 0;
  EXPECT(realloc(block, too_much) == NULL);
  EXPECT(errno == ENOMEM);
  EXPECT(reallocarray(block, too_much, 16) == NULL);
  EXPECT(errno == ENOMEM);
  memset(block, 1, 77);
  keep(block);
}

APART static void free_by_resizing(void) {
  void* block = malloc(81);
  EXPECT(realloc(block, none) == NULL);
}

APART static void keep_array(void) { keep(reallocarray(NULL, 11, 31)); }

APART static void keep_posix(void) {
  void* block = NULL;
  EXPECT(posix_memalign(&block, 256, 400) == 0);
  EXPECT(lies_on(block, 256));
  keep(block);
  void* unchanged = (void*)1;
  EXPECT(posix_memalign(&unchanged, 3, 8) == EINVAL);
  EXPECT(posix_memalign(&unchanged, 64, too_much) == ENOMEM);
  EXPECT(unchanged == (void*)1);
}

APART static void keep_aligned(void) {
  keep(aligned_alloc(64, 128));
  EXPECT(lies_on(kept[count - 1], 64));
}

APART static void keep_old_aligned(void) {
  keep(memalign(1024, 500));
  EXPECT(lies_on(kept[count - 1], 1024));
}

APART static void keep_page(void) {
  keep(valloc(600));
  EXPECT(lies_on(kept[count - 1], 4096));
}

APART static void keep_whole_pages(void) {
  keep(pvalloc(700));
  EXPECT(lies_on(kept[count - 1], 4096));
  EXPECT(malloc_usable_size(kept[count - 1]) >= 4096);
}

APART static void keep_text(void) { keep(strdup("eleven byte")); }

APART static void fail(void) {
  errno = 0;
  EXPECT(malloc(too_much + 1) == NULL);
  EXPECT(errno == ENOMEM);
  errno = 0;
  EXPECT(calloc(too_much, 16) == NULL);
  EXPECT(errno == ENOMEM);
  errno = 0;
  EXPECT(memalign(16, too_much) == NULL);
  EXPECT(errno == ENOMEM);
}

APART static void keep_nothing(void) {
  free(NULL);
  EXPECT(malloc_usable_size(NULL) == 0);
  errno = 12345;
  void* block = malloc(55);
  EXPECT(errno == 12345);
  EXPECT(malloc_usable_size(block) >= 55);
  free(block);
  EXPECT(errno == 12345);
  for (int i = 0; i < 1000; ++i) free(malloc((size_t)i * 37));
}

int main(void) {
  keep_plain();
  keep_zeroed();
  keep_resized_null();
  keep_grown();
  keep_shrunk();
  keep_what_cannot_grow();
  free_by_resizing();
  keep_array();
  keep_posix();
  keep_aligned();
  keep_old_aligned();
  keep_page();
  keep_whole_pages();
  keep_text();
  fail();
  keep_nothing();
  return 0;
}
