#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/explore.hpp"

// The program of a mutant explores its scenarios in some rounds, each with another seed, until one fails. main() is in
// driver.cpp.

namespace espalier::mutants {

struct round_options {
  std::uint64_t schedules_per_scenario;
  std::uint64_t seed;
  bool wide;               ///< with the scenarios of values larger than a word, where the program has them
  std::string_view scene;  ///< the only one that runs; empty: all
};

struct round_result {
  bool passed = true;
  std::string scenario;
  std::uint64_t schedules = 0;
  /// The explorer's report, which begins with the kind of failure.
  std::string text;
};

/// To be called when a schedule is set up. SIGPROF tells the explorer that one has no end: it counts the steps of threads, but
/// not what a scene does before and after them. So the driver counts how often the code asks which mutant it is. A loop that
/// does not ask ends after much processor time.
void schedule_begins();

/// Runs scenes one after the other.
struct scenes {
  round_options options;
  round_result result;

  /// Whether a scene of this name is to run: none has failed, and no other one is to run alone.
  [[nodiscard]] bool wants(std::string_view name) const {
    return result.passed && (options.scene.empty() || options.scene == name);
  }
  /// `share` scales the number of schedules: long scenes get fewer.
  void run(std::string_view name, const std::function<void(sim::scene&)>& build,
           sim::exploration_options how = {}, double share = 1);
  /// A scene of one thread: one schedule, which may be long.
  void run_alone(std::string_view name, const std::function<void(sim::scene&)>& build) {
    run(name, build,
        {.strategies = {"round-robin"},
         .model = sim::memory_model::sequential,
         .step_budget = 6'000'000,
         .transactions = std::nullopt},
        0);
  }
};

/// Each program defines it: runs all its scenarios once, up to the first that fails.
void explore_all(scenes& all);

}  // namespace espalier::mutants
