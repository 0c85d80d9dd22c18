#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <new>
#include <ranges>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/map/ordered/ordered_set.hpp"
#include "espalier/map/studied/euno_btree.hpp"
#include "espalier/map/studied/olc_btree.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/allocation_failure.hpp"
#include "support/every_entry.hpp"
#include "support/same_entries.hpp"

// bulk_load: of maps that build their nodes, with each kind of key, and of two that insert one by one.

namespace espalier {
namespace {

struct in_decimal {
  bool operator()(std::uint32_t a, std::uint32_t b) const { return std::to_string(a) < std::to_string(b); }
};
struct large {
  std::uint64_t words[3];
  large(std::uint64_t n = 0) noexcept : words{n, ~n, n * 3} {}  // NOLINT: as a number where a test has one
  friend bool operator==(const large&, const large&) = default;
};

template <class Key>
Key key_of(std::uint64_t n) {
  if constexpr (std::is_same_v<Key, std::string>)
    return "key " + std::to_string(n);
  else if constexpr (std::is_same_v<Key, double>)
    return (static_cast<double>(n) - 40'000) / 7;
  else
    return static_cast<Key>(n * 5 - 40'000);
}

template <class Map>
class bulk_load : public testing::Test {
 protected:
  using key = typename Map::key_type;
  using value = typename Map::mapped_type;
  using entry = typename Map::value_type;
  using model = std::map<key, value, typename Map::key_compare>;

  /// Few entries fill a leaf of some maps, many one of the others.
  static constexpr std::size_t leaf = [] {
    if constexpr (requires { Map::node_entries; })
      return std::size_t{Map::node_entries};
    else
      return std::size_t{1};
  }();
  static constexpr std::size_t loaded_leaf = std::max<std::size_t>(1, leaf * 85 / 100);

  static model make_model(std::size_t n) {
    model all;
    for (std::uint64_t i = 0; all.size() < n; ++i)
      all.emplace(key_of<key>(i), value(static_cast<std::uint32_t>(i)));
    return all;
  }
  static std::vector<entry> entries_of(const model& all) {
    std::vector<entry> entries;
    for (const auto& [k, v] : all) entries.push_back({k, v});
    return entries;
  }
  static void expect_empty(const Map& map) {
    test::expect_same_entries(map, model());
    EXPECT_LE(map.usage().blocks, 1U);  // an emptied map keeps its last leaf
  }
};

using heap_traits = map_traits::with_placement<shared_heap>;
using number = std::uint64_t;
using maps = test::of_each<
    testing::Types<ordered_map<std::int32_t, number, heap_traits, std::greater<>>,
                   ordered_map<number, large, heap_traits>,
                   ordered_map<number, number, heap_traits>::with_fanout<3>, ordered_map<std::string, number>,
                   euno_btree<number, number, heap_traits>::with_restless_leaves, ticket<number, number>>,
    testing::Types<ordered_map<number, number>, ordered_map<double, std::uint32_t>,
                   ordered_map<std::uint32_t, number, heap_traits, in_decimal>,
                   olc_btree<number, large>::with_fanout<2>>>;
TYPED_TEST_SUITE(bulk_load, maps);

TYPED_TEST(bulk_load, of_any_size_by_any_number_of_threads) {
  constexpr std::size_t whole = TestFixture::leaf;
  constexpr std::size_t filled = TestFixture::loaded_leaf;
  constexpr std::size_t many = test::every_entry ? 100'000 : 20'000;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, filled - 1, filled, filled + 1, whole - 1, whole,
        whole + 1, 2 * filled, 2 * filled + 1, filled * filled, std::size_t{1000}, many}) {
    if (n == many && std::is_same_v<TypeParam, ticket<number, number>>) continue;  // a path of keys in order
    const auto expected = this->make_model(n);
    const auto entries = this->entries_of(expected);
    for (unsigned threads = n == 0 ? 0 : 1; threads <= 4; threads += n >= many ? 3 : 1) {
      TypeParam map;
      map.bulk_load(entries, threads);
      ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected)) << n << " by " << threads;
    }
  }
  TypeParam map;
  const auto pairs = this->make_model(1000);
  map.bulk_load(pairs);  // without random access
  test::expect_same_entries(map, pairs);
}

TYPED_TEST(bulk_load, refuses_what_is_not_in_order) {
  const auto expected = this->make_model(1000);
  const auto entries = this->entries_of(expected);
  // Wherever leaves and the parts of threads begin.
  for (std::size_t at = 1; at < entries.size(); at += test::every_entry ? 1 : 5) {
    auto wrong = entries;
    if (at % 3 == 0)
      wrong[at].key = wrong[at - 1].key;
    else
      std::swap(wrong[at], wrong[at - 1]);
    const auto threads = static_cast<unsigned>(1 + at % 4);
    TypeParam map;
    EXPECT_THROW(map.bulk_load(wrong, threads), std::invalid_argument);
    ASSERT_NO_FATAL_FAILURE(this->expect_empty(map)) << at << " by " << threads;
    if (at % 100 != 1) continue;
    map.bulk_load(entries, threads);
    ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected));
  }
}

