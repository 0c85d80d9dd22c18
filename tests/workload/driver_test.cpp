// A run: its subject, steps and result; medians, spreads and histograms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/catalog/codec.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/measure/context.hpp"
#include "espalier/measure/histogram.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/workload/drawn_steps.hpp"
#include "espalier/workload/driver.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/session.hpp"
#include "espalier/workload/subject.hpp"
#include "support/plain_map.hpp"

namespace espalier::workload {
namespace {

using namespace catalog;
using namespace ::testing;
using namespace measure;

template <class Map>
std::vector<std::pair<std::uint64_t, std::uint64_t>> entries_of(const Map& map) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;
  for (const auto& [key, value] : map) entries.emplace_back(key, value);
  return entries;
}

/// Calls of a counted_map.
struct calls_made {
  int finds = 0;
  int assigns = 0;
  int updates = 0;
  friend bool operator==(const calls_made&, const calls_made&) = default;
};

/// A map that counts the calls that a read-modify-write is made of; for one thread.
template <bool Exchanges>
class counted_map : public test::plain_map<counted_map<Exchanges>> {
  using plain = test::plain_map<counted_map>;

 public:
  static constexpr map_properties properties =
      test::plain_properties(Exchanges ? "exchanging" : "plain", Exchanges);

  [[nodiscard]] const calls_made& calls() const noexcept { return calls_; }

  std::optional<std::uint64_t> do_find(no_guard& guard, std::uint64_t k) const {
    ++calls_.finds;
    return plain::do_find(guard, k);
  }
  bool do_assign(no_guard& guard, std::uint64_t k, std::uint64_t v) {
    ++calls_.assigns;
    return plain::do_assign(guard, k, v);
  }
  template <class Function>
  std::optional<std::uint64_t> do_update(no_guard& guard, std::uint64_t k, Function&& f) {
    ++calls_.updates;
    return plain::do_update(guard, k, f);
  }

