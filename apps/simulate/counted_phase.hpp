#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "sim/machine/counts.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::simulate {

/// A measured phase of a simulated program.
struct counted_phase {
  std::uint64_t operations = 0;
  sim::counts total;
  sim::transaction_counts transactions;
  std::uint64_t cycles = 0;
  double ghz = 1;
  /// Until half of the operations had ended.
  std::uint64_t half_cycles = 0;

  /// On the simulated machine, not on this one.
  [[nodiscard]] double operations_per_second() const noexcept {
    return static_cast<double>(operations) / static_cast<double>(cycles) * ghz * 1e9;
  }
  /// Operations a cycle until half of them had ended, and from then on.
  [[nodiscard]] std::pair<double, double> halves() const noexcept {
    const std::uint64_t later = operations / 2;
    return {static_cast<double>(operations - later) / static_cast<double>(half_cycles),
            static_cast<double>(later) / static_cast<double>(cycles - half_cycles)};
  }
  [[nodiscard]] double per_operation(std::uint64_t count) const noexcept {
    return static_cast<double>(count) / static_cast<double>(operations);
  }
};

/// Of each thread, if a phase is to support a verdict.
inline constexpr std::uint64_t least_operations_of_thread = 20;

/// How many operations a verdict takes. `steps` is what one of them repeats.
[[nodiscard]] inline std::uint64_t operations_for(unsigned threads, std::uint64_t steps = 1) {
  // Two at least: what a thread does once may be what it does first.
  constexpr std::uint64_t most_steps = least_operations_of_thread / 2;
  const std::uint64_t each = std::clamp<std::uint64_t>(steps, 1, most_steps);
  return (least_operations_of_thread * threads + each - 1) / each;
}

/// Whether the halves of a phase are not alike: it still warms up, or one operation takes as long as many others.
[[nodiscard]] inline bool is_uneven(const counted_phase& phase) {
  constexpr double alike = 1.5;
  const auto [first, second] = phase.halves();
  return std::max(first, second) > alike * std::min(first, second);
}

/// Runs phases until one has halves that are alike: each with four times the operations of the one before, which has warmed
/// the caches for it. At most `most` phases.
template <class Run>
[[nodiscard]] counted_phase run_until_even(std::uint64_t operations, unsigned most, Run run) {
  counted_phase m = run(operations);
  for (unsigned i = 1; i < most && is_uneven(m); ++i) m = run(operations *= 4);
  return m;
}

/// Why a phase supports no verdict, without a full stop; empty if it does.
[[nodiscard]] inline std::string too_short(const counted_phase& phase, unsigned threads,
                                           std::uint64_t steps = 1) {
  if (const std::uint64_t least = operations_for(threads, steps); phase.operations < least)
    return fmt::format("Too short: {} operations by {} threads; a verdict takes {}", phase.operations,
                       threads, least);
  if (!is_uneven(phase)) return "";
  const auto [first, second] = phase.halves();
  return fmt::format(
      "Too short: the second half of {} operations had {:.2f} times the throughput of the first",
      phase.operations, second / first);
}

}  // namespace espalier::simulate
