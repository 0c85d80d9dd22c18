#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/node_layout.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"
#include "sim/transactions/simulated_htm.hpp"
#include "support/every_entry.hpp"

// The battery as tests <map>/<scenario>, for the entries of one algorithm of the catalogue: each distinct type that
// remains when placement and reclaimer are the simulator's. With ESPALIER_EVERY_ENTRY also those with published
// nodes, values larger than a word in all of them, and the algorithm's default with the traits that ship. Maps that ship
// with strings as keys have the usual number of schedules; without ESPALIER_EVERY_ENTRY the other algorithms have a third of it, and partitioned maps a
// twelfth, of the default alone. Entries that are not their algorithm's default have a quarter of its number. Maps whose reads
// must not run beside writers are left out.

namespace espalier::sim::battery {

using test::every_entry;

/// Makes one test of each scenario for this map. `share` is its share of the usual number of schedules. Mutants are sought in
/// variants only if they ask for them.
bool add_tests(const std::string& map, const subject_type& type, double share, bool is_variant = false);

template <class... Maps>
struct map_list {
  template <class Map>
  static constexpr bool has = (std::is_same_v<Map, Maps> || ...);
  template <class Map>
  using with = map_list<Maps..., Map>;
};

/// Partitioned maps delegate to one of the others.
template <class Entry>
constexpr bool delegates = Entry::map_type::properties.asks_partitions;

template <class Entry>
constexpr double share_of_algorithm = every_entry || requires { typename Entry::string_map; } ? 1
                                      : delegates<Entry>                                      ? 1.0 / 12
                                                                                              : 1.0 / 3;

template <class Done, class... Entries>
struct distinct;
template <class Done>
struct distinct<Done> {
  static void add() {}
};
template <class Done, class Entry, class... Others>
struct distinct<Done, Entry, Others...> {
  static void add() {
    using map = simulated_map<typename Entry::map_type>;
    constexpr bool relaid = std::is_same_v<typename map::traits_type::layout_type, published_layout>;
    constexpr bool brief = delegates<Entry> && !Entry::variant.empty();
    if constexpr (!Done::template has<map> && (every_entry || !(relaid || brief)) &&
                  map::properties.reads_beside_writers)
      add_tests(Entry::name(), subject_type_of<map, every_entry || Entry::variant.empty()>(),
                share_of_algorithm<Entry> * (Entry::variant.empty() ? 1 : 0.25), !Entry::variant.empty());
    distinct<typename Done::template with<map>, Others...>::add();
  }
};
template <class... Entries>
using distinct_of = distinct<map_list<>, Entries...>;

template <class Entries>
bool add_algorithm() {
  Entries::template entries_as<distinct_of>::add();
  Entries::for_each([]<class Entry>() {
    if constexpr (every_entry && Entry::variant.empty()) {
      subject_type shipped = subject_type_of<with_simulated_htm<typename Entry::map_type>>();
      // A map guarantees what its algorithm does, but the placements that ship take locks when they allocate.
      shipped.properties.update_progress = progress::blocking;
      add_tests(Entry::name() + "/as_shipped", shipped, 0.25, true);
    }
  });
  return true;
}

}  // namespace espalier::sim::battery

namespace espalier::sim {

/// A recorded map with these keys, inserted in this order, each with itself as its value. It is checked at the end.
template <class Map>
recorded<battery::simulated_map<Map>>& map_with(scene& s, std::initializer_list<std::uint64_t> keys) {
  auto& map = s.make<recorded<battery::simulated_map<Map>>>();
  for (const std::uint64_t key : keys) map.start_with(key, key);
  s.at_end([&map] { map.check(); });
  return map;
}

}  // namespace espalier::sim

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::sim::battery::add_algorithm<::espalier::catalog::algorithm>();
