/* What mallinfo() says, whose numbers are narrow, beside mallinfo2(): the same up to the most that it can say. */
#include <limits.h>
#include <malloc.h>

#include "expect.h"

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

int main(void) {
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
  return 0;
}
