#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/simulate/counted_phase.hpp"
#include "apps/simulate/simulated_map.hpp"
#include "espalier/inspect/snapshot.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/simulation/simulation.hpp"

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
  /// Told where the blocks lie that a map reaches, at its end; empty for not.
  std::function<void(const inspect::snapshot&)> nodes{};
  /// Once it is true the rest is left out; null for never.
  const std::atomic<bool>* interrupted = nullptr;
};

/// The operations of a phase, of which each thread takes the next, so that all work until the end.
class shared_operations {
 public:
  shared_operations(const sim::simulation& in, std::uint64_t operations) noexcept
      : in_(in), all_(operations), left_(operations) {}

  /// For a thread before its first operation and after each. `has_one` is the thread's own, and false at first.
  bool take(bool& has_one) noexcept {
    if (left_ == all_) start_ = in_.clock();
    if (has_one && ++ended_ == all_ - all_ / 2) half_ = in_.clock();
    has_one = left_ != 0;
    if (has_one) --left_;
    return has_one;
  }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

  [[nodiscard]] counted_phase counted(const sim::phase_result& measured) const {
    return {all_, measured.total(), measured.transactions, measured.cycles, in_.spec().ghz, half_ - start_};
  }

 private:
  const sim::simulation& in_;
  std::uint64_t all_;
  std::uint64_t left_;
  std::uint64_t ended_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t half_ = 0;
};

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
