#include "espalier/memory/parts/index_arena.hpp"

#include <bit>
#include <cstdint>
#include <new>

namespace espalier {

std::size_t index_regions::first_index(std::size_t index_class) noexcept {
  // relaxed: it only spreads the runs.
  const std::size_t number = starts_[index_class].fetch_add(1, std::memory_order_relaxed);
  return index_colour::first_index(number, index_class) +
         index_colour::hashed(std::bit_cast<std::uintptr_t>(this) / index_class::line);
}

std::size_t index_regions::next_page() noexcept {
  // relaxed: as above.
  return index_colour::page_of(runs_.fetch_add(1, std::memory_order_relaxed));
}

void index_arena::refill(index_run& run) {
  void* const memory = regions_.take();
  const run_colour colour{run.has_begun() ? run.index_after() : regions_.first_index(class_),
                          regions_.next_page()};
  auto* const region = ::new (memory) index_region{colour.offset()};
  poison(region + 1, index_class::region_bytes - sizeof(index_region));
  // relaxed: one thread at a time is in refill(), under the lock of blocks_; usage() is exact at quiescence.
  finished_bytes_.store(finished_bytes_.load(std::memory_order_relaxed) + shape_.offset(run.blocks_taken()),
                        std::memory_order_relaxed);
  run.begin(*region, shape_);
}

void index_arena::recover_in_child(const hw::fork_survivor& survivor) noexcept {
  blocks_.recover_in_child(survivor, [this](const index_run& run) {
    // relaxed: the child has one thread.
    finished_bytes_.store(finished_bytes_.load(std::memory_order_relaxed) + shape_.offset(run.blocks_taken()),
                          std::memory_order_relaxed);
  });
}

void* index_arena::block_start(void* address) const noexcept {
  auto* const first = std::bit_cast<std::byte*>(&index_region::of(address)) + index_region::of(address).first;
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(address) - first);
  return first + shape_.offset(shape_.block_at(offset));
}

memory_usage index_arena::usage() const noexcept {
  memory_usage sum;
  sum.blocks = blocks_.blocks_in_use();
  sum.bytes_in_use = sum.blocks * shape_.stride;
  // relaxed: exact at quiescence.
  sum.bytes_reserved = finished_bytes_.load(std::memory_order_relaxed);
  blocks_.for_each_run(
      [&](const index_run& run) { sum.bytes_reserved += shape_.offset(run.blocks_taken()); });
  return sum;
}

}  // namespace espalier
