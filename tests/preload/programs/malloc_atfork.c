/* Handlers of fork() that allocate, registered before the preloaded library's own and behind them, while other threads
   allocate. Ends by a signal if that never comes to an end. */

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

int handled_by_library(void);

enum { threads = 3 };
static atomic_int stop;
static void* held[3];
static int turn;

static void before(void) { held[0] = malloc(500); }
static void behind(void) {
  free(held[0]);
  held[++turn % 2 + 1] = malloc(400000);
  free(held[turn % 2 + 1]);
}

static void* work(void* unused) {
  (void)unused;
  /* Regions and large blocks all the time, so that the heap's locks are in use. */
  while (!stop) {
    void* blocks[20];
    for (int i = 0; i < 20; ++i) blocks[i] = malloc(i % 2 == 0 ? 30000 : 500000);
    for (int i = 0; i < 20; ++i) free(blocks[i]);
  }
  return NULL;
}

int main(void) {
  pthread_t all[threads];
  const char* const scale = getenv("ESPALIER_STRESS_SCALE");
  const int copies = scale != NULL && atof(scale) > 1 ? 40 : 12;
  alarm(7200);
  EXPECT(pthread_atfork(before, behind, behind) == 0);
  for (int i = 0; i < threads; ++i) EXPECT(pthread_create(&all[i], NULL, work, NULL) == 0);
  for (int i = 0; i < copies; ++i) {
    const int handled = handled_by_library();
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      EXPECT(handled_by_library() == handled + 2);
      pthread_t own;
      stop = 1;
      EXPECT(pthread_create(&own, NULL, work, NULL) == 0 && pthread_join(own, NULL) == 0);
      free(malloc(30000));
      exit(5);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    EXPECT(handled_by_library() == handled + 2);
  }
  stop = 1;
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  puts("atfork");
  return 0;
}
