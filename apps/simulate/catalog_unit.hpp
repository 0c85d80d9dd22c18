#pragma once

#include "apps/simulate/simulated_map.hpp"
#include "espalier/catalog/codec.hpp"
#include "espalier/catalog/erased_map_of.hpp"
#include "espalier/catalog/step.hpp"
#include "espalier/workload/driver.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {

/// Instrumented: its accesses to memory are what the machine sees.
template <class Map>
class simulated_map_of final : public catalog::erased_map_of<Map, catalog::number_codec<>, simulated_map> {
 public:
  void do_all(step_feed& feed) override {
    std::uint64_t sum = 0;
    for (catalog::step s{}; feed.next(s);) sum += catalog::apply(this->map_, s);
    static_cast<void>(*static_cast<const volatile std::uint64_t*>(&sum));
  }
};

template <class EntryList>
bool register_simulated() {
  EntryList::for_each([]<class Entry>() {
    simulated_catalog().push_back(
        {workload::facts_of<Entry>(workload::subject_kind::espalier), [] {
           return std::unique_ptr<simulated_map>(
               new simulated_map_of<sim::with_simulated_htm<typename Entry::map_type>>);
         }});
  });
  return true;
}

}  // namespace espalier::simulate

#define ESPALIER_CATALOG_UNIT(algorithm)                                      \
  namespace {                                                                 \
  [[maybe_unused]] const bool registered =                                    \
      espalier::simulate::register_simulated<espalier::catalog::algorithm>(); \
  }
