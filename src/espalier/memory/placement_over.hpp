#pragma once

#include <cstddef>
#include <utility>

#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// The common part of placements around another one. Each derives from it, defines allocate(), and redefines the
/// members that differ.
template <placement Below>
class placement_over {
 public:
  static constexpr bool releases_on_destruction(std::size_t bytes) noexcept {
    return Below::releases_on_destruction(bytes);
  }
  static constexpr bool from_heap = heap_placement<Below>;

  placement_over(const placement_over&) = delete;
  placement_over& operator=(const placement_over&) = delete;

  void deallocate(void* memory, const block& b) noexcept { below_.deallocate(memory, b); }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return espalier::bytes_held(below_, memory, b);
  }

  [[nodiscard]] memory_usage usage() const noexcept { return below_.usage(); }

 protected:
  /// The arguments construct the placement below.
  template <class... Arguments>
  explicit placement_over(Arguments&&... arguments) : below_(std::forward<Arguments>(arguments)...) {}
  ~placement_over() = default;

  Below below_;
};

}  // namespace espalier
