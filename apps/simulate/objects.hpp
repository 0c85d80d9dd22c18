#pragma once

#include <cstdint>

#include "sim/machine/counts.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"

namespace espalier::simulate {

struct objects_request {
  sim::machine_spec machine;
  unsigned threads = 40;
  sim::pinning pinning = sim::pinning::smt_last;
  std::uint64_t objects = 64;
  std::uint64_t lines = 64;
  /// Of all threads together; a fifth as many before them warm up.
  std::uint64_t operations = 20'000;
  std::uint64_t seed = 42;
  /// Messages in flight from a thread to each locality, where the operations are done; each socket is a locality. 0 for
  /// operations that the thread does itself, wherever the object is.
  unsigned in_flight = 0;
};

struct objects_measurement {
  std::uint64_t operations;
  sim::counts total;
  std::uint64_t cycles;

  [[nodiscard]] double per_operation(std::uint64_t count) const noexcept {
    return static_cast<double>(count) / static_cast<double>(operations);
  }
};

/// Throws std::invalid_argument for an invalid request, std::logic_error if an operation was lost.
[[nodiscard]] objects_measurement measure_objects(const objects_request& request);

}  // namespace espalier::simulate
