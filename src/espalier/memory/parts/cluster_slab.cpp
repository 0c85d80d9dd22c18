#include "espalier/memory/parts/cluster_slab.hpp"

#include <bit>
#include <cassert>

namespace espalier {

cluster_slab::cluster_slab(const split_block& shape, unsigned slots)
    : shape_(shape),
      slots_(slots),
      all_free_(static_cast<std::uint8_t>((1U << slots) - 1)),
      clusters_(split_block{shape.front_bytes * slots, shape.rest_bytes * slots},
                slab::side_table::one_byte) {
  assert(slots >= 2 && slots <= 8 && std::has_single_bit(shape.front_bytes * slots));
}

void cluster_slab::hand_out(void* memory) noexcept {
  unpoison(memory, shape_.front_bytes);
  if (shape_.is_split()) unpoison(shape_.rest_of(memory), shape_.rest_bytes);
}

void cluster_slab::take_back(void* memory) noexcept {
  poison(memory, shape_.front_bytes);
  if (shape_.is_split()) poison(shape_.rest_of(memory), shape_.rest_bytes);
}

cluster_slab::free_mask* cluster_slab::mask_of(const void* memory) noexcept {
  return clusters_.side_byte(memory);
}

std::byte* cluster_slab::cluster_of(const void* memory) const noexcept {
  // Clusters are laid end to end from the start of a page, and their size is a power of two.
  const auto address = std::bit_cast<std::uintptr_t>(memory);
  return std::bit_cast<std::byte*>(address & ~(shape_.front_bytes * slots_ - 1));
}

unsigned cluster_slab::slot_of(const void* memory) const noexcept {
  return static_cast<unsigned>(
      static_cast<std::size_t>(static_cast<const std::byte*>(memory) - cluster_of(memory)) /
      shape_.front_bytes);
}

void* cluster_slab::take_beside(const void* near) noexcept {
  free_mask* const mask = mask_of(near);
  if (mask == nullptr) return nullptr;
  // Where two slots fill a line, their indices differ in the lowest bit: first try the one beside `near`.
  const unsigned beside = slot_of(near) ^ 1U;
  // relaxed: a guess, which the exchange confirms; a failure of it only brings a newer guess.
  std::uint8_t free = mask->load(std::memory_order_relaxed);
  while (free != 0) {
    const unsigned slot = (free >> beside & 1U) != 0 ? beside : static_cast<unsigned>(std::countr_zero(free));
    const auto left = static_cast<std::uint8_t>(free & ~(1U << slot));
    // order (1): take, acquire. relaxed: as above.
    if (mask->compare_exchange_weak(free, left, std::memory_order_acquire, std::memory_order_relaxed))
      return cluster_of(near) + slot * shape_.front_bytes;
  }
  return nullptr;
}

void* cluster_slab::allocate(const void* near) {
  void* memory = near != nullptr ? take_beside(near) : nullptr;
  if (memory == nullptr) {
    memory = clusters_.allocate();
    poison(memory, shape_.front_bytes * slots_);
    // relaxed: no thread can name a block of this cluster before the caller has published one.
    mask_of(memory)->store(static_cast<std::uint8_t>(all_free_ & ~1U), std::memory_order_relaxed);
  }
  hand_out(memory);
  blocks_.add(1);
  return memory;
}

void cluster_slab::deallocate(void* memory) noexcept {
  blocks_.add(-1);
  free_mask* const mask = mask_of(memory);
  const auto bit = static_cast<std::uint8_t>(1U << slot_of(memory));
  take_back(memory);
  // order (1), (2): give, acq_rel
  const std::uint8_t before = mask->fetch_or(bit, std::memory_order_acq_rel);
  if ((before | bit) != all_free_) return;
  // relaxed: no block is in use here, so no thread may name one. The cluster belongs to this thread.
  mask->store(0, std::memory_order_relaxed);
  std::byte* const cluster = cluster_of(memory);
  unpoison(cluster, shape_.front_bytes * slots_);
  clusters_.deallocate(cluster);
}

memory_usage cluster_slab::usage() const noexcept {
  memory_usage sum;
  const auto fronts = static_cast<std::uint64_t>(blocks_.read());
  sum.blocks = fronts;
  sum.bytes_in_use = fronts * (shape_.front_bytes + shape_.rest_bytes);
  const std::uint64_t carved = clusters_.usage().bytes_reserved;
  sum.bytes_reserved = carved + carved / shape_.front_bytes * shape_.rest_bytes;
  return sum;
}

}  // namespace espalier
