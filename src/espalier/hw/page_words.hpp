#pragma once

#include <cstdint>

// The 64-bit words in which the kernel describes pages (Documentation/admin-guide/mm/pagemap.rst): one for each
// page in /proc/PID/pagemap, one for each frame in /proc/kpageflags. Header only: libraries that are preloaded into
// other programs use it too.

namespace espalier::hw {

/// For a word of pagemap.
[[nodiscard]] constexpr bool is_in_memory(std::uint64_t pagemap_word) noexcept {
  return (pagemap_word >> 63U & 1U) != 0;
}

/// For a word of pagemap, of a page in memory. The kernel shows 0 to processes without the privilege; it never hands
/// out frame 0 itself.
[[nodiscard]] constexpr std::uint64_t frame_of(std::uint64_t pagemap_word) noexcept {
  return pagemap_word & ((std::uint64_t{1} << 55U) - 1);
}

/// Whether a page in this frame, which has these flags, belongs to a huge one of 2 MiB. Transparent pages of
/// other sizes have the flag too; those of 2 MiB are aligned both in virtual and in physical memory.
[[nodiscard]] constexpr bool is_huge(std::uint64_t flags, std::uint64_t frame, std::uint64_t page) noexcept {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  constexpr std::uint64_t pages_of_huge = 512;
  return (flags & hugetlb) != 0 ||
         ((flags & transparent) != 0 && frame % pages_of_huge == page % pages_of_huge);
}

}  // namespace espalier::hw
