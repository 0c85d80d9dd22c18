#pragma once

// The order in which the threads of a program occupy hardware threads.

#include <vector>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

enum class pinning {
  /// One thread on each core of socket 0, then of socket 1 and so on; then the second threads of the cores in the same
  /// order. Uses the fewest sockets for any number of threads up to the number of cores.
  smt_last,
  /// All threads of core 0, then of core 1 and so on. Uses the fewest cores.
  compact,
  /// As smt_last, but alternating between the sockets: threads are spread evenly over them.
  scatter
};

/// Every hardware thread of the machine once.
std::vector<unsigned> thread_order(const machine_spec& spec, pinning order = pinning::smt_last);

}  // namespace espalier::sim
