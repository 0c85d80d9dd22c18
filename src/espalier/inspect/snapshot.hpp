#pragma once

// The addresses of a program's blocks at one moment, by type. Arbel-Raviv, Brown and Morrison wish for tools that need
// this data (ATC 2018, section 6). A type is any property that tells blocks apart: the role in a map, the place in the
// program that allocates them, their pool.
//
// A snapshot is plain data of 24 bytes per block, 16 per page and 8 per pointer, so that tens of millions of blocks fit
// in memory beside the program to which they belong.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::inspect {

/// The unit of `page`, whatever the size of the hardware's pages.
inline constexpr std::uint64_t page_bytes = 4096;
/// A huge page. The numbers of its small pages agree in all but the low nine bits.
inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20U;

/// Bytes within a block, from its start.
struct byte_range {
  std::uint32_t first = 0;
  std::uint32_t bytes = 0;
  bool operator==(const byte_range&) const = default;
};

struct block_type {
  std::string name;
  /// Written often while other threads use what lies beside it: locks, counters, operation words.
  bool written = false;
  /// What a search reads in each block of the type that it visits.
  std::vector<byte_range> always_read;
  /// A search reads one of these, each equally often: the edges of a node.
  std::vector<byte_range> one_read;

  /// Whether it is known what searches read.
  [[nodiscard]] bool is_searched() const noexcept { return !always_read.empty() || !one_read.empty(); }
  bool operator==(const block_type&) const = default;
};

/// Index of a type in snapshot::types.
using type_index = std::uint32_t;

struct live_block {
  std::uint64_t address = 0;
  /// As requested by the program; may be 0.
  std::uint64_t bytes = 0;
  /// What is held in excess of that, at most 4 GiB - 1.
  std::uint32_t slack = 0;
  type_index type = 0;

  [[nodiscard]] constexpr std::uint64_t held() const noexcept { return bytes + slack; }
  /// The last byte. A block of no bytes occupies its address.
  [[nodiscard]] constexpr std::uint64_t last() const noexcept {
    return address + (bytes == 0 ? 0 : bytes - 1);
  }
  bool operator==(const live_block&) const = default;
};

/// A page of 4 KiB in which a block has bytes.
struct page {
  std::uint64_t number = 0;  // address / page_bytes
  std::uint64_t state = 0;   // the bits below, as they are stored in a file too

  static constexpr std::uint64_t frame_mask = (std::uint64_t{1} << 55U) - 1;
  static constexpr std::uint64_t frame_is_known = std::uint64_t{1} << 63U;
  static constexpr std::uint64_t size_is_known = std::uint64_t{1} << 62U;
  static constexpr std::uint64_t is_huge = std::uint64_t{1} << 61U;

  void set_frame(std::uint64_t frame) noexcept {
    state = (state & ~frame_mask) | (frame & frame_mask) | frame_is_known;
  }
  void set_huge(bool huge) noexcept { state = (state & ~is_huge) | size_is_known | (huge ? is_huge : 0); }

  /// Physical address / page_bytes.
  [[nodiscard]] std::optional<std::uint64_t> frame() const noexcept {
    return (state & frame_is_known) != 0 ? std::optional(state & frame_mask) : std::nullopt;
  }
  /// Whether the page is part of a huge one.
  [[nodiscard]] std::optional<bool> huge() const noexcept {
    return (state & size_is_known) != 0 ? std::optional((state & is_huge) != 0) : std::nullopt;
  }
  bool operator==(const page&) const = default;
};

/// A word of one block that is the address of another block, or of a byte within it. Indices in snapshot::blocks.
struct link {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool operator==(const link&) const = default;
};

/// A fact about a snapshot that no other member states: how it was taken, what was left out.
struct fact {
  std::string name;
  std::string value;
  bool operator==(const fact&) const = default;
};

/// make_snapshot() and read_snapshot() establish these invariants, and require_valid() checks them: blocks ascend by
/// address and do not overlap, pages ascend, links ascend by `from`, every index is valid. The reason why something is
/// not known is empty if it is known.
struct snapshot {
  /// What was examined, in a few words.
  std::string subject;
  std::vector<fact> facts;
  std::vector<block_type> types;
  std::vector<live_block> blocks;
  /// Pages in which a block has bytes.
  std::vector<page> pages;
  /// Empty if the frame of every page is known.
  std::string frames_unknown = "frames were not asked for";
  /// Empty if for every page it is known whether it is huge.
  std::string huge_unknown = "page sizes were not asked for";
  std::vector<link> links;
  std::string links_unknown = "pointers were not searched for";

  bool operator==(const snapshot&) const = default;
};

/// Sorts the blocks and lists their pages, without frames or sizes. Throws std::invalid_argument if two blocks overlap,
/// if a block has a type that does not exist or ends beyond the address space, and if there are 2^32 blocks or more. n
/// log n.
[[nodiscard]] snapshot make_snapshot(std::string subject, std::vector<block_type> types,
                                     std::vector<live_block> blocks);

/// Throws std::invalid_argument, in one line, if the invariants do not hold. Linear.
void require_valid(const snapshot& s);

/// Calls visit(number) once for each page in which a block has bytes, in ascending order.
template <class Visitor>
void for_each_page_of(std::span<const live_block> blocks, Visitor visit) {
  std::uint64_t next = 0;
  for (const live_block& b : blocks) {
    const std::uint64_t last = b.last() / page_bytes;
    const std::uint64_t first = b.address / page_bytes;
    for (std::uint64_t number = first < next ? next : first; number <= last; ++number) visit(number);
    next = next < last + 1 ? last + 1 : next;
  }
}

/// Finds the block that contains an address: one access to a hash table of pages, of 16 to 32 bytes per page, and a
/// binary search among the blocks of the page. Refers to the blocks, which must outlive it.
class block_index {
 public:
  explicit block_index(std::span<const live_block> blocks);

  /// Index of the block, or nullopt if there is none.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t address) const noexcept;

 private:
  struct slot {
    std::uint64_t page_plus_one = 0;  // 0: the slot is free
    std::uint32_t first = 0;          // the first block with bytes in the page
    std::uint32_t count = 0;
  };
  [[nodiscard]] std::size_t place_of(std::uint64_t page) const noexcept;

  std::span<const live_block> blocks_;
  std::vector<slot> slots_;
  std::uint64_t lowest_ = 0;
  std::uint64_t highest_ = 0;
};

/// The address that a word may hold. Its low three bits and its top bit may be tags.
[[nodiscard]] constexpr std::uint64_t without_tags(std::uint64_t word) noexcept {
  return word & ~(std::uint64_t{7} | (std::uint64_t{1} << 63U));
}

/// Reads every aligned word of every block, and records as links those that point into other blocks. A word that merely
/// looks like an address counts as one. The blocks must belong to this process and be readable. No thread may write
/// them meanwhile.
void find_links(snapshot& s);

}  // namespace espalier::inspect
