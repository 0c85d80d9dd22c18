#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "espalier/hw/cache_line.hpp"

namespace espalier::emulated_rtm {

/// What a transaction has written, with what was there before, and whether a first-level cache of so many ways and
/// sets would hold it. For one transaction at a time.
class write_set {
 public:
  /// Before each write. False where the lines would not fit; nothing is noted then.
  [[nodiscard]] bool add(std::uintptr_t address, std::size_t bytes) noexcept {
    while (bytes != 0) {
      const std::uintptr_t line = address / line_bytes;
      const std::size_t offset = address % line_bytes;
      const std::size_t part = bytes < line_bytes - offset ? bytes : line_bytes - offset;
      written_line* const entry = find_or_add(line);
      if (entry == nullptr) return false;
      const std::uint64_t ones = part == line_bytes ? ~std::uint64_t{0} : (std::uint64_t{1} << part) - 1;
      entry->bytes |= ones << offset;
      address += part;
      bytes -= part;
    }
    return true;
  }

  /// Puts back what was there, and nothing else: the kernel writes to a thread's lines too.
  void undo() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const written_line& entry = lines_[i];
      auto* const to =
          reinterpret_cast<unsigned char*>(entry.line * line_bytes);  // NOLINT(performance-no-int-to-ptr)
      if (entry.bytes == ~std::uint64_t{0}) {
        std::memcpy(to, entry.before.data(), line_bytes);
        continue;
      }
      for (std::uint64_t left = entry.bytes; left != 0; left &= left - 1) {
        const auto byte = static_cast<std::size_t>(std::countr_zero(left));
        to[byte] = entry.before[byte];
      }
    }
    clear();
  }

  void clear() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      slots_[lines_[i].slot] = 0;
      loads_[set_of(lines_[i].line)] = 0;
    }
    count_ = 0;
  }

  void set_cache(std::size_t sets, std::size_t ways) noexcept {
    sets_ = sets;
    ways_ = ways;
  }

  static constexpr std::size_t most_sets = 1024;

 private:
  static constexpr std::size_t line_bytes = hw::cache_line_bytes;
  static constexpr std::size_t most_lines = 4096;
  static constexpr std::size_t slots = 4 * most_lines;

  struct written_line {
    std::uintptr_t line;
    std::uint64_t bytes;  // a bit for each
    std::size_t slot;
    std::array<unsigned char, line_bytes> before;
  };

  [[nodiscard]] std::size_t set_of(std::uintptr_t line) const noexcept { return line % sets_; }

  written_line* find_or_add(std::uintptr_t line) noexcept {
    std::size_t slot = line * 0x9e37'79b9'7f4a'7c15U >> 50U;
    for (; slots_[slot] != 0; slot = (slot + 1) % slots)
      if (lines_[slots_[slot] - 1].line == line) return &lines_[slots_[slot] - 1];
    if (count_ == most_lines || loads_[set_of(line)] == ways_) return nullptr;
    ++loads_[set_of(line)];
    written_line& entry = lines_[count_++];
    slots_[slot] = static_cast<std::uint16_t>(count_);
    entry.line = line;
    entry.bytes = 0;
    entry.slot = slot;
    const auto* const from =
        reinterpret_cast<const void*>(line * line_bytes);  // NOLINT(performance-no-int-to-ptr)
    std::memcpy(entry.before.data(), from, line_bytes);
    return &entry;
  }

  std::size_t sets_ = 64;
  std::size_t ways_ = 12;
  std::array<written_line, most_lines> lines_{};
  std::size_t count_ = 0;
  std::array<std::uint16_t, slots> slots_{};  // of lines_, from 1 on
  std::array<std::uint16_t, most_sets> loads_{};
};

}  // namespace espalier::emulated_rtm
