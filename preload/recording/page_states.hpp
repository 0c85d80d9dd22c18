#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// What the kernel tells of this process's pages, where it does: /proc/self/pagemap and /proc/kpageflags. For
/// ascending page numbers, of which it reads many at once. Usable in a signal handler.
class page_states {
 public:
  page_states() noexcept;
  ~page_states();
  page_states(const page_states&) = delete;
  page_states& operator=(const page_states&) = delete;

  /// The state of a page as inspect::page has it.
  [[nodiscard]] std::uint64_t of(std::uint64_t number) noexcept;

  /// Why something is not known of one of the pages asked for, or of all; empty where all is known.
  [[nodiscard]] const char* frames_unknown() const noexcept { return frames_unknown_; }
  [[nodiscard]] const char* huge_unknown() const noexcept { return huge_unknown_; }

 private:
  /// Words of a file of words, of which the latest ones are at hand.
  struct window {
    /// How many are read at once: neighbours of an address are wanted next, those of a frame seldom.
    std::size_t most = 0;
    int descriptor = -1;
    std::uint64_t first = 0;
    std::size_t count = 0;
    std::array<std::uint64_t, 64> words{};

    /// False where the kernel has no such word for us.
    bool read(std::uint64_t index, std::uint64_t& word) noexcept;
  };

  window pagemap_{64};
  window flags_{8};
  const char* frames_unknown_ = "";
  const char* huge_unknown_ = "";
};

}  // namespace espalier::preload
