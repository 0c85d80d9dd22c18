#include "espalier/memory/index_aware.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

#include "espalier/memory/index_colour.hpp"
#include "espalier/memory/size_class.hpp"

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
    return large_.deallocate(memory);
  index_arena& of_block = *arena(b.role, chosen).get();
  of_block.deallocate(b.align <= index_class::line ? memory : of_block.block_start(memory));
}

void* index_aware::allocate_large(const block& b) {
  // relaxed: it only spreads the blocks.
  const run_colour colour = index_colour::of_large(large_blocks_.fetch_add(1, std::memory_order_relaxed));
  void* const memory = large_.allocate(b.bytes, std::max(b.align, index_class::line), colour.offset());
  ::new (large_.front_of(memory)) index_region{nullptr, 0};
  return memory;
}

void index_aware::deallocate(void* memory) noexcept {
  index_arena* const of_block = index_region::of(memory).arena;
  if (of_block == nullptr) return large_.deallocate(memory);
  of_block->deallocate(of_block->block_start(memory));
}

std::size_t index_aware::usable_bytes(void* memory) const noexcept {
  const index_arena* const of_block = index_region::of(memory).arena;
  if (of_block == nullptr) return large_.block_bytes(memory);
  const auto skipped =
      static_cast<std::byte*>(memory) - static_cast<std::byte*>(of_block->block_start(memory));
  return of_block->block_bytes() - static_cast<std::size_t>(skipped);
}

std::size_t index_aware::bytes_held(const void* memory, const block& b) const noexcept {
  const std::size_t index = class_of(b);
  return index == index_class::none ? usable_bytes(const_cast<void*>(memory))
                                    : index_class::shape_of(index).stride;
}

memory_usage index_aware::usage() const noexcept {
  memory_usage sum = large_.usage();
  for (const auto& of_role : arenas_) {
    for (const made_once<index_arena>& a : of_role) {
      if (const index_arena* const one = a.get()) sum += one->usage();
    }
  }
  return sum;
}

}  // namespace espalier
