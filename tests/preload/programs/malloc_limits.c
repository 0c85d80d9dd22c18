/* With few addresses to be had: what fails says so and leaves everything as it was; what is given back can be had again,
   by other threads too. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "expect.h"

enum { most = 1 << 20 };
static unsigned char* blocks[most];

static void* allocate_some(void* unused) {
  (void)unused;
  for (int round = 0; round < 50; ++round) {
    void* mine[40];
    for (int i = 0; i < 40; ++i) {
      const size_t bytes = (size_t)i * 100 + 1;
      EXPECT((mine[i] = malloc(bytes)) != NULL);
      memset(mine[i], i, bytes);
    }
    for (int i = 0; i < 40; ++i) free(mine[i]);
  }
  return NULL;
}

static void use_up(size_t bytes) {
  int n = 0;
  errno = 0;
  while (n < most && (blocks[n] = malloc(bytes)) != NULL) {
    blocks[n][0] = blocks[n][bytes - 1] = (unsigned char)n;
    ++n;
  }
  EXPECT(n > 10 && n < most && errno == ENOMEM);
  void* unset = &n;
  errno = 0;
  EXPECT(calloc(1, 100000000) == NULL && errno == ENOMEM);
  EXPECT(posix_memalign(&unset, 4096, 100000000) == ENOMEM && unset == &n);
  errno = 0;
  EXPECT(memalign(1 << 16, 100000000) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(realloc(blocks[0], 400000000) == NULL && errno == ENOMEM);
  for (int i = 0; i < n; ++i)
    EXPECT(blocks[i][0] == (unsigned char)i && blocks[i][bytes - 1] == (unsigned char)i);
  /* What is given back is there again. */
  for (int i = 0; i < n; i += 2) {
    free(blocks[i]);
    EXPECT((blocks[i] = malloc(bytes)) != NULL);
  }
  for (int i = 0; i < n; ++i) free(blocks[i]);
  malloc_trim(0);
}

int main(void) {
  pthread_t thread;
  struct rlimit limit = {(rlim_t)400 << 20, (rlim_t)400 << 20};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  const size_t sizes[] = {1000, 30000, 300000, 5 << 20};
  for (int i = 0; i < 4; ++i) {
    use_up(sizes[i]);
    EXPECT(pthread_create(&thread, NULL, allocate_some, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  puts("limits");
  return 0;
}
