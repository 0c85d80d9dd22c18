#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <string_view>

#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/placement_over.hpp"
#include "espalier/memory/slot_random.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// RAND of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and
/// Lev, section 2): each request grows by a random small amount, so that blocks of one size do not follow each
/// other at a stride that visits only a few cache sets. A remedy by chance: it breaks bad strides as well as good
/// ones, and leaves blocks wherever the placement below aligns them. index_aware does it by design.
///
/// The amount is 1 byte and a multiple of 16 up to 112, the same in every run for each thread slot. The
/// deallocation must know it, because the placements below find a block's size class by it. The byte after the
/// requested bytes stores it: that place follows from the request alone, leaves the block's alignment to the
/// placement below, and takes no table.
///
/// O(1) beside the placement below, with the same progress as that.
template <placement Below>
class random_padding : public placement_over<Below> {
  using base = placement_over<Below>;

 public:
  static constexpr bool releases_on_destruction(std::size_t bytes) noexcept {
    return Below::releases_on_destruction(bytes + most);
  }
  static constexpr std::string_view name = "random_padding";

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    if (b.bytes > std::numeric_limits<std::size_t>::max() - most) throw std::bad_alloc();
    const unsigned steps = random_.local().next();
    void* const memory = below_.allocate(padded(b, steps), near);
    note_of(memory, b) = static_cast<std::byte>(steps);
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    below_.deallocate(memory, padded(b, std::to_integer<unsigned>(note_of(memory, b))));
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return espalier::bytes_held(below_, memory, padded(b, std::to_integer<unsigned>(note_of(memory, b))));
  }

 private:
  using base::below_;

  static constexpr std::size_t step = 16;
  static constexpr std::size_t most = 1 + (slot_random::numbers - 1) * step;

  static constexpr block padded(const block& b, unsigned steps) noexcept {
    return {b.bytes + 1 + steps * step, b.align, b.role};
  }
  static std::byte& note_of(void* memory, const block& b) noexcept {
    return static_cast<std::byte*>(memory)[b.bytes];
  }
  static std::byte note_of(const void* memory, const block& b) noexcept {
    return static_cast<const std::byte*>(memory)[b.bytes];
  }

  per_thread<slot_random> random_;
};

}  // namespace espalier
