#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace espalier::sim {

/// Total store order (Owens, Sarkar and Sewell, TPHOLs 2009): each fiber's stores wait in a first-in first-out buffer
/// before other fibers see them; the fiber itself reads them from there. So what a missing StoreLoad fence permits
/// actually happens.
///
/// Only stores of atomics are delayed. The program itself performs a plain store, right after the store was announced.
/// A plain store must not overtake, so the buffer is drained before it; such a machine permits that execution too.
/// Plain stores to the fiber's own stack concern no other fiber and drain nothing.
class store_buffers {
 public:
  /// Called with each store when it is about to reach memory: fiber, address, bytes.
  using observer = std::function<void(unsigned, std::uintptr_t, std::size_t)>;
  void when_visible(observer observe) { visible_ = std::move(observe); }

  void reset(unsigned fibers) {
    waiting_.clear();
    waiting_.resize(fibers);
  }

  void store(unsigned fiber, void* address, unsigned bytes, std::uint64_t value) {
    waiting_[fiber].push_back({address, bytes, value});
  }
  /// The fiber's own latest store to exactly this place, if it is still buffered.
  [[nodiscard]] const std::uint64_t* find(unsigned fiber, const void* address,
                                          unsigned bytes) const noexcept {
    const auto& queue = waiting_[fiber];
    for (auto e = queue.rbegin(); e != queue.rend(); ++e)
      if (e->address == address && e->bytes == bytes) return &e->value;
    return nullptr;
  }
  [[nodiscard]] bool overlaps(unsigned fiber, std::uintptr_t address, std::size_t bytes) const noexcept {
    for (const entry& e : waiting_[fiber]) {
      const auto begin = reinterpret_cast<std::uintptr_t>(e.address);
      if (begin < address + bytes && address < begin + e.bytes) return true;
    }
    return false;
  }

  [[nodiscard]] bool empty(unsigned fiber) const noexcept { return waiting_[fiber].empty(); }
  void flush_oldest(unsigned fiber) {
    const entry oldest = waiting_[fiber].front();
    waiting_[fiber].pop_front();
    if (visible_) visible_(fiber, reinterpret_cast<std::uintptr_t>(oldest.address), oldest.bytes);
    std::memcpy(oldest.address, &oldest.value, oldest.bytes);  // little-endian, like every machine here
  }
  void drain(unsigned fiber) {
    while (!empty(fiber)) flush_oldest(fiber);
  }
  void drain_all() {
    for (unsigned fiber = 0; fiber < waiting_.size(); ++fiber) drain(fiber);
  }

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
