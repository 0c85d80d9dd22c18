/* Copies itself while other threads allocate: the copies allocate at once, in threads of their own too, and give back
   what their parent's threads had. */

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { threads = 3, blocks = 300, copies = 25 };
static atomic_int stop;
static _Atomic(void*) shared[blocks];

static void* work(void* argument) {
  unsigned random = (unsigned)(long)argument;
  while (!stop) {
    random = random * 1664525 + 1013904223;
    const size_t bytes = (random >> 8) % 9 == 0 ? random >> 15 : (random >> 12) % 500;
    char* block = malloc(bytes + 1);
    EXPECT(block != NULL);
    block[0] = block[bytes] = 1;
    free(atomic_exchange(&shared[random % blocks], block));
  }
  return NULL;
}

static void* some(void* unused) {
  (void)unused;
  for (int round = 0; round < 20; ++round) {
    void* mine[100];
    for (int i = 0; i < 100; ++i) memset(mine[i] = malloc((size_t)i * 40), 1, (size_t)i * 40);
    for (int i = 0; i < 100; ++i) free(mine[i]);
  }
  return NULL;
}

int main(void) {
  pthread_t all[threads];
  for (long i = 0; i < threads; ++i) EXPECT(pthread_create(&all[i], NULL, work, (void*)(i + 1)) == 0);
  for (int copy = 0; copy < copies; ++copy) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      for (int i = 0; i < blocks; ++i) free(atomic_exchange(&shared[i], NULL));
      pthread_t own[threads];
      for (int i = 0; i < threads; ++i) EXPECT(pthread_create(&own[i], NULL, some, NULL) == 0);
      some(NULL);
      for (int i = 0; i < threads; ++i) pthread_join(own[i], NULL);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        some(NULL);
        _exit(6);
      }
      int status = 0;
      EXPECT(waitpid(grandchild, &status, 0) == grandchild && WIFEXITED(status) && WEXITSTATUS(status) == 6);
      exit(5);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  }
  stop = 1;
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  puts("forks");
  return 0;
}
