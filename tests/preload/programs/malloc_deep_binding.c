/* Libraries that are opened with RTLD_DEEPBIND: what they free is of the malloc that allocated it, and the paths of the
   library that opens another count as ever. */

// RUN same: LD_PRELOAD=%malloc %p

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

typedef void* exchange_function(void*, size_t);
typedef void* open_function(void);

int main(int count, char** words) {
  char path[4096];
  (void)count;
  snprintf(path, sizeof path, "%s/deep/deep_outer.so", dirname(strdup(words[0])));
  void* const outer = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
  if (outer == NULL) puts(dlerror());
  EXPECT(outer != NULL);
  /* The program has no such path. */
  EXPECT(dlopen("deep_inner.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
  void* const inner = ((open_function*)dlsym(outer, "open_inner"))();
  EXPECT(inner != NULL);
  void* const libraries[] = {outer, inner};
  for (int l = 0; l < 2; ++l) {
    exchange_function* const exchange = (exchange_function*)dlsym(libraries[l], "exchange");
    for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
      unsigned char* const block = exchange(memset(malloc(bytes), 3, bytes), bytes);
      EXPECT(block[0] == 7 && block[bytes - 1] == 7);
      free(block);
    }
  }
  EXPECT(dlclose(inner) == 0 && dlclose(outer) == 0);
  puts("right");
  return 0;
}
