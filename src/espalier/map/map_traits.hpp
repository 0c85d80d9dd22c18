#pragma once

#include <type_traits>

#include "espalier/hw/htm.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// The policies of a map as one type. void leaves a policy to the map. A map names its complete policies in
/// traits_type.
template <class Placement, class Layout, class Reclaimer, class Lock, class Htm>
  requires((std::is_void_v<Placement> || placement<Placement>) &&
           (std::is_void_v<Layout> || node_layout<Layout>) &&
           (std::is_void_v<Reclaimer> || reclaimer<Reclaimer>) && (std::is_void_v<Lock> || any_lock<Lock>) &&
           (std::is_void_v<Htm> || hw::transactional_backend<Htm>))
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
  /// The transactions of a map that elides its locks.
  template <hw::transactional_backend H>
  using with_htm = basic_map_traits<Placement, Layout, Reclaimer, Lock, H>;

  template <class Choice, class Own>
  using choice_or = std::conditional_t<std::is_void_v<Choice>, Own, Choice>;
  /// With the policies of Own in place of those that are left to the map.
  template <class Own>
  using over =
      basic_map_traits<choice_or<Placement, typename Own::placement_type>,
                       choice_or<Layout, typename Own::layout_type>,
                       choice_or<Reclaimer, typename Own::reclaimer_type>,
                       choice_or<Lock, typename Own::lock_type>, choice_or<Htm, typename Own::htm_type>>;
};

/// The policies from which a map makes its own.
using plain_traits = basic_map_traits<segregated, compact_layout, epoch_domain, ttas_lock, hw::rtm>;

/// Policies that a program replaces, by name; a map keeps its own for the others:
///
///     espalier::map_traits::with_placement<espalier::shared_heap>::with_lock<espalier::mcs_lock>
///
/// The order of the replacements does not matter, and equal combinations are one type.
using map_traits = basic_map_traits<void, void, void, void, void>;

/// A map's policies: those that a program chose, and its own for the rest.
template <class Chosen, class Own>
using completed_traits = typename Chosen::template over<Own>;

}  // namespace espalier
