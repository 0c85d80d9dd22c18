#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduled/battery/subject.hpp"

namespace espalier::sim::battery {

struct thread_program {
  std::vector<step> steps;
  /// All steps under one guard, instead of one each.
  bool one_guard = false;
};

/// The contents of a map, in the order of insertion, and the operations of the threads.
struct program {
  std::vector<map_entry> initial;
  /// What is done then, before the threads begin.
  std::vector<step> before;
  std::vector<thread_program> threads;
};

/// It is for the maps that have all of its operations.
struct scenario {
  std::string name;
  /// If there are several, each gets an equal share of the schedules.
  std::vector<program> programs;
  /// Values of 24 bytes instead of a word.
  bool wide = false;
  /// For maps whose nodes have several entries. In others nothing is split.
  bool many_entries = false;
  /// Factor for the number of schedules.
  double weight = 1;
  /// A run with more steps counts as a livelock.
  std::uint64_t step_budget = 50'000;
};

/// Scenarios written by hand, each for a delicate situation in some map.
[[nodiscard]] std::vector<scenario> written_scenarios();

/// Whether the operation stores a value made from its argument.
[[nodiscard]] constexpr bool stores_value(map_operation op) noexcept {
  return is_write(op) && op != map_operation::erase && op != map_operation::extract;
}

/// Small programs over few keys, drawn from a seed.
[[nodiscard]] std::vector<scenario> random_scenarios(std::uint64_t seed);

}  // namespace espalier::sim::battery
