#include "espalier/map/map_traits.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "espalier/hw/htm.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/citrus.hpp"
#include "espalier/map/bst/edge_ext_lf.hpp"
#include "espalier/map/bst/edge_int_lf.hpp"
#include "espalier/map/bst/ext_lf.hpp"
#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/bst/int_lf.hpp"
#include "espalier/map/bst/log_int.hpp"
#include "espalier/map/bst/occ_avl.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/map/studied/euno_btree.hpp"
#include "espalier/map/studied/htm_btree.hpp"
#include "espalier/map/studied/htm_masstree.hpp"
#include "espalier/map/studied/masstree.hpp"
#include "espalier/map/studied/olc_btree.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/reclaim/leaky.hpp"
#include "espalier/sync/ticket_lock.hpp"

namespace espalier {
namespace {

using number = std::uint64_t;
template <template <class, class, class...> class Map, class... Traits>
using policies = typename Map<number, number, Traits...>::traits_type;

using locked = map_traits::with_lock<ticket_lock>;

TEST(map_traits, replace_one_policy_and_leave_a_map_its_own_others) {
  EXPECT_TRUE((std::is_same_v<policies<occ_avl, locked>::lock_type, ticket_lock>));
  EXPECT_TRUE((std::is_same_v<policies<occ_avl, locked>::placement_type, split_clusters<32, 24>>));
  using placed = map_traits::with_placement<shared_heap>;
  EXPECT_TRUE((std::is_same_v<policies<global_lock_bst, placed>::lock_type, mcs_lock>));
  EXPECT_TRUE((std::is_same_v<policies<locked_map, placed>::lock_type, std_mutex>));
  EXPECT_TRUE((std::is_same_v<policies<locked_map, placed>::placement_type, shared_heap>));
  using plain = map_traits::with_htm<hw::unavailable>;
  EXPECT_TRUE((std::is_same_v<policies<htm_btree, plain>::htm_type, hw::unavailable>));
  EXPECT_TRUE((std::is_same_v<policies<htm_btree, plain>::placement_type, segregated>));
}

TEST(map_traits, are_one_type_in_any_order) {
  EXPECT_TRUE((std::is_same_v<map_traits::with_lock<ticket_lock>::with_placement<shared_heap>,
                              map_traits::with_placement<shared_heap>::with_lock<ticket_lock>>));
  EXPECT_TRUE((std::is_same_v<
               map_traits::with_htm<hw::scripted>::with_reclaimer<leaky>::with_layout<published_layout>,
               map_traits::with_layout<published_layout>::with_htm<hw::scripted>::with_reclaimer<leaky>>));
  EXPECT_TRUE((std::is_same_v<ticket<number, number>, ticket<number, number, map_traits>>));
}

TEST(map_traits, that_are_complete_stay_as_they_are) {
  EXPECT_TRUE((std::is_same_v<policies<occ_avl, locking_traits>, locking_traits>));
  EXPECT_TRUE((std::is_same_v<policies<ticket>, ticket_traits>));
}

/// As the base of a map completes them: where this does not compile, neither does the map.
template <class Map, class Chosen>
concept takes = requires { typename completed_traits<Chosen, typename Map::traits_type>; };

/// The letters of the policies that the map takes.
template <class Map>
std::string taken() {
  std::string all;
  if constexpr (takes<Map, map_traits::with_placement<shared_heap>>) all += 'P';
  if constexpr (takes<Map, map_traits::with_layout<published_layout>>) all += 'L';
  if constexpr (takes<Map, map_traits::with_reclaimer<leaky>>) all += 'R';
  if constexpr (takes<Map, locked>) all += 'K';
  if constexpr (takes<Map, map_traits::with_htm<hw::unavailable>>) all += 'H';
  return all;
}

TEST(map_traits, that_a_map_would_ignore_do_not_compile) {
  EXPECT_EQ((taken<citrus<number, number>>()), "PLRK");
  EXPECT_EQ((taken<edge_ext_lf<number, number>>()), "PLR");
  EXPECT_EQ((taken<edge_int_lf<number, number>>()), "PLR");
  EXPECT_EQ((taken<ext_lf<number, number>>()), "PLR");
  EXPECT_EQ((taken<global_lock_bst<number, number>>()), "PK");
  EXPECT_EQ((taken<hand_over_hand_bst<number, number>>()), "PK");
  EXPECT_EQ((taken<int_lf<number, number>>()), "PLR");
  EXPECT_EQ((taken<log_int<number, number>>()), "PLRK");
  EXPECT_EQ((taken<occ_avl<number, number>>()), "PLRK");
  EXPECT_EQ((taken<ticket<number, number>>()), "PLR");
  EXPECT_EQ((taken<euno_btree<number, number>>()), "PRH");
  EXPECT_EQ((taken<htm_btree<number, number>>()), "PRKH");
  EXPECT_EQ((taken<htm_masstree<number, number>>()), "PRKH");
  EXPECT_EQ((taken<masstree<number, number>>()), "PR");
  EXPECT_EQ((taken<olc_btree<number, number>>()), "PR");
  EXPECT_EQ((taken<ordered_map<number, number>>()), "PR");
  EXPECT_EQ((taken<ordered_map<std::string, number>>()), "PR");
  EXPECT_EQ((taken<locked_map<number, number>>()), "PK");
}

}  // namespace
}  // namespace espalier
