#pragma once

#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// The malloc that the program is linked or preloaded with: nodes, descriptors and all blocks of other code
/// share size classes and pages. The baseline against which the other placements are measured.
///
/// It does not know what the heap below rounds up or caches: bytes_in_use is malloc's own answer for each
/// block, and bytes_reserved equals it.
class shared_heap {
 public:
  static constexpr bool releases_on_destruction = false;
  static constexpr std::string_view name = "shared_heap";
  static constexpr bool from_heap = true;

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr);
  void deallocate(void* memory, const block& b) noexcept;
  [[nodiscard]] memory_usage usage() const noexcept;
  /// As malloc says.
  [[nodiscard]] static std::size_t bytes_held(const void* memory, const block& b) noexcept;

 private:
  striped_counter blocks_;
  striped_counter bytes_;
};

static_assert(heap_placement<shared_heap>);

}  // namespace espalier
