/* An allocator's functions that free with a size; nobody is to call them. */
#include <stddef.h>
#include <stdlib.h>

void free_sized(void* block, size_t bytes) {
  (void)block, (void)bytes;
  _Exit(98);
}
void free_aligned_sized(void* block, size_t align, size_t bytes) {
  (void)align;
  free_sized(block, bytes);
}
void sdallocx(void* block, size_t bytes, int flags) {
  (void)flags;
  free_sized(block, bytes);
}
