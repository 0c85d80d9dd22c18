/* modules ONE TWO: loads a module, lets it allocate and unloads it, then another, in turn. */
#include <dlfcn.h>
#include <stdlib.h>

#include "expect.h"

static void load(const char* path, const char* name) {
  void* module = dlopen(path, RTLD_NOW);
  if (module == NULL) fprintf(stderr, "%s\n", dlerror());
  EXPECT(module != NULL);
  void* (*keep)(void) = (void* (*)(void))dlsym(module, name);
  EXPECT(keep != NULL && keep() != NULL);
  EXPECT(dlclose(module) == 0);
  EXPECT(dlsym(RTLD_DEFAULT, name) == NULL);
}

int main(int count, char** arguments) {
  EXPECT(count == 3);
  for (int i = 0; i < 3; ++i) {
    load(arguments[1], "keep_one");
    load(arguments[2], "keep_two");
  }
  return 0;
}
