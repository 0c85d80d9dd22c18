/* What mallinfo2() says, before and behind what the program does. With the argument "narrow" what mallinfo() says, whose
   numbers are narrow: the same up to the most that it can say. */

// RUN: LD_PRELOAD=%malloc %p
// EXPECT: ^espalier: heap of process
// EXPECT: ^ *large blocks +0$
// RUN: LD_PRELOAD=%malloc %p narrow

#include <limits.h>
#include <malloc.h>
#include <string.h>

#include "expect.h"

static void tell_figures(void) {
  enum { small = 1000, large = 5 };
  void* blocks[small + large];
  free(malloc(1));
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < small; ++i) memset(blocks[i] = malloc(200), 1, 200);
  for (int i = 0; i < large; ++i) memset(blocks[small + i] = malloc(300000), 1, 300000);
  const struct mallinfo2 with = mallinfo2();
  EXPECT(with.hblks - before.hblks == large);
  EXPECT(with.hblkhd - before.hblkhd >= large * 300000 && with.hblkhd - before.hblkhd < large * 310000);
  EXPECT(with.uordblks - before.uordblks >= small * 200 && with.uordblks - before.uordblks < small * 400);
  EXPECT(with.arena >= with.uordblks && with.arena == with.uordblks + with.fordblks);
  for (int i = 0; i < small + large; ++i) free(blocks[i]);
  const struct mallinfo2 behind = mallinfo2();
  EXPECT(behind.hblks == before.hblks && behind.uordblks == before.uordblks);
  EXPECT(behind.keepcost != 0);
  EXPECT(malloc_trim(0) == 1 && mallinfo2().keepcost == 0);
  EXPECT(malloc_trim(0) == 0);
  malloc_stats();
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int narrow(size_t n) { return n < INT_MAX ? (int)n : INT_MAX; }

static void expect_the_same(void) {
  const struct mallinfo2 wide = mallinfo2();
  const struct mallinfo got = mallinfo();
  EXPECT(got.arena == narrow(wide.arena));
  EXPECT(got.ordblks == narrow(wide.ordblks));
  EXPECT(got.smblks == 0 && got.usmblks == 0 && got.fsmblks == 0);
  EXPECT(got.hblks == narrow(wide.hblks));
  EXPECT(got.hblkhd == narrow(wide.hblkhd));
  EXPECT(got.uordblks == narrow(wide.uordblks));
  EXPECT(got.fordblks == narrow(wide.fordblks));
  EXPECT(got.keepcost == narrow(wide.keepcost));
}

static void compare_narrow(void) {
  enum { large = 6, small = 1000 };
  const size_t bytes = (size_t)600 << 20;
  void* blocks[large + small];
  free(malloc(1));
  for (int i = 0; i < small; ++i) blocks[large + i] = malloc(100);
  expect_the_same();
  EXPECT(mallinfo().uordblks >= small * 100);
  /* Nobody touches them. */
  for (int i = 0; i < large; ++i) {
    EXPECT((blocks[i] = malloc(bytes)) != NULL);
    expect_the_same();
    EXPECT(mallinfo().hblks == i + 1);
    EXPECT(mallinfo2().hblkhd >= (size_t)(i + 1) * bytes);
  }
  EXPECT(mallinfo().hblkhd == INT_MAX);
  for (int i = 0; i < large + small; ++i) free(blocks[i]);
  expect_the_same();
  EXPECT(mallinfo().hblkhd == 0 && mallinfo().hblks == 0 && mallinfo().uordblks < small * 100);
}

int main(int count, char** arguments) {
  (void)arguments;
  count > 1 ? compare_narrow() : tell_figures();
  return 0;
}
