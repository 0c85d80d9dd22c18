#include "espalier/map/ordered/ordered_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/delegation/partitioned_map.hpp"
#include "espalier/hw/vector_compare.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "support/every_entry.hpp"
#include "support/same_entries.hpp"

// ordered_map with each of the vectors that this processor has, and with none: what inner nodes compare, the suites of
// all maps do not choose. And with leaves of other numbers of groups, and groups of other numbers of entries.

namespace espalier {
namespace {

using key = std::uint64_t;
using map_type = ordered_map<key, key>;
using model = std::map<key, key>;

class ordered_map_by_vectors : public testing::TestWithParam<hw::vector_width> {
 protected:
  void SetUp() override {
    if (!hw::has_vectors(GetParam())) GTEST_SKIP() << "this processor has no such vectors";
    hw::detail::vectors_in_use = GetParam();
  }
  void TearDown() override { hw::detail::vectors_in_use = hw::widest_vectors(); }
};

template <class Map>
void expect_same(const Map& map, const model& expected) {
  using value = typename Map::mapped_type;
  std::vector<key> keys;
  std::size_t present = 0;
  for (const auto& [k, _] : expected) {
    EXPECT_EQ(map.contains(k + 1), expected.contains(k + 1));
    keys.push_back(k);
    keys.push_back(k - 1);
    present += expected.contains(k - 1) ? 2 : 1;
  }
  std::vector<std::optional<value>> found(keys.size());
  EXPECT_EQ(map.find_batch(keys, found), present);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto at = expected.find(keys[i]);
    EXPECT_EQ(found[i], at == expected.end() ? std::nullopt : std::optional(static_cast<value>(at->second)));
  }
  // The first entry from a key on is found by the key, or in a part of a leaf, or behind it.
  const auto expect_first = [&](const auto& first, model::const_iterator wanted) {
    ASSERT_EQ(first.has_value(), wanted != expected.end());
    if (first) {
      EXPECT_EQ(first->key, wanted->first);
    }
  };
  for (std::size_t i = 0; i < keys.size(); i += 15) {
    expect_first(map.lower_bound(keys[i]), expected.lower_bound(keys[i]));
    expect_first(map.upper_bound(keys[i]), expected.upper_bound(keys[i]));
  }
  expect_first(map.first(), expected.begin());
  expect_first(map.last(), expected.empty() ? expected.end() : std::prev(expected.end()));
  test::expect_same_entries(map, expected);
}

/// `next` gives the keys, some of them again.
template <class Map = map_type, class Next>
void grow_and_shrink(std::size_t count, Next next) {
  Map map;
  model expected;
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    const key k = next();
    EXPECT_EQ(map.insert(k, static_cast<typename Map::mapped_type>(~k)), expected.emplace(k, ~k).second);
  }
  expect_same(map, expected);
  // Ranges go, so that leaves and inner nodes are merged.
  while (expected.size() > count / 16) {
    const key first = expected.begin()->first;
    auto at = expected.lower_bound(first + random() % (expected.rbegin()->first - first));
    for (std::size_t i = random() % count / 4; i > 0 && at != expected.end(); --i) {
      EXPECT_TRUE(map.erase(at->first));
      at = expected.erase(at);
    }
  }
  expect_same(map, expected);
}

