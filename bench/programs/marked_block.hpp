#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace espalier::bench {

/// A block from malloc. Its first word and last byte identify it, so that overlapping blocks are detected.
struct marked_block {
  unsigned char* memory;
  std::uint32_t bytes;
  std::uint32_t mark;

  static constexpr std::uint64_t least_bytes = sizeof(std::uint64_t);
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

  /// `bytes` is at least least_bytes. No memory if malloc has none.
  [[nodiscard]] static marked_block make(std::uint64_t bytes, std::uint32_t mark) noexcept {
    const marked_block made{static_cast<unsigned char*>(std::malloc(bytes)),
                            static_cast<std::uint32_t>(bytes), mark};
    if (made.memory == nullptr) return made;
    const std::uint64_t word = made.word();
    made.memory[bytes - 1] = static_cast<unsigned char>(mark);
    std::memcpy(made.memory, &word, sizeof word);
    return made;
  }

  /// True if there is no block.
  [[nodiscard]] bool is_whole() const noexcept {
    if (memory == nullptr) return true;
    std::uint64_t found = 0;
    std::memcpy(&found, memory, sizeof found);
    // The last byte may be part of the word.
    const bool apart = bytes > least_bytes;
    return found == word() && (!apart || memory[bytes - 1] == static_cast<unsigned char>(mark));
  }

 private:
  [[nodiscard]] std::uint64_t word() const noexcept { return std::uint64_t{bytes} << 32U | mark; }
};

}  // namespace espalier::bench
