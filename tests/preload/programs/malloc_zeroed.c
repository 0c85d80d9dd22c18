/* What calloc() gives is zero, whatever lay there, also where the system takes no memory back. With the argument "locked"
   all memory is locked, if that is permitted; with "idle" the malloc is given time to return what is idle. */

// WITH rules: "" | madvise:fail=EINVAL@*
// RUN same: LD_PRELOAD=%malloc:%faults ESPALIER_KERNEL_FAULTS=%rules %p
// RUN same: LD_PRELOAD=%malloc %p locked
// WITH decay: 0 | 1
// WITH locked: "" | locked
// RUN same: LD_PRELOAD=%malloc ESPALIER_MALLOC_KEEP=0 ESPALIER_MALLOC_DECAY=%decay %p idle %locked

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "expect.h"

enum { most = 40000 };
static unsigned char* blocks[most];

static void wait_a_little(void) {
  const struct timespec some = {0, 3000000};
  nanosleep(&some, NULL);
}

static void fill_and_zero(int count, size_t bytes, int idle) {
  for (int i = 0; i < count; ++i) {
    EXPECT((blocks[i] = malloc(bytes)) != NULL);
    memset(blocks[i], 0xee, bytes);
  }
  for (int i = 0; i < count; ++i) {
    free(blocks[i]);
    if (idle && i % (count / 4) == 0) wait_a_little();
  }
  if (!idle) malloc_trim(0);
  /* What makes the malloc look, and finds a period over. */
  for (int i = 0; idle && i < 4; ++i) {
    wait_a_little();
    void* some = malloc(40000 + (size_t)i * 300000);
    EXPECT(some != NULL);
    free(some);
  }
  for (int i = 0; i < count; ++i) {
    EXPECT((blocks[i] = calloc(1, bytes)) != NULL);
    for (size_t at = 0; at < bytes; ++at) EXPECT(blocks[i][at] == 0);
  }
  for (int i = 0; i < count; ++i) free(blocks[i]);
}

int main(int count, char** arguments) {
  int idle = 0;
  for (int i = 1; i < count; ++i) {
    if (strcmp(arguments[i], "idle") == 0) idle = 1;
    /* Where it is refused, the rest is as without. */
    if (strcmp(arguments[i], "locked") == 0) (void)mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  }
  for (int round = 0; round < 2; ++round) {
    fill_and_zero(200, 100000, idle);
    fill_and_zero(most, 400, idle);
  }
  puts("zeroed");
  return 0;
}
