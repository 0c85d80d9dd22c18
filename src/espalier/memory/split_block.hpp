#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace espalier {

/// A block of two parts that lie apart: a front, with what many operations touch, and a rest. The address of one
/// part gives that of the other: blocks come in aligned groups, and all fronts of a group lie before all its rests.
struct split_block {
  std::size_t front_bytes;
  std::size_t rest_bytes;

  /// A huge page: front and rest share an entry of the TLB where the system provides such pages.
  static constexpr std::size_t group_bytes = std::size_t{2} << 20U;

  [[nodiscard]] constexpr bool is_split() const noexcept { return rest_bytes != 0; }

  /// Bytes of the fronts at the start of a group. Whole pages, so that the fronts of a large map fill all sets of a
  /// cache alike.
  [[nodiscard]] constexpr std::size_t fronts_bytes() const noexcept {
    constexpr std::size_t page = std::size_t{4} << 10U;
    return group_bytes * front_bytes / (front_bytes + rest_bytes) / page * page;
  }

  [[nodiscard]] std::byte* rest_of(const void* front) const noexcept {
    const auto address = std::bit_cast<std::uintptr_t>(front);
    const std::uintptr_t offset = address & (group_bytes - 1);
    return std::bit_cast<std::byte*>(address - offset + fronts_bytes() + offset * rest_bytes / front_bytes);
  }
};

}  // namespace espalier
