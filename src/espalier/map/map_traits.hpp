#pragma once

#include <type_traits>

#include "espalier/map/node_layout.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

/// In the policies of a map: it has no use for this one.
struct unused_policy {};

template <class Policy>
concept no_policy = std::is_void_v<Policy> || std::is_same_v<Policy, unused_policy>;

/// The policies of a map as one type. void leaves a policy to the map. A map names its complete policies in
/// traits_type.
template <class Placement, class Layout, class Reclaimer, class Lock, class Htm>
  requires(no_policy<Placement> || placement<Placement>) && (no_policy<Layout> || node_layout<Layout>) &&
          (no_policy<Reclaimer> || reclaimer<Reclaimer>) && (no_policy<Lock> || any_lock<Lock>)
struct basic_map_traits {
  using placement_type = Placement;
  using layout_type = Layout;
  using reclaimer_type = Reclaimer;
  using lock_type = Lock;
  using htm_type = Htm;

  template <placement P>
  using with_placement = basic_map_traits<P, Layout, Reclaimer, Lock, Htm>;
  template <node_layout L>
  using with_layout = basic_map_traits<Placement, L, Reclaimer, Lock, Htm>;
  template <reclaimer R>
  using with_reclaimer = basic_map_traits<Placement, Layout, R, Lock, Htm>;
  template <any_lock K>
  using with_lock = basic_map_traits<Placement, Layout, Reclaimer, K, Htm>;
  /// The transactions of a map that elides its locks: one of hw/htm.hpp, which no other map includes.
  template <class H>
  using with_htm = basic_map_traits<Placement, Layout, Reclaimer, Lock, H>;

  template <class Choice, class Own>
  using choice_or = std::conditional_t<no_policy<Choice> || no_policy<Own>, Own, Choice>;
  /// With the policies of Chosen in place of those that the map uses. Tools apply them to any map.
  template <class Chosen>
  using where_used = basic_map_traits<
      choice_or<typename Chosen::placement_type, Placement>, choice_or<typename Chosen::layout_type, Layout>,
      choice_or<typename Chosen::reclaimer_type, Reclaimer>, choice_or<typename Chosen::lock_type, Lock>,
      choice_or<typename Chosen::htm_type, Htm>>;
};

/// Policies that a program replaces, by name; a map keeps its own for the others:
///
///     espalier::map_traits::with_placement<espalier::shared_heap>::with_lock<espalier::mcs_lock>
///
/// The order of the replacements does not matter, and equal combinations are one type.
using map_traits = basic_map_traits<void, void, void, void, void>;

/// Whether a program may choose this policy for a map that has the other one. Not one that the map would ignore.
template <class Chosen, class Own>
concept policy_for = no_policy<Chosen> || std::is_same_v<Chosen, Own> || !no_policy<Own>;

template <class Chosen, class Own>
concept traits_for = policy_for<typename Chosen::placement_type, typename Own::placement_type> &&
                     policy_for<typename Chosen::layout_type, typename Own::layout_type> &&
                     policy_for<typename Chosen::reclaimer_type, typename Own::reclaimer_type> &&
                     policy_for<typename Chosen::lock_type, typename Own::lock_type> &&
                     policy_for<typename Chosen::htm_type, typename Own::htm_type>;

/// A map's policies: those that a program chose, and its own for the rest.
template <class Chosen, class Own>
  requires traits_for<Chosen, Own>
using completed_traits = typename Own::template where_used<Chosen>;

}  // namespace espalier
