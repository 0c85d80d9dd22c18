// A run: its subject, steps and result.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/map/locked_map.hpp"
#include "espalier/workload/codec.hpp"
#include "espalier/workload/driver.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/step.hpp"
#include "espalier/workload/subject.hpp"
#include "workload/counted_map.hpp"

namespace espalier::workload {
namespace {

using testing::calls_made;
using testing::counted_map;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Pair;

template <class Map>
std::vector<std::pair<std::uint64_t, std::uint64_t>> entries_of(const Map& map) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;
  for (const auto& [key, value] : map) entries.emplace_back(key, value);
  return entries;
}

std::shared_ptr<const workload_plan> plan_of(const char* mix, std::vector<trace_record> trace = {}) {
  plan_request p;
  p.keys = 10;
  p.mix = mix;
  p.trace = std::move(trace);
  return make_plan(p);
}

std::shared_ptr<const workload_plan> trace_of(map_operation op) {
  return plan_of("100/0/0", {{1, 0, map_operation::find}, {1, 2, op}});
}

TEST(cannot_run, refuses_a_trace_that_exchanges_to_a_map_that_does_not) {
  subject_facts facts;
  for (const map_operation op : map_operations) {
    facts.properties.exchanges = false;
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), op == map_operation::exchange || op == map_operation::extract
                                                   ? "it has no atomic exchange and extract"
                                                   : "")
        << to_string(op);
    facts.properties.exchanges = true;
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), "") << to_string(op);
  }
}

TEST(cannot_run, lets_every_map_run_updates) {
  EXPECT_EQ(subject_facts{}.cannot_run(*plan_of("ycsb-f")), "");
  EXPECT_EQ(subject_facts{}.cannot_run(*trace_of(map_operation::update)), "");
}

TEST(cannot_run, judges_a_trace_by_its_records_and_not_by_the_mix) {
  subject_facts facts;
  facts.supports_erase = false;
  EXPECT_EQ(facts.cannot_run(*plan_of("90/5/5")), "it has no concurrent erase");
  EXPECT_EQ(facts.cannot_run(*plan_of("90/5/5", {{1, 0, map_operation::find}})), "");
  EXPECT_EQ(facts.cannot_run(*trace_of(map_operation::erase)), "it has no concurrent erase");
  facts.supports_scan = false;
  EXPECT_EQ(facts.cannot_run(*plan_of("ycsb-e")), "it has no concurrent scan");
  EXPECT_EQ(facts.cannot_run(*trace_of(map_operation::scan)), "it has no concurrent scan");
  EXPECT_EQ(facts.cannot_run(*plan_of("ycsb-a")), "");
}

TEST(cannot_run, refuses_every_write_to_a_map_whose_reads_are_right_without_writers) {
  subject_facts facts;
  facts.properties.reads_beside_writers = false;
  facts.properties.exchanges = true;
  constexpr const char* why = "its reads are right only while no thread writes";
  for (const char* mix : {"90/10/0", "90/0/10", "ycsb-a", "ycsb-f"})
    EXPECT_EQ(facts.cannot_run(*plan_of(mix)), why) << mix;
  EXPECT_EQ(facts.cannot_run(*plan_of("100/0/0")), "");
  for (const map_operation op : map_operations)
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), is_write(op) ? why : "") << to_string(op);
}

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
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 52), Pair(7, 70)));
}

TEST(apply, translates_by_a_codec) {
  using map_type = locked_map<std::string, std::uint64_t>;
  map_type strings;
  locked_map<std::uint64_t, std::uint64_t> numbers;
  for (const map_operation op : map_operations) {
    if (op == map_operation::reverse_scan) continue;
    for (const std::uint64_t key : {7U, 300U, 6U, 7U}) {
      const step s{op, key, key + 1};
      EXPECT_EQ(apply<string_codec>(strings, s), apply(numbers, s)) << to_string(op) << " of " << key;
    }
  }
  ASSERT_EQ(strings.size(), numbers.size());
  auto at = numbers.begin();
  for (const auto& [key, value] : strings) {
    EXPECT_EQ(string_codec::decode_key(key), at->key);
    EXPECT_EQ(value, at->value);
    ++at;
  }
}

/// Numbers around those at which the codec's keys grow, up to the largest one.
template <class Codec>
void expect_order_kept() {
  std::vector<std::uint64_t> numbers{0, 1, 2, 3};
  for (std::uint64_t power = 4; power != 0 && power < Codec::largest_key; power *= 2)
    numbers.insert(numbers.end(), {power - 1, power, power + 1});
  numbers.insert(numbers.end(), {Codec::largest_key - 1, Codec::largest_key});
  const auto less = Codec::order();
  for (const std::uint64_t a : numbers) {
    const typename Codec::key_type key(Codec::encode_key(a));
    EXPECT_EQ(Codec::decode_key(key), a);
    for (const std::uint64_t b : numbers)
      EXPECT_EQ(less(key, typename Codec::key_type(Codec::encode_key(b))), a < b) << a << " and " << b;
  }
}

TEST(codec, keeps_the_order) {
  expect_order_kept<number_codec<>>();
  expect_order_kept<number_codec<std::int64_t>>();
  expect_order_kept<number_codec<std::int16_t>>();
  expect_order_kept<number_codec<std::uint32_t>>();
  expect_order_kept<string_codec>();
}

