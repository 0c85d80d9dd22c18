// Late actions of helpers in ext_lf, which the battery rarely reaches.

#include "espalier/map/bst/ext_lf.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "scheduled/battery.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"
#include "sim/recorded_map.hpp"

namespace {

using namespace espalier;
using sim::scene;
using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<ext_lf<key, key>>>;

map_type& map_of(scene& s, std::initializer_list<key> keys) {
  auto& map = s.make<map_type>();
  for (const key k : keys) map.start_with(k, k);
  s.at_end([&map] { map.check(); });
  return map;
}

/// With addresses that are reused, and with addresses that are not.
void expect_kept(const char* name, const std::function<void(scene&)>& build) {
  for (const auto memory : {sim::freed_memory::quarantined, sim::freed_memory::reused}) {
    sim::exploration_options o;
    o.schedules = sim::scaled_schedules(3000);
    o.memory = memory;
    const auto report = sim::explore(name, o, build);
    EXPECT_TRUE(report.passed()) << report;
  }
}

/// The helper of an insert arrives when the new leaf has been erased again. If the old leaf were back at its edge, the
/// helper would link the unlinked router.
TEST(ext_lf, an_insert_is_helped_after_its_leaf_was_erased) {
  expect_kept("an_insert_is_helped_after_its_leaf_was_erased", [](scene& s) {
    auto& map = map_of(s, {10, 30});
    s.thread("inserts and erases", [&map] {
      map.insert(20, 1);
      map.erase(20);
    });
    s.thread("helps", [&map] { map.insert(5, 2); });
  });
}

/// The same, but the key stays and its value is assigned: each assignment is a separate leaf.
TEST(ext_lf, an_assignment_is_helped_after_the_next) {
  expect_kept("an_assignment_is_helped_after_the_next", [](scene& s) {
    auto& map = map_of(s, {10, 30});
    s.thread("assigns", [&map] {
      map.insert_or_assign(10, 1);
      map.insert_or_assign(10, 2);
      map.find(10);
    });
    s.thread("helps", [&map] {
      map.insert(20, 3);
      map.find(10);
    });
  });
}

/// An erase of 20 has flagged the grandparent when an insert flags the parent. The erase backs out, after its helper or
/// before it, and both reach the same outcome.
TEST(ext_lf, an_erase_backs_out_beside_its_helper) {
  expect_kept("an_erase_backs_out_beside_its_helper", [](scene& s) {
    auto& map = map_of(s, {10, 20, 30});
    s.thread("erases", [&map] { map.erase(20); });
    s.thread("inserts below the parent", [&map] { map.insert(25, 1); });
    s.thread("inserts below the grandparent", [&map] { map.insert(5, 2); });
  });
}

/// An erase of 20 has read the word of its parent, flags the grandparent, where a helper finds it, and backs out. The
/// helper marks when records of the parent have been reclaimed and their addresses reused.
TEST(ext_lf, records_come_back_at_their_addresses) {
  expect_kept("records_come_back_at_their_addresses", [](scene& s) {
    auto& map = map_of(s, {10, 20, 30});
    s.thread("erases", [&map] { map.erase(20); });
    s.thread("others at the parent", [&map] {
      map.insert(22, 1);
      map.erase(20);
      map.insert_or_assign(22, 2);
      map.insert_or_assign(22, 3);
    });
    s.thread("helps", [&map] { map.insert(5, 4); });
  });
}

}  // namespace
