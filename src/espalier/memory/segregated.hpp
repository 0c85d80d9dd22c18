#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/made_once.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// One arena for each role of one map: no page, no line and no cache set is shared with blocks of another
/// kind (the remedy of ATC 2018, section 4.3, as a placement of its own rather than a use of jemalloc's
/// arenas). Blocks up to 2 MiB follow each other at the strides of size_class, in huge pages where the system provides
/// them; a larger block has pages of its own, and costs a system call. All memory returns to the OS when the map is
/// destroyed, blocks in use included.
class segregated {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "segregated";

  segregated() = default;
  segregated(const segregated&) = delete;
  segregated& operator=(const segregated&) = delete;

  /// Alignments above 2 MiB throw std::bad_alloc.
  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    if (!size_class::has(b.bytes, b.align)) [[unlikely]]
      return large_.allocate(b.bytes, std::max(b.align, hw::cache_line_bytes));
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    return slot(b.role, held).get_or_make(held).allocate();
  }

  void deallocate(void* memory, const block& b) noexcept {
    if (!size_class::has(b.bytes, b.align)) [[unlikely]]
      return large_.deallocate(memory);
    slot(b.role, size_class::bytes_for(b.bytes, b.align)).get()->deallocate(memory);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = large_.usage();
    for (const role_slabs& of_role : slabs_) {
      for (const made_once<slab>& s : of_role) {
        if (const slab* const one = s.get()) sum += one->usage();
      }
    }
    return sum;
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return size_class::has(b.bytes, b.align) ? size_class::bytes_for(b.bytes, b.align)
                                             : large_.block_bytes(memory);
  }

 private:
  using role_slabs = std::array<made_once<slab>, size_class::count>;

  made_once<slab>& slot(memory_role role, std::size_t held) noexcept {
    return slabs_[static_cast<std::size_t>(role)][size_class::index_of(held)];
  }

  std::array<role_slabs, memory_role_count> slabs_{};
  page_blocks large_{2 * size_class::largest};
};

static_assert(placement<segregated>);

}  // namespace espalier
