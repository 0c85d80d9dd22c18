#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/map/ordered/ordered_set.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/allocation_failure.hpp"
#include "support/every_entry.hpp"
#include "support/on_threads.hpp"
#include "support/same_entries.hpp"

// Maps that are moved, exchanged, copied and made as wholes, with retired memory that still waits for its end.

namespace espalier {
namespace {

using number = std::uint64_t;
using heap_traits = map_traits::with_placement<shared_heap>;

/// In increasing or decreasing order, as the map is told.
struct in_either_order {
  bool decreasing = false;
  bool operator()(std::uint32_t a, std::uint32_t b) const { return decreasing ? b < a : a < b; }
};

template <class Map>
class moved_map : public testing::Test {
 protected:
  using key = typename Map::key_type;
  using domain = typename Map::reclaimer_type;
  struct filled {
    std::unique_ptr<Map> map;
    std::map<key, number> expected;
  };

  void SetUp() override {
    // What threads allocate once for all maps.
    auto first = make(0);
    use_up(*first.map, first.expected);
  }

  static key key_of(std::uint64_t n) {
    if constexpr (std::is_same_v<key, std::string>)
      return "the same beginning " + std::to_string(n);
    else
      return static_cast<key>(n);
  }
  static constexpr number of_thread = test::every_entry ? 3000 : 1200;  ///< keys

