#pragma once

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

}  // namespace espalier::sim