TEST(codec, strings_extend_one_another) {
  const auto text = [](std::uint64_t k) { return std::string(string_codec::encode_key(k)); };
  EXPECT_EQ(text(0), "https://example.org/a");
  EXPECT_EQ(text(0x1234), "https://example.org/d91a");
  EXPECT_EQ(text(0x1235), text(0x1234) + "/index");
}

TEST(apply, exchanges_and_extracts) {
  counted_map<true> map;
  EXPECT_EQ(apply(map, {map_operation::exchange, 5, 50}), 0U);
  EXPECT_EQ(apply(map, {map_operation::exchange, 5, 51}), 50U);
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 51)));
  EXPECT_EQ(apply(map, {map_operation::extract, 5, 0}), 51U);
  EXPECT_EQ(apply(map, {map_operation::extract, 5, 0}), 0U);
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.calls(), (calls_made{.finds = 0, .assigns = 0, .updates = 4}));
}

TEST(apply, updates_in_one_call_where_the_map_exchanges) {
  counted_map<true> map;
  static_cast<void>(apply(map, {map_operation::update, 5, 50}));
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 50)));
  EXPECT_EQ(apply(map, {map_operation::update, 5, 2}), 50U);
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 52)));
  EXPECT_EQ(map.calls(), (calls_made{.finds = 0, .assigns = 0, .updates = 2}));
}

TEST(apply, updates_by_find_and_assign_elsewhere) {
  counted_map<false> map;
  static_cast<void>(apply(map, {map_operation::update, 5, 50}));
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 50)));
  static_cast<void>(apply(map, {map_operation::update, 5, 2}));
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(5, 52)));
  EXPECT_EQ(map.calls(), (calls_made{.finds = 2, .assigns = 2, .updates = 0}));
}

TEST(apply, refuses_what_the_map_lacks) {
  counted_map<false> map;
  EXPECT_THROW(apply(map, {map_operation::exchange, 5, 50}), std::logic_error);
  EXPECT_THROW(apply(map, {map_operation::extract, 5, 0}), std::logic_error);
  EXPECT_TRUE(map.empty());
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
  EXPECT_THAT(entries_of(map), ElementsAre(Pair(1, 10), Pair(2, 25), Pair(4, 40)));
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
  const auto subject = drive<counted_map<true>>(facts_of_map<counted_map<true>>());
  ASSERT_EQ(subject->facts().cannot_run(*plan), "");

  trace_recorder recorder(1);
  const run_outcome outcome = subject->run(request_of(*plan, &recorder));
  EXPECT_EQ(outcome.operations, trace.size());
  EXPECT_THAT(recorder.records(), ElementsAreArray(trace));
}

TEST(driver, works_on_a_map_of_strings) {
  using map = locked_map<std::string, std::uint64_t>;
  const auto plan = plan_of("ycsb-e");
  const auto numbers = drive<locked_map<std::uint64_t, std::uint64_t>>(facts_of_map<map>());
  const auto strings = drive<map, string_codec>(facts_of_map<map>());
  std::vector<std::vector<trace_record>> records;
  for (const auto& driven : {numbers.get(), strings.get()}) {
    driven->prefill(*plan, 1, {});
    trace_recorder recorder(1);
    EXPECT_EQ(driven->run(request_of(*plan, &recorder)).operations, 500U);
    EXPECT_EQ(driven->leaked_bytes(), 0U);
    records.push_back(recorder.records());
  }
  EXPECT_EQ(records[0], records[1]);
}

TEST(driver, records_the_values_of_a_mix_where_they_are_used) {
  plan_request p;
  p.keys = 50;
  p.mix = "40/30/30";
  const auto plan = make_plan(p);
  const auto subject = drive<counted_map<false>>(facts_of_map<counted_map<false>>());
  trace_recorder recorder(1);
  static_cast<void>(subject->run(request_of(*plan, &recorder)));
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
  const auto subject = drive<counted_map<false>>(facts_of_map<counted_map<false>>());
  subject->prefill(*plan, 1, {});
  trace_recorder recorder(1);
  static_cast<void>(subject->run(request_of(*plan, &recorder)));
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

/// The values of a member, in the order of the text.
std::vector<std::string> values_of(std::string_view member, std::string_view json) {
  const std::string before = std::string("\"").append(member).append("\": \"");
  std::vector<std::string> values;
  for (auto at = json.find(before); at != std::string_view::npos; at = json.find(before, at)) {
    at += before.size();
    values.emplace_back(json.substr(at, json.find('"', at) - at));
  }
  return values;
}

TEST(to_json, names_the_operations_that_a_mix_draws) {
  measurement m;
  m.plan = make_plan({});
  m.latency.resize(map_operations.size());
  for (const map_operation op : drawn_operations) m.latency[static_cast<std::size_t>(op)].record(1);
  EXPECT_THAT(values_of("operation", to_json({}, {m})),
              ElementsAre("all", "lookup", "insert", "erase", "update", "scan", "read_modify_write"));
  m.latency[static_cast<std::size_t>(map_operation::insert)] = histogram();
  EXPECT_THAT(values_of("operation", to_json({}, {m})),
              ElementsAre("all", "lookup", "erase", "update", "scan", "read_modify_write"));
}

}  // namespace
}  // namespace espalier::workload