  /// Some threads fill it, and retire nodes and values that no thread has reclaimed yet.
  filled make(unsigned seed, domain* shared = nullptr) {
    filled made{std::make_unique<Map>(shared), {}};
    test::on_threads(3, [&](int t) {
      for (number n = 0; n < of_thread; ++n) made.map->insert_or_assign(key_of(n * 3 + number(t)), seed);
    });
    test::on_threads(3, [&](int t) {
      for (number n = 0; n < of_thread; ++n) {
        if ((n / (of_thread / 6) + seed) % 2 == 0)
          made.map->erase(key_of(n * 3 + number(t)));
        else
          made.map->insert_or_assign(key_of(n * 3 + number(t)), n);
      }
    });
    for (number n = 0; n < of_thread; ++n) {
      for (number t = 0; t < 3; ++t) {
        if ((n / (of_thread / 6) + seed) % 2 != 0) made.expected.emplace(key_of(n * 3 + t), n);
      }
    }
    return made;
  }
  /// It is a map like any other, whose nodes come and go, and leaves nothing behind.
  static void use_up(Map& map, std::map<key, number>& expected) {
    std::mt19937_64 random(3);
    for (int i = 0; i < (test::every_entry ? 20'000 : 5'000); ++i) {
      const key k = key_of(random() % 10'000);
      if (i % 2 == 0) {
        ASSERT_EQ(map.insert_or_assign(k, number(i)), expected.insert_or_assign(k, number(i)).second);
      } else {
        ASSERT_EQ(map.erase(k), expected.erase(k) == 1);
      }
    }
    ASSERT_NO_FATAL_FAILURE(test::expect_same_entries(map, expected));
    map.clear();
    map.domain().collect();
    std::size_t reached = 0;
    map.visit_nodes([&](const void*, std::size_t, memory_role) { ++reached; });
    ASSERT_EQ(map.usage().blocks, reached);
  }
};

struct cell {
  cell(number n = 0) noexcept : all{n, n} {}           // NOLINT: as a number where a test has one
  operator number() const noexcept { return all[0]; }  // NOLINT
  number all[2];
};

using maps = test::of_each<
    testing::Types<ordered_map<number, cell, heap_traits>,
                   ordered_map<std::uint32_t, cell, map_traits, in_either_order>,
                   ordered_map<std::string, number>>,
    testing::Types<ordered_map<number, number>, ordered_map<double, number, heap_traits>::with_fanout<4>,
                   ordered_map<std::string, number, heap_traits>>>;
TYPED_TEST_SUITE(moved_map, maps);

TYPED_TEST(moved_map, has_what_the_other_had) {
  static_assert(std::is_nothrow_move_constructible_v<TypeParam> &&
                std::is_nothrow_move_assignable_v<TypeParam>);
  const std::int64_t before = test::live_allocations();
  {
    auto from = this->make(1);
    EXPECT_GT(from.map->domain().statistics().retired, from.map->domain().statistics().reclaimed);
    TypeParam to(std::move(*from.map));
    test::expect_same_entries(to, from.expected);
    from.map.reset();
    test::expect_same_entries(to, from.expected);
    this->use_up(to, from.expected);
  }
  EXPECT_EQ(test::live_allocations(), before);
}

TYPED_TEST(moved_map, can_be_assigned_to_again) {
  const std::int64_t before = test::live_allocations();
  {
    auto a = this->make(1);
    auto b = this->make(2);
    *a.map = std::move(*b.map);
    test::expect_same_entries(*a.map, b.expected);
    *b.map = std::move(*a.map);
    test::expect_same_entries(*b.map, b.expected);
    *a.map = TypeParam();
    test::expect_same_entries(*a.map, decltype(a.expected)());
    a.expected.clear();
    auto& itself = *b.map;
    *b.map = std::move(itself);
    this->use_up(*b.map, b.expected);
    this->use_up(*a.map, a.expected);
  }
  EXPECT_EQ(test::live_allocations(), before);
}

TYPED_TEST(moved_map, leaves_an_empty_map) {
  auto a = this->make(1);
  TypeParam b(std::move(*a.map));
  auto& moved = *a.map;
  const auto k = this->key_of(7);
  EXPECT_FALSE(moved.contains(k));
  EXPECT_FALSE(moved.find(k).has_value());
  EXPECT_FALSE(moved.erase(k));
  EXPECT_FALSE(moved.first().has_value());
  EXPECT_FALSE(moved.last().has_value());
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(moved.size(), 0U);
  EXPECT_EQ(moved.usage().blocks, 0U);
  EXPECT_EQ(moved.begin(), moved.end());
  moved.clear();
  // Several threads begin to use it at one moment.
  test::on_threads(3, [&](int t) {
    for (number n = 0; n < 1000; ++n) moved.insert(this->key_of(n * 3 + number(t)), n);
  });
  EXPECT_EQ(moved.size(), 3000U);
  std::map<typename TestFixture::key, number> expected;
  for (number n = 0; n < 3000; ++n) expected.emplace(this->key_of(n), n / 3);
  test::expect_same_entries(moved, expected);
  TypeParam c(std::move(moved));
  TypeParam d(std::move(moved));
  EXPECT_TRUE(d.empty());
  std::vector<std::pair<typename TestFixture::key, number>> sorted{{k, 1}};
  d.bulk_load(sorted);
  EXPECT_EQ(d.size(), 1U);
  test::expect_same_entries(b, a.expected);
}

TYPED_TEST(moved_map, may_lie_in_a_vector) {
  std::vector<TypeParam> all;
  std::vector<std::map<typename TestFixture::key, number>> expected;
  for (unsigned i = 0; i < 5; ++i) {
    auto made = this->make(i);
    all.push_back(std::move(*made.map));
    expected.push_back(made.expected);
  }
  for (unsigned i = 0; i < 5; ++i) test::expect_same_entries(all[i], expected[i]);
}

TYPED_TEST(moved_map, exchanges_domains_too) {
  const std::int64_t before = test::live_allocations();
  {
    typename TestFixture::domain shared;
    auto a = this->make(1, &shared);
    auto b = this->make(2);
    auto c = this->make(3, &shared);
    swap(*a.map, *b.map);
    EXPECT_EQ(&b.map->domain(), &shared);
    EXPECT_NE(&a.map->domain(), &shared);
    test::expect_same_entries(*a.map, b.expected);
    test::expect_same_entries(*b.map, a.expected);
    b.map->swap(*c.map);
    this->use_up(*a.map, b.expected);
    a.map.reset();
    // Other maps of the domain reclaim what was retired before.
    this->use_up(*b.map, c.expected);
    b.map.reset();
    this->use_up(*c.map, a.expected);
  }
  EXPECT_EQ(test::live_allocations(), before);
}

TYPED_TEST(moved_map, is_copied_by_name) {
  static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_copy_assignable_v<TypeParam>);
  const std::int64_t before = test::live_allocations();
  {
    auto from = this->make(1);
    TypeParam to = from.map->copy();
    test::expect_same_entries(to, from.expected);
    EXPECT_NE(&to.domain(), &from.map->domain());
    to.clear();
    test::expect_same_entries(*from.map, from.expected);
    to = from.map->copy();
    from.map.reset();
    this->use_up(to, from.expected);
    EXPECT_TRUE(to.copy().empty());
  }
  EXPECT_EQ(test::live_allocations(), before);
}

TYPED_TEST(moved_map, is_made_of_entries_of_which_the_first_of_equal_keys_counts) {
  using entry = typename TypeParam::value_type;
  const TypeParam empty(std::initializer_list<entry>{});
  EXPECT_TRUE(empty.empty());
  const auto a = this->key_of(3);
  const auto b = this->key_of(5);
  const TypeParam few{{a, 1}, {b, 2}, {a, 4}};
  const std::map<typename TestFixture::key, number> expected{{a, 1}, {b, 2}, {a, 4}};
  test::expect_same_entries(few, expected);
  test::expect_same_entries(TypeParam(expected.begin(), expected.end()), expected);
  test::expect_same_entries(TypeParam(few.begin(), few.end()), expected);
}

TYPED_TEST(moved_map, needs_no_memory) {
  auto a = this->make(1);
  auto b = this->make(2);
  test::failure_plan none;
  {
    const test::armed now(none);
    TypeParam taken(std::move(*a.map));
    *a.map = std::move(*b.map);
    swap(taken, *a.map);
    *b.map = std::move(taken);
  }
  EXPECT_EQ(none.seen, 0U);
  test::expect_same_entries(*a.map, a.expected);
  test::expect_same_entries(*b.map, b.expected);
}

TEST(moved_map_with_a_state, has_the_order_of_the_other) {
  using map_type = ordered_map<std::uint32_t, number, map_traits, in_either_order>;
  map_type up;
  map_type down(in_either_order{true});
  for (std::uint32_t k = 0; k < 100; ++k) {
    up.insert(k, k);
    down.insert(k, k);
  }
  swap(up, down);
  EXPECT_EQ(up.first()->key, 99U);
  EXPECT_EQ(down.first()->key, 0U);
  map_type other(std::move(up));
  EXPECT_TRUE(other.key_comp().decreasing);
  EXPECT_EQ(other.copy().first()->key, 99U);
  const map_type made({{1, 1}, {2, 2}}, in_either_order{true});
  EXPECT_EQ(made.first()->key, 2U);
  EXPECT_TRUE(other.insert(100, 1));
  EXPECT_EQ(other.first()->key, 100U);
}

TEST(moved_map_with_a_state, may_have_a_lambda_for_an_order) {
  bool decreasing = true;
  const auto order = [decreasing](int a, int b) { return decreasing ? b < a : a < b; };
  using map_type = ordered_map<int, number, decltype(order)>;
  map_type a(order);
  map_type b(order);
  a.insert(1, 1);
  a.insert(2, 2);
  swap(a, b);
  a = std::move(b);
  EXPECT_EQ(a.first()->key, 2);
  EXPECT_TRUE(b.empty());
}

TEST(moved_set, is_as_the_map) {
  ordered_set<number> a;
  for (number k = 0; k < 1000; ++k) a.insert(k);
  ordered_set<number> b(std::move(a));
  a = ordered_set<number>();
  EXPECT_TRUE(a.empty());
  swap(a, b);
  EXPECT_EQ(a.size(), 1000U);
  EXPECT_TRUE(a.contains(999));
  EXPECT_TRUE(b.insert(999));
}

}  // namespace
}  // namespace espalier
