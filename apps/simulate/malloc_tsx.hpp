#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/simulate/malloc_tsx_program.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/thread_order.hpp"
#include "sim/transactions/transaction_counts.hpp"

// The benchmarks of malloc_tsx_program on a simulated machine.

namespace espalier::simulate {

enum class benchmark : std::uint8_t {
  ring,
  tree,      ///< its sections make a node before they search
  late_tree  ///< its sections make a node once they know that they need it
};

[[nodiscard]] constexpr std::string_view to_string(benchmark b) noexcept {
  constexpr std::string_view names[] = {"ring", "tree", "late tree"};
  return names[static_cast<std::size_t>(b)];
}

/// What is simulated, without its duration and its machine.
struct configuration {
  benchmark program = benchmark::ring;
  /// In the ring, or initially in the tree. The tree's keys are drawn from twice as many plus two.
  std::uint64_t nodes = 128;
  std::size_t node_bytes = 64;
  allocation from = allocation::glibc;
  section_policy policy = section_policy::tts;

  auto operator<=>(const configuration&) const = default;
};

struct malloc_tsx_request {
  sim::machine_spec machine;
  configuration what;
  /// For the trees; the ring has one.
  unsigned threads = 4;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Minimum of visited nodes of the ring, in whole traversals; operations on the tree, of all threads. A fifth as many
  /// before them warm up the caches and the lock.
  std::uint64_t operations = 20'000;
  std::uint64_t seed = 42;
};

struct malloc_tsx_measurement {
  /// The counted critical sections.
  std::uint64_t sections = 0;
  unsigned threads = 1;
  section_counts ends;
  sim::transaction_counts transactions;
  sim::counts total;
  std::uint64_t cycles = 0;
  /// The distribution of the nodes' lines: how many lie at each of the indices at which transactions keep what they
  /// write.
  std::vector<std::uint64_t> loads;

  [[nodiscard]] double per_section(std::uint64_t count) const noexcept {
    return static_cast<double>(count) / static_cast<double>(sections);
  }
  [[nodiscard]] double committed_share() const noexcept { return per_section(transactions.committed); }
  [[nodiscard]] std::uint64_t l1_misses() const noexcept { return total.accesses - total.l1_hits; }
  [[nodiscard]] double sections_per_second(double ghz) const noexcept {
    return static_cast<double>(sections) / static_cast<double>(cycles) * ghz * 1e9;
  }
  [[nodiscard]] std::uint64_t largest_load() const noexcept {
    return loads.empty() ? 0 : *std::ranges::max_element(loads);
  }
};

/// All memory is in pages of 4 KiB, as in the paper. The first thread fills the tree, and each has some spare memory.
/// Throws std::invalid_argument for a machine without transactions, nodes that are too small, too many or none, and
/// std::logic_error if the ring or the tree is wrong at the end.
[[nodiscard]] malloc_tsx_measurement measure(const malloc_tsx_request& request);

}  // namespace espalier::simulate
