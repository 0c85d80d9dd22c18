#pragma once

#include <cstdint>

#include "espalier/hw/htm.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::simulate {

enum class transactional_structure : std::uint8_t { counter, list };

struct transactional_measurement {
  std::uint64_t operations;
  std::uint64_t fallbacks;
  sim::transaction_counts transactions;
  std::uint64_t cycles;
};

struct transactional_request {
  sim::machine_spec machine;
  unsigned threads = 1;
  sim::pinning pinning = sim::pinning::smt_last;
  transactional_structure structure = transactional_structure::counter;
  std::uint64_t operations = 0;
  std::uint64_t seed = 0;
};

/// Throws std::invalid_argument for a machine without transactions, std::logic_error if the structure is wrong at the
/// end.
[[nodiscard]] transactional_measurement measure_transactions(const transactional_request& request);

/// How much fits one transaction, found by trials, and the abort status if it does not fit.
struct transactional_limits {
  std::uint64_t written_lines;  // consecutive
  std::uint64_t written_in_one_set;
  std::uint64_t read_lines;  // up to the number tried
  std::uint64_t read_lines_tried;
  hw::abort_status beyond;  // of the smallest write set that does not fit
  bool leaves_no_trace;     // true of all that aborted
};
[[nodiscard]] transactional_limits probe_limits(const sim::machine_spec& machine);

}  // namespace espalier::simulate
