#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/measure/distribution.hpp"
#include "espalier/measure/histogram.hpp"
#include "espalier/measure/permutation.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/workload/key_space.hpp"
#include "espalier/workload/operation_mix.hpp"
#include "espalier/workload/trace.hpp"

// What a run does, independent of the map under test.

namespace espalier::workload {

/// A workload: the keys, those of them that are present at the start, and the operations on them. Immutable, shared by
/// every map and thread that runs it. A mix into an empty map inserts the keys that others have at the start.
struct workload_plan {
  std::string name;
  operation_mix mix;
  key_space keys;
  /// Draws indices of keys. Its range is the universe: the keys that operations name.
  measure::distribution draws;
  /// The first `loaded` images are present at the start, inserted in this order.
  measure::permutation fill;
  std::uint64_t loaded;
  /// Inserts use keys that were never present (YCSB), not keys drawn from the universe.
  bool inserts_new_keys;
  /// Recorded operations to replay, in order, instead of drawn ones; empty for none.
  std::vector<step> trace;
};

/// Describes a plan to make. `keys` is the number of keys present at the start.
struct plan_request {
  std::string name;
  std::string mix = "90/5/5";
  /// Empty: the distribution that the mix prescribes, else uniform. A mix into an empty map takes no other.
  std::optional<measure::distribution_spec> distribution;
  std::uint64_t keys = 1'000'000;
  key_order order = key_order::scrambled;
  /// Keys from the user. The universe is then this list, and `keys` is half of it.
  std::vector<std::uint64_t> explicit_keys;
  /// The same for strings as keys; null for integers.
  std::shared_ptr<const string_list> explicit_strings;
  std::vector<step> trace;
  /// False for a map that starts empty.
  bool prefill = true;
  std::uint64_t seed = 42;
};

/// The universe is twice the keys loaded, so that lookups of a plain mix find every second key. For a mix with a name it is
/// the keys loaded. Throws std::invalid_argument.
[[nodiscard]] std::shared_ptr<const workload_plan> make_plan(const plan_request& request);

/// Whether an early end of the measurement is requested; null means never.
[[nodiscard]] inline bool is_set(const std::atomic<bool>* flag) noexcept {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// One run of a plan on one map.
struct run_request {
  const workload_plan& plan;
  unsigned threads = 1;
  /// Thread i is pinned to pus[i % size]; empty for unpinned threads.
  std::span<const unsigned> pus;
  /// The run ends after this time, or, if operations is set, after that many operations of all threads. A trace always
  /// ends with its last record, and a mix into an empty map with the last key.
  std::chrono::nanoseconds time{};
  std::optional<std::uint64_t> operations;
  std::uint64_t seed = 42;
  /// Time every n-th operation of each thread; 0 for none.
  unsigned latency_every = 0;
  /// Where to record the operations, or null.
  trace_recorder* recorder = nullptr;
  /// Ends a timed run early once it is true; null for never.
  const std::atomic<bool>* interrupted = nullptr;
};

/// The measurements of a run, summed over its threads.
struct run_outcome {
  std::uint64_t operations = 0;
  double wall_ns = 0;
  double cpu_ns = 0;  ///< without the share in which the threads drew their steps
  /// Latency in nanoseconds by kind of operation, where it was timed.
  std::vector<measure::histogram> latency;
  std::optional<std::uint64_t> instructions;
  std::optional<std::uint64_t> llc_misses;
  std::optional<std::uint64_t> context_switches;
  /// By region, as in subject_facts::transaction_regions. Empty if no section was counted: the map does not count them,
  /// or the processor has no transactions.
  std::vector<elision_counts> transactions;

  [[nodiscard]] double operations_per_second() const noexcept {
    return wall_ns > 0 ? static_cast<double>(operations) * 1e9 / wall_ns : 0;
  }
  [[nodiscard]] double wall_ns_per_operation() const noexcept {
    return operations > 0 ? wall_ns / static_cast<double>(operations) : 0;
  }
  [[nodiscard]] double cpu_ns_per_operation() const noexcept {
    return operations > 0 ? cpu_ns / static_cast<double>(operations) : 0;
  }
};

}  // namespace espalier::workload
