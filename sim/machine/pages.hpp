#pragma once

// The simulated pages: size and NUMA node of each, and the translation buffers that cores keep for them.

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/machine/cache.hpp"
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

/// The translation buffers of one core, shared by its hardware threads.
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
