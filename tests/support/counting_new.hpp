#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

// Replaces the program's operator new by one that counts, and that fails on demand. For exactly one translation unit of
// a test program.

namespace espalier::test {

/// Allocations of the calling thread so far.
inline thread_local std::uint64_t allocations = 0;
/// For the calling thread: fails when the countdown has run out (0 means now); negative for never.
inline thread_local std::int64_t allocations_before_refusal = -1;

/// Fails every allocation of this thread after a given number of successes, until the scope ends.
class refuse_memory {
 public:
  explicit refuse_memory(std::int64_t after = 0) noexcept { allocations_before_refusal = after; }
  refuse_memory(const refuse_memory&) = delete;
  refuse_memory& operator=(const refuse_memory&) = delete;
  ~refuse_memory() { allocations_before_refusal = -1; }
};

inline void* counted_new(std::size_t bytes, std::size_t align) {
  if (allocations_before_refusal == 0) throw std::bad_alloc();
  if (allocations_before_refusal > 0) --allocations_before_refusal;
  ++allocations;
  void* memory = nullptr;
  if (align <= alignof(std::max_align_t))
    memory = std::malloc(bytes == 0 ? 1 : bytes);
  else if (posix_memalign(&memory, align, bytes) != 0)
    memory = nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void* counted_new_or_null(std::size_t bytes, std::size_t align) noexcept {
  try {
    return counted_new(bytes, align);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace espalier::test

// NOLINTBEGIN(misc-definitions-in-headers): these may not be inline; see above.
// noinline: a compiler that sees free() meet operator new, but not what this new is, warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return espalier::test::counted_new(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  return espalier::test::counted_new(bytes, static_cast<std::size_t>(align));
}
// The library's own would suffice, but sanitizers replace it.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return espalier::test::counted_new_or_null(bytes, 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align,
                                     const std::nothrow_t&) noexcept {
  return espalier::test::counted_new_or_null(bytes, static_cast<std::size_t>(align));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-definitions-in-headers)
