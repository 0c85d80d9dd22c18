#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace espalier::sim {

/// Total store order (Owens, Sarkar and Sewell, TPHOLs 2009): each fiber's stores wait in a first-in
/// first-out buffer before the others see them; it reads its own from there. What a missing StoreLoad fence
/// permits then really happens.
///
/// Only stores of atomics are held back: a plain store is done by the program itself, right after it was
/// announced. It must not overtake, so the buffer is drained before it; that too is an execution that such
/// a machine has. Plain stores to the fiber's own stack are nobody else's business and drain nothing.
class store_buffers {
 public:
  /// Called with each store as memory takes it, before it does: fiber, address, bytes.
  using observer = std::function<void(unsigned, std::uintptr_t, std::size_t)>;
  void when_visible(observer observe) { visible_ = std::move(observe); }

  void reset(unsigned fibers);

  void store(unsigned fiber, void* address, unsigned bytes, std::uint64_t value);
  /// The fiber's own latest store to exactly this place, if it still waits.
  [[nodiscard]] const std::uint64_t* find(unsigned fiber, const void* address, unsigned bytes) const noexcept;
  [[nodiscard]] bool overlaps(unsigned fiber, std::uintptr_t address, std::size_t bytes) const noexcept;

  [[nodiscard]] bool empty(unsigned fiber) const noexcept { return waiting_[fiber].empty(); }
  void flush_oldest(unsigned fiber);
  void drain(unsigned fiber);
  void drain_all();

 private:
  struct entry {
    void* address;
    unsigned bytes;
    std::uint64_t value;
  };
  std::vector<std::deque<entry>> waiting_;
  observer visible_;
};

}  // namespace espalier::sim
