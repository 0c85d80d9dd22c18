/* What glibc promises of malloc and its kin. Passes with any malloc that keeps to it. */

// WITH knobs: "" | ESPALIER_MALLOC_PREFAULT=1 | ESPALIER_MALLOC_HUGE=1 | "ESPALIER_MALLOC_KEEP=0 ESPALIER_MALLOC_DECAY=1" | "ESPALIER_MALLOC_KEEP=0 ESPALIER_MALLOC_DECAY=0"
// RUN same: LD_PRELOAD=%malloc %knobs %p
// RUN same: LD_PRELOAD=%random %p

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

static const size_t sizes[] = {0,    1,     15,    16,    17,    24,     47,     48,      49,      64,       100,     1000,
                               1024, 1025,  4096,  8192,  32767, 32832,  32833,  65536,   131072,  262144,   1000000, 5000000,
                               17 << 20, 20 << 20};
enum { size_count = sizeof sizes / sizeof *sizes };
static volatile size_t most = PTRDIFF_MAX;

static void fill(unsigned char* block, size_t bytes, int mark) { memset(block, mark, bytes); }
static int is_filled(const unsigned char* block, size_t bytes, int mark) {
  for (size_t i = 0; i < bytes; ++i) {
    if (block[i] != (unsigned char)mark) return 0;
  }
  return 1;
}

static void every_size(void) {
  unsigned char* blocks[size_count];
  for (int i = 0; i < size_count; ++i) {
    blocks[i] = malloc(sizes[i]);
    EXPECT(blocks[i] != NULL && (uintptr_t)blocks[i] % 16 == 0);
    const size_t usable = malloc_usable_size(blocks[i]);
    EXPECT(usable >= sizes[i]);
    fill(blocks[i], usable, i + 1);
  }
  for (int i = 0; i < size_count; ++i) {
    EXPECT(is_filled(blocks[i], malloc_usable_size(blocks[i]), i + 1));
    errno = 77;
    free(blocks[i]);
    EXPECT(errno == 77);
  }
  errno = 78;
  free(NULL);
  EXPECT(errno == 78 && malloc_usable_size(NULL) == 0);
}

static void of_nothing(void) {
  void* one = malloc(0);
  void* other = malloc(0);
  void* zeroed = calloc(0, 8);
  EXPECT(one != NULL && other != NULL && zeroed != NULL && one != other && one != zeroed);
  free(one);
  free(other);
  free(zeroed);
}

static void too_much(void) {
  const size_t many[] = {most + 1, most, (size_t)-1, (size_t)-4096, most - 100};
  void* block = malloc(100);
  fill(block, 100, 5);
  for (int i = 0; i < 5; ++i) {
    errno = 0;
    EXPECT(malloc(many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(calloc(1, many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(realloc(block, many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(reallocarray(block, many[i], 1) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(realloc(NULL, many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(memalign(64, many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(aligned_alloc(4096, many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(valloc(many[i]) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(pvalloc(many[i]) == NULL && errno == ENOMEM);
    void* unset = &block;
    EXPECT(posix_memalign(&unset, 64, many[i]) == ENOMEM && unset == &block);
  }
  /* More than there is, though not more addresses. */
  errno = 0;
  EXPECT(malloc((size_t)1 << 45) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(calloc(most, 4) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(reallocarray(block, most, 4) == NULL && errno == ENOMEM);
  EXPECT(is_filled(block, 100, 5));
  free(block);
}

static void zeroed(void) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < size_count; ++i) {
      unsigned char* block = calloc(sizes[i], 1);
      EXPECT(block != NULL && is_filled(block, sizes[i], 0));
      fill(block, malloc_usable_size(block), 0xff);
      free(block);
    }
  }
}

static void aligned(void) {
  for (size_t align = 8; align <= 64 << 20; align *= align < 8192 ? 2 : 8) {
    for (int i = 0; i < size_count; ++i) {
      void* block = NULL;
      errno = 12;
      EXPECT(posix_memalign(&block, align, sizes[i]) == 0 && errno == 12);
      EXPECT(block != NULL && (uintptr_t)block % align == 0);
      const size_t usable = malloc_usable_size(block);
      EXPECT(usable >= sizes[i]);
      ((char*)block)[0] = ((char*)block)[usable - 1] = 1;
      if (sizes[i] < 70000) fill(block, usable, 3);
      free(block);
    }
  }
  int nothing = 0;
  void* unset = &nothing;
  const size_t wrong[] = {0, 1, 2, 4, 12, 24, 100, (size_t)-1};
  for (int i = 0; i < 8; ++i) EXPECT(posix_memalign(&unset, wrong[i], 100) == EINVAL && unset == &nothing);
  /* Compilers know better. */
  const volatile size_t odd[] = {48, 0, (size_t)-1};
  void* block = memalign(odd[0], 100);
  EXPECT(block != NULL && (uintptr_t)block % 64 == 0);
  free(block);
  block = memalign(odd[1], 100);
  EXPECT(block != NULL);
  free(block);
  block = aligned_alloc(256, 100);
  EXPECT(block != NULL && (uintptr_t)block % 256 == 0);
  free(block);
  errno = 0;
  EXPECT(memalign(odd[2], 100) == NULL && errno == EINVAL);
  block = valloc(100);
  EXPECT(block != NULL && (uintptr_t)block % 4096 == 0);
  free(block);
  block = pvalloc(4097);
  EXPECT(block != NULL && (uintptr_t)block % 4096 == 0 && malloc_usable_size(block) >= 8192);
  free(block);
}

static void resized(void) {
  for (int from = 0; from < size_count; ++from) {
    for (int to = 0; to < size_count; ++to) {
      /* Large ones take long; from one to the next will do. */
      if (sizes[from] + sizes[to] > 2000000 && from != to + 1 && to != from + 1) continue;
      unsigned char* block = malloc(sizes[from]);
      fill(block, sizes[from], 9);
      if (sizes[to] == 0) {
        EXPECT(realloc(block, 0) == NULL);
        continue;
      }
      block = realloc(block, sizes[to]);
      const size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
      EXPECT(block != NULL && (uintptr_t)block % 16 == 0 && is_filled(block, kept, 9));
      EXPECT(malloc_usable_size(block) >= sizes[to]);
      block[malloc_usable_size(block) - 1] = 1;
      free(block);
    }
  }
  void* aligned_block = memalign(4096, 300);
  fill(aligned_block, 300, 4);
  unsigned char* moved = realloc(aligned_block, 9000);
  EXPECT(is_filled(moved, 300, 4));
  moved = reallocarray(moved, 300, 100);
  EXPECT(is_filled(moved, 300, 4));
  free(moved);
  EXPECT((moved = reallocarray(NULL, 3, 5)) != NULL);
  free(moved);
}

static void rest(void) {
  void (*const old_free)(void*) = (void (*)(void*))dlsym(RTLD_DEFAULT, "cfree");
  if (old_free != NULL) old_free(malloc(10));
  EXPECT(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
  malloc_trim(0);
  FILE* nowhere = fopen("/dev/null", "w");
  EXPECT(nowhere != NULL && malloc_info(0, nowhere) == 0 && malloc_info(1, nowhere) != 0);
  fclose(nowhere);
}

int main(void) {
  every_size();
  of_nothing();
  too_much();
  zeroed();
  aligned();
  resized();
  rest();
  puts("edges");
  return 0;
}
