#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "espalier/hw/htm.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/clustered.hpp"
#include "scheduled/battery/refusing_htm.hpp"
#include "scheduled/battery/subject.hpp"
#include "scheduled/battery/subject_of.hpp"
#include "sim/memory/eager_reclaimer.hpp"
#include "sim/memory/traced_heap.hpp"

// The scheduled scenarios for maps (battery/scenarios.cpp, battery/random_programs.cpp), to be run against any type
// that fulfils the contract of espalier/map/map_concept.hpp. Needs no test framework:
//
//     using namespace espalier::sim;
//     const battery::result r = battery::run<battery::simulated_map<espalier::ticket<key, value>>>({});
//     return r.passed ? 0 : 1;
//
// The scenarios themselves are compiled once, into the library espalier_battery. A simulated program
// (espalier_simulated() in sim/CMakeLists.txt) instantiates the map and links with it.

namespace espalier::sim::battery {

struct options {
  /// For a scenario of the usual size; scenarios with long runs make fewer.
  std::uint64_t schedules_per_scenario = 200;
  std::uint64_t seed = 1;
  /// One scenario; empty: all.
  std::string only;
  /// The map's name in reports, and in the ESPALIER_SCHEDULE that repeats a run.
  std::string map = "map";
  /// Called when a schedule is set up.
  void (*schedule_begins)() noexcept = nullptr;
};

struct result {
  bool passed = true;
  /// The one that failed; empty if all passed.
  std::string scenario;
  /// Of all scenarios that ran.
  std::uint64_t schedules = 0;
  std::uint64_t steps = 0;
  /// The kind of the failure and the explorer's report.
  std::string text;
};

[[nodiscard]] std::vector<std::string> scenario_names();

/// Runs the scenarios in order, up to the first that fails. Further schedules under the strategy "stalled" check the
/// map's progress guarantee beside a stopped thread; and if its operations are transactions, others refuse every third
/// one, or all. Throws std::invalid_argument if `only` names no scenario.
[[nodiscard]] result run(const subject_type& type, const options& o);

/// A map unchanged, including its traits. Scenarios with values larger than a word are left out for a type if its
/// template does not begin with key, value, traits and order.
template <class Map>
[[nodiscard]] result run(const options& o) {
  return run(subject_type_of<Map>(), o);
}

namespace detail {
template <class Layout>
struct one_of_shape {
  using type = compact_layout;
};
template <>
struct one_of_shape<published_layout> {
  using type = published_layout;
};

template <class Placement>
struct traced {
  using type = traced_heap;
};
template <std::size_t Front, std::size_t Rest>
struct traced<split_clusters<Front, Rest>> {
  using type = split_traced_heap<Front, Rest>;
};

/// A map whose nodes have a fan-out, with a small one: splits, merges and new roots happen in every program. One that is
/// small stays.
template <class Map>
struct narrow {
  using type = Map;
};
template <class Map>
  requires(
      requires { typename Map::template with_fanout<3>; } && (Map::node_entries > 5) &&
      !requires { typename Map::with_restless_leaves; })
struct narrow<Map> {
  using type = typename Map::template with_fanout<3>;
};
template <class Map>
  requires requires { typename Map::with_restless_leaves; }
struct narrow<Map> {
  using type = typename Map::with_restless_leaves::template with_fanout<3>;
};

template <class Wide>
struct simulated {
  using Map = typename narrow<Wide>::type;
  using shipped = typename Map::traits_type;
  static constexpr bool elides = !std::is_same_v<typename shipped::htm_type, hw::unavailable>;
  using traits = basic_map_traits<typename traced<typename shipped::placement_type>::type,
                                  typename one_of_shape<typename shipped::layout_type>::type, eager_reclaimer,
                                  void, std::conditional_t<elides, refusing_htm, void>>;
  using type =
      typename Map::template rebind<typename Map::key_type, typename Map::mapped_type,
                                    typename Map::key_compare, typename shipped::template where_used<traits>>;
};
}  // namespace detail

/// The same map with the placement that checks every block, the reclaimer that reclaims at once, the simulator's
/// transactions, some of which may be refused, and a small fan-out, as far as it uses them. Each shape of node has one
/// layout, split if the map's is: nodes that differ only in their addresses take the same steps.
template <class Map>
using simulated_map = typename detail::simulated<Map>::type;

}  // namespace espalier::sim::battery
