#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/inspect/snapshot_format.hpp"
#include "preload/recording/memory_budget.hpp"
#include "preload/recording/snapshot_file.hpp"

namespace espalier::preload {

class recorder;

/// Writes the contents of a recorder. The blocks are copied while allocations wait, and are sorted and written after
/// these continue. Where pointers are sought, allocations wait for that too, because no block may be freed meanwhile.
/// It uses 24 bytes a block, twice that while sorting, which do not count against the recorder's limit.
///
/// Under the recorder's snapshot lock, in a thread that is inside.
class snapshot_writer {
 public:
  snapshot_writer(recorder& of, const char* moment, std::uint32_t number) noexcept
      : recorder_(of), moment_(moment), number_(number) {}

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

  recorder& recorder_;
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
