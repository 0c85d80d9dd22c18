/* Frees what the program allocated, allocates what the program frees, and opens the library beside it. */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void* exchange(void* block, size_t bytes) {
  free(block);
  return memset(malloc(bytes), 7, bytes);
}

void* open_inner(void) { return dlopen("deep_inner.so", RTLD_NOW | RTLD_DEEPBIND); }
