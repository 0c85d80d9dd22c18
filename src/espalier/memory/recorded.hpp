#pragma once

#include <string_view>
#include <utility>

#include "espalier/memory/parts/live_blocks.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// Another placement that knows which of its blocks are in use, for tools that inspect where they lie. The
/// record lies in memory of its own; the placement below sees the same requests as without it.
///
/// O(1) per operation, beside the placement below. Takes a lock, one of many, for a few instructions. Without
/// memory for the record, allocate() throws std::bad_alloc and asks the placement below for nothing.
template <placement Below>
class recorded : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr std::string_view name = "recorded";

  /// The arguments construct the placement below.
  template <class... Arguments>
  explicit recorded(Arguments&&... arguments) : base(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    live_blocks::entry fresh(live_);
    void* const memory = below_.allocate(b, near);
    fresh.commit(memory, b);
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    live_.remove(memory);  // first: the placement below may hand the address to another thread at once
    below_.deallocate(memory, b);
  }

  /// Calls visit(const live_block&) for each block in use, in no order. It visits a block that is in use during the
  /// whole call once; one that is allocated or freed meanwhile, once or not at all. The visitor must not call this
  /// placement.
  template <class Visitor>
  void for_each_live(Visitor&& visit) const {
    live_.for_each(visit);
  }

  /// Memory of the record. usage() does not include it: that is what the placement below holds.
  [[nodiscard]] std::uint64_t record_bytes() const noexcept { return live_.bytes(); }

  [[nodiscard]] Below& below() noexcept { return below_; }

 private:
  using base::below_;

  live_blocks live_;
};

}  // namespace espalier
