#pragma once

// The translation buffers of one core, shared by its hardware threads.

#include <cstdint>
#include <optional>

#include "sim/machine/cache.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

class tlb {
 public:
  enum class outcome : std::uint8_t { l1_hit, l2_hit, walk };

  explicit tlb(const hw::tlb_shape& spec);

  /// Translates an address below 2^41 in a page of this size; afterwards the page is in the L1 array.
  outcome translate(std::uint64_t address, bool huge) noexcept {
    const auto page =
        static_cast<std::uint32_t>(huge ? huge_key + address / huge_page_bytes : address / page_bytes);
    // The page of the last translation is the latest used of its set: another use of it changes nothing.
    if (page == last_) [[likely]] {
      return outcome::l1_hit;
    }
    last_ = page;
    return search(page, huge);
  }

  /// Drops every page, after attributes of some have changed.
  void flush() noexcept;

 private:
  static constexpr std::uint32_t huge_key = 1u << 30;
  static constexpr std::uint32_t none = 0xffffffff;

  outcome search(std::uint32_t page, bool huge) noexcept;

  std::optional<cache> small_;
  std::optional<cache> huge_;
  std::optional<cache> l2_;
  bool l2_holds_huge_;
  std::uint32_t last_ = none;
};

}  // namespace espalier::sim
