// Cursors, loops over ranges, and loads of entries in order.

#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/model.hpp"
#include "support/suite.hpp"
#include "support/watchdog.hpp"

namespace espalier::test {
namespace {

std::optional<entry_pair> entry_at(const model& all, model::const_iterator at) {
  return at == all.end() ? std::nullopt : std::optional<entry_pair>(*at);
}

/// A cursor and the same position in the model.
void walk(position& cursor, const model& all, random_source& random, bool both_ways) {
  cursor.seek_first();
  auto at = all.begin();
  int steps_back = 0;  // as many of one kind as there are entries in some batches
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(cursor.entry(), entry_at(all, at)) << "after step " << i;
    if (at == all.end() || random.below(150) == 0) {
      const key k = random.below(all.rbegin()->first + 2);
      cursor.seek(k);
      at = all.lower_bound(k);
    } else if (random.below(70) == 0) {
      cursor.seek(at->first);  // reads it anew
    } else if (both_ways && random.below(40) == 0) {
      steps_back = steps_back == 0 ? static_cast<int>(random.below(140)) : 0;
    } else if (steps_back > 0) {
      --steps_back;
      cursor.previous();
      at = at == all.begin() ? all.end() : std::prev(at);
    } else {
      cursor.next();
      ++at;
    }
  }
  if (!both_ways) return;
  cursor.seek_last();
  ASSERT_EQ(cursor.entry(), entry_at(all, std::prev(all.end())));
  cursor.next();
  ASSERT_EQ(cursor.entry(), std::nullopt);
  cursor.next();
  cursor.previous();
  ASSERT_EQ(cursor.entry(), std::nullopt) << "a cursor at no entry stays there";
}

std::vector<entry_pair> entries_of(const model& all) { return {all.begin(), all.end()}; }

}  // namespace

ESPALIER_CHECK(conformance, a_cursor_goes_from_entry_to_entry) {
  for (const std::size_t count : {1U, 2U, 63U, 64U, 65U, 128U, 500U}) {
    const auto map = make(type);
    model expected;
    for (const key k : shuffled(key_range(1, 3 * count + 1, 3), 91)) {
      map->plain().insert(k, k ^ 0x33);
      expected[k] = k ^ 0x33;
    }
    random_source random(92, count);
    map->with_cursor([&](position& cursor) {
      EXPECT_EQ(cursor.entry(), std::nullopt) << "a cursor that has not been told where to be";
      walk(cursor, expected, random, type.properties.bidirectional);
    });
    if (::testing::Test::HasFailure()) return;
  }
}

ESPALIER_CHECK(conformance, a_cursor_stays_where_its_entry_has_gone) {
  const auto map = make(type);
  for (const key k : shuffled(key_range(0, 300), 93)) map->plain().insert(k, k);
  map->with_cursor([&](position& cursor) {
    cursor.seek(100);
    for (key k = 0; k < 300; ++k) map->plain().erase(k);
    EXPECT_EQ(cursor.entry(), (entry_pair{100, 100})) << "its copy";
    cursor.seek(100);
    EXPECT_EQ(cursor.entry(), std::nullopt);
    map->plain().insert(101, 1);
    map->plain().insert(99, 2);
    cursor.seek(100);
    EXPECT_EQ(cursor.entry(), (entry_pair{101, 1}));
    map->plain().insert_or_assign(101, 3);
    map->plain().insert(100, 4);
    if (type.properties.bidirectional) {
      cursor.previous();
      EXPECT_EQ(cursor.entry(), (entry_pair{100, 4})) << "a turn reads anew";
      cursor.next();
      EXPECT_EQ(cursor.entry(), (entry_pair{101, 3})) << "a turn reads anew";
    }
  });
}

