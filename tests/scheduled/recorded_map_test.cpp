#include "sim/recorded_map.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/locked_map.hpp"
#include "scheduled/battery.hpp"
#include "scheduled/expect.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::scene;

using plain_map = sim::battery::simulated_map<ticket<std::uint64_t, std::uint64_t>>;
using recorded_map = sim::recorded<plain_map>;

/// The same program on a map and on a recorded one.
template <class Map>
void updates(scene& s) {
  auto& map = s.make<Map>();
  s.thread("a", [&map] {
    map.insert(1, 10);
    map.erase(2);
  });
  s.thread("b", [&map] {
    map.insert_or_assign(2, 20);
    // Used, so that the compiler does not remove a read behind it.
    [[maybe_unused]] volatile bool seen = map.find(1).has_value();
    seen = map.contains(2);
  });
}

TEST(recorded_map, recording_adds_no_step) {
  for (const sim::memory_model model :
       {sim::memory_model::sequential, sim::memory_model::buffered, sim::memory_model::weak}) {
    sim::exploration_options o;
    o.schedules = 20;
    o.strategies = {"round-robin"};
    o.model = model;
    const auto plain = sim::explore("plain", o, updates<plain_map>);
    const auto recorded = sim::explore("recorded", o, updates<recorded_map>);
    EXPECT_TRUE(plain.passed()) << plain;
    EXPECT_TRUE(recorded.passed()) << recorded;
    // With buffers a change is followed by a fence, which leaves less to flush.
    if (model == sim::memory_model::sequential) {
      EXPECT_EQ(plain.steps, recorded.steps);
    }
  }
}

TEST(recorded_map, a_whole_test) {
  sim::expect_kept(500, [](scene& s) {
    auto& map = s.make<recorded_map>();
    map.start_with(1, 10);
    s.thread("a", [&map] { sim::require(map.erase(1), "nobody else erases 1"); });
    s.thread("b", [&map] {
      const auto found = map.find(1);
      sim::require(!found || *found == 10, "1 has the value it began with");
    });
    s.thread("c", [&map] {
      auto guard = map.pin();
      map.insert(guard, 2, 20);
      sim::require(map.scan(guard, 2) == 1, "2 is there");
    });
    s.at_end([&map] { map.check(); });
  });
}

using string_map = sim::battery::simulated_map<locked_map<std::string, std::uint64_t>>;

TEST(recorded_map, strings_as_keys) {
  sim::battery::options o;
  o.schedules_per_scenario = 50;
  const auto r = sim::battery::run(sim::battery::subject_type_of<string_map, false, test::string_codec>(), o);
  EXPECT_TRUE(r.passed) << r.text;
}

/// Finds all keys of one length equal.
struct compares_lengths {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept { return a.size() < b.size(); }
};

TEST(recorded_map, strings_that_are_confused_are_found) {
  using map = string_map::rebind<std::string, std::uint64_t, compares_lengths>;
  const auto r = sim::battery::run(sim::battery::subject_type_of<map, false, test::string_codec>(), {});
  EXPECT_FALSE(r.passed);
}

/// The report of check() on contents that do not follow from the history: an operation that bypassed the recorder.
TEST(recorded_map, an_operation_that_was_not_recorded_is_missed) {
  const auto bypassed = [](scene& s) {
    auto& map = s.make<recorded_map>();
    s.thread("a", [&map] {
      map.insert(1, 10);
      map.map().erase(1);
    });
    s.at_end([&map] { map.check(); });
  };
  sim::expect_broken(sim::failure_kind::requirement, 1, bypassed, "not linearizable");
}

/// A map that counts one key too many.
class miscounting_map : public plain_map {
 public:
  [[nodiscard]] std::size_t size() const { return plain_map::size() + 1; }
};

TEST(recorded_map, a_wrong_size_is_reported) {
  const auto miscounted = [](scene& s) {
    auto& map = s.make<sim::recorded<miscounting_map>>();
    s.thread("a", [&map] { map.insert(1, 10); });
    s.at_end([&map] { map.check(); });
  };
  sim::expect_broken(sim::failure_kind::requirement, 1, miscounted, "size() is not the number of keys");
}

TEST(recorded_map, operations_that_return_the_value_before) {
  sim::expect_kept_in_all_models(300, [](scene& s) {
    auto& map = s.make<recorded_map>();
    map.start_with(1, 10);
    s.thread("a", [&map] { map.update(1, 100); });
    s.thread("b", [&map] {
      auto guard = map.pin();
      const auto before = map.exchange(guard, 1, 20);
      sim::require(!before || before == 10 || before == 110 || before == 100,
                   "no thread stores another value");
    });
    s.thread("c", [&map] {
      const auto last = map.extract(1);
      sim::require(last.has_value(), "no other thread erases 1");
    });
    s.at_end([&map] { map.check(); });
  });
}

}  // namespace
