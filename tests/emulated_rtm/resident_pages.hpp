#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::emulated_rtm {

/// Whether an access would fault, as the kernel's page map says. For one transaction at a time: nobody changes the map
/// during one.
class resident_pages {
 public:
  /// Before an access of a transaction. True as well where the page map cannot be read.
  [[nodiscard]] bool hold(std::uintptr_t address, std::size_t bytes, bool writes) noexcept;

  void forget() noexcept;

 private:
  struct known_page {
    std::uint64_t transaction = 0;
    std::uintptr_t page = 0;
    bool writes = false;
  };

  [[nodiscard]] bool holds(std::uintptr_t page, bool writes) noexcept;
  [[nodiscard]] bool ask(std::uintptr_t page, bool writes) noexcept;

  std::uint64_t transaction_ = 1;
  std::array<known_page, 64> known_{};
  int map_ = -1;
};

}  // namespace espalier::emulated_rtm