ESPALIER_CHECK(conformance, cursors_beside_writers) {
  if (!type.properties.reads_beside_writers)
    GTEST_SKIP() << "its reads are right only while no thread writes";
  // The odd keys stay, the even ones come and go: a cursor sees each odd one once, in order, in either direction.
  constexpr key stable = 150;
  constexpr key last = 2 * stable - 1;
  constexpr std::uint64_t wanted_walks = 20;
  const auto map = make(type);
  watchdog dog(type, *map);
  for (const key k : shuffled(key_range(1, 2 * stable, 2), 94)) map->plain().insert(k, k * 3);
  std::atomic<std::uint64_t> walks{0};
  std::thread writer([&] {
    random_source random(95);
    while (walks.load() < wanted_walks) {
      const key k = 2 * random.below(stable);
      dog.begin(0, map_operation::erase, k);
      if (random.below(2) == 0)
        map->plain().insert(k, k * 3);
      else
        map->plain().erase(k);
    }
    dog.done(0);
  });
  while (walks.load() < wanted_walks) {
    dog.begin(1, map_operation::scan, 0);
    map->with_cursor([&](position& cursor) {
      std::vector<key> odd;
      std::optional<key> before;
      for (cursor.seek_first(); cursor.entry(); cursor.next()) {
        const auto [k, v] = *cursor.entry();
        EXPECT_TRUE((!before || *before < k) && v == k * 3) << k;
        before = k;
        if (k % 2 == 1) odd.push_back(k);
      }
      EXPECT_EQ(odd, key_range(1, 2 * stable, 2)) << "forward";
      if (!type.properties.bidirectional) return;
      odd.clear();
      before.reset();
      for (cursor.seek_last(); cursor.entry(); cursor.previous()) {
        const auto [k, v] = *cursor.entry();
        EXPECT_TRUE((!before || k < *before) && v == k * 3) << k;
        before = k;
        if (k % 2 == 1) odd.push_back(last + 1 - k);
      }
      EXPECT_EQ(odd, key_range(1, 2 * stable, 2)) << "backward";
    });
    if (::testing::Test::HasFailure()) walks.store(wanted_walks);
    walks.fetch_add(1);
  }
  dog.done(1);
  writer.join();
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(conformance, loops_over_ranges) {
  const auto map = make(type);
  model expected;
  for (const key k : shuffled(key_range(0, 900, 3), 96)) {
    map->plain().insert(k, ~k);
    expected[k] = ~k;
  }
  for (const key from : {0U, 1U, 3U, 150U, 189U, 190U, 192U, 896U, 897U, 898U}) {
    for (const std::optional<key> to :
         {std::optional<key>(), std::optional<key>(0), std::optional<key>(191), std::optional<key>(192),
          std::optional<key>(from + 3 * 64), std::optional<key>(897), std::optional<key>(898)}) {
      std::vector<entry_pair> seen;
      map->for_each_in(from, to, [&](key k, value v) { seen.emplace_back(k, v); });
      const auto first = expected.lower_bound(from);
      const auto end = !to ? expected.end() : *to < from ? first : expected.lower_bound(*to);
      ASSERT_EQ(seen, std::vector<entry_pair>(first, end)) << "from " << from << " to " << to.value_or(0);
    }
  }
}

ESPALIER_CHECK(conformance, loads_entries_in_order) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 30U, 400U}) {
    for (const unsigned threads : {1U, 3U}) {
      const auto map = make(type);
      model expected;
      const auto keys = key_range(0, 3 * count, 3);
      for (const key k : keys) expected[k] = k + 5;
      map->bulk_load(entries_of(expected), threads);
      ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, key_range(0, 3 * count + 2)));
      expect_sound_at_rest(*map, type);
      if (count != 0) {
        EXPECT_THROW(map->bulk_load(entries_of(expected), threads), std::invalid_argument);
        ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, keys));
      }
      random_source random(97);
      run_against_model(map->plain(), expected, random, key_range(0, 3 * count + 2), {}, 3000);
      expect_sound_at_rest(*map, type);
      for (const key k : key_range(0, 3 * count + 2)) map->plain().erase(k);
      expect_sound_at_rest(*map, type);
      expect_emptied(*map, type);
      map->bulk_load(entries_of({{7, 7}, {8, 8}}), threads);
      expect_equal(map->plain(), {{7, 7}, {8, 8}}, key_range(0, 20));
    }
  }
}

ESPALIER_CHECK(conformance, loads_nothing_that_is_not_in_order) {
  const auto map = make(type);
  for (const std::size_t wrong : {1U, 50U, 99U}) {
    for (const bool equal : {false, true}) {
      std::vector<entry_pair> entries;
      for (key k = 0; k < 100; ++k) entries.emplace_back(2 * k + 2, k);
      entries[wrong].first = entries[wrong - 1].first - (equal ? 0 : 1);
      EXPECT_THROW(map->bulk_load(entries, 2), std::invalid_argument);
      ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), {}, key_range(0, 210)));
      expect_sound_at_rest(*map, type);
    }
  }
}

}  // namespace espalier::test
