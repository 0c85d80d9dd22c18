// Blocks from before the C library has the environment to behind the last destructor; of thread_local objects, which
// allocate as they come and go; and at the end of the thread that was the first.

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

int early_errors = -1;
char* from_before_all = nullptr;
void* early[6];

bool holds(const char* text) { return text != nullptr && std::strcmp(text, "from before all") == 0; }

// Nothing is there to end the program with: errors are counted.
void begin_before_all(int, char**, char**) {
  int wrong = 0;
  from_before_all = static_cast<char*>(malloc(16));
  if (from_before_all != nullptr) std::strcpy(from_before_all, "from before all");
  from_before_all = static_cast<char*>(realloc(from_before_all, 5000));
  wrong += !holds(from_before_all);
  auto* const zeroed = static_cast<unsigned char*>(calloc(100, 7));
  for (int i = 0; i < 700; ++i) wrong += zeroed == nullptr || zeroed[i] != 0;
  early[0] = zeroed;
  wrong += posix_memalign(&early[1], 512, 100) != 0 || reinterpret_cast<std::uintptr_t>(early[1]) % 512 != 0;
  early[2] = aligned_alloc(64, 128);
  early[3] = valloc(10);
  early[4] = malloc(0);
  early[5] = realloc(nullptr, 50);
  for (void* const block : early) wrong += block == nullptr;
  wrong += malloc_usable_size(early[5]) < 50;
  free(malloc(1000));
  free(nullptr);
  early_errors = wrong;
}
__attribute__((section(".preinit_array"), used)) void (*const first_of_all)(int, char**,
                                                                            char**) = begin_before_all;

__attribute__((constructor(101))) void begin() {
  EXPECT(early_errors == 0);
  EXPECT(holds(from_before_all));
  from_before_all = static_cast<char*>(realloc(from_before_all, 100));
  free(early[1]);
  early[1] = nullptr;
}
__attribute__((destructor(101))) void end() {
  EXPECT(holds(from_before_all));
  free(from_before_all);
  free(malloc(100));
}

/// Allocates when it is made and when it goes, from then on in the place of the one that went.
struct of_thread {
  explicit of_thread(int size) : text(static_cast<std::size_t>(size), 'x') {}
  ~of_thread() {
    EXPECT(text.find_first_not_of('x') == std::string::npos);
    auto last = std::make_unique<std::string>(3000, 'y');
    text = *last + text;
  }
  std::string text;
};

void in_thread() {
  thread_local of_thread one(100);
  thread_local of_thread other(40'000);
  thread_local std::vector<std::unique_ptr<of_thread>> more;
  EXPECT(one.text.size() + other.text.size() == 40'100);
  for (int i = 0; i < 50; ++i) more.push_back(std::make_unique<of_thread>(i * 30));
}

pthread_t first;

}  // namespace

int main() {
  for (void* const block : early) free(block);
  for (int generation = 0; generation < 20; ++generation) {
    std::vector<std::thread> all;
    for (int t = 0; t < 6; ++t) all.emplace_back(in_thread);
    for (std::thread& t : all) t.join();
  }
  in_thread();
  first = pthread_self();
  std::thread([] {
    EXPECT(pthread_join(first, nullptr) == 0);
    in_thread();
    std::puts("early");
    exit(0);
  }).detach();
  pthread_exit(nullptr);
}
