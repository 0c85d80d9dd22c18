#pragma once

#include <array>

#include "espalier/memory/made_once.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/memory/size_class.hpp"
#include "espalier/memory/slab.hpp"

namespace espalier {

/// One arena for each role of one map: no page, no line and no cache set is shared with blocks of another
/// kind (the remedy of ATC 2018, section 4.3, as a placement of its own rather than a use of jemalloc's
/// arenas). Blocks lie end to end, in huge pages where the system provides them, and all return to the OS when the
/// map is destroyed. Blocks above 1 KiB come from the shared heap, and are freed one by one.
class segregated {
 public:
  /// True except for the blocks that come from the shared heap.
  static constexpr bool releases_on_destruction(std::size_t bytes) noexcept {
    return bytes <= size_class::largest / 2;  // half: leaves room for any rounding of the alignment
  }
  static constexpr std::string_view name = "segregated";

  segregated() = default;
  segregated(const segregated&) = delete;
  segregated& operator=(const segregated&) = delete;

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    if (held > size_class::largest) [[unlikely]]
      return large_.allocate(b, near);
    return slot(b.role, held).get_or_make(held).allocate();
  }

  void deallocate(void* memory, const block& b) noexcept {
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    if (held > size_class::largest) [[unlikely]]
      return large_.deallocate(memory, b);
    slot(b.role, held).get()->deallocate(memory);
  }

  [[nodiscard]] memory_usage usage() const noexcept;
  [[nodiscard]] static std::size_t bytes_held(const void* memory, const block& b) noexcept {
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    return held > size_class::largest ? shared_heap::bytes_held(memory, b) : held;
  }

 private:
  using role_slabs = std::array<made_once<slab>, size_class::count>;

  made_once<slab>& slot(memory_role role, std::size_t held) noexcept {
    return slabs_[static_cast<std::size_t>(role)][size_class::index_of(held)];
  }

  std::array<role_slabs, memory_role_count> slabs_{};
  shared_heap large_;
};

static_assert(placement<segregated>);

}  // namespace espalier
