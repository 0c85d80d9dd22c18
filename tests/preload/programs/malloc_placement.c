/* How many of N blocks begin at one index of a cache of 64 sets, for sizes of which other allocators put all of them
   at few: 0 if no more than 3, 9 and 11 of 128, 512 and 640. */

// RUN 1: %p
// WITH knobs: "" | ESPALIER_MALLOC_PREFAULT=1 | ESPALIER_MALLOC_HUGE=1 | "ESPALIER_MALLOC_KEEP=0 ESPALIER_MALLOC_DECAY=1" | "ESPALIER_MALLOC_KEEP=0 ESPALIER_MALLOC_DECAY=0"
// RUN: LD_PRELOAD=%malloc %knobs %p

#include <stdint.h>
#include <stdlib.h>

#include "expect.h"

static unsigned most_of(int n, size_t bytes) {
  static void* blocks[640];
  unsigned load[64] = {0};
  unsigned most = 0;
  for (int i = 0; i < n; ++i) {
    blocks[i] = malloc(bytes);
    const unsigned at = (uintptr_t)blocks[i] >> 6 & 63;
    if (++load[at] > most) most = load[at];
  }
  /* Kept: what comes next begins behind them. */
  return most;
}

int main(void) {
  int worse = 0;
  for (size_t bytes = 64; bytes <= 4096; bytes += 64) {
    for (size_t less = 0; less <= 16; less += 16) {
      if (bytes - less < 64) continue;
      const unsigned a = most_of(128, bytes - less);
      const unsigned b = most_of(512, bytes - less);
      const unsigned c = most_of(640, bytes - less);
      worse += a > 3 || b > 9 || c > 11;
    }
  }
  return worse == 0 ? 0 : 1;
}
