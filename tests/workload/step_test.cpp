#include "espalier/workload/step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "workload/counted_map.hpp"

namespace espalier::workload {
namespace {

using testing::calls_made;
using testing::counted_map;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

run_request request_of(const workload_plan& plan) {
  return {.plan = plan,
          .threads = 1,
          .pus = {},
          .time = {},
          .operations = std::nullopt,
          .seed = 42,
          .latency_every = 0,
          .recorder = nullptr,
          .interrupted = nullptr};
}

TEST(apply, performs_what_every_map_has) {
  counted_map<false> map;
  EXPECT_EQ(apply(map, {map_operation::insert, 5, 50}), 1U);
  EXPECT_EQ(apply(map, {map_operation::insert, 5, 51}), 0U);
  EXPECT_EQ(apply(map, {map_operation::insert_or_assign, 5, 52}), 0U);
  EXPECT_EQ(apply(map, {map_operation::insert_or_assign, 6, 60}), 1U);
  EXPECT_EQ(apply(map, {map_operation::find, 5, 0}), 52U);
  EXPECT_EQ(apply(map, {map_operation::find, 7, 0}), 0U);
  EXPECT_EQ(apply(map, {map_operation::contains, 6, 0}), 1U);
  EXPECT_EQ(apply(map, {map_operation::contains, 7, 0}), 0U);
  EXPECT_EQ(apply(map, {map_operation::insert, 7, 70}), 1U);
  EXPECT_EQ(apply(map, {map_operation::scan, 5, 2}), 112U);
  EXPECT_EQ(apply(map, {map_operation::scan, 6, 9}), 130U);
  EXPECT_EQ(apply(map, {map_operation::scan, 5, 0}), 0U);
  EXPECT_EQ(apply(map, {map_operation::erase, 6, 0}), 1U);
  EXPECT_EQ(apply(map, {map_operation::erase, 6, 0}), 0U);
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 52), Pair(7, 70)));
}

TEST(apply, exchanges_and_extracts) {
  counted_map<true> map;
  EXPECT_EQ(apply(map, {map_operation::exchange, 5, 50}), 0U);
  EXPECT_EQ(apply(map, {map_operation::exchange, 5, 51}), 50U);
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 51)));
  EXPECT_EQ(apply(map, {map_operation::extract, 5, 0}), 51U);
  EXPECT_EQ(apply(map, {map_operation::extract, 5, 0}), 0U);
  EXPECT_THAT(map.entries(), IsEmpty());
  EXPECT_EQ(map.calls(), (calls_made{.finds = 0, .assigns = 0, .updates = 4}));
}

TEST(apply, updates_in_one_call_where_the_map_exchanges) {
  counted_map<true> map;
  static_cast<void>(apply(map, {map_operation::update, 5, 50}));
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 50)));
  EXPECT_EQ(apply(map, {map_operation::update, 5, 2}), 50U);
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 52)));
  EXPECT_EQ(map.calls(), (calls_made{.finds = 0, .assigns = 0, .updates = 2}));
}

TEST(apply, updates_by_find_and_assign_elsewhere) {
  counted_map<false> map;
  static_cast<void>(apply(map, {map_operation::update, 5, 50}));
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 50)));
  static_cast<void>(apply(map, {map_operation::update, 5, 2}));
  EXPECT_THAT(map.entries(), ElementsAre(Pair(5, 52)));
  EXPECT_EQ(map.calls(), (calls_made{.finds = 2, .assigns = 2, .updates = 0}));
}

TEST(apply, refuses_what_the_map_lacks) {
  counted_map<false> map;
  EXPECT_THROW(apply(map, {map_operation::exchange, 5, 50}), std::logic_error);
  EXPECT_THROW(apply(map, {map_operation::extract, 5, 0}), std::logic_error);
  EXPECT_THAT(map.entries(), IsEmpty());
}

TEST(traced_steps, perform_the_records_in_order) {
  plan_request p;
  p.keys = 10;
  p.trace = {
      {1, 10, map_operation::insert}, {2, 20, map_operation::exchange},
      {2, 5, map_operation::update},  {3, 30, map_operation::insert_or_assign},
      {3, 0, map_operation::extract}, {4, 40, map_operation::update},
      {5, 50, map_operation::insert}, {5, 0, map_operation::erase},
      {1, 11, map_operation::insert},
  };
  const auto plan = make_plan(p);
  std::atomic<std::uint64_t> cursor{0};
  traced_steps steps(request_of(*plan), cursor);
  counted_map<true> map;
  ASSERT_EQ(steps.more(false), p.trace.size());
  for (std::size_t i = 0; i < p.trace.size(); ++i) static_cast<void>(apply(map, steps.next()));
  EXPECT_EQ(steps.more(false), 0U);
  EXPECT_THAT(map.entries(), ElementsAre(Pair(1, 10), Pair(2, 25), Pair(4, 40)));
}

TEST(drawn_steps, give_each_operation_its_argument) {
  plan_request p;
  p.keys = 100;
  p.mix = "ycsb-f";
  const auto plan = make_plan(p);
  std::atomic<std::uint64_t> new_keys{100};
  drawn_steps steps(request_of(*plan), 0, new_keys);
  int updates = 0;
  for (int i = 0; i < 1000; ++i) {
    const step s = steps.next();
    if (s.op == map_operation::update) ++updates;
    ASSERT_EQ(s.argument, s.op == map_operation::update ? 1 : value_for(s.key));
  }
  EXPECT_GT(updates, 400);
  EXPECT_LT(updates, 600);
}

}  // namespace
}  // namespace espalier::workload
