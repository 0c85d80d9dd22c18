/* Frames that vary, frames that realign the stack, deep recursion, callbacks: each block is told by who asked. */

// The sizes tell which function requested a block, and so must the second frames. That of 24 bytes is the C library's qsort.
// RUN same: %record %p
// THEN: %tell callers snapshot
// LINES: 64 bytes by first_caller: 100 | 72 bytes by first_caller: 100 | 80 bytes by second_caller: 100
// LINES: 88 bytes by second_caller: 100 | 96 bytes by realigning_caller: 1
// EXPECT 5: ^(64|72|80|88|96) bytes
// EXPECT 1: ^24 bytes
// RUN same: %record ESPALIER_INSPECT_FRAMES=1 %p
// THEN: %tell snapshot
// EXPECT: ^shared_leaf 401\b
// EXPECT 0: ^first_caller\b

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static void* volatile sink;

APART static void* shared_leaf(size_t bytes, size_t room) {
  volatile char* space = alloca(room);
  space[0] = space[room - 1] = 1;
  void* block = malloc(bytes);
  EXPECT(block != NULL && space[0] == 1);
  return block;
}
APART static void first_caller(size_t room) {
  sink = shared_leaf(64, room);
  sink = shared_leaf(72, room + 48);
}
APART static void second_caller(size_t room) {
  volatile char more[500];
  more[room % 500] = 1;
  sink = shared_leaf(80, room + more[room % 500]);
  sink = shared_leaf(88, room);
}

struct wide {
  _Alignas(256) char bytes[256];
};
APART static void realigning_caller(int depth) {
  struct wide local;
  memset(local.bytes, depth, sizeof local.bytes);
  __asm__ volatile("" : : "r"(&local) : "memory");
  if (depth > 0) {
    realigning_caller(depth - 1);
  } else {
    sink = shared_leaf(96, 200);
  }
  EXPECT(local.bytes[depth] == depth);
}

static int compare(const void* a, const void* b) {
  sink = malloc(24);
  return *(const int*)a - *(const int*)b;
}
APART static void sorting_caller(void) {
  int numbers[2] = {2, 1};
  qsort(numbers, 2, sizeof numbers[0], compare);
}

int main(void) {
  for (size_t i = 0; i < 100; ++i) {
    first_caller(16 + 8 * i);
    second_caller(16 + 24 * (i % 7));
  }
  realigning_caller(5);
  sorting_caller();
  return 0;
}
