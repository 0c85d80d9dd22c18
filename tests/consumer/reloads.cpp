#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <semaphore>
#include <thread>

// Opens and closes two plug-ins that contain the maps, in turns, and each time ends a thread that has used them after they
// are closed. What a plug-in leaves behind runs out: pthread keys, the static TLS block, mappings.
//
//   reloads PLUGIN COPY_OF_IT

namespace {

using count_function = std::uint64_t(std::uint64_t);

struct plug_in {
  explicit plug_in(const char* file) : handle(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {}
  [[nodiscard]] count_function* count_of() const {
    return reinterpret_cast<count_function*>(dlsym(handle, "count_of"));
  }
  void* handle;
};

int mappings() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  while (maps.ignore(std::numeric_limits<std::streamsize>::max(), '\n') && !maps.eof()) ++lines;
  return lines;
}

/// Null, or what has gone wrong.
const char* reload(const char* const (&files)[2]) {
  const plug_in first(files[0]);
  const plug_in second(files[1]);
  if (first.handle == nullptr || second.handle == nullptr) return dlerror();
  std::binary_semaphore used(0);
  std::binary_semaphore closed(0);
  bool right = false;
  std::thread user([&] {
    right = first.count_of()(8) == 8 && second.count_of()(8) == 8;
    used.release();
    closed.acquire();
  });
  used.acquire();
  // In the order of opening: the other order hides what is not reused.
  dlclose(first.handle);
  dlclose(second.handle);
  closed.release();
  user.join();
  if (!right) return "a map lacks keys";
  for (const char* const file : files)
    if (dlopen(file, RTLD_NOW | RTLD_NOLOAD) != nullptr) return "a plug-in that is closed stays";
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const char* const files[]{arguments[1], arguments[2]};
  constexpr int cycles = 1'000;  // with two plug-ins each
  constexpr int first_ones = 20;
  int before = 0;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    if (const char* const wrong = reload(files)) {
      std::printf("reloads: cycle %d: %s\n", cycle, wrong);
      return 1;
    }
    if (cycle == first_ones) before = mappings();
  }
  // The C library maps memory of its own.
  const int more = mappings() - before;
  if (more > cycles / 10) {
    std::printf("reloads: %d more mappings\n", more);
    return 1;
  }
  std::puts("reloads: right");
  return 0;
}
