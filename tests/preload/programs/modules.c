/* modules ONE TWO: loads a module, lets it allocate and unloads it, then another, in turn. */

// RUN same: LD_PRELOAD=%malloc %p %programs/libplugin_one.so %programs/libplugin_two.so
// RUN same: LD_PRELOAD=%malloc %p %programs/libplugin_cpp.so %programs/libplugin_cpp.so
// RUN same: %record %p %programs/libplugin_one.so %programs/libplugin_two.so
// THEN: %tell snapshot
// LINES: keep_one 3 333 | keep_two 3 666
// RUN same: %record %p %programs/libplugin_cpp.so %programs/libplugin_cpp.so
// THEN: %tell snapshot
// LINES: kept 6 999

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
