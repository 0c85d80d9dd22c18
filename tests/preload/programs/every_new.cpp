// Every operator new; containers; a class with its own.
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "expect.h"

namespace {

void* volatile kept[64];
int count = 0;
void keep(void* block) {
  EXPECT(block != nullptr);
  kept[count++] = block;
}

APART void keep_new() { keep(::operator new(100)); }
APART void keep_new_array() { keep(new char[200]); }
APART void keep_new_nothrow() { keep(::operator new(300, std::nothrow)); }
APART void keep_new_aligned() { keep(::operator new(400, std::align_val_t{128})); }
APART void keep_new_of_nothing() { keep(::operator new(0)); }

struct own {
  static void* operator new(std::size_t bytes) { return std::malloc(bytes); }
  static void operator delete(void* block) { std::free(block); }
  char bytes[52];
};
APART void keep_own() { keep(new own); }

std::vector<long>* numbers;
std::map<int, std::string>* names;
APART void keep_vector() {
  numbers = new std::vector<long>;
  for (long i = 0; i < 1000; ++i) numbers->push_back(i);
}
APART void keep_map() {
  names = new std::map<int, std::string>;
  for (int i = 0; i < 100; ++i) names->emplace(i, "longer than what fits in a string");
}
APART void keep_array_nothrow() { keep(::operator new[](350, std::nothrow)); }
APART void keep_array_aligned() { keep(::operator new[](640, std::align_val_t{64})); }
APART void keep_aligned_nothrow() { keep(::operator new(768, std::align_val_t{256}, std::nothrow)); }
APART void keep_array_aligned_nothrow() { keep(::operator new[](832, std::align_val_t{64}, std::nothrow)); }
APART void keep_nothing() {
  constexpr std::align_val_t line{64};
  delete new own;
  delete[] new int[9];
  ::operator delete(nullptr);
  ::operator delete(::operator new(64));
  ::operator delete(::operator new(64), std::size_t{64});
  ::operator delete(::operator new(64, std::nothrow), std::nothrow);
  ::operator delete(::operator new(64, line), line);
  ::operator delete(::operator new(64, line), std::size_t{64}, line);
  ::operator delete(::operator new(64, line, std::nothrow), line, std::nothrow);
  ::operator delete[](::operator new[](64));
  ::operator delete[](::operator new[](64), std::size_t{64});
  ::operator delete[](::operator new[](64, std::nothrow), std::nothrow);
  ::operator delete[](::operator new[](64, line), line);
  ::operator delete[](::operator new[](64, line), std::size_t{64}, line);
  ::operator delete[](::operator new[](64, line, std::nothrow), line, std::nothrow);
  std::list<int> list(1000, 1);
  try {
    keep(::operator new(static_cast<std::size_t>(-1) / 2));
    EXPECT(false);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as it is to be
  }
  EXPECT(::operator new(static_cast<std::size_t>(-1) / 2, std::nothrow) == nullptr);
}

/* A handler that makes room is called until there is enough: here it gives up the third time. */
int calls = 0;
void* volatile made_by_handler;
APART void make_room() {
  made_by_handler = std::malloc(61);
  if (++calls == 3) throw std::bad_alloc();
}
APART void keep_what_the_handler_made() {
  std::set_new_handler(make_room);
  try {
    keep(::operator new(static_cast<std::size_t>(-1) / 2));
    EXPECT(false);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as it is to be
  }
  std::set_new_handler(nullptr);
  EXPECT(calls == 3);
}

struct at_the_end {
  // What is destroyed behind the snapshot was still there.
  std::vector<int> values = std::vector<int>(500, 1);
} global;

}  // namespace

int main() {
  keep_new();
  keep_new_array();
  keep_new_nothrow();
  keep_new_aligned();
  keep_new_of_nothing();
  keep_own();
  keep_vector();
  keep_map();
  keep_array_nothrow();
  keep_array_aligned();
  keep_aligned_nothrow();
  keep_array_aligned_nothrow();
  keep_nothing();
  keep_what_the_handler_made();
  return static_cast<int>(global.values[7]) - 1;
}
