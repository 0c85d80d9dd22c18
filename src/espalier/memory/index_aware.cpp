#include "espalier/memory/index_aware.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "espalier/memory/parts/index_class.hpp"
#include "espalier/memory/parts/size_class.hpp"

namespace espalier {
namespace {

/// The first multiple of an alignment at or after an address.
void* aligned_up(void* memory, std::size_t align) noexcept {
  const auto address = std::bit_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (-address & (align - 1));
}

}  // namespace

void* index_aware::allocate(const block& b, const void*) {
  const std::size_t chosen = class_of(b);
  if (chosen == index_class::none) [[unlikely]]
    return allocate_large(b);
  void* const memory = arena(b.role, chosen).get_or_make(regions_, chosen).allocate();
  return b.align <= index_class::line ? memory : aligned_up(memory, b.align);
}

void index_aware::deallocate(void* memory, const block& b) noexcept {
  const std::size_t chosen = class_of(b);
  if (chosen == index_class::none) [[unlikely]]
    return deallocate_large(memory, b);
  index_arena& of_block = *arena(b.role, chosen).get();
  of_block.deallocate(b.align <= index_class::line ? memory : of_block.block_start(memory));
}

void* index_aware::allocate_large(const block& b) {
  if (size_class::has(b.bytes, b.align)) {
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    return slab_of(b, held).get_or_make(held).allocate();
  }
  // relaxed: it only spreads the blocks.
  const run_colour colour = index_colour::of_large(large_blocks_.fetch_add(1, std::memory_order_relaxed));
  return large_.allocate(b.bytes, std::max(b.align, index_class::line), colour.offset());
}

void index_aware::deallocate_large(void* memory, const block& b) noexcept {
  if (!size_class::has(b.bytes, b.align)) return large_.deallocate(memory);
  slab_of(b, size_class::bytes_for(b.bytes, b.align)).get()->deallocate(memory);
}

std::size_t index_aware::bytes_held(const void* memory, const block& b) const noexcept {
  if (const std::size_t index = class_of(b); index != index_class::none)
    return index_class::shape_of(index).stride;
  return size_class::has(b.bytes, b.align) ? size_class::bytes_for(b.bytes, b.align)
                                           : large_.block_bytes(memory);
}

memory_usage index_aware::usage() const noexcept {
  memory_usage sum = large_.usage();
  for (const auto& of_role : arenas_) {
    for (const made_once<index_arena>& a : of_role) {
      if (const index_arena* const one = a.get()) sum += one->usage();
    }
  }
  for (const auto& of_role : slabs_) {
    for (const made_once<slab>& s : of_role) {
      if (const slab* const one = s.get()) sum += one->usage();
    }
  }
  return sum;
}

}  // namespace espalier
