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

/// What TypeOf() returns, with a time limit for its schedules.
template <auto TypeOf>
sim::battery::subject_type watched() {
  sim::battery::subject_type type = TypeOf();
  type.make = [](sim::scene& s) -> sim::battery::subject& {
    schedule_begins();
    return TypeOf().make(s);
  };
  if (type.make_wide != nullptr) {
    type.make_wide = [](sim::scene& s) -> sim::battery::subject& {
      schedule_begins();
      return TypeOf().make_wide(s);
    };
  }
  return type;
}

/// Runs the battery on a type of map, as a scene of this name.
template <auto TypeOf>
void explore_battery(std::string_view name, scenes& all, std::string only = {}) {
  if (!all.wants(name)) return;
  sim::battery::options how;
  how.schedules_per_scenario = all.options.schedules_per_scenario;
  how.seed = all.options.seed;
  how.map = name;
  how.only = std::move(only);
  sim::battery::subject_type type = watched<TypeOf>();
  if (!all.options.wide) type.make_wide = nullptr;
  sim::battery::result r = sim::battery::run(type, how);
  all.result = {r.passed, std::move(r.scenario), all.result.schedules + r.schedules, std::move(r.text)};
}

/// On the default of an algorithm of the catalogue.
template <class List, bool Wide, class Codec = test::plain_codec>
void explore_battery(std::string_view algorithm, scenes& all, std::string only = {}) {
  using map = sim::battery::simulated_map<typename List::template entries_as<first_map>::type>;
  explore_battery<sim::battery::subject_type_of<map, Wide, Codec>>(algorithm, all, std::move(only));
}

}  // namespace espalier::mutants

#define ESPALIER_MUTANTS_BATTERY(algorithm, wide)                                            \
  void espalier::mutants::explore_all(scenes& all) {                                         \
    espalier::mutants::explore_battery<espalier::catalog::algorithm, wide>(#algorithm, all); \
  }
