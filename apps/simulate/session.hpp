#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/simulate/simulated_map.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/simulation/simulation.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::simulate {

struct simulation_request {
  std::vector<std::shared_ptr<const workload::workload_plan>> plans;
  std::vector<simulated_entry> maps;
  sim::machine_spec machine;
  std::vector<unsigned> threads;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Of all threads together.
  std::uint64_t operations = 100'000;
  /// Operations before them, which warm up the caches; a fifth as many if unset.
  std::optional<std::uint64_t> warm_up{};
  std::uint64_t seed = 42;
  /// Once it is true the rest is left out; null for never.
  const std::atomic<bool>* interrupted = nullptr;
};

/// A measured phase of a simulated program.
struct counted_phase {
  std::uint64_t operations = 0;
  sim::counts total;
  sim::transaction_counts transactions;
  std::uint64_t cycles = 0;
  double ghz = 1;

  /// On the simulated machine, not on this one.
  [[nodiscard]] double operations_per_second() const noexcept {
    return static_cast<double>(operations) / static_cast<double>(cycles) * ghz * 1e9;
  }
  [[nodiscard]] double per_operation(std::uint64_t count) const noexcept {
    return static_cast<double>(count) / static_cast<double>(operations);
  }
};
[[nodiscard]] inline counted_phase counted(const sim::phase_result& measured, std::uint64_t operations,
                                           double ghz) {
  return {operations, measured.total(), measured.transactions, measured.cycles, ghz};
}

/// One map under one plan with one number of threads.
struct simulated_measurement : counted_phase {
  workload::subject_facts facts;
  std::shared_ptr<const workload::workload_plan> plan;
  unsigned threads = 0;
  /// By region, as in subject_facts::transaction_regions, for a map that counts them.
  std::vector<elision_counts> regions{};
  /// At the end, for each key that was loaded; unset if the map does not know.
  std::optional<double> bytes_per_key{};
};

/// The map of this name; null if this build lacks it.
[[nodiscard]] const simulated_entry* entry_of(std::string_view map);

/// Receives what comes next, and the numbers of done and of total steps.
using simulation_observer = std::function<void(std::size_t done, std::size_t total, const std::string& what)>;

/// In order: plans, numbers of threads, maps.
[[nodiscard]] std::vector<simulated_measurement> run_simulation(const simulation_request& request,
                                                                const simulation_observer& observer);

}  // namespace espalier::simulate
