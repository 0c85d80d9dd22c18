#pragma once

// What a hardware thread's stores have asked for and have not got yet.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::sim {

/// Lines that stores of one thread wait for in its store buffer, with the bytes that they have written. A load of
/// nothing but those bytes is served from the buffer; one of others waits for the line. Of more lines than it has
/// places for, as many as a core's fill buffers, the oldest are taken to be there.
class lines_on_the_way {
 public:
  /// Whether anything may have to be waited for; quick.
  [[nodiscard]] bool any(std::uint64_t now) const noexcept { return latest_ > now; }

  /// A store to these bytes (bit i: byte i of the line) has asked for the line.
  void ask(std::uint32_t line, std::uint64_t bytes, std::uint64_t arrival) noexcept {
    places_[next_] = {line, bytes, arrival};
    next_ = (next_ + 1) % places_.size();
    latest_ = std::max(latest_, arrival);
  }

  /// A store to a line that may have been asked for.
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
