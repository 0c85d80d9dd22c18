/* What a program sees of kernel calls that fail within its malloc: how many of some blocks it gets, and errno. */
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
