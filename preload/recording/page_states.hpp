#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// What the kernel tells about this process's pages, if it does: /proc/self/pagemap and /proc/kpageflags. Pages are
/// queried in ascending order; many are read at once. Usable in a signal handler.
class page_states {
 public:
  page_states() noexcept;
  ~page_states();
  page_states(const page_states&) = delete;
  page_states& operator=(const page_states&) = delete;

  /// The state of a page in the form of inspect::page.
  [[nodiscard]] std::uint64_t of(std::uint64_t number) noexcept;

  /// Why a fact is unknown for one of the pages queried, or for all; empty where all is known.
  [[nodiscard]] const char* frames_unknown() const noexcept { return frames_unknown_; }
  [[nodiscard]] const char* huge_unknown() const noexcept { return huge_unknown_; }

 private:
  /// A window over a file of words, which holds those read last.
  struct window {
    /// Words to read at once: the neighbours of an address are queried next, those of a frame seldom.
    std::size_t most = 0;
    int descriptor = -1;
    std::uint64_t first = 0;
    std::size_t count = 0;
    std::array<std::uint64_t, 64> words{};

    /// False where the kernel provides no such word to this process.
    bool read(std::uint64_t index, std::uint64_t& word) noexcept;
  };

  window pagemap_{64};
  window flags_{8};
  const char* frames_unknown_ = "";
  const char* huge_unknown_ = "";
};

}  // namespace espalier::preload
