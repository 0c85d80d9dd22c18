/* Has a malloc of its own, which comes before every library's. */

// RUN same: LD_PRELOAD=%random %p
// RUN same: %record %p
// THEN: %tell snapshot
// LINES: malloc of its own: own_malloc
// EXPECT: ^all: 0 blocks

#include <stdio.h>
#include <string.h>

static char memory[1 << 20] __attribute__((aligned(16)));
static size_t used;

void* malloc(size_t bytes) {
  void* const block = memory + used;
  used += (bytes + 15) / 16 * 16;
  return used <= sizeof memory ? block : NULL;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) {
  void* const block = malloc(count * size);
  return block == NULL ? NULL : memset(block, 0, count * size);
}
void* realloc(void* block, size_t bytes) {
  void* const larger = malloc(bytes);
  return block == NULL || larger == NULL ? larger : memmove(larger, block, bytes);
}

int main(void) {
  void* volatile kept = malloc(100);
  puts(kept != NULL ? "its own" : "none");
  return 0;
}
