#pragma once

#include <cstddef>
#include <string_view>

#include "espalier/memory/placement_concept.hpp"
#include "sim/memory/traced_heap.hpp"

namespace espalier::sim {

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