// A comparison reads a whole line, with keys and words.
TEST_P(ordered_map_by_vectors, does_not_take_values_for_keys) {
  map_type map;
  constexpr key n = 2000;
  for (key k = 0; k < n; ++k) EXPECT_TRUE(map.insert(2 * k, 2 * k + 1));
  for (key k = 0; k < n; ++k) {
    EXPECT_EQ(map.find(2 * k), 2 * k + 1);
    EXPECT_FALSE(map.contains(2 * k + 1));
    EXPECT_FALSE(map.erase(2 * k + 1));
  }
  // Two words of four bytes are as large as a key.
  ordered_map<key, std::uint32_t> narrow;
  for (key k = 0; k < n; ++k) EXPECT_TRUE(narrow.insert(k << 16U, 5));
  EXPECT_FALSE(narrow.contains(key{5} << 32U | 5));
  for (key k = 0; k < n; ++k) EXPECT_EQ(narrow.find(k << 16U), 5U);
  EXPECT_EQ(map.size(), n);
  EXPECT_EQ(map.check_invariants(), nullptr);
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_random_keys) {
  std::mt19937_64 random(2);
  grow_and_shrink(20'000, [&] { return random(); });
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_clusters_at_the_ends_and_around_the_middle) {
  std::mt19937_64 random(3);
  grow_and_shrink(20'000, [&] { return random() % 8'000 - 4'000 + (random() % 2 << 63U); });
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_keys_close_together_and_a_few_far_off) {
  grow_and_shrink(4'000, [k = key{0}]() mutable { return ++k % 64 == 0 ? k << 50U : k; });
}
TEST_P(ordered_map_by_vectors, is_as_std_map_with_increasing_keys_over_three_levels) {
  grow_and_shrink(60'000, [k = key{0}]() mutable { return k += 3; });
}

template <class Map>
class ordered_map_by_leaf : public testing::Test {};
using leaves = test::of_each<testing::Types<map_type::with_fanout<5, 4>, map_type::with_fanout<100, 16>,
                                            ordered_map<key, std::uint32_t>>,
                             testing::Types<map_type::with_fanout<64>, ordered_map<key, std::uint16_t>,
                                            ordered_map<key, std::uint8_t>>>;
TYPED_TEST_SUITE(ordered_map_by_leaf, leaves);

TYPED_TEST(ordered_map_by_leaf, is_as_std_map_with_random_keys) {
  std::mt19937_64 random(4);
  grow_and_shrink<TypeParam>(5'000, [&] { return random(); });
}
TYPED_TEST(ordered_map_by_leaf, is_as_std_map_with_dense_keys) {
  std::mt19937_64 random(5);
  grow_and_shrink<TypeParam>(5'000, [&] { return random() % 7'000; });
}

TYPED_TEST(ordered_map_by_leaf, grows_from_its_first_leaf_and_becomes_empty_again) {
  for (const std::size_t n : {1U, 2U, 3U, 8U, 50U, 123U, 124U, 125U, 126U, 200U, 600U}) {
    TypeParam map;
    model expected;
    std::mt19937_64 random(n);
    while (expected.size() < n) {
      const key k = random() % 1000;
      EXPECT_EQ(map.insert(k, static_cast<typename TypeParam::mapped_type>(~k)),
                expected.emplace(k, ~k).second);
    }
    expect_same(map, expected);
    for (key k = 0; k < 1000; ++k) EXPECT_EQ(map.erase(k), expected.erase(k) != 0);
    expect_same(map, expected);
    EXPECT_EQ(map.domain().collect(), 0U);
    EXPECT_LE(map.usage().blocks, 1U) << n;  // the last leaf stays
  }
}

TEST(ordered_map, is_small_with_few_entries) {
  map_type map;
  EXPECT_LE(map.usage().bytes_reserved, 1024U);
  map.insert(0, 0);
  EXPECT_LE(map.usage().bytes_reserved, 4096U);
  for (key k = 1; k < 100; ++k) map.insert(k, k);
  EXPECT_LE(map.usage().bytes_reserved, 40U * 100);
  map_type moved(std::move(map));
  EXPECT_EQ(moved.size(), 100U);
  EXPECT_EQ(moved.check_invariants(), nullptr);
}

std::string name_of(const testing::TestParamInfo<hw::vector_width>& width) {
  constexpr std::array<std::string_view, 4> names{"none", "neon", "avx2", "avx512"};
  return std::string(names[static_cast<std::size_t>(width.param)]);
}
INSTANTIATE_TEST_SUITE_P(ordered_map, ordered_map_by_vectors,
                         testing::Values(hw::vector_width::none, hw::vector_width::neon,
                                         hw::vector_width::avx2, hw::vector_width::avx512),
                         name_of);

// Leaves get an order from scans, have later entries beside it, and lose it.
TEST_P(ordered_map_by_vectors, scans_as_std_map_while_entries_come_and_go) {
  map_type map;
  model expected;
  std::mt19937_64 random(7);
  const auto any_key = [&random] { return random() % 40'000 * 0x9e3779b97f4a7c15U; };
  for (int i = 0; i < 5000; ++i) {
    const key k = any_key();
    EXPECT_EQ(map.insert(k, ~k), expected.emplace(k, ~k).second);
  }
  for (int i = 0; i < 6000; ++i) {
    const key k = any_key();
    const auto what = random() % 100;
    if (what < 30) {
      EXPECT_EQ(map.insert(k, ~k), expected.emplace(k, ~k).second);
    } else if (what < 33) {
      EXPECT_EQ(map.erase(k), expected.erase(k) != 0);
    } else {
      std::size_t left = random() % 300;
      std::vector<key> visited;
      std::vector<key> wanted;
      const auto visit = [&](key at, key value) {
        EXPECT_EQ(value, ~at);
        if (left-- == 0) return false;
        visited.push_back(at);
        return true;
      };
      const std::size_t most = left;
      if (what < 70) {
        for (auto at = expected.lower_bound(k); at != expected.end() && wanted.size() < most; ++at)
          wanted.push_back(at->first);
        map.scan(k, visit);
      } else {
        for (auto at = expected.upper_bound(k); at != expected.begin() && wanted.size() < most;)
          wanted.push_back((--at)->first);
        map.reverse_scan(k, visit);
      }
      ASSERT_EQ(visited, wanted);
    }
  }
  expect_same(map, expected);
}

// Which version a find validates depends on the vectors.
TEST_P(ordered_map_by_vectors, finds_beside_writers_what_is_there) {
  map_type map;
  constexpr key n = 4000;
  const auto key_of = [](key i) { return i * 0x9e3779b97f4a7c15U; };
  for (key i = 0; i < n; i += 2) map.insert(key_of(i), ~key_of(i));
  std::atomic<int> writers = 2;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      // Leaves are split, and then merged.
      for (const bool inserts : {true, false, true, false}) {
        for (key i = 0; i < n; ++i) {
          const key k = key_of(random() % n | 1U);
          if (inserts)
            map.insert(k, ~k);
          else
            map.erase(k);
        }
      }
      --writers;
    });
  }
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(10 + t);
      while (writers != 0) {
        const key i = random() % n;
        const auto found = map.find(key_of(i));
        ASSERT_TRUE(found || i % 2 == 1) << "a key that no thread erases is absent";
        ASSERT_EQ(found.value_or(~key_of(i)), ~key_of(i));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(map.check_invariants(), nullptr);
}

TEST(ordered_map, has_fuller_leaves_than_splits_alone_make) {
  map_type map;
  std::mt19937_64 random(7);
  constexpr std::size_t n = 200'000;
  for (std::size_t i = 0; i < n; ++i) map.insert(random(), i);
  std::size_t made = 0;
  map.visit_nodes([&made](const void*, std::size_t, memory_role role) { made += role == memory_role::leaf; });
  EXPECT_GT(n, made * map_type::node_entries * 7 / 10);
}

/// Counts how often a thread pins.
struct counting_domain : epoch_domain {
  static inline int pins = 0;
  [[nodiscard]] guard pin() {
    ++pins;
    return epoch_domain::pin();
  }
};
static_assert(reclaimer<counting_domain>);

TEST(ordered_map, pins_again_throughout_a_long_scan) {
  ordered_map<key, key, map_traits::with_reclaimer<counting_domain>> map;
  for (key k = 0; k < 10'000; ++k) map.insert(k, k);
  const int before = counting_domain::pins;
  EXPECT_EQ(map.scan(0, [](key, key) {}), 10'000U);
  EXPECT_GE(counting_domain::pins - before, 10);
}

TEST(ordered_map_of_strings, has_the_empty_key) {
  ordered_map<std::string, int> map;
  EXPECT_TRUE(map.insert(std::string_view(), 1));
  EXPECT_TRUE(map.insert(std::string_view("\0", 1), 2));
  EXPECT_EQ(map.find(""), 1);
  EXPECT_EQ(map.first()->key, "");
  EXPECT_TRUE(map.erase(std::string_view()));
  EXPECT_FALSE(map.contains(std::string_view()));
  EXPECT_EQ(map.size(), 1U);
}

/// A key that begins as others do, and goes on as seven bytes tell apart or not.
std::string some_string(std::mt19937_64& random) {
  static const std::array<std::string, 4> beginnings{"", "site/", "site/the same bytes/",
                                                     std::string(70000, 'x')};
  static const std::array<std::string, 4> middles{"", "0123456", "0123457", "a"};
  std::string k = beginnings[random() % 16 == 0 ? 3 : random() % 3];  // few long ones, which take long
  for (std::size_t parts = random() % 3; parts != 0; --parts) k += middles[random() % 4];
  return k + std::to_string(random() % 400);
}

template <class Map>
class strings_in_order : public testing::Test {
 protected:
  using model = std::map<std::string, int, typename Map::key_compare>;
};
using orders = testing::Types<ordered_map<std::string, int>, ordered_map<std::string, int, std::greater<>>>;
TYPED_TEST_SUITE(strings_in_order, orders);

TYPED_TEST(strings_in_order, scans_and_cursors_begin_where_std_map_has_it) {
  typename TestFixture::model expected;
  TypeParam map;
  std::mt19937_64 random(11);
  const auto some = [&] { return some_string(random); };
  const auto compare = [&] {
    for (unsigned i = 0; i < 300; ++i) {
      const std::string bound = i == 0 ? std::string() : some().substr(0, random() % 80);
      std::vector<std::string> seen;
      const auto visit = [&](std::string_view k, int) {
        seen.emplace_back(k);
        return seen.size() < 5;
      };
      map.scan(bound, visit);
      auto at = expected.lower_bound(bound);
      typename TypeParam::cursor here(map);
      here.seek(bound);
      for (const std::string& k : seen) {
        ASSERT_EQ(k, (at++)->first) << "from " << bound;
        ASSERT_EQ(k, here.key());
        here.next();
      }
      ASSERT_TRUE(seen.size() == 5 || at == expected.end()) << "from " << bound;
      seen.clear();
      map.reverse_scan(bound, visit);
      at = expected.upper_bound(bound);
      for (const std::string& k : seen) ASSERT_EQ(k, (--at)->first) << "down from " << bound;
      ASSERT_TRUE(seen.size() == 5 || at == expected.begin()) << "down from " << bound;
      at = expected.upper_bound(bound);
      const auto behind = map.upper_bound(bound);
      ASSERT_EQ(behind.has_value(), at != expected.end());
      if (!behind) continue;
      ASSERT_EQ(behind->key, at->first);
      here.seek(behind->key);
      here.previous();
      ASSERT_EQ(here.valid(), at != expected.begin());
      if (here.valid()) {
        ASSERT_EQ(here.key(), std::prev(at)->first);
      }
    }
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string k = some();
    if (random() % 3 != 0)
      EXPECT_EQ(map.insert(k, i), expected.emplace(k, i).second);
    else
      EXPECT_EQ(map.erase(k), expected.erase(k) == 1);
    if (i % 500 == 499) compare();
  }
  EXPECT_EQ(map.first()->key, expected.begin()->first);
  EXPECT_EQ(map.last()->key, expected.rbegin()->first);
  EXPECT_EQ(map.check_invariants(), nullptr);
}

/// What std::map says of a prefix, in its order.
template <class Model>
std::vector<std::string> with_prefix(const Model& expected, std::string_view prefix) {
  std::vector<std::string> all;
  for (const auto& entry : expected) {
    if (entry.first.starts_with(prefix)) all.push_back(entry.first);
  }
  return all;
}

template <class Map>
class strings_with_a_prefix : public testing::Test {};
using maps_of_strings = testing::Types<ordered_map<std::string, int>, locked_map<std::string, int>,
                                       locked_map<std::string, int, map_traits, std::greater<>>,
                                       partitioned<ordered_map<std::string, int>>>;
TYPED_TEST_SUITE(strings_with_a_prefix, maps_of_strings);

TYPED_TEST(strings_with_a_prefix, are_scanned_and_erased) {
  TypeParam map;
  std::map<std::string, int, typename TypeParam::key_compare> expected;
  // Of bytes on both sides of the sign, and at the end of the range.
  static constexpr std::string_view bytes("a\x7f\x80\xff", 4);
  std::mt19937_64 random(13);
  const auto some = [&](std::size_t most) {
    std::string k;
    for (std::size_t n = random() % (most + 1); n != 0; --n) k += bytes[random() % bytes.size()];
    return k;
  };
  for (int i = 0; i < 600; ++i) {
    const std::string k = some(5);
    map.insert(k, i);
    expected.emplace(k, i);
  }
  auto guard = map.pin();
  for (int i = 0; i < 200; ++i) {
    const std::string prefix = some(4);
    SCOPED_TRACE(testing::PrintToString(prefix));
    std::vector<std::string> wanted = with_prefix(expected, prefix);
    std::vector<std::string> seen;
    const auto note = [&](std::string_view k, int v) {
      seen.emplace_back(k);
      EXPECT_EQ(v, expected.find(std::string(k))->second);
    };
    EXPECT_EQ(map.scan_prefix(prefix, note), wanted.size());
    EXPECT_EQ(seen, wanted);
    seen.clear();
    for (const auto& e : map.range_of_prefix(prefix)) note(e.key, e.value);
    EXPECT_EQ(seen, wanted);
    seen.clear();
    EXPECT_EQ(map.scan_prefix(guard, prefix, note), wanted.size());
    EXPECT_EQ(seen, wanted);
    std::reverse(wanted.begin(), wanted.end());
    seen.clear();
    EXPECT_EQ(map.reverse_scan_prefix(prefix, note), wanted.size());
    EXPECT_EQ(seen, wanted);
    seen.clear();
    EXPECT_EQ(map.reverse_scan_prefix(guard, prefix, note), wanted.size());
    EXPECT_EQ(seen, wanted);
    EXPECT_EQ(map.scan_prefix(prefix, [](std::string_view, int) { return false; }), wanted.empty() ? 0U : 1U);
    if (i % 10 == 9) {
      EXPECT_EQ(map.erase_prefix(prefix), wanted.size());
      for (const std::string& k : wanted) expected.erase(k);
      EXPECT_EQ(map.size(), expected.size());
      for (const std::string& k : wanted) {
        map.insert(k, i);
        expected.emplace(k, i);
      }
    }
  }
}

TYPED_TEST(strings_with_a_prefix, have_a_longest_match) {
  TypeParam map;
  EXPECT_FALSE(map.longest_match("/").has_value());
  std::map<std::string, int> expected;
  std::mt19937_64 random(14);
  const auto route = [&] {
    std::string k;
    for (std::size_t parts = random() % 5; parts != 0; --parts)
      k += std::array{"/", "/a", "/ab", "/b", "\xff"}[random() % 5];
    return k;
  };
  for (int i = 0; i < 150; ++i) {
    const std::string k = route() + (i == 149 ? "" : "x");
    map.insert(k, i);
    expected.emplace(k, i);
  }
  auto guard = map.pin();
  for (int i = 0; i < 1000; ++i) {
    const std::string text = route() + "x" + route();
    SCOPED_TRACE(text);
    auto wanted = expected.end();
    for (std::size_t n = 0; n <= text.size(); ++n) {
      if (const auto at = expected.find(text.substr(0, n)); at != expected.end()) wanted = at;
    }
    const auto found = i % 2 == 0 ? map.longest_match(text) : map.longest_match(guard, text);
    ASSERT_EQ(found.has_value(), wanted != expected.end());
    if (found) {
      EXPECT_EQ(found->key, wanted->first);
      EXPECT_EQ(found->value, wanted->second);
    }
  }
}

template <class Map>
void loads_as_std_map_has_it(std::size_t most) {
  std::mt19937_64 random(12);
  for (std::size_t n = 1; n < most; n = n * 3 / 2 + 1) {
    SCOPED_TRACE(n);
    std::map<std::string, int, typename Map::key_compare> expected;
    while (expected.size() < n) expected.emplace(some_string(random), static_cast<int>(n));
    Map map;
    map.bulk_load(std::vector(expected.begin(), expected.end()), 1 + static_cast<unsigned>(n % 3));
    ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected));
    for (std::size_t i = 0; i < n; ++i) {
      const std::string k = some_string(random);
      ASSERT_EQ(map.erase(k), expected.erase(k) == 1);
      const std::string other = some_string(random);
      ASSERT_EQ(map.insert(other, 0), expected.emplace(other, 0).second);
    }
    ASSERT_EQ(map.check_invariants(), nullptr);
    ASSERT_EQ(map.size(), expected.size());
  }
}
TEST(ordered_map_of_strings, in_decreasing_order_refuses_a_load_in_increasing_order) {
  ordered_map<std::string, int, std::greater<>> map;
  std::vector<std::pair<std::string, int>> entries{{"a", 1}, {"b", 2}};
  EXPECT_THROW(map.bulk_load(entries), std::invalid_argument);
  EXPECT_TRUE(map.empty());
  std::swap(entries[0], entries[1]);
  map.bulk_load(entries);
  EXPECT_EQ(map.first()->key, "b");
}
TEST(ordered_map_of_strings, loads_as_std_map_has_it) {
  loads_as_std_map_has_it<ordered_map<std::string, int>>(test::every_entry ? 4000 : 1500);
  loads_as_std_map_has_it<ordered_map<std::string, int>::with_fanout<6, 4>>(400);
  loads_as_std_map_has_it<ordered_map<std::string, int, std::greater<>>>(400);
}

}  // namespace
}  // namespace espalier
