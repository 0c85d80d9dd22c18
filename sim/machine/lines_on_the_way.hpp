#pragma once

// Lines that a hardware thread's stores have requested and not yet received.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::sim {

/// Lines for which stores of one thread wait in its store buffer, with the bytes that they have written. A load of only
/// those bytes is served from the buffer; a load of other bytes waits for the line. There are as many places as a core
/// has fill buffers. If more lines are requested, the oldest count as arrived.
class lines_on_the_way {
 public:
  /// Whether a load may have to wait for any line; quick.
  [[nodiscard]] bool any(std::uint64_t now) const noexcept { return latest_ > now; }

  /// A store to these bytes (bit i: byte i of the line) has requested the line.
  void ask(std::uint32_t line, std::uint64_t bytes, std::uint64_t arrival) noexcept {
    places_[next_] = {line, bytes, arrival};
    next_ = (next_ + 1) % places_.size();
    latest_ = std::max(latest_, arrival);
  }

  /// A store to a line that may have been requested.
  void add(std::uint32_t line, std::uint64_t bytes) noexcept {
    for (place& p : places_) {
      if (p.line == line) p.bytes |= bytes;
    }
  }

  /// How long a load of these bytes waits.
  [[nodiscard]] std::uint64_t wait(std::uint32_t line, std::uint64_t bytes,
                                   std::uint64_t now) const noexcept {
    std::uint64_t longest = 0;
    for (const place& p : places_) {
      if (p.line == line && p.arrival > now && (bytes & ~p.bytes) != 0)
        longest = std::max(longest, p.arrival - now);
    }
    return longest;
  }

 private:
  struct place {
    std::uint32_t line = 0;
    std::uint64_t bytes = 0;
    std::uint64_t arrival = 0;
  };
  std::array<place, 12> places_{};
  std::size_t next_ = 0;
  std::uint64_t latest_ = 0;
};

}  // namespace espalier::sim
