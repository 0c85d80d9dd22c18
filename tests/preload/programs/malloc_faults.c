/* What a program sees of kernel calls that fail within its malloc: how many of some blocks it gets, and errno. */

// WITH rules blocks: "" 4 | mmap:fail=ENOMEM@* 0 | munmap:delay_us=10@*,mmap:delay_after_us=10@1+ 4
// RUN: LD_PRELOAD=%malloc:%faults ESPALIER_KERNEL_FAULTS=%rules %p
// EXPECT: \A%blocks\n\Z
// RUN 2: LD_PRELOAD=%malloc:%faults ESPALIER_KERNEL_FAULTS=mmap:fail=EWHAT@1 %p
// EXPECT: espalier-kernel-faults: ESPALIER_KERNEL_FAULTS=mmap:fail=EWHAT@1: fail= wants ENOMEM

#include <errno.h>
#include <string.h>

#include "expect.h"

int main(void) {
  int got = 0;
  for (int i = 0; i < 4; ++i) {
    errno = 0;
    /* Each too large for what is mapped already. */
    char* block = malloc((size_t)300 << 20);
    EXPECT(block != NULL || errno == ENOMEM);
    if (block == NULL) continue;
    EXPECT(errno == 0);
    block[0] = 1;
    free(block);
    ++got;
  }
  printf("%d\n", got);
  return 0;
}
