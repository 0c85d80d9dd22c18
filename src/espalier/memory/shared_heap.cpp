#include "espalier/memory/shared_heap.hpp"

#include <malloc.h>

#include <new>

namespace espalier {

void* shared_heap::allocate(const block& b, const void*) {
  void* const memory = b.align > __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? ::operator new(b.bytes, std::align_val_t{b.align})
                           : ::operator new(b.bytes);
  blocks_.add(1);
  bytes_.add(static_cast<std::int64_t>(malloc_usable_size(memory)));
  return memory;
}

void shared_heap::deallocate(void* memory, const block& b) noexcept {
  blocks_.add(-1);
  bytes_.add(-static_cast<std::int64_t>(malloc_usable_size(memory)));
  if (b.align > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
    ::operator delete(memory, std::align_val_t{b.align});
  else
    ::operator delete(memory);
}

std::size_t shared_heap::bytes_held(const void* memory, const block&) noexcept {
  return malloc_usable_size(const_cast<void*>(memory));
}

memory_usage shared_heap::usage() const noexcept {
  memory_usage sum;
  sum.blocks = static_cast<std::uint64_t>(blocks_.read());
  sum.bytes_in_use = static_cast<std::uint64_t>(bytes_.read());
  sum.bytes_reserved = sum.bytes_in_use;
  return sum;
}

}  // namespace espalier
