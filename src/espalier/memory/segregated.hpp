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
    const place at = place_of(b.role, held);
    return slabs_[at.group].get_or_make()[at.index].get_or_make(held).allocate();
  }

  void deallocate(void* memory, const block& b) noexcept {
    if (!size_class::has(b.bytes, b.align)) [[unlikely]]
      return large_.deallocate(memory);
    const place at = place_of(b.role, size_class::bytes_for(b.bytes, b.align));
    (*slabs_[at.group].get())[at.index].get()->deallocate(memory);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = large_.usage();
    for (const made_once<slabs>& some : slabs_) {
      const slabs* const group = some.get();
      if (group == nullptr) continue;
      for (const made_once<slab>& s : *group) {
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
  // A map has blocks of few classes: those that are neighbours have a group, which is made with the first of them.
  static constexpr std::size_t together = 32;
  static constexpr std::size_t groups_of_role = (size_class::count + together - 1) / together;
  using slabs = std::array<made_once<slab>, together>;
  struct place {
    std::size_t group;
    std::size_t index;
  };
  [[nodiscard]] static constexpr place place_of(memory_role role, std::size_t held) noexcept {
    const std::size_t index = size_class::index_of(held);
    return {static_cast<std::size_t>(role) * groups_of_role + index / together, index % together};
  }

  std::array<made_once<slabs>, memory_role_count * groups_of_role> slabs_{};
  page_blocks large_{2 * size_class::largest};
};

static_assert(placement<segregated>);

}  // namespace espalier
