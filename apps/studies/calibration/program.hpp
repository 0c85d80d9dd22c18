#pragma once

#include <cstdint>
#include <memory>

#include "apps/common/interface.hpp"
#include "apps/simulate/simulated_map.hpp"
#include "apps/studies/calibration/claims.hpp"

// The programs of the calibration on simulated threads. Instrumented.

namespace espalier::simulate {

/// Buckets hold about twelve keys of twice as many.
inline constexpr std::uint64_t keys_of_bucket = 24;
/// After so many attempts an operation does without a transaction.
inline constexpr unsigned most_attempts = 16;
/// Lines of a latency, which all fit an L1.
inline constexpr std::uint64_t latency_lines = 64;

/// Steps have the number of a lock, or an operation on a table. Other programs look only how many there are.
class exercised_program : public app::interface {
 public:
  /// Called once by each thread, before time begins.
  virtual void settle(unsigned /*thread*/) {}
  /// A phase that brings lines where operate() expects them.
  virtual void warm_up(unsigned thread, step_feed& feed) { operate(thread, feed); }
  virtual void operate(unsigned thread, step_feed& feed) = 0;
  /// What all operations have added to words, for a check.
  [[nodiscard]] virtual std::uint64_t sum() const { return 0; }
  /// Operations without a transaction, of all phases.
  [[nodiscard]] virtual std::uint64_t given_up() const { return 0; }
};

/// `operations` is that of a phase. Memory is on NUMA node 0, or on node 1 if it is far.
[[nodiscard]] std::unique_ptr<exercised_program> make_exercised(const app::calibration::exercise& e,
                                                                std::uint64_t operations);

}  // namespace espalier::simulate
