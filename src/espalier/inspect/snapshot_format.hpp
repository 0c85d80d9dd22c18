#pragma once

// The file of a snapshot, for those who write one where nothing of the library may be called: in a program that
// was started to be inspected. No allocation, no dependence but on the headers named here.
//
// Little-endian throughout:
//   header
//   section_entry, header::sections times
//   the sections, in the order of their entries: each begins where the one before ends, and is filled with zeros
//   to a multiple of 8 bytes. The first begins behind the entries, the last ends with the file.
//
// blocks, pages and links are arrays of live_block, page and link as they stand in memory. The others consist of
// u32 numbers and of texts (u32 length, then as many bytes), without padding:
//   about   subject, frames_unknown, huge_unknown, links_unknown
//   facts   their number; then name, value of each
//   types   their number; then of each name, 1 where written else 0, and twice a number of ranges and for each
//           range first, bytes: always_read, one_read
// They must be as require_valid() of snapshot.hpp has them: blocks ascending and apart, every page listed in which
// a block has bytes, links ascending. A section that is not there is empty. A section that a reader does not know is
// skipped where its entry says so.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect::format {

inline constexpr std::string_view magic = "espsnap\n";
inline constexpr std::uint32_t version = 1;

enum class section : std::uint32_t { about = 1, facts = 2, types = 3, blocks = 4, pages = 5, links = 6 };

/// Bit of section_entry::flags: a reader that does not know the section is to go on without it.
inline constexpr std::uint32_t may_be_skipped = 1;
/// More entries than that are damage.
inline constexpr std::uint32_t most_sections = 64;

struct section_entry {
  std::uint32_t tag = 0;  // a section, or a number above 255 for what others add
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;   // without the zeros behind
  std::uint64_t check = 0;   // checksum of the bytes with those zeros
};

struct header {
  char magic[8] = {};
  std::uint32_t version = 0;
  std::uint32_t sections = 0;
  std::uint64_t check = 0;  // checksum of the 16 bytes before and of the entries
};

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

/// Of words. Each step is a bijection of the sum and of the word, so that no change within one word goes
/// unnoticed; of other changes one in 2^64 does.
class checksum {
 public:
  constexpr void add(std::uint64_t word) noexcept {
    sum_ = std::rotl((sum_ ^ word) * 0x9e3779b97f4a7c15U, 29);
  }
  /// size is a multiple of 8, or these are the last bytes.
  void add(const void* bytes, std::size_t size) noexcept {
    const auto* at = static_cast<const char*>(bytes);
    for (; size >= 8; at += 8, size -= 8) {
      std::uint64_t word = 0;
      __builtin_memcpy(&word, at, 8);
      add(word);
    }
    if (size == 0) return;
    std::uint64_t word = 0;
    __builtin_memcpy(&word, at, size);
    add(word);
  }
  [[nodiscard]] constexpr std::uint64_t sum() const noexcept { return sum_; }

 private:
  std::uint64_t sum_ = 0x6573706c61797265;
};

static_assert(std::endian::native == std::endian::little, "files hold words as they stand in memory");
static_assert(sizeof(header) == 24 && sizeof(section_entry) == 32);
static_assert(sizeof(live_block) == 24 && sizeof(page) == 16 && sizeof(link) == 8);
static_assert(offsetof(live_block, address) == 0 && offsetof(live_block, bytes) == 8 &&
              offsetof(live_block, slack) == 16 && offsetof(live_block, type) == 20);
static_assert(std::is_trivially_copyable_v<live_block> && std::is_trivially_copyable_v<page> &&
              std::is_trivially_copyable_v<link>);

}  // namespace espalier::inspect::format
