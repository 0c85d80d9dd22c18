#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "espalier/hw/htm.hpp"

namespace espalier::sim {

/// Why a simulated transaction aborted, where a processor would only report "conflict". For two threads that meet on a
/// line:
enum class abort_reason : std::uint8_t {
  true_conflict,   ///< they use the same record, or the same bytes
  false_conflict,  ///< they use different data that lie in one line
  metadata,        ///< they use the same counts, versions or locks
  capacity,
  explicit_abort,
  other,  ///< an action that no transaction may do, or no reason at all
};

[[nodiscard]] std::string_view to_string(abort_reason reason) noexcept;

/// All of them, in order.
inline constexpr std::array abort_reasons{abort_reason::true_conflict,  abort_reason::false_conflict,
                                          abort_reason::metadata,       abort_reason::capacity,
                                          abort_reason::explicit_abort, abort_reason::other};

struct transaction_counts {
  /// Outermost transactions.
  std::uint64_t begun = 0;
  std::uint64_t committed = 0;
  std::array<std::uint64_t, abort_reasons.size()> by_reason{};
  /// Counted by the status that the program received.
  std::array<std::uint64_t, 6> by_cause{};

  [[nodiscard]] std::uint64_t aborted() const noexcept {
    return std::accumulate(by_reason.begin(), by_reason.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t of(abort_reason reason) const noexcept {
    return by_reason[static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] std::uint64_t of(hw::abort_cause cause) const noexcept {
    return by_cause[static_cast<std::size_t>(cause)];
  }

  transaction_counts& operator+=(const transaction_counts& more) noexcept;
  friend bool operator==(const transaction_counts&, const transaction_counts&) = default;
};

}  // namespace espalier::sim
