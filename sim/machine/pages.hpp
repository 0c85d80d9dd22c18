#pragma once

// The attributes of the simulated pages: size, and the NUMA node that each lies on.

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// One byte for each 4 KiB of the address space, from zero pages of the operating system: an address space
/// costs only what is used of it.
class pages {
 public:
  explicit pages(std::uint64_t address_space_bytes);

  /// Sizes and places every page that the range touches; without a node the page forgets where it was.
  /// Throws std::invalid_argument where the range is not in the address space, or is huge and not in whole
  /// 2 MiB pages.
  void set(std::uint64_t address, std::uint64_t bytes, bool huge, std::optional<unsigned> numa_node);

  bool is_huge(std::uint64_t address) const noexcept {
    return (attributes_[address / page_bytes] & huge_bit) != 0;
  }

  /// The node of the address's page, which is `toucher` from now on where it had none.
  unsigned home(std::uint64_t address, unsigned toucher) noexcept {
    const std::uint8_t attribute = attributes_[address / page_bytes];
    if ((attribute & node_mask) != 0) [[likely]] {
      return (attribute & node_mask) - 1u;
    }
    place(address, toucher);
    return toucher;
  }

  std::optional<unsigned> home(std::uint64_t address) const noexcept {
    const unsigned node = attributes_[address / page_bytes] & node_mask;
    return node == 0 ? std::nullopt : std::optional<unsigned>(node - 1);
  }

 private:
  static constexpr std::uint8_t huge_bit = 0x80;
  static constexpr std::uint8_t node_mask = 0x7f;  // 0 = not placed, else node + 1

  struct releaser {
    void operator()(std::uint8_t* p) const noexcept;
  };

  void place(std::uint64_t address, unsigned node) noexcept;

  std::uint64_t bytes_;
  std::unique_ptr<std::uint8_t[], releaser> attributes_;
};

}  // namespace espalier::sim
