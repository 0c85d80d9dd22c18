/* Ends in a signal handler, most likely while what it interrupted has the heap's locks. */

// WITH round: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
// RUN 9: LD_PRELOAD=%malloc ESPALIER_MALLOC_STATS=1 %p
// EXPECT 1: espalier: heap of process
// EXPECT: : no figures, it was just changing$|^ *heaps of threads +1$

#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "expect.h"

static void end(int number) {
  (void)number;
  _exit(9);
}

int main(void) {
  /* If it hangs. */
  alarm(7200);
  signal(SIGPROF, end);
  const struct itimerval soon = {{0, 0}, {0, 3000}};
  EXPECT(setitimer(ITIMER_PROF, &soon, NULL) == 0);
  /* Every second one is kept, so that the system is asked for each of the others by itself. */
  enum { blocks = 128 };
  void* all[blocks];
  for (int i = 0; i < blocks; ++i) EXPECT((all[i] = malloc(200000)) != NULL);
  for (;;) {
    for (int i = 0; i < blocks; i += 2) free(all[i]);
    malloc_trim(0);
    for (int i = 0; i < blocks; i += 2) EXPECT((all[i] = malloc(200000)) != NULL);
  }
}
