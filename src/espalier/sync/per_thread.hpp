#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier {

/// An object with one T per thread slot (hw/thread_slot.hpp). Elements come into being, in blocks, when a
/// thread first asks for its own; they live as long as the whole, so that what a thread leaves behind can
/// be found, and pass to the next thread that gets the slot. T must be default-constructible, and safe to
/// read from for_each while its thread works with it.
template <class T>
class per_thread {
 public:
  per_thread() = default;
  per_thread(const per_thread&) = delete;
  per_thread& operator=(const per_thread&) = delete;
  ~per_thread() {
    for (auto& b : blocks_) delete b.load(std::memory_order_relaxed);
  }

  /// The element of the calling thread. Constant time. Throws std::bad_alloc at the first call in a block.
  [[nodiscard]] T& local() {
    const std::uint32_t slot = hw::thread_slot();
    // order: local / for_each (acquire) <- add_block (release)
    block* const b = blocks_[slot / per_block].load(std::memory_order_acquire);
    if (b == nullptr) [[unlikely]]
      return (*add_block(slot / per_block))[slot % per_block].value;
    return (*b)[slot % per_block].value;
  }

  /// The element of a slot if its block exists.
  [[nodiscard]] T* at(std::uint32_t slot) const noexcept {
    block* const b = blocks_[slot / per_block].load(std::memory_order_acquire);
    return b == nullptr ? nullptr : &(*b)[slot % per_block].value;
  }

  /// Calls visit(slot, element) for every existing element, in slot order.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const std::uint32_t used = hw::thread_slots_used();
    for (std::uint32_t slot = 0; slot < used; ++slot) {
      if (T* const element = at(slot)) visit(slot, *element);
    }
  }

 private:
  static constexpr std::uint32_t per_block = 16;
  using block = std::array<hw::padded<T>, per_block>;

  block* add_block(std::uint32_t index) {
    auto fresh = std::make_unique<block>();
    block* present = nullptr;
    if (blocks_[index].compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                               std::memory_order_acquire))
      return fresh.release();
    return present;
  }

  mutable std::array<std::atomic<block*>, hw::max_thread_slots / per_block> blocks_{};
};

}  // namespace espalier
