// Every operator new and delete, and what they do without memory; containers, also in threads; a class with its own.

// RUN same: LD_PRELOAD=%malloc %p
// RUN same: LD_PRELOAD=%random %p
// The operators of the preloaded malloc come before those of another allocator.
// WITH allocator: libjemalloc.so.2 | libtcmalloc_minimal.so.4
// IF: test -e %installed/%allocator
// RUN: LD_PRELOAD=%malloc:%installed/%allocator ESPALIER_MALLOC_STATS=1 %p
// Debian's mimalloc is built as C, and aborts where operator new throws.
// WITH allocator: libjemalloc.so.2 | libtcmalloc_minimal.so.4
// IF: test -e %installed/%allocator
// RUN same: LD_PRELOAD=%random:%installed/%allocator %p

// Of the C++ library the operators request a multiple of the alignment, and never nothing. Other allocators have operators.
// WITH allocator: libc.so.6 | libjemalloc.so.2 | libtcmalloc_minimal.so.4
// IF: test -e %installed/%allocator
// RUN same: LD_PRELOAD=%inspect:%installed/%allocator ESPALIER_INSPECT_FILE=snapshot %p
// THEN: %tell snapshot
// LINES: keep_new 1 100 | keep_new_array 1 200 | keep_new_nothrow 1 300 | keep_array_nothrow 1 350 | keep_array_aligned 1 640
// LINES: keep_aligned_nothrow 1 768 | keep_array_aligned_nothrow 1 832 | keep_own 1 52 | keep_vector 2 8216 | make_room 3 183
// The map, its nodes and their texts.
// EXPECT: ^keep_map 201\b
// EXPECT 0: ^(keep_nothing|keep_nothing_without_memory)\b
// Destroyed after the snapshot. g++ names a function without linkage by its last name alone.
// EXPECT: ^at_the_end(::at_the_end)? 1 2000$
// EXPECT: ^keep_new_aligned 1 (?P<aligned>\d+)$
// EXPECT: ^keep_new_of_nothing 1 (?P<nothing>\d+)$
// CHECK: (aligned, nothing) == ((512, 1) if "%allocator" == "libc.so.6" else (400, 0))

// The map knows its root, first and last node; nodes know parent, children and text.
// RUN same: %record ESPALIER_INSPECT_POINTERS=1 %p
// THEN: %tell snapshot
// LINES: links unknown:  | links: keep_map > keep_map: 302
// EXPECT 1: ^links: .*keep_map

#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
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
APART void keep_new_aligned() {
  keep(::operator new(400, std::align_val_t{128}));
  EXPECT(reinterpret_cast<std::uintptr_t>(kept[count - 1]) % 128 == 0);
}
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
}

volatile std::size_t too_much = PTRDIFF_MAX;
template <class Error, class Work>
bool throws(Work work) {
  try {
    keep(work());
  } catch (const Error&) {
    return true;
  }
  return false;
}
/* A handler that makes room is called until there is enough: here it gives up the third time. */
int calls = 0;
void* volatile made_by_handler;
APART void make_room() {
  made_by_handler = std::malloc(61);
  if (++calls == 3) throw std::runtime_error("refused");
}
void give_up() {
  ++calls;
  std::set_new_handler(nullptr);
}
APART void keep_nothing_without_memory() {
  constexpr std::align_val_t line{64};
  EXPECT(throws<std::bad_alloc>([] { return ::operator new(too_much); }));
  EXPECT(throws<std::bad_alloc>([] { return ::operator new[](too_much); }));
  EXPECT(throws<std::bad_alloc>([] { return ::operator new(too_much, line); }));
  EXPECT(::operator new(too_much, std::nothrow) == nullptr);
  EXPECT(::operator new[](too_much, std::nothrow) == nullptr);
  EXPECT(::operator new(too_much, line, std::nothrow) == nullptr);
  std::set_new_handler(make_room);
  EXPECT(throws<std::runtime_error>([] { return ::operator new(too_much); }) && calls == 3);
  std::set_new_handler(give_up);
  EXPECT(throws<std::bad_alloc>([] { return ::operator new(too_much); }) && calls == 4);
  std::set_new_handler(give_up);
  EXPECT(::operator new(too_much, std::nothrow) == nullptr&& calls == 5);
}

void in_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      std::vector<std::string> texts;
      for (std::size_t i = 0; i < 2000; ++i) texts.emplace_back(i % 300, 'x');
      for (std::size_t i = 0; i < 2000; ++i) EXPECT(texts[i].size() == i % 300);
    });
  }
  for (std::thread& t : threads) t.join();
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
  keep_nothing_without_memory();
  in_threads();
  return static_cast<int>(global.values[7]) - 1;
}
