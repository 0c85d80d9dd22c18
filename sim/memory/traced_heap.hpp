#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "espalier/memory/placement_concept.hpp"

namespace espalier::sim {

/// A placement for exploration: every block comes from the simulated heap and is checked from its allocation to its
/// end. It has no bookkeeping that threads share, which would only add meaningless steps.
class traced_heap {
 public:
  static constexpr bool releases_on_destruction = false;
  static constexpr std::string_view name = "traced_heap";

  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    void* const memory = ::operator new(b.bytes, std::align_val_t{b.align});
    count(1, static_cast<std::int64_t>(b.bytes));
    return memory;
  }
  void deallocate(void* memory, const block& b) noexcept {
    count(-1, -static_cast<std::int64_t>(b.bytes));
    ::operator delete(memory, std::align_val_t{b.align});
  }
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  // Not instrumented: these are not the program's accesses.
  void count(std::int64_t blocks, std::int64_t bytes) noexcept;

  std::int64_t blocks_ = 0;
  std::int64_t bytes_ = 0;
};

static_assert(placement<traced_heap>);

/// traced_heap for nodes in two places (espalier/memory/clustered.hpp). The rest lies after the front, in the same
/// block of the simulated heap.
template <std::size_t Front, std::size_t Rest>
class split_traced_heap : public traced_heap {
 public:
  static constexpr std::string_view name = "split_traced_heap";
  static constexpr std::size_t front_bytes = Front;
  static constexpr std::size_t rest_bytes = Rest;

  [[nodiscard]] static void* rest_of(const void* front) noexcept {
    return const_cast<std::byte*>(static_cast<const std::byte*>(front)) + Front;
  }

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    return traced_heap::allocate(whole(b), near);
  }
  void deallocate(void* memory, const block& b) noexcept { traced_heap::deallocate(memory, whole(b)); }

 private:
  static constexpr block whole(block b) noexcept {
    if (b.role == memory_role::node && b.bytes == Front) b.bytes += Rest;
    return b;
  }
};

static_assert(placement<split_traced_heap<32, 24>>);

}  // namespace espalier::sim
