#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sim/explore.hpp"

// The program of a mutant explores its scenarios again and again with other seeds, until one fails or its
// time is over. main() is in driver.cpp.

namespace espalier::mutants {

struct round_options {
  std::uint64_t schedules_per_scenario;
  std::uint64_t seed;
  bool wide;  ///< with the scenarios of values larger than a word, where the program has them
};

struct round_result {
  bool passed = true;
  std::string scenario;
  std::uint64_t schedules = 0;
  /// The explorer's report, which begins with the kind of failure.
  std::string text;
};

/// To be called when a schedule is set up. If the schedule takes more processor time than --schedule-seconds,
/// SIGPROF ends it with the process: the explorer counts the steps of threads, but not what a scene does
/// before and after them.
void schedule_begins();

/// Runs scenes one after the other.
struct scenes {
  round_options options;
  round_result result;

  /// Does nothing once a scene has failed. `share` scales the number of schedules: long scenes get fewer.
  void run(std::string_view name, const std::function<void(sim::scene&)>& build,
           sim::exploration_options how = {}, double share = 1);
};

/// Each program defines it: runs all its scenarios once, up to the first that fails.
void explore_all(scenes& all);

}  // namespace espalier::mutants
