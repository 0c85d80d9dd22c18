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

/// Where a thread is to stop, in the program's code itself, while all others stand. The pages of code that it meets
/// stay writable.
class breakpoints {
 public:
  /// To be called where a transaction begins: since the last one, code may have gone and other come in its place.
  void begin() noexcept { ++transaction_; }

  /// The last that a handler does, and nothing before it is removed: the C library's code may have some too. False
  /// where the code cannot be written to; none is there then.
  [[nodiscard]] bool place(const std::uintptr_t* addresses, std::size_t count) noexcept;

  /// The first that a handler does.
  void remove() noexcept;

  /// Whether the ones that were removed last had one there.
  [[nodiscard]] bool had(std::uintptr_t address) const noexcept;

 private:
  [[nodiscard]] bool make_writable(std::uintptr_t address) noexcept;

  struct breakpoint {
    std::uintptr_t address;
    unsigned char before;
  };

  struct known_page {
    std::uintptr_t page;
    std::uint64_t transaction;
  };

  std::array<known_page, 64> writable_{};
  std::uint64_t transaction_ = 0;
  std::array<breakpoint, 2> all_{};
  std::size_t count_ = 0;
  bool are_there_ = false;
};

}  // namespace espalier::emulated_rtm
