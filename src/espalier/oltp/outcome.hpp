#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string_view>

// How attempts and transactions end, and counts of it.

namespace espalier::oltp {

/// Why an attempt did not commit.
enum class abort_reason : std::uint8_t {
  conflict,        ///< a lock was held or reserved (NO_WAIT), or by an older transaction (WAIT_DIE)
  row_changed,     ///< a row that was read has changed (Silo)
  range_changed,   ///< a range that was read has (Silo)
  key_in_transit,  ///< a row with the key is being inserted or erased
  rolled_back,     ///< the program asked for it
};
inline constexpr std::size_t abort_reasons = 5;
[[nodiscard]] constexpr std::string_view to_string(abort_reason r) noexcept {
  constexpr std::array<std::string_view, abort_reasons> names{"conflict", "row changed", "range changed",
                                                              "key in transit", "rolled back"};
  return names[static_cast<std::size_t>(r)];
}

/// What transactions did: of one thread, or sums.
template <class Number>
struct counts_of {
  Number commits{};
  std::array<Number, abort_reasons> aborts{};
  Number waits{};             ///< for locks
  Number index_operations{};  ///< look-ups, inserts, removals, and parts of scans
  /// Of the attempts whose time was sampled, those in vain included and those that lost their processor meanwhile left out. Ticks:
  /// all of them, those in indexes, and those in which they waited for locks.
  Number sampled{}, sampled_ticks{}, sampled_index_ticks{}, sampled_wait_ticks{};

  friend bool operator==(const counts_of&, const counts_of&) = default;
  counts_of& operator+=(const counts_of& other) noexcept {
    return with(other, [](Number& mine, const Number& theirs) { mine += theirs; });
  }
  /// What was done since.
  counts_of& operator-=(const counts_of& earlier) noexcept {
    return with(earlier, [](Number& mine, const Number& theirs) { mine -= theirs; });
  }
  [[nodiscard]] Number attempts() const noexcept {
    return std::accumulate(aborts.begin(), aborts.end(), commits);
  }
  /// Calls combine(number, that of the other one) for each number.
  template <class Other, class Combine>
  counts_of& with(const counts_of<Other>& other, Combine&& combine) noexcept {
    combine(commits, other.commits);
    for (std::size_t i = 0; i < abort_reasons; ++i) combine(aborts[i], other.aborts[i]);
    combine(waits, other.waits);
    combine(index_operations, other.index_operations);
    combine(sampled, other.sampled);
    combine(sampled_ticks, other.sampled_ticks);
    combine(sampled_index_ticks, other.sampled_index_ticks);
    combine(sampled_wait_ticks, other.sampled_wait_ticks);
    return *this;
  }
};
using transaction_counts = counts_of<std::uint64_t>;

/// Thrown through the program's function when an attempt cannot go on; the database catches it and tries again. It is no
/// std::exception. A program that catches it all the same must not use the transaction any more.
struct restart {
  abort_reason why;
  const void* of;  ///< the transaction: the function of one database may use that of another one
};

/// A unique index has the key of another row.
class duplicate_key : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace espalier::oltp
