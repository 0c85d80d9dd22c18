#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace espalier::sim {

/// Finds the thread with the lowest clock; of equal ones the lowest number. A tournament tree: changing a clock takes
/// O(log threads).
class clock_queue {
 public:
  /// Orders threads by clock, then by number.
  using rank = std::uint64_t;
  static constexpr unsigned number_bits = 10;
  static constexpr rank never = ~rank{0};
  static constexpr unsigned thread_of(rank r) noexcept {
    return static_cast<unsigned>(r & ((1U << number_bits) - 1));
  }
  static constexpr rank rank_of(std::uint64_t clock, unsigned thread) noexcept {
    return clock << number_bits | thread;
  }

  explicit clock_queue(unsigned threads)
      : leaves_(std::bit_ceil(threads)), tree_(std::size_t{2} * leaves_, never) {}

  void set(unsigned thread, rank r) noexcept {
    std::size_t at = leaves_ + thread;
    tree_[at] = r;
    for (at /= 2; at != 0; at /= 2)
      tree_[at] = tree_[2 * at] < tree_[2 * at + 1] ? tree_[2 * at] : tree_[2 * at + 1];
  }
  void remove(unsigned thread) noexcept { set(thread, never); }

  /// never, if there is none.
  [[nodiscard]] rank lowest() const noexcept { return tree_[1]; }

 private:
  std::size_t leaves_;
  std::vector<rank> tree_;
};

}  // namespace espalier::sim
