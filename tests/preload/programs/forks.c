/* Copies itself while another thread allocates. The child allocates, gives back what its parent allocated, and ends
   with 5; the parent with 4. */

// RUN same 4: LD_PRELOAD=%malloc %p
// RUN same 4: LD_PRELOAD=%random %p
// Figures of each process, once.
// RUN 4: LD_PRELOAD=%malloc ESPALIER_MALLOC_STATS=1 %p
// EXPECT 9: ^espalier: heap of process \d
// EXPECT 9: ^espalier: heap of process (\d+)\b(?!(?:.|\n)*heap of process \1\b)
// RUN 4: LD_PRELOAD=%random ESPALIER_RANDOM_STATS=1 %p
// EXPECT 8: : 1 blocks, 2000 bytes asked for,
// EXPECT 9: \n

// Children are recorded where that is requested, each in a file of its own.
// RUN same 4: %record %p
// THEN: ls; %tell snapshot
// EXPECT: \Asnapshot\nfile:
// LINES: in_both 2 2000 | in_parent 1 3000
// EXPECT 0: ^in_child\b
// RUN same 4: %record ESPALIER_INSPECT_FOLLOW=forks %p
// THEN: %tell snapshot
// LINES: in_both 2 2000 | in_parent 1 3000
// EXPECT 0: ^in_child\b
// THEN: rm snapshot; %tell *
// EXPECT 8: ^file:
// EXPECT 8: ^in_both 1\b
// EXPECT 8: ^in_child 1\b
// EXPECT 0: ^in_parent\b

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static atomic_int stop;
static void* work(void* unused) {
  while (!stop) free(malloc(32));
  return unused;
}

APART static void* in_both(void) { return malloc(1000); }
APART static void* in_child(void) { return malloc(2000); }
APART static void* in_parent(void) { return malloc(3000); }

int main(void) {
  pthread_t other;
  EXPECT(pthread_create(&other, NULL, work, NULL) == 0);
  void* first = in_both();
  void* second = in_both();
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      free(first);
      EXPECT(in_child() != NULL);
      if (i % 2 == 0) _exit(5);
      exit(5);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  }
  /* A child that shares its parent's memory must not end the parent's recording. */
  const pid_t sharing = vfork();
  if (sharing == 0) _exit(5);
  waitpid(sharing, NULL, 0);
  EXPECT(in_parent() != NULL && second != NULL);
  stop = 1;
  pthread_join(other, NULL);
  return 4;
}
