#pragma once

#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"

// The scheduled battery against a catalogue entry's default map: the whole program of a map's mutant.
// Scenarios with values larger than a word are compiled only if Wide is true.

namespace espalier::mutants {

template <class First, class...>
struct first_map {
  using type = typename First::map_type;
};

/// A type of map with a time limit for its schedules.
template <class Map, bool Wide>
sim::battery::subject_type watched_type_of() {
  sim::battery::subject_type type = sim::battery::subject_type_of<Map, Wide>();
  type.make = [](sim::scene& s) -> sim::battery::subject& {
    schedule_begins();
    return sim::battery::subject_type_of<Map, Wide>().make(s);
  };
  if (type.make_wide != nullptr) {
    type.make_wide = [](sim::scene& s) -> sim::battery::subject& {
      schedule_begins();
      return sim::battery::subject_type_of<Map, Wide>().make_wide(s);
    };
  }
  return type;
}

template <class List, bool Wide>
void explore_battery(std::string_view algorithm, scenes& all, std::string only = {}) {
  using map = typename List::template entries_as<first_map>::type;
  sim::battery::options how;
  how.schedules_per_scenario = all.options.schedules_per_scenario;
  how.seed = all.options.seed;
  how.map = algorithm;
  how.only = std::move(only);
  sim::battery::subject_type type = watched_type_of<sim::battery::simulated_map<map>, Wide>();
  if (!all.options.wide) type.make_wide = nullptr;
  sim::battery::result r = sim::battery::run(type, how);
  all.result = {r.passed, std::move(r.scenario), r.schedules, std::move(r.text)};
}

}  // namespace espalier::mutants

#define ESPALIER_MUTANTS_BATTERY(algorithm, wide)                                            \
  void espalier::mutants::explore_all(scenes& all) {                                         \
    espalier::mutants::explore_battery<espalier::catalog::algorithm, wide>(#algorithm, all); \
  }
