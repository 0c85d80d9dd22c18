#pragma once

#include <cstdint>

// The 64-bit words in which the kernel tells of pages (Documentation/admin-guide/mm/pagemap.rst): one for each
// page in /proc/PID/pagemap, one for each frame in /proc/kpageflags. No code behind these: what is preloaded into
// other programs uses them too.

namespace espalier::hw {

/// Of pagemap.
[[nodiscard]] constexpr bool is_in_memory(std::uint64_t pagemap_word) noexcept {
  return (pagemap_word >> 63U & 1U) != 0;
}

/// Of pagemap, for a page in memory. 0 is what the kernel shows to those whom it does not tell; frame 0 itself
/// is never handed out.
[[nodiscard]] constexpr std::uint64_t frame_of(std::uint64_t pagemap_word) noexcept {
  return pagemap_word & ((std::uint64_t{1} << 55U) - 1);
}

/// Whether a page in this frame, whose flags these are, belongs to a huge one of 2 MiB. Transparent pages of
/// other sizes have the flag too; those of 2 MiB are aligned here and there.
[[nodiscard]] constexpr bool is_huge(std::uint64_t flags, std::uint64_t frame, std::uint64_t page) noexcept {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  constexpr std::uint64_t pages_of_huge = 512;
  return (flags & hugetlb) != 0 ||
         ((flags & transparent) != 0 && frame % pages_of_huge == page % pages_of_huge);
}

}  // namespace espalier::hw
