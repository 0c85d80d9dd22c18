#pragma once

// Which hardware threads the threads of a program take, in which order.

#include <vector>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

enum class pinning {
  /// One thread on each core of socket 0, then of socket 1 and so on; then the second threads of the cores in
  /// the same order. The least number of sockets for a number of threads up to that of cores.
  smt_last,
  /// All threads of core 0, then of core 1 and so on: the least number of cores.
  compact,
  /// As smt_last, but going round the sockets: threads are spread evenly over them.
  scatter
};

/// Every hardware thread of the machine once.
std::vector<unsigned> thread_order(const machine_spec& spec, pinning order = pinning::smt_last);

}  // namespace espalier::sim
