// Reads of many keys, in order or at once: bounds, ends, what a visitor or a loop may do, and what it sees while other
// threads write.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "support/model.hpp"
#include "support/suite.hpp"
#include "support/watchdog.hpp"

namespace espalier::test {
namespace {

model filled(operations& map, std::span<const key> keys) {
  model expected;
  for (const key k : keys) {
    map.insert(k, k ^ 0x55);
    expected[k] = k ^ 0x55;
  }
  return expected;
}

/// A scan to the end, with visitors of both kinds.
void expect_scan_from(operations& map, const model& expected, key from) {
  const model wanted(expected.lower_bound(from), expected.end());
  std::vector<model::value_type> seen;
  EXPECT_EQ(map.scan_to_end(from, [&](key k, value v) { seen.emplace_back(k, v); }), wanted.size());
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), wanted.begin(), wanted.end())) << "from " << from;
  seen.clear();
  EXPECT_EQ(map.scan(from, [&](key k, value v) { return seen.emplace_back(k, v), true; }), wanted.size());
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), wanted.begin(), wanted.end())) << "from " << from;
}

void with_and_without_guard(subject& map, function_ref<void(operations&)> body) {
  body(map.plain());
  map.with_guard(body);
}

/// The keys and their neighbours, and both ends of the domain, ascending.
std::vector<key> bounds_around(const subject_type& type, std::span<const key> keys) {
  std::vector<key> bounds{0, 1, type.largest_key - 1, type.largest_key};
  for (const key k : keys) {
    bounds.push_back(k);
    if (k > 0) bounds.push_back(k - 1);
    if (k < type.largest_key) bounds.push_back(k + 1);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

/// A find_batch of the keys into places that hold something else before.
void expect_batch(operations& map, const model& expected, std::span<const key> keys) {
  constexpr value stale = 4242;
  std::vector<std::optional<value>> results(keys.size() + 1, stale);
  std::vector<std::optional<value>> wanted;
  for (const key k : keys) wanted.push_back(find(expected, k));
  const auto present =
      std::count_if(wanted.begin(), wanted.end(), [](const auto& v) { return v.has_value(); });
  wanted.emplace_back(stale);  // the place of no key
  EXPECT_EQ(map.find_batch(keys, results), static_cast<std::size_t>(present));
  EXPECT_EQ(results, wanted);
}

}  // namespace

ESPALIER_CHECK(conformance, scan_from_every_kind_of_bound) {
  const auto boundary = boundary_keys(type);
  const auto spread = key_range(10, 400, 7);
  for (const auto& keys : {std::vector<key>{}, std::vector<key>{9}, boundary, spread}) {
    const auto map = make(type);
    const model expected = filled(map->plain(), keys);
    const std::vector<key> bounds = bounds_around(type, keys);
    with_and_without_guard(*map, [&](operations& with) {
      for (const key from : bounds) expect_scan_from(with, expected, from);
    });
  }
}

ESPALIER_CHECK(conformance, scan_stops_where_told) {
  const auto map = make(type);
  const model expected = filled(map->plain(), key_range(3, 303, 3));
  with_and_without_guard(*map, [&](operations& with) {
    for (const key from : {key{0}, key{3}, key{100}, key{299}, key{300}, key{301}}) {
      const auto first = expected.lower_bound(from);
      const auto left = static_cast<std::size_t>(std::distance(first, expected.end()));
      for (std::size_t most = 1; most <= left + 1; ++most) {
        std::size_t visits = 0;
        auto next = first;
        const std::size_t answer = with.scan(from, [&](key k, value) {
          EXPECT_EQ(k, next->first);
          ++next;
          return ++visits < most;
        });
        ASSERT_EQ(answer, std::min(most, left)) << "from " << from << ", at most " << most;
        ASSERT_EQ(visits, answer);
      }
    }
  });
}

ESPALIER_CHECK(conformance, long_scans) {
  // Maps switch between batches and between pins: at 64, 512, 1024 and around.
  const auto map = make(type);
  const model expected = filled(map->plain(), shuffled(key_range(0, 2200, 2), 31));
  with_and_without_guard(*map, [&](operations& with) {
    // The last ones leave as many keys as a batch or two have, or one more or less.
    for (const key from : {key{0}, key{1}, key{128}, key{1024}, key{1175}, key{1176}, key{1177}, key{1942},
                           key{1944}, key{1946}, key{2070}, key{2072}, key{2074}})
      expect_scan_from(with, expected, from);
    for (const key to : {key{127}, key{1023}, key{1025}, key{1500}, key{2047}, key{2049}, key{2198}}) {
      expect_bounded_scan(with, expected, 0, to);
      expect_bounded_scan(with, expected, 3, to);
    }
    for (const std::size_t most : {63U, 64U, 65U, 128U, 511U, 512U, 513U, 1023U, 1024U, 1025U}) {
      std::size_t visits = 0;
      key last = 0;
      EXPECT_EQ(with.scan(0, [&](key k, value) { return last = k, ++visits < most; }), most);
      EXPECT_EQ(visits, most);
      EXPECT_EQ(last, 2 * (most - 1));
    }
  });
}

ESPALIER_CHECK(conformance, scan_after_erase) {
  const auto map = make(type);
  model expected = filled(map->plain(), key_range(0, 500));
  for (const key step : {key{2}, key{3}, key{5}, key{7}, key{1}}) {
    for (key k = 0; k < 500; k += step) {
      ASSERT_EQ(map->plain().erase(k), expected.erase(k) == 1);
    }
    with_and_without_guard(*map, [&](operations& with) {
      for (const key from : {key{0}, key{1}, key{250}, key{499}, key{500}})
        expect_scan_from(with, expected, from);
    });
  }
  EXPECT_TRUE(expected.empty());
  expect_sound_at_rest(*map, type);
}

namespace {

/// What a visitor does at key k, which is there: erases it, inserts two keys ahead and erases one of them again, and
/// assigns to a key ahead that is there.
void change_around(operations& with, operations& plain, model& expected, key k) {
  EXPECT_TRUE(plain.erase(k));
  EXPECT_FALSE(with.contains(k));
  expected.erase(k);
  EXPECT_TRUE(with.insert(k + 5, k));
  EXPECT_TRUE(plain.insert(k + 6, k));
  EXPECT_TRUE(with.erase(k + 6));
  expected[k + 5] = k;
  if (expected.contains(k + 8)) {
    EXPECT_FALSE(with.insert_or_assign(k + 8, k));
    expected[k + 8] = k;
  }
}

}  // namespace

ESPALIER_CHECK(conformance, visitor_may_use_the_map) {
  const auto map = make(type);
  watchdog dog(type, *map);
  with_and_without_guard(*map, [&](operations& with) {
    model expected = filled(with, key_range(0, 400, 4));
    std::vector<key> seen;
    // Behind it the visitor erases keys, among them the current one. Ahead it inserts some, erases one of those again
    // and assigns to others. The multiples of 4 ahead stay, so each must be seen.
    with.scan_to_end(0, [&](key k, value) {
      dog.begin(0, map_operation::scan, k);
      if (k % 4 == 0) seen.push_back(k);
      EXPECT_EQ(with.contains(k), expected.contains(k));
      if (k % 4 != 0) return;
      EXPECT_EQ(with.find(k), expected.at(k));
      change_around(with, map->plain(), expected, k);
    });
    EXPECT_EQ(seen, key_range(0, 400, 4));
    expect_equal(with, expected, key_range(0, 420));

    // A scan within a scan.
    std::size_t pairs = 0;
    const std::size_t outer = with.scan_to_end(0, [&](key k, value) {
      dog.begin(0, map_operation::scan, k);
      pairs += map->plain().scan_to_end(k, [](key, value) {});
    });
    EXPECT_EQ(outer, expected.size());
    EXPECT_EQ(pairs, outer * (outer + 1) / 2);

    // The visitor empties the map.
    with.scan_to_end(0, [&](key k, value) { EXPECT_TRUE(with.erase(k)) << k; });
    expect_equal(with, {}, key_range(0, 420));
  });
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(conformance, the_whole_map) {
  const auto boundary = boundary_keys(type);
  // 64 entries are a batch.
  for (const auto& keys : {std::vector<key>{}, std::vector<key>{0}, std::vector<key>{type.largest_key},
                           boundary, shuffled(key_range(0, 63), 1), shuffled(key_range(1, 65), 2),
                           shuffled(key_range(1, 131, 2), 3), shuffled(key_range(0, 1600, 5), 4)}) {
    const auto map = make(type);
    model expected = filled(map->plain(), keys);
    const std::vector<key> bounds = bounds_around(type, keys);
    const std::size_t step = bounds.size() / 12 + 1;
    with_and_without_guard(*map, [&](operations& with) {
      ASSERT_NO_FATAL_FAILURE(expect_equal(with, expected, bounds));
      for (std::size_t i = 0; i < bounds.size(); i += step) {
        for (std::size_t j = 0; j < bounds.size(); j += step)
          expect_bounded_scan(with, expected, bounds[i], bounds[j]);
        if (::testing::Test::HasFailure()) return;
      }
      // A loop and a bounded scan that are left early.
      for (std::size_t most = 1; most <= expected.size(); most += 1 + most / 3) {
        const key last = std::next(expected.begin(), static_cast<std::ptrdiff_t>(most) - 1)->first;
        std::size_t visits = 0;
        with.for_each([&](key k, value) { return ++visits < most && k != last; });
        EXPECT_EQ(visits, most);
        visits = 0;
        EXPECT_EQ(with.scan(0, type.largest_key, [&](key, value) { return ++visits < most; }),
                  std::min(most, expected.size() - expected.count(type.largest_key)));
      }

      expect_batch(with, expected, bounds);  // half of them absent, unless there are no others
      expect_batch(with, expected, {});
      std::vector<key> repeated(bounds.rbegin(), bounds.rend());
      repeated.insert(repeated.end(), bounds.begin(), bounds.end());
      repeated.insert(repeated.end(), 3, bounds.front());
      expect_batch(with, expected, repeated);
      std::vector<std::optional<value>> too_few(bounds.size() - 1);
      EXPECT_THROW(with.find_batch(bounds, too_few), std::invalid_argument);

      with.clear();
      ASSERT_NO_FATAL_FAILURE(expect_equal(with, {}, bounds));
      with.clear();
      EXPECT_TRUE(with.empty());
      for (const key k : keys) ASSERT_TRUE(with.insert(k, ~k)) << k;
      for (auto& [k, v] : expected) v = ~k;
      ASSERT_NO_FATAL_FAILURE(expect_equal(with, expected, bounds));
    });
    expect_sound_at_rest(*map, type);
    map->plain().clear();
    expect_sound_at_rest(*map, type);
    expect_emptied(*map, type);
  }
}

ESPALIER_CHECK(conformance, a_range_for_may_change_the_map) {
  const auto map = make(type);
  watchdog dog(type, *map);
  with_and_without_guard(*map, [&](operations& with) {
    model expected = filled(with, key_range(0, 800, 4));
    std::vector<key> seen;
    std::optional<key> last;
    // As in visitor_may_use_the_map. The loop may or may not see the keys that it inserts ahead, and a key that stays
    // with its value before or after.
    with.for_each([&](key k, value v) {
      dog.begin(0, map_operation::scan, k);
      EXPECT_TRUE(!last || *last < k) << k;
      last = k;
      if (k % 4 != 0) return true;
      seen.push_back(k);
      EXPECT_TRUE(v == (k ^ 0x55) || v == expected.at(k)) << k;
      change_around(with, map->plain(), expected, k);
      return true;
    });
    EXPECT_EQ(seen, key_range(0, 800, 4));
    expect_equal(with, expected, key_range(0, 820));

    // A loop within a loop.
    std::size_t pairs = 0;
    with.for_each([&](key k, value) {
      dog.begin(0, map_operation::scan, k);
      map->plain().for_each([&](key inner, value) {
        ++pairs;
        return inner < k;
      });
      return true;
    });
    EXPECT_EQ(pairs, expected.size() * (expected.size() + 1) / 2);

    // The loop empties the map.
    with.for_each([&](key k, value) {
      EXPECT_TRUE(with.erase(k)) << k;
      return true;
    });
    expect_equal(with, {}, key_range(0, 820));
  });
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(conformance, scan_beside_writers) {
  if (!type.properties.reads_beside_writers)
    GTEST_SKIP() << "its reads are right only while no thread writes";
  // The odd keys stay throughout: every scan sees each of them once, in order, with its value. The even ones are
  // inserted and erased.
  constexpr key stable = 150;
  constexpr std::uint64_t writes = 4000;
  constexpr std::uint64_t wanted_scans = 40;
  const auto map = make(type);
  watchdog dog(type, *map);
  for (key k = 1; k < 2 * stable; k += 2) map->plain().insert((k * 89) % (2 * stable), 7);
  for (key k = 0; k < 2 * stable; ++k) map->plain().erase(k);
  for (const key k : shuffled(key_range(1, 2 * stable, 2), 41)) map->plain().insert(k, k * 3);

  std::atomic<int> writing{2};
  std::atomic<std::uint64_t> scans{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      random_source random(42, t);
      // Continues until the scanners have done a minimum, however the threads are scheduled.
      for (std::uint64_t i = 0; i < writes || scans.load(std::memory_order_relaxed) < wanted_scans; ++i) {
        const key k = 2 * random.below(stable);
        dog.begin(t, map_operation::erase, k);
        if (random.below(2) == 0) {
          map->plain().insert(k, k * 3);
        } else {
          map->plain().erase(k);
        }
      }
      writing.fetch_sub(1);
      dog.done(t);
    });
  }
  for (std::size_t t = 2; t < 4; ++t) {
    threads.emplace_back([&, t] {
      random_source random(43, t);
      const auto scan_once = [&](operations& with) {
        const std::uint64_t form = random.below(4);
        const key from = form == 0 || form == 1 ? 0 : random.below(2 * stable);
        dog.begin(t, map_operation::scan, from);
        key next_odd = from | 1U;
        bool right = true;
        std::optional<key> last;
        const auto visit = [&](key k, value v) {
          right = right && (!last || *last < k) && k >= from && v == k * 3 && k <= next_odd;
          last = k;
          if (k == next_odd) next_odd += 2;
          return true;
        };
        if (form == 0) {
          with.for_each(visit);
        } else if (form == 3) {
          const key to = from + (2 * stable - from) / 2;
          with.scan(from, to, visit);
          EXPECT_TRUE(right && (!last || *last < to) && next_odd == (to | 1U))
              << "scan from " << from << " to " << to << ", last " << last.value_or(0);
          scans.fetch_add(1);
          return;
        } else {
          with.scan(from, visit);
        }
        EXPECT_TRUE(right) << "scan from " << from << " is out of order, or misses or repeats a key; last "
                           << last.value_or(0);
        EXPECT_EQ(next_odd, 2 * stable + 1) << "scan from " << from << " ends too early";
        scans.fetch_add(1);
      };
      while (writing.load() != 0 && !::testing::Test::HasFailure()) {
        scan_once(map->plain());
        map->with_guard(scan_once);
      }
      scans.fetch_add(wanted_scans);  // releases the writers if this thread gave up
      dog.done(t);
    });
  }
  for (std::thread& t : threads) t.join();
  expect_sound_at_rest(*map, type);
}

}  // namespace espalier::test
