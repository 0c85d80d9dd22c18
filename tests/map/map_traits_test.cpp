#include "espalier/map/map_traits.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "espalier/hw/htm.hpp"
#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/bst/occ_avl.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/reclaim/leaky.hpp"
#include "espalier/sync/ticket_lock.hpp"

namespace espalier {
namespace {

using number = std::uint64_t;
template <template <class, class, class...> class Map, class... Traits>
using policies = typename Map<number, number, Traits...>::traits_type;

TEST(map_traits, replace_one_policy_and_leave_a_map_its_own_others) {
  using locked = map_traits::with_lock<ticket_lock>;
  EXPECT_TRUE((std::is_same_v<policies<ticket, locked>::placement_type, clustered>));
  EXPECT_TRUE((std::is_same_v<policies<ticket, locked>::lock_type, ticket_lock>));
  EXPECT_TRUE((std::is_same_v<policies<occ_avl, locked>::placement_type, split_clusters<32, 24>>));
  using placed = map_traits::with_placement<shared_heap>;
  EXPECT_TRUE((std::is_same_v<policies<global_lock_bst, placed>::lock_type, mcs_lock>));
  EXPECT_TRUE((std::is_same_v<policies<locked_map, placed>::lock_type, std_mutex>));
  EXPECT_TRUE((std::is_same_v<policies<locked_map, placed>::placement_type, shared_heap>));
  EXPECT_TRUE((std::is_same_v<policies<ticket, placed>::htm_type, hw::rtm>));
  using plain = map_traits::with_htm<hw::unavailable>;
  EXPECT_TRUE((std::is_same_v<policies<ticket, plain>::htm_type, hw::unavailable>));
  EXPECT_TRUE((std::is_same_v<policies<ticket, plain>::placement_type, clustered>));
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
  EXPECT_TRUE((std::is_same_v<policies<occ_avl, plain_traits>, plain_traits>));
  EXPECT_TRUE((std::is_same_v<policies<ticket>, ticket_traits>));
}

}  // namespace
}  // namespace espalier
