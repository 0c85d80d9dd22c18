#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/inspect/snapshot_format.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {

/// Sorts blocks by their addresses, with room for as many at `spare`; returns where they then are, which is one of
/// the two. A radix sort from the lowest digit, in a quarter of the time of a comparison sort for a million blocks.
/// It skips digits that are equal in all addresses. The caller holds the snapshot lock.
inline inspect::live_block* in_address_order(inspect::live_block* blocks, inspect::live_block* spare,
                                             std::size_t count) noexcept {
  constexpr unsigned digit_bits = 12;  // of the 48 bits of an address
  constexpr std::size_t values = std::size_t{1} << digit_bits;
  static constinit std::array<std::size_t, values> begins{};
  std::uint64_t differing = 0;
  for (std::size_t i = 1; i < count; ++i) differing |= blocks[i].address ^ blocks[0].address;
  for (unsigned low = 0; low < 64 && differing >> low != 0; low += digit_bits) {
    if ((differing >> low) % values == 0) continue;
    begins.fill(0);
    for (std::size_t i = 0; i < count; ++i) ++begins[(blocks[i].address >> low) % values];
    std::size_t sum = 0;
    for (std::size_t& begin : begins) {
      const std::size_t here = begin;
      begin = sum;
      sum += here;
    }
    for (std::size_t i = 0; i < count; ++i) spare[begins[(blocks[i].address >> low) % values]++] = blocks[i];
    std::swap(blocks, spare);
  }
  return blocks;
}

class recording;
class snapshot_file;

/// Writes the contents of a recording. The blocks are copied while allocations wait, and are sorted and written after
/// these continue. Where pointers are sought, allocations wait for that too, because no block may be freed meanwhile.
/// It uses 24 bytes a block, twice that while sorting, which do not count against the recording's limit.
///
/// Under the snapshot lock, in a thread that is inside.
class snapshot_writer {
 public:
  snapshot_writer(recording& of, const char* moment, std::uint32_t number) noexcept
      : recording_(of), moment_(moment), number_(number) {}

  /// True where the file is complete and in its place.
  bool write(const char* name) noexcept;

  // What was copied; both 0 where the file could not be opened.
  [[nodiscard]] std::size_t blocks() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t bytes_asked() const noexcept { return bytes_; }

 private:
  void copy_blocks() noexcept;
  void sort_blocks() noexcept;
  void leave_out_overlapping() noexcept;
  void put_blocks(snapshot_file& to) const noexcept;
  void put_links(snapshot_file& to) noexcept;
  void put_pages(snapshot_file& to) noexcept;
  void put_about(snapshot_file& to) const noexcept;
  void put_facts(snapshot_file& to) const noexcept;
  void put_types(snapshot_file& to) const noexcept;
  void put_modules(snapshot_file& to) const noexcept;
  void put_sites(snapshot_file& to) const noexcept;

  recording& recording_;
  const char* moment_;
  std::uint32_t number_;
  std::uint32_t sites_ = 0;
  std::uint64_t inserted_ = 0;

  inspect::live_block* room_for(std::size_t blocks) noexcept;

  memory_budget memory_;
  inspect::live_block* blocks_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t left_out_ = 0;
  bool refused_ = false;

  const char* frames_unknown_ = "";
  const char* huge_unknown_ = "";
  const char* links_unknown_ = "pointers were not searched for";
};

}  // namespace espalier::preload
