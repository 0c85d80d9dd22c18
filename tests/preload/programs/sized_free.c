/* Gives blocks back by whatever frees with a size: the sizes are the program's, not those that were asked behind it. */

// RUN 6: LD_PRELOAD=%random:%programs/libbehind.so %p
// Without padding the functions of that library are called.
// RUN 98: LD_PRELOAD=%programs/libbehind.so %p

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "expect.h"

int main(void) {
  void (*sized)(void*, size_t) = (void (*)(void*, size_t))dlsym(RTLD_DEFAULT, "free_sized");
  void (*aligned)(void*, size_t, size_t) =
      (void (*)(void*, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
  void (*flagged)(void*, size_t, int) = (void (*)(void*, size_t, int))dlsym(RTLD_DEFAULT, "sdallocx");
  EXPECT(sized != NULL && aligned != NULL && flagged != NULL);
  for (int i = 0; i < 100; ++i) {
    sized(malloc(100), 100);
    aligned(aligned_alloc(64, 128), 64, 128);
    flagged(malloc(1000), 1000, 0);
  }
  return 6;
}