 private:
  mutable calls_made calls_;
};

static_assert(exchanging_ordered_map<counted_map<true>>);
static_assert(concurrent_ordered_map<counted_map<false>> && !exchanging_ordered_map<counted_map<false>>);

std::shared_ptr<const workload_plan> plan_of(const char* mix, std::vector<step> trace = {}) {
  plan_request p;
  p.keys = 10;
  p.mix = mix;
  p.trace = std::move(trace);
  return make_plan(p);
}

std::shared_ptr<const workload_plan> trace_of(map_operation op) {
  return plan_of("100/0/0", {{map_operation::find, 1, 0}, {op, 1, 2}});
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
  EXPECT_EQ(facts.cannot_run(*plan_of("90/5/5", {{map_operation::find, 1, 0}})), "");
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

/// The whole trace, or so many operations of the mix.
run_request request_of(const workload_plan& plan, trace_recorder* recorder = nullptr) {
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
      {map_operation::insert, 1, 10}, {map_operation::exchange, 2, 20},
      {map_operation::update, 2, 5},  {map_operation::insert_or_assign, 3, 30},
      {map_operation::extract, 3, 0}, {map_operation::update, 4, 40},
      {map_operation::insert, 5, 50}, {map_operation::erase, 5, 0},
      {map_operation::insert, 1, 11},
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

TEST(driver, replays_every_operation_of_a_trace_and_records_it_again) {
  const std::vector<step> trace{
      {map_operation::insert, 1, 10},   {map_operation::find, 1, 0},
      {map_operation::exchange, 2, 20}, {map_operation::update, 2, 5},
      {map_operation::extract, 1, 0},   {map_operation::insert_or_assign, 3, 30},
      {map_operation::erase, 3, 0},     {map_operation::update, 4, 40},
      {map_operation::scan, 0, 9},
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
  EXPECT_THAT(recorder.steps(), ElementsAreArray(trace));
}

/// Without a placement that records them.
TEST(driver, shows_the_nodes_of_a_map_with_their_pointers_or_says_that_it_cannot) {
  using map = locked_map<std::uint64_t, std::uint64_t>;
  const auto plan = plan_of("90/5/5");
  const auto locked = drive<map>(facts_of_map<map>());
  locked->prefill(*plan, 1, {});
  const inspect::snapshot nodes = locked->layout();
  EXPECT_EQ(nodes.blocks.size(), plan->loaded);
  EXPECT_EQ(nodes.blocks.front().bytes, map::node_bytes);
  // Each but the root has a parent.
  EXPECT_GE(nodes.links.size(), plan->loaded - 1);
  EXPECT_EQ(nodes.links_unknown, "");
  using hidden = counted_map<true>;
  EXPECT_THROW(static_cast<void>(drive<hidden>(facts_of_map<hidden>())->layout()), std::logic_error);
}

TEST(driver, works_on_a_map_of_strings) {
  using map = locked_map<std::string, std::uint64_t>;
  const auto plan = plan_of("ycsb-e");
  const auto numbers = drive<locked_map<std::uint64_t, std::uint64_t>>(facts_of_map<map>());
  const auto strings = drive<map, string_codec>(facts_of_map<map>());
  std::vector<std::vector<step>> records;
  for (const auto& driven : {numbers.get(), strings.get()}) {
    driven->prefill(*plan, 1, {});
    trace_recorder recorder(1);
    EXPECT_EQ(driven->run(request_of(*plan, &recorder)).operations, 500U);
    EXPECT_EQ(driven->leaked_bytes(), 0U);
    records.push_back(recorder.steps());
  }
  EXPECT_EQ(records[0], records[1]);
}

TEST(driver, works_on_strings_of_a_list) {
  using map = locked_map<std::string, std::uint64_t>;
  auto list = std::make_shared<string_list>();
  list->keys = {"c", "a long key that is on the heap", "b", "a"};
  plan_request p;
  p.explicit_strings = list;
  p.mix = "load";
  const auto load = make_plan(p);
  EXPECT_EQ(load->loaded, 4U);
  EXPECT_EQ(subject_facts{}.cannot_run(*load), "it takes no strings as keys");
  p.mix = "ycsb-e";
  const auto scans = make_plan(p);
  const auto strings = drive<map, listed_string_codec>(facts_of_map<map>());
  EXPECT_EQ(strings->run(request_of(*load)).operations, 4U);
  // All are present: the mix inserts keys of the list, and scans end with the list.
  trace_recorder recorder(1);
  EXPECT_EQ(strings->run(request_of(*scans, &recorder)).operations, 500U);
  for (const step& r : recorder.steps())
    EXPECT_THAT(list->keys, Contains(listed_string_codec::encode_key(r.key)));
}

TEST(driver, counts_the_text_of_strings) {
  const auto before = heap_bytes_in_use();
  const std::vector<char> some(100'000);
  if (heap_bytes_in_use() == before) GTEST_SKIP() << "this malloc does not say how many bytes are in use";
  using map = locked_map<std::string, std::uint64_t>;
  const auto bytes_for = [](std::size_t length) {
    auto list = std::make_shared<string_list>();
    for (std::size_t i = 0; i < 1000; ++i) list->text += std::to_string(1000 + i) + std::string(length, '/');
    for (std::size_t i = 0; i < 1000; ++i)
      list->keys.push_back(std::string_view(list->text).substr(i * (length + 4), length + 4));
    plan_request p;
    p.explicit_strings = list;
    p.mix = "load";
    const auto plan = make_plan(p);
    const auto strings = drive<map, listed_string_codec>(facts_of_map<map>());
    static_cast<void>(strings->run(request_of(*plan)));
    return strings->bytes_per_key().value_or(0);
  };
  EXPECT_GT(bytes_for(1000), bytes_for(1) + 900);
}

TEST(driver, fills_an_empty_map_to_the_last_key) {
  const auto plan = plan_of("load");
  EXPECT_EQ(plan->loaded, 10U);
  EXPECT_EQ(plan->name, "load");
  const auto subject = drive<counted_map<false>>(facts_of_map<counted_map<false>>());
  run_request request = request_of(*plan);
  trace_recorder recorder(2);
  request.threads = 2;
  request.operations.reset();
  request.time = std::chrono::hours(1);
  request.latency_every = 1;
  const run_outcome timed = subject->run(request);
  EXPECT_EQ(timed.operations, 10U);
  EXPECT_EQ(timed.latency[static_cast<std::size_t>(map_operation::insert)].count(), 10U);
  EXPECT_TRUE(subject->bytes_per_key().has_value());
  request.recorder = &recorder;
  static_cast<void>(subject->run(request));
  std::set<std::uint64_t> inserted;
  for (const step& r : recorder.steps()) {
    EXPECT_EQ(r.op, map_operation::insert);
    inserted.insert(r.key);
  }
  EXPECT_EQ(inserted.size(), 10U);
}

/// Its map is made again for each run of a load, and for nothing else.
TEST(session, loads_into_an_empty_map_in_each_run) {
  struct silent : session_observer {
    void step(std::size_t, std::size_t, const std::string&) override {}
    void skipped(const subject_facts&, const workload_plan&, const std::string&) override {}
    void finished(const std::vector<measurement>&) override {}
  } observer;
  using map = locked_map<std::uint64_t, std::uint64_t>;
  int made = 0;
  session_request request;
  request.maps = {{facts_of_map<map>(),
                   [&] {
                     ++made;
                     return drive<map>(facts_of_map<map>());
                   },
                   {},
                   {}}};
  request.runs = 3;
  request.latency_every = 1;
  request.operations = 5;
  for (const auto& [mix, maps, operations] : {std::tuple("load", 5, 10U), std::tuple("90/5/5", 1, 5U)}) {
    made = 0;
    request.plans = {plan_of(mix)};
    std::vector<std::size_t> nodes;  // at the end
    request.at_end = [&](const subject& s) { nodes.push_back(s.layout().blocks.size()); };
    const auto all = run_session(request, observer);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(made, maps) << mix;
    EXPECT_THAT(nodes, ElementsAre(Gt(0U))) << mix;
    ASSERT_EQ(all[0].runs.size(), 3U);
    for (const run_outcome& r : all[0].runs) EXPECT_EQ(r.operations, operations) << mix;
    EXPECT_EQ(latency_of_all(all[0]).count(), operations);
    EXPECT_TRUE(all[0].bytes_per_key.has_value());
  }
}

TEST(driver, records_the_values_of_a_mix_where_they_are_used_and_its_updates_as_additions) {
  for (const char* mix : {"40/30/30", "ycsb-f"}) {
    const auto plan = plan_of(mix);
    const auto subject = drive<counted_map<false>>(facts_of_map<counted_map<false>>());
    subject->prefill(*plan, 1, {});
    trace_recorder recorder(1);
    static_cast<void>(subject->run(request_of(*plan, &recorder)));
    const auto records = recorder.steps();
    ASSERT_EQ(records.size(), 500U);
    std::map<map_operation, std::size_t> seen;
    for (const step& r : records) {
      ++seen[r.op];
      ASSERT_EQ(r.argument, r.op == map_operation::insert   ? value_for(r.key)
                            : r.op == map_operation::update ? 1
                                                            : 0);
    }
    const bool updates = mix == std::string_view("ycsb-f");
    EXPECT_EQ(seen.size(), updates ? 2U : 3U);
    EXPECT_NEAR(static_cast<double>(seen[updates ? map_operation::update : map_operation::insert]),
                updates ? 250 : 150, 100);
  }
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

TEST(to_json, a_run_without_operations_has_no_time) {
  for (const char* const time : {"real_time", "cpu_time"}) {
    measurement m;
    m.plan = make_plan({});
    m.runs.resize(2);
    EXPECT_EQ(values_of(time, to_json({}, {m})).size(), 7U) << "of two runs, and five aggregates of their 0";
    m.runs[1].operations = 10;
    m.runs[1].wall_ns = 100;
    m.runs[1].cpu_ns = 100;
    EXPECT_EQ(values_of(time, to_json({}, {m})).size(), 3U) << "of a run; one time has no deviation";
    m.runs[0] = m.runs[1];
    EXPECT_THAT(values_of(time, to_json({}, {m})), IsEmpty());
  }
}

/// Each insert is a section: one attempt meets a conflict, the next one commits. With `Available` false there are no
/// transactions to count.
template <bool Available>
class eliding_map : public test::plain_map<eliding_map<Available>> {
  using plain = test::plain_map<eliding_map>;

 public:
  static constexpr std::array transaction_regions{std::string_view("upper"), std::string_view("lower")};

  [[nodiscard]] elision_counts transactions(std::size_t region) const {
    elision_counts counts;
    if (Available && region == 1) {
      counts.of_event[static_cast<std::size_t>(elision_event::commit)] = sections_;
      counts.of_event[static_cast<std::size_t>(elision_event::conflict)] = sections_;
    }
    return counts;
  }

  bool do_insert(no_guard& guard, std::uint64_t k, std::uint64_t v) {
    ++sections_;
    return plain::do_insert(guard, k, v);
  }

 private:
  std::uint64_t sections_ = 0;
};

static_assert(counts_transactions<eliding_map<true>> && !counts_transactions<counted_map<true>>);

template <class Map>
struct entry_of {
  using map_type = Map;
  static constexpr std::string_view algorithm = "map";
  static constexpr std::string_view variant{};
  static std::string name() { return "map"; }
};

/// Three runs of inserts.
template <class Map>
measurement measured() {
  measurement m;
  m.facts = facts_of<entry_of<Map>>(subject_kind::espalier);
  m.plan = plan_of("0/100/0");
  m.threads = 1;
  const auto subject = drive<Map>(m.facts);
  subject->prefill(*m.plan, 1, {});
  for (int i = 0; i < 3; ++i) m.runs.push_back(subject->run(request_of(*m.plan)));
  return m;
}

TEST(transactions, of_a_run_are_those_since_its_begin) {
  for (const run_outcome& r : measured<eliding_map<true>>().runs) {
    ASSERT_EQ(r.transactions.size(), 2U);
    EXPECT_EQ(r.transactions[0], elision_counts{});
    EXPECT_EQ(r.transactions[1].of(elision_event::commit), r.operations);
    EXPECT_EQ(r.transactions[1].of(elision_event::conflict), r.operations);
    EXPECT_EQ(r.transactions[1].attempts(), 2 * r.operations);
  }
}

std::size_t count_of(std::string_view part, std::string_view text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(transactions, are_unavailable_where_none_is_counted) {
  const std::vector all{measured<eliding_map<false>>(), measured<counted_map<true>>()};
  for (const measurement& m : all) EXPECT_TRUE(m.runs.front().transactions.empty());
  const std::string json = to_json({}, all);
  // Of each the runs and the medians.
  EXPECT_EQ(count_of("\"transactions\": \"unavailable\"", json), 8U);
  EXPECT_EQ(count_of("\"transactions\"", json), 8U);
}

TEST(transactions, are_in_the_results_by_region_and_operation) {
  const std::vector all{measured<counted_map<true>>(), measured<eliding_map<true>>()};
  std::string json = to_json({}, all);
  std::erase_if(json, [](char c) { return c == '\n' || c == ' '; });
  const char* const expected =
      R"("transactions":{"upper":{"commits":0.0,"conflict":0.0,"capacity":0.0,"lock_held":0.0,"other":0.0,)"
      R"("fallbacks":0.0,"healed":0.0,"skipped":0.0},"lower":{"commits":1.0,"conflict":1.0,"capacity":0.0,)"
      R"("lock_held":0.0,"other":0.0,"fallbacks":0.0,"healed":0.0,"skipped":0.0}})";
  EXPECT_EQ(count_of(expected, json), 4U) << json;

  std::istringstream csv(to_csv(all));
  std::vector<std::string> lines(3);
  for (std::string& line : lines) std::getline(csv, line);
  EXPECT_THAT(lines[0], HasSubstr(",upper_commits_per_op,"));
  EXPECT_THAT(
      lines[0],
      EndsWith(",lower_commits_per_op,lower_conflict_per_op,lower_capacity_per_op,lower_lock_held_per_op,"
               "lower_other_per_op,lower_fallbacks_per_op,lower_healed_per_op,lower_skipped_per_op"));
  EXPECT_THAT(lines[1], EndsWith(",unavailable,unavailable"));
  EXPECT_THAT(lines[2], EndsWith(",0,1,1,0,0,0,0,0,0"));
}

TEST(to_csv, has_no_columns_of_transactions_where_no_map_counts_them) {
  EXPECT_THAT(to_csv({measured<counted_map<true>>()}), Not(HasSubstr("commits")));
}

using reals = std::vector<double>;

TEST(statistics, are_absent_for_no_values) {
  for (const auto figure : {minimum, maximum, mean, median, stddev, coefficient_of_variation, geometric_mean})
    EXPECT_EQ(figure({}), std::nullopt);
}

TEST(statistics, of_small_samples) {
  const reals values{9, 2, 4, 4, 5, 4, 7, 5};
  EXPECT_EQ(minimum(values), 2);
  EXPECT_EQ(maximum(values), 9);
  EXPECT_EQ(mean(values), 5);
  EXPECT_EQ(median(values), 4.5);
  EXPECT_DOUBLE_EQ(stddev(values).value_or(0), std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(coefficient_of_variation(values).value_or(0), std::sqrt(32.0 / 7) / 5);
  EXPECT_EQ(median(reals{5, 1, 4, 2, 3}), 3);
  EXPECT_EQ(median(reals{3}), 3);
  EXPECT_EQ(stddev(reals{3}), std::nullopt);
  EXPECT_EQ(coefficient_of_variation(reals{3}), std::nullopt);
}

TEST(statistics, spread_survives_a_large_offset) {
  EXPECT_DOUBLE_EQ(stddev(reals{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}).value_or(0), std::sqrt(30));
}

TEST(statistics, variation_is_relative_to_the_magnitude_of_the_mean) {
  EXPECT_DOUBLE_EQ(coefficient_of_variation(reals{-1, -3}).value_or(0), std::sqrt(2) / 2);
  EXPECT_EQ(coefficient_of_variation(reals{-1, 1}), std::nullopt);
}

TEST(statistics, geometric_mean_multiplies) {
  EXPECT_DOUBLE_EQ(geometric_mean(reals{1, 4, 16}).value_or(0), 4);
  EXPECT_NEAR(geometric_mean(reals{1e300, 1e300, 1e300}).value_or(0) / 1e300, 1, 1e-12);
  EXPECT_THROW(geometric_mean(reals{1, 0}), std::invalid_argument);
  EXPECT_THROW(geometric_mean(reals{1, -2}), std::invalid_argument);
}

// Spread evenly over the orders of magnitude, as latencies are.
std::vector<std::uint64_t> logarithmic_values(std::size_t count, std::uint64_t seed) {
  random_generator random(seed);
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) value = static_cast<std::uint64_t>(std::exp2(random.unit() * 40));
  return values;
}

TEST(histogram, knows_nothing_while_empty) {
  const histogram empty;
  EXPECT_EQ(empty.count(), 0U);
  EXPECT_EQ(empty.min(), std::nullopt);
  EXPECT_EQ(empty.max(), std::nullopt);
  EXPECT_EQ(empty.mean(), std::nullopt);
  EXPECT_EQ(empty.stddev(), std::nullopt);
  EXPECT_EQ(empty.value_at(0.5), std::nullopt);
  EXPECT_THAT(empty.percentiles(), ::testing::IsEmpty());
}

TEST(histogram, is_exact_for_small_values) {
  histogram values;
  for (std::uint64_t value = 1; value <= 100; ++value) values.record(value);
  EXPECT_EQ(values.count(), 100U);
  EXPECT_EQ(values.min(), 1U);
  EXPECT_EQ(values.max(), 100U);
  EXPECT_DOUBLE_EQ(values.mean().value_or(0), 50.5);
  EXPECT_DOUBLE_EQ(values.stddev().value_or(0), std::sqrt(833.25));  // (100^2 - 1) / 12
  EXPECT_EQ(values.value_at(0), 1U);
  for (std::uint64_t percent = 1; percent <= 100; ++percent) {
    EXPECT_EQ(values.value_at(static_cast<double>(percent) / 100), percent);
  }
  EXPECT_EQ(values.value_at(0.995), 100U);
}

class histogram_digits : public ::testing::TestWithParam<unsigned> {};

TEST_P(histogram_digits, bounds_the_relative_error_of_every_value) {
  const unsigned digits = GetParam();
  const double bound = 1 + std::pow(10, -static_cast<double>(digits));
  auto values = logarithmic_values(200, digits);
  for (unsigned power = 0; power <= 40; ++power) {  // both sides of each border between resolutions
    values.push_back(std::uint64_t{1} << power);
    values.push_back((std::uint64_t{1} << power) - 1);
  }
  histogram one(digits);
  for (const auto value : values) {
    one.reset();
    one.record(value);
    one.record(histogram::highest_value);  // so that the maximum does not hide the bucket
    const auto reported = one.value_at(0.5).value_or(0);
    EXPECT_GE(reported, value);
    EXPECT_LE(static_cast<double>(reported), static_cast<double>(value) * bound) << digits << " digits";
  }
}

TEST_P(histogram_digits, agrees_with_the_sorted_values) {
  const unsigned digits = GetParam();
  const double bound = std::pow(10, -static_cast<double>(digits));
  auto values = logarithmic_values(20'001, 11);
  histogram recorded(digits);
  double sum = 0;
  for (const auto value : values) {
    recorded.record(value);
    sum += static_cast<double>(value);
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.9999}) {
    const auto rank = std::max(1.0, std::ceil(fraction * static_cast<double>(values.size())));
    const auto exact = values[static_cast<std::size_t>(rank) - 1];
    const auto reported = recorded.value_at(fraction).value_or(0);
    EXPECT_GE(reported, exact);
    EXPECT_LE(static_cast<double>(reported), static_cast<double>(exact) * (1 + bound));
  }
  EXPECT_EQ(recorded.value_at(1), values.back());
  EXPECT_EQ(recorded.min(), values.front());
  const double mean = sum / static_cast<double>(values.size());
  EXPECT_NEAR(recorded.mean().value_or(0) / mean, 1, bound);
}

INSTANTIATE_TEST_SUITE_P(digits, histogram_digits, ::testing::Values(1, 2, 3, 4));

TEST(histogram, saturates_at_the_top_and_keeps_the_exact_maximum) {
  histogram values;
  values.record(5);
  values.record(histogram::highest_value);
  values.record(histogram::highest_value + 1);
  values.record(~std::uint64_t{0});
  EXPECT_EQ(values.count(), 4U);
  EXPECT_EQ(values.value_at(0.25), 5U);
  EXPECT_EQ(values.value_at(0.5), histogram::highest_value);
  EXPECT_EQ(values.value_at(0.99), histogram::highest_value);
  EXPECT_EQ(values.value_at(1), ~std::uint64_t{0});
  EXPECT_EQ(values.max(), ~std::uint64_t{0});
}

TEST(histogram, records_zero_and_several_at_once) {
  histogram values;
  values.record(0);
  values.record(7, 3);
  values.record(900, 0);
  EXPECT_EQ(values.count(), 4U);
  EXPECT_EQ(values.min(), 0U);
  EXPECT_EQ(values.max(), 7U);
  EXPECT_EQ(values.value_at(0.25), 0U);
  EXPECT_EQ(values.value_at(0.26), 7U);
}

TEST(histogram, merges_into_what_one_histogram_would_hold) {
  histogram whole;
  histogram odd;
  histogram even;
  for (const auto value : logarithmic_values(5000, 12)) {
    whole.record(value);
    (value % 2 == 0 ? even : odd).record(value);
  }
  histogram merged;
  merged.merge(odd);
  merged.merge(even);
  merged.merge(histogram());
  EXPECT_EQ(merged.percentiles(), whole.percentiles());
  EXPECT_EQ(merged.count(), 5000U);
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_EQ(merged.stddev(), whole.stddev());

  merged.reset();
  EXPECT_EQ(merged.count(), 0U);
  EXPECT_EQ(merged.max(), std::nullopt);
  EXPECT_EQ(merged.value_at(0.5), std::nullopt);
}

TEST(histogram, gives_a_curve_that_grows_denser_towards_the_top) {
  histogram values;
  values.record(10);
  values.record(20, 2);
  values.record(30);
  EXPECT_THAT(values.curve(1),
              ElementsAre(Pair(0.0, 10U), Pair(0.5, 20U), Pair(0.75, 20U), Pair(0.875, 30U), Pair(1.0, 30U)));

  histogram many;
  for (const auto value : logarithmic_values(50'000, 13)) many.record(value);
  const auto curve = many.curve();
  EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end()));
  EXPECT_GT(curve.size(), 50U);
  EXPECT_EQ(curve.back(), std::pair(1.0, many.max().value_or(0)));
  for (const auto& [fraction, value] : curve) EXPECT_EQ(many.value_at(fraction), value) << fraction;
}

TEST(histogram, writes_the_text_of_the_hdr_tools) {
  histogram values;
  values.record(10);
  values.record(20, 2);
  values.record(30);
  EXPECT_EQ(values.hgrm(),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "       10.00 0.000000000000          1           1.00\n"
            "       10.00 0.100000000000          1           1.11\n"
            "       10.00 0.200000000000          1           1.25\n"
            "       20.00 0.300000000000          3           1.43\n"
            "       20.00 0.400000000000          3           1.67\n"
            "       20.00 0.500000000000          3           2.00\n"
            "       20.00 0.550000000000          3           2.22\n"
            "       20.00 0.600000000000          3           2.50\n"
            "       20.00 0.650000000000          3           2.86\n"
            "       20.00 0.700000000000          3           3.33\n"
            "       20.00 0.750000000000          3           4.00\n"
            "       30.00 0.775000000000          4           4.44\n"
            "       30.00 1.000000000000          4\n"
            "#[Mean    =        20.00, StdDeviation   =         7.07]\n"
            "#[Max     =        30.00, Total count    =            4]\n"
            "#[Buckets =           34, SubBuckets     =          256]\n");
}

TEST(histogram, writes_text_in_larger_units_and_of_nothing) {
  histogram one(3);
  one.record(1500);
  EXPECT_EQ(one.hgrm(1000, 1),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "       1.500 0.000000000000          1           1.00\n"
            "       1.500 1.000000000000          1\n"
            "#[Mean    =        1.500, StdDeviation   =        0.000]\n"
            "#[Max     =        1.500, Total count    =            1]\n"
            "#[Buckets =           31, SubBuckets     =         2048]\n");
  EXPECT_EQ(histogram().hgrm(),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "#[Mean    =         0.00, StdDeviation   =         0.00]\n"
            "#[Max     =         0.00, Total count    =            0]\n"
            "#[Buckets =           34, SubBuckets     =          256]\n");
}

TEST(histogram, refuses_bad_arguments) {
  EXPECT_THROW(histogram(0), std::invalid_argument);
  EXPECT_THROW(histogram(6), std::invalid_argument);
  histogram values;
  EXPECT_THROW(values.merge(histogram(3)), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(-0.1), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(1.1), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(std::nan("")), std::invalid_argument);
  EXPECT_THROW((void)values.percentiles(0), std::invalid_argument);
  EXPECT_THROW((void)values.hgrm(0), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::workload
