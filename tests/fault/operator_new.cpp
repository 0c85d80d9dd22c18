// Every form of the global operator new, failing where the plan of the thread says so, and counted.

#include <cstdlib>
#include <new>

#include "support/allocation_failure.hpp"

namespace {

void* take(std::size_t bytes, std::size_t align = 0) noexcept {
  if (espalier::test::allocation_must_fail()) return nullptr;
  if (bytes == 0) bytes = 1;
  void* const memory =
      align == 0 ? std::malloc(bytes) : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (memory != nullptr) espalier::test::count_live_allocations(1);
  return memory;
}

void* take_or_throw(std::size_t bytes, std::size_t align = 0) {
  void* const memory = take(bytes, align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give(void* memory) noexcept {
  if (memory == nullptr) return;
  espalier::test::count_live_allocations(-1);
  std::free(memory);
}

std::size_t number(std::align_val_t align) noexcept { return static_cast<std::size_t>(align); }

}  // namespace

void* operator new(std::size_t n) { return take_or_throw(n); }
void* operator new[](std::size_t n) { return take_or_throw(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return take(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return take(n); }
void* operator new(std::size_t n, std::align_val_t a) { return take_or_throw(n, number(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return take_or_throw(n, number(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, number(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return take(n, number(a));
}

void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give(p); }
