// The battery on masstree for strings.

#include "scheduled/masstree_strings.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  sim::battery::options how;
  how.schedules_per_scenario = all.options.schedules_per_scenario;
  how.seed = all.options.seed;
  how.map = "masstree_of_strings";
  sim::battery::subject_type type = sim::battery::masstree_of_strings();
  type.make = [](sim::scene& s) -> sim::battery::subject& {
    schedule_begins();
    return sim::battery::masstree_of_strings().make(s);
  };
  sim::battery::result r = sim::battery::run(type, how);
  all.result = {r.passed, std::move(r.scenario), r.schedules, std::move(r.text)};
}

}  // namespace espalier::mutants
