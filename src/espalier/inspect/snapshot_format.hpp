#pragma once

// The file format of a snapshot, for writers that may call nothing of the library, such as code within an inspected
// program. No allocation, and no dependence except on the headers included here.
//
// Little-endian throughout:
//   header
//   section_entry, header::sections times
//   the sections, in the order of their entries: each begins where the previous one ends, and is padded with zeros
//   to a multiple of 8 bytes. The first begins after the entries, the last ends with the file.
//
// blocks, pages and links are arrays of live_block, page and link with their layout in memory. The others consist of
// u32 numbers and of texts (u32 length, then that many bytes), without padding:
//   about   subject, frames_unknown, huge_unknown, links_unknown
//   facts   their number; then name, value of each
//   types   their number; then of each name, 1 if written else 0, and for always_read and then for one_read: a
//           number of ranges, and for each range first, bytes
// They must satisfy require_valid() of snapshot.hpp: blocks ascend and do not overlap, every page in which a block has
// bytes is listed, links ascend. A missing section is empty. A reader skips a section that it does not know if the
// section's entry says so.

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

/// Bit of section_entry::flags: a reader that does not know the section continues without it.
inline constexpr std::uint32_t may_be_skipped = 1;
/// More entries than that mean damage.
inline constexpr std::uint32_t most_sections = 64;

struct section_entry {
  std::uint32_t tag = 0;  // a section, or a number above 255 for sections that other writers add
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;   // without the padding
  std::uint64_t check = 0;   // checksum of the bytes with the padding
};

struct header {
  char magic[8] = {};
  std::uint32_t version = 0;
  std::uint32_t sections = 0;
  std::uint64_t check = 0;  // checksum of the preceding 16 bytes and of the entries
};

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

/// A checksum of words. Each step is a bijection of the sum and of the word, so that every change within one word is
/// detected. Of other changes, one in 2^64 is missed.
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

// Two additional sections in the file of a snapshot whose types are call sites.
// They hold the frames behind each type, from which a reader derives its name. Readers may skip both.
//
//   modules  their number; then for each its path and its build id, a text of bytes that is empty if it has none
//   sites    their number, which equals that of the types; then for each the number of its frames, innermost first,
//            and for each frame u32 module, an index in modules or no_module, and u64 address: the return address in
//            the module's file, or in the process if it lies in no module

inline constexpr std::uint32_t modules_tag = 256;
inline constexpr std::uint32_t sites_tag = 257;
inline constexpr std::uint32_t no_module = ~std::uint32_t{0};

}  // namespace espalier::inspect::format
