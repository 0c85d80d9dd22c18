#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
[[nodiscard]] std::string_view to_string(abort_reason r) noexcept;

/// What transactions did. Of one thread, or sums.
struct transaction_counts {
  std::uint64_t commits = 0;
  std::array<std::uint64_t, abort_reasons> aborts{};
  std::uint64_t waits = 0;             ///< for locks
  std::uint64_t index_operations = 0;  ///< look-ups, inserts, removals, and parts of scans
  /// Of the transactions whose time was sampled, without those that lost their processor meanwhile; in ticks.
  std::uint64_t sampled = 0;
  std::uint64_t sampled_ticks = 0;
  std::uint64_t sampled_index_ticks = 0;

  friend bool operator==(const transaction_counts&, const transaction_counts&) = default;
  transaction_counts& operator+=(const transaction_counts& other) noexcept;
  /// What was done since.
  transaction_counts& operator-=(const transaction_counts& earlier) noexcept;
  [[nodiscard]] std::uint64_t attempts() const noexcept;
};

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
