#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/placement_over.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// Another placement, shifted by one block: an extra block of 32 bytes precedes the first block of each thread
/// (slot), and is never freed. Two nodes of 32 bytes that one insert allocates then no longer share a line, as they
/// otherwise do (ATC 2018, figure 3). For the study of that effect.
template <heap_placement Below>
class shifted : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr std::string_view name = "shifted";

  shifted() = default;
  ~shifted() {
    first_.for_each([&](std::uint32_t, void* first) {
      if (first != nullptr) apart_.deallocate(first, extra);
    });
  }

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    void*& first = first_.local();
    if (first == nullptr) [[unlikely]]
      first = apart_.allocate(extra);
    return below_.allocate(b, near);
  }

  /// Extra blocks count as reserved, not as in use.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage all = below_.usage();
    all.bytes_reserved += apart_.usage().bytes_reserved;
    return all;
  }

 private:
  using base::below_;

  static constexpr block extra{32, 32, memory_role::other};

  Below apart_;  // counts the extra blocks, which come from the same source as those of below_
  per_thread<void*> first_;
};

}  // namespace espalier
