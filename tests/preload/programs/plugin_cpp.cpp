// Two functions in C++ for a program in C, which has the C++ library from nowhere else.
#include <new>

#include "expect.h"

namespace {

void* kept(std::size_t bytes) {
  try {
    ::operator delete(::operator new(static_cast<std::size_t>(-1) / 2));
    return nullptr;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as it is to be
  }
  delete new int;
  return ::operator new(bytes);
}

}  // namespace

extern "C" {
APART void* keep_one() { return kept(111); }
APART void* keep_two() { return kept(222); }
}
