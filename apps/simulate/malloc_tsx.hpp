#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "apps/simulate/malloc_tsx_program.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"
#include "sim/transactions/transaction_counts.hpp"

// The benchmarks of malloc_tsx_program on a simulated machine.

namespace espalier::simulate {

/// How the lines of the nodes lie over the indices at which transactions keep what they write.
struct index_load {
  std::uint64_t most = 0;
  /// By load: how many indices have it.
  std::map<std::uint64_t, std::uint64_t> indices;
};

struct malloc_tsx_measurement {
  /// Critical sections counted.
  std::uint64_t sections = 0;
  unsigned threads = 1;
  section_counts ends;
  sim::transaction_counts transactions;
  sim::counts total;
  std::uint64_t cycles = 0;
  index_load load;

  [[nodiscard]] double per_section(std::uint64_t count) const noexcept {
    return static_cast<double>(count) / static_cast<double>(sections);
  }
  [[nodiscard]] std::uint64_t l1_misses() const noexcept { return total.accesses - total.l1_hits; }
  [[nodiscard]] double sections_per_second(double ghz) const noexcept {
    return static_cast<double>(sections) / static_cast<double>(cycles) * ghz * 1e9;
  }
};

struct ring_request {
  sim::machine_spec machine;
  std::size_t nodes = 128;
  std::size_t node_bytes = 64;
  allocation from = allocation::glibc;
  section_policy policy = section_policy::tts;
  /// Nodes visited at least, in whole traversals; a fifth as many before them warm the caches and the lock up.
  std::uint64_t visits = 20'000;
  std::uint64_t seed = 42;
};

/// One thread. All memory is in pages of 4 KiB, as in the paper. Throws std::invalid_argument for a machine without
/// transactions, nodes too small or none, std::logic_error should the ring come out wrong.
[[nodiscard]] malloc_tsx_measurement measure_ring(const ring_request& request);

struct tree_request {
  sim::machine_spec machine;
  unsigned threads = 4;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Keys at first; they are drawn from twice as many and two.
  std::uint32_t keys = 32'767;
  std::size_t node_bytes = 64;
  allocation from = allocation::glibc;
  section_policy policy = section_policy::tts;
  /// Of all threads; a fifth as many before them warm the caches and the lock up.
  std::uint64_t operations = 20'000;
  std::uint64_t seed = 42;
};

/// The first thread fills the tree, and each has some memory to spare. Otherwise as above.
[[nodiscard]] malloc_tsx_measurement measure_tree(const tree_request& request);

}  // namespace espalier::simulate
