#include "espalier/workload/driver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workload/counted_map.hpp"

namespace espalier::workload {
namespace {

using testing::counted_map;
using ::testing::ElementsAreArray;

template <class Map>
subject_facts facts_of_map() {
  subject_facts facts;
  facts.name = Map::properties.name;
  facts.properties = Map::properties;
  return facts;
}

run_request request_of(const workload_plan& plan, trace_recorder* recorder) {
  return {.plan = plan,
          .threads = 1,
          .pus = {},
          .time = {},
          .operations = plan.trace.empty() ? std::optional<std::uint64_t>(500) : std::nullopt,
          .seed = 42,
          .latency_every = 0,
          .recorder = recorder,
          .interrupted = nullptr};
}

TEST(driver, replays_every_operation_of_a_trace_and_records_it_again) {
  const std::vector<trace_record> trace{
      {1, 10, map_operation::insert},   {1, 0, map_operation::find},
      {2, 20, map_operation::exchange}, {2, 5, map_operation::update},
      {1, 0, map_operation::extract},   {3, 30, map_operation::insert_or_assign},
      {3, 0, map_operation::erase},     {4, 40, map_operation::update},
      {0, 9, map_operation::scan},
  };
  plan_request p;
  p.keys = 10;
  p.prefill = false;
  p.trace = trace;
  const auto plan = make_plan(p);
  driver<counted_map<true>> subject(facts_of_map<counted_map<true>>());
  ASSERT_EQ(subject.facts().cannot_run(*plan), "");

  trace_recorder recorder(1);
  const run_outcome outcome = subject.run(request_of(*plan, &recorder));
  EXPECT_EQ(outcome.operations, trace.size());
  EXPECT_THAT(recorder.records(), ElementsAreArray(trace));
}

TEST(driver, records_the_values_of_a_mix_where_they_are_used) {
  plan_request p;
  p.keys = 50;
  p.mix = "40/30/30";
  const auto plan = make_plan(p);
  driver<counted_map<false>> subject(facts_of_map<counted_map<false>>());
  trace_recorder recorder(1);
  static_cast<void>(subject.run(request_of(*plan, &recorder)));
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), 500U);
  for (const trace_record& r : records)
    ASSERT_EQ(r.argument, r.operation == map_operation::insert ? value_for(r.key) : 0);
}

TEST(driver, records_the_updates_of_a_mix_as_additions) {
  plan_request p;
  p.keys = 50;
  p.mix = "ycsb-f";
  const auto plan = make_plan(p);
  driver<counted_map<false>> subject(facts_of_map<counted_map<false>>());
  subject.prefill(*plan, 1, {});
  trace_recorder recorder(1);
  static_cast<void>(subject.run(request_of(*plan, &recorder)));
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), 500U);
  std::size_t updates = 0;
  for (const trace_record& r : records) {
    const bool update = r.operation == map_operation::update;
    if (update) ++updates;
    ASSERT_TRUE(update || r.operation == map_operation::find);
    ASSERT_EQ(r.argument, update ? 1U : 0U);
  }
  EXPECT_GT(updates, 150U);
  EXPECT_LT(updates, 350U);
}

}  // namespace
}  // namespace espalier::workload
