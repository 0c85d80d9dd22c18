/* sizes FUNCTION BYTES COUNT: allocates that many blocks by one function of malloc's kin and tells of each, a line,
   where it lies and how much of it may be used. "threads" does so by malloc in two threads, one after the other. What
   a block must hold is checked here. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

enum { most = 4096 };
static void* volatile blocks[most];
static const char* function;
static size_t bytes;
static int count;

static int is(const char* name) { return strcmp(function, name) == 0; }

static void* zeroed(void) {
  char* block = calloc(bytes / 2, 2);
  for (size_t i = 0; i < bytes / 2 * 2; ++i) EXPECT(block[i] == 0);
  return block;
}

static void* resized(void) {
  char* block = malloc(bytes);
  memset(block, 42, bytes);
  char* bigger = realloc(block, bytes * 4);
  for (size_t i = 0; i < bytes; ++i) EXPECT(bigger[i] == 42);
  memset(bigger, 43, bytes * 4);
  char* smaller = realloc(bigger, bytes);
  for (size_t i = 0; i < bytes; ++i) EXPECT(smaller[i] == 43);
  return smaller;
}

static void* allocated(void) {
  if (is("calloc")) return zeroed();
  if (is("realloc")) return resized();
  if (is("realloc_null")) return realloc(NULL, bytes);
  if (is("reallocarray")) return reallocarray(NULL, bytes / 2, 2);
  if (is("aligned_alloc")) return aligned_alloc(64, bytes);
  if (is("memalign")) return memalign(64, bytes);
  if (is("memalign_page")) return memalign(4096, bytes);
  if (is("valloc")) return valloc(bytes);
  if (is("pvalloc")) return pvalloc(bytes);
  if (is("posix_memalign")) {
    void* block = NULL;
    EXPECT(posix_memalign(&block, 64, bytes) == 0);
    return block;
  }
  return malloc(bytes);
}

static void* allocate_all(void* unused) {
  for (int i = 0; i < count; ++i) {
    blocks[i] = allocated();
    EXPECT(blocks[i] != NULL);
    EXPECT(malloc_usable_size(blocks[i]) >= bytes);
    memset(blocks[i], i, malloc_usable_size(blocks[i]));
  }
  return unused;
}

static void tell(void) {
  for (int i = 0; i < count; ++i) printf("%zu %zu\n", (size_t)(uintptr_t)blocks[i], malloc_usable_size(blocks[i]));
}

int main(int argc, char** argv) {
  EXPECT(argc == 4);
  function = argv[1];
  bytes = (size_t)atol(argv[2]);
  count = atoi(argv[3]);
  EXPECT(count <= most);
  if (!is("threads")) {
    allocate_all(NULL);
    tell();
    return 0;
  }
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, allocate_all, NULL) == 0);
    pthread_join(thread, NULL);
    tell();
  }
  return 0;
}
