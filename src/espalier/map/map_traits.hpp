#pragma once

#include "espalier/map/node_layout.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// The policies of a map, one type. Replaced by name:
///
///     espalier::map_traits::with_placement<espalier::shared_heap>::with_lock<espalier::mcs_lock>
///
/// The order of the replacements does not matter, and equal combinations are one type.
template <placement Placement, node_layout Layout, reclaimer Reclaimer, any_lock Lock>
struct basic_map_traits {
  using placement_type = Placement;
  using layout_type = Layout;
  using reclaimer_type = Reclaimer;
  using lock_type = Lock;

  template <placement P>
  using with_placement = basic_map_traits<P, Layout, Reclaimer, Lock>;
  template <node_layout L>
  using with_layout = basic_map_traits<Placement, L, Reclaimer, Lock>;
  template <reclaimer R>
  using with_reclaimer = basic_map_traits<Placement, Layout, R, Lock>;
  template <any_lock K>
  using with_lock = basic_map_traits<Placement, Layout, Reclaimer, K>;
};

using map_traits = basic_map_traits<segregated, compact_layout, epoch_domain, ttas_lock>;

}  // namespace espalier
