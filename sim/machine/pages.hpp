#pragma once

// The attributes of the simulated pages: size, and the NUMA node of each.

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// One byte for each 4 KiB of the address space, from zero pages of the operating system: an unused part of an address
/// space costs nothing.
class pages {
 public:
  explicit pages(std::uint64_t address_space_bytes);

  /// Sets size and node of every page in the range; without a node the page loses its place. Throws
  /// std::invalid_argument if the range is not in the address space, or is huge and not in whole 2 MiB pages.
  void set(std::uint64_t address, std::uint64_t bytes, bool huge, std::optional<unsigned> numa_node);

  bool is_huge(std::uint64_t address) const noexcept {
    return (attributes_[address / page_bytes] & huge_bit) != 0;
  }

  /// The node of the address's page; if it had none, it is now `toucher`.
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
