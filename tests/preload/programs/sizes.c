/* sizes FUNCTION BYTES COUNT: allocates that many blocks by one function of the malloc family, and tells where they lie and how
   much of them may be used. "threads" does so by malloc in two threads, one after the other. What a block must hold is checked
   here. */

// glibc lays such blocks end to end.
// WITH variables strides: "" 1024 | "LD_PRELOAD=%random ESPALIER_RANDOM_BYTES=64" "1024 1040 1056 1072 1088"
// RUN: %variables %p malloc 1008 128
// LINES: strides: %strides
// glibc leaves a remainder that is too small for a block with the block before it.
// WITH variables usable: "" "( 1000)?( 1016)?" | "LD_PRELOAD=%random ESPALIER_RANDOM_BYTES=64" "( 10(00|16|32|48|64|80)){4,}"
// WITH function: malloc | calloc | realloc | realloc_null | reallocarray
// RUN: %variables %p %function 1000 200
// EXPECT: ^usable:%usable$
// WITH function: posix_memalign | aligned_alloc | memalign
// RUN: LD_PRELOAD=%random ESPALIER_RANDOM_BYTES=192 %p %function 1024 200
// EXPECT: ^usable: (?P<usable>.+)$
// CHECK: {(int(u) - 1024) // 64 for u in usable.split()} == {0, 1, 2, 3}
// LINES: not on a multiple of 64: 0
// Pages stay as they are.
// WITH function: memalign_page | valloc | pvalloc
// RUN: %p %function 100 50
// EXPECT: ^usable: (?P<usable_%function>.+)$
// WITH function: memalign_page | valloc | pvalloc
// RUN: LD_PRELOAD=%random %p %function 100 50
// LINES: not on a multiple of 4096: 0
// EXPECT: ^usable: (?P<usable>.+)$
// CHECK: usable == usable_%function

// Blocks spread over the sets of a cache.
// WITH bytes: 496 | 1008 | 2032 | 4080
// RUN: %p malloc %bytes 128
// EXPECT: ^fullest set: (?P<fullest>\d+)$
// CHECK: fullest >= 13
// WITH bytes: 496 | 1008 | 2032 | 4080
// WITH seed: 0 | 1 | 2 | 3
// RUN: LD_PRELOAD=%random ESPALIER_RANDOM_SEED=%seed %p malloc %bytes 128
// EXPECT: ^fullest set: (?P<fullest>\d+)$
// CHECK: fullest <= 11

// A seed repeats itself; each thread has numbers of its own, the same in the next run.
// WITH name seed: first SEED=1 | again SEED=1 | other SEED=2 | zero SEED=0 | default STATS=0
// RUN: LD_PRELOAD=%random ESPALIER_RANDOM_%seed %p malloc 1008 64
// EXPECT: ^in order: (?P<%name>.+)$
// CHECK: "%name" != "default" or first == again != other and zero == default
// WITH run: one | two
// RUN: LD_PRELOAD=%random %p threads 1008 64
// EXPECT: ^in order: (?P<of_first_%run>.+)$(?:.*\n)*in order: (?P<of_second_%run>.+)$
// CHECK: of_first_%run != of_second_%run and (of_first_%run, of_second_%run) == (of_first_one, of_second_one)
// WITH allocator: libjemalloc.so.2 | libtcmalloc_minimal.so.4 | libmimalloc.so.2.0
// IF: test -e %installed/%allocator
// RUN: LD_PRELOAD=%random:%installed/%allocator ESPALIER_RANDOM_BYTES=1024 %p malloc 1024 200
// EXPECT: ^usable:( \d+){4,}$

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

static size_t address(int i) { return (size_t)(uintptr_t)blocks[i]; }
static size_t usable(int i) { return malloc_usable_size(blocks[i]); }
static size_t stride(int i) { return i == 0 ? 0 : address(i) - address(i - 1); }

/* Those that differ, in order, except for 0. */
static void tell_kinds(const char* name, size_t (*of)(int)) {
  printf("%s:", name);
  for (size_t last = 0, next; last != SIZE_MAX; last = next) {
    if (last != 0) printf(" %zu", last);
    next = SIZE_MAX;
    for (int i = 0; i < count; ++i)
      if (of(i) > last && of(i) < next) next = of(i);
  }
  puts("");
}

static void tell(void) {
  int load[64] = {0}, fullest = 0, off_lines = 0, off_pages = 0;
  for (int i = 0; i < count; ++i) {
    int* const set = &load[address(i) / 64 % 64];
    if (++*set > fullest) fullest = *set;
    off_lines += address(i) % 64 != 0;
    off_pages += address(i) % 4096 != 0;
  }
  tell_kinds("strides", stride);
  tell_kinds("usable", usable);
  printf("not on a multiple of 64: %d\nnot on a multiple of 4096: %d\nfullest set: %d\nin order:", off_lines, off_pages,
         fullest);
  for (int i = 0; i < count; ++i) printf(" %zu", usable(i));
  puts("");
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
