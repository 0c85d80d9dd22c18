// Every operator new and delete, what they do without memory, and blocks that malloc and new share.

#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

struct alignas(256) wide {
  char bytes[300];
};

volatile std::size_t too_much = PTRDIFF_MAX;
/// Or the compiler leaves out what nobody looks at.
void* volatile seen;
int handled = 0;

void give_up() {
  ++handled;
  std::set_new_handler(nullptr);
}
void refuse() {
  ++handled;
  throw std::runtime_error("refused");
}

template <class Error, class Work>
bool throws(Work work) {
  try {
    work();
  } catch (const Error&) {
    return true;
  }
  return false;
}

void every_operator() {
  delete new int(5);
  delete[] new int[100];
  delete new wide;
  delete[] new wide[3];
  ::operator delete(::operator new(0));
  ::operator delete(::operator new(100), std::size_t{100});
  ::operator delete[](::operator new[](100), std::size_t{100});
  ::operator delete(::operator new(100, std::nothrow), std::nothrow);
  ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
  constexpr std::align_val_t align{512};
  ::operator delete(::operator new(100, align), align);
  ::operator delete[](::operator new[](100, align), align);
  ::operator delete(::operator new(100, align), std::size_t{100}, align);
  ::operator delete[](::operator new[](100, align), std::size_t{100}, align);
  ::operator delete(::operator new(100, align, std::nothrow), align, std::nothrow);
  ::operator delete[](::operator new[](100, align, std::nothrow), align, std::nothrow);
  ::operator delete(nullptr);
  const std::unique_ptr<wide[]> many(new wide[20]);
  EXPECT(reinterpret_cast<std::uintptr_t>(many.get()) % 256 == 0);
}

void without_memory() {
  EXPECT(throws<std::bad_alloc>([] { seen = ::operator new(too_much); }));
  EXPECT(throws<std::bad_alloc>([] { seen = ::operator new[](too_much); }));
  EXPECT(throws<std::bad_alloc>([] { seen = ::operator new(too_much, std::align_val_t{64}); }));
  EXPECT(::operator new(too_much, std::nothrow) == nullptr);
  EXPECT(::operator new[](too_much, std::nothrow) == nullptr);
  EXPECT(::operator new(too_much, std::align_val_t{64}, std::nothrow) == nullptr);
  std::set_new_handler(give_up);
  EXPECT(throws<std::bad_alloc>([] { seen = ::operator new(too_much); }) && handled == 1);
  std::set_new_handler(give_up);
  EXPECT(::operator new(too_much, std::nothrow) == nullptr&& handled == 2);
  std::set_new_handler(refuse);
  EXPECT(throws<std::runtime_error>([] { seen = ::operator new(too_much); }) && handled == 3);
  std::set_new_handler(nullptr);
  // Addresses for it there are, memory there is not.
  EXPECT(throws<std::bad_alloc>([] { seen = ::operator new(std::size_t{1} << 45U); }));
}

void one_heap() {
  // Whatever operators the program has, none of their blocks is lost on the other's.
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

}  // namespace

int main() {
  every_operator();
  without_memory();
  one_heap();
  std::puts("new");
  return 0;
}
