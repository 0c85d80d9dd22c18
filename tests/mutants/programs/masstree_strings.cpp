// The battery on masstree for strings: with small nodes, then with such as have containers with room.

#include "scheduled/masstree_strings.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

template <unsigned Fanout>
sim::battery::result explore(const scenes& all) {
  sim::battery::options how;
  how.schedules_per_scenario = all.options.schedules_per_scenario;
  how.seed = all.options.seed;
  how.map = "masstree_of_strings";
  sim::battery::subject_type type = sim::battery::masstree_of_strings<Fanout>();
  type.make = [](sim::scene& s) -> sim::battery::subject& {
    schedule_begins();
    return sim::battery::masstree_of_strings<Fanout>().make(s);
  };
  return sim::battery::run(type, how);
}

}  // namespace

void explore_all(scenes& all) {
  sim::battery::result r = explore<3>(all);
  if (r.passed) {
    const std::uint64_t before = r.schedules;
    r = explore<5>(all);
    r.schedules += before;
  }
  all.result = {r.passed, std::move(r.scenario), r.schedules, std::move(r.text)};
}

}  // namespace espalier::mutants
