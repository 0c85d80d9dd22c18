/* What mallinfo2() says, before and behind what the program does. */
#include <malloc.h>
#include <string.h>

#include "expect.h"

int main(void) {
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
  return 0;
}
