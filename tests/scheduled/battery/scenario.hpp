#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduled/battery/subject.hpp"

namespace espalier::sim::battery {

struct thread_program {
  std::vector<step> steps;
  /// All of them under one guard, instead of one each.
  bool one_guard = false;
};

/// What a map holds, in the order in which the keys were inserted, and what threads do to it.
struct program {
  std::vector<map_entry> initial;
  std::vector<thread_program> threads;
};

struct scenario {
  std::string name;
  /// More than one: each gets an equal share of the schedules.
  std::vector<program> programs;
  /// Values of 24 bytes instead of a word.
  bool wide = false;
  /// Makes so many times the schedules of others.
  double weight = 1;
  /// Steps after which a run is called a livelock.
  std::uint64_t step_budget = 50'000;
};

/// Those thought out by hand, each for what is delicate in some map.
[[nodiscard]] std::vector<scenario> written_scenarios();

/// Small programs over few keys, drawn from a seed.
[[nodiscard]] std::vector<scenario> random_scenarios(std::uint64_t seed);

}  // namespace espalier::sim::battery