TYPED_TEST(bulk_load, leaves_the_map_empty_where_there_is_no_memory) {
  const auto expected = this->make_model(900);
  const auto entries = this->entries_of(expected);
  for (const unsigned threads : {1U, 3U}) {
    // What is made once and then kept.
    {
      TypeParam map;
      map.bulk_load(entries, threads);
      map.clear();
      map.domain().collect();
      ASSERT_NO_FATAL_FAILURE(this->expect_empty(map));
    }
    unsigned failures = 0;
    unsigned untold = 0;
    bool failed = true;
    for (std::uint64_t nth = 1; failed; nth += 1 + nth / 64) {
      test::failure_plan plan{nth};
      const std::int64_t before = test::live_allocations();
      {
        TypeParam map;
        bool thrown = false;
        try {
          const test::armed now(plan);
          map.bulk_load(entries, threads);
        } catch (const std::bad_alloc&) {
          thrown = true;
        }
        failed = plan.has_failed();
        ASSERT_TRUE(failed || !thrown) << nth;
        if (!failed) break;
        if (!thrown) {
          // Which allocation of this thread that is depends on what the others have done; if they build nodes, it is the last.
          if (threads == 1 || plan.seen != nth) {
            ASSERT_LE(++untold, 1U) << "only a thread's counter can do without memory";
          }
          ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected)) << nth;
          continue;
        }
        ++failures;
        map.domain().collect();
        ASSERT_NO_FATAL_FAILURE(this->expect_empty(map)) << nth;
      }
      ASSERT_EQ(test::live_allocations(), before) << nth;
    }
    EXPECT_GT(failures, 1U);
  }
}

TEST(bulk_load_leaves, are_nearly_full) {
  std::vector<map_entry<number, number>> entries;
  for (number k = 0; k < 100'000; ++k) entries.push_back({k * k, k});
  ordered_map<number, number, heap_traits> map;
  map.bulk_load(entries, 2);
  std::size_t leaves = 0;
  map.visit_nodes(
      [&](const void*, std::size_t, memory_role role) { leaves += role == memory_role::leaf ? 1 : 0; });
  EXPECT_EQ(leaves, (entries.size() + 216) / 217);
}

TEST(bulk_load_of_an_emptied_map, frees_the_leaf_that_an_erase_has_left) {
  ordered_map<number, number, heap_traits> map;
  map.insert(1, 1);
  {
    const test::refuse_memory now;
    ASSERT_TRUE(map.erase(1));
  }
  ASSERT_EQ(map.usage().blocks, 1U) << "an erase without memory leaves an empty leaf";
  map.bulk_load(std::vector<map_entry<number, number>>{{1, 2}, {3, 4}});
  EXPECT_EQ(map.usage().blocks, 1U);
  EXPECT_EQ(map.find(3), 4U);
}

TEST(bulk_load_of_a_set, is_one_of_keys) {
  std::vector<std::uint16_t> keys;
  for (unsigned k = 0; k < 5000; ++k) keys.push_back(static_cast<std::uint16_t>(k * 13));
  ordered_set<std::uint16_t> set;
  set.bulk_load(keys, 2);
  EXPECT_TRUE(std::ranges::equal(set, keys));
  EXPECT_EQ(set.size(), keys.size());
  ordered_set<std::string> words;
  words.bulk_load(std::vector<std::string_view>{"a", "b", "c"});
  EXPECT_EQ(words.size(), 3U);
}

TEST(bulk_load_of_other_types, converts_keys_before_it_compares_them) {
  // The addresses are in the other order.
  const char text[] = "b\0a";
  const std::vector<std::pair<const char*, number>> sorted{{text + 2, 1}, {text, 2}};
  ordered_map<std::string, number> map;
  map.bulk_load(sorted);
  EXPECT_EQ(map.find("a"), 1U);
  EXPECT_EQ(map.find("b"), 2U);
  const std::vector<std::pair<const char*, number>> unsorted{{text, 2}, {text + 2, 1}};
  ordered_map<std::string, number> other;
  EXPECT_THROW(other.bulk_load(unsorted), std::invalid_argument);
  locked_map<std::string, number> one_by_one;
  EXPECT_THROW(one_by_one.bulk_load(unsorted), std::invalid_argument);
  one_by_one.bulk_load(sorted);
  EXPECT_EQ(one_by_one.size(), 2U);
  ordered_set<std::string> set;
  set.bulk_load(std::vector<const char*>{text + 2, text});
  EXPECT_EQ(set.size(), 2U);
  ordered_set<std::string> from_list;
  from_list.bulk_load(std::list<const char*>{text + 2, text});
  EXPECT_EQ(from_list.size(), 2U);
}

}  // namespace
}  // namespace espalier
