#include "espalier/map/ordered/key_image.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "espalier/map/ordered/ordered_map.hpp"
#include "support/every_entry.hpp"
#include "support/same_entries.hpp"

// The images of keys, and ordered_map with keys of each kind.

namespace espalier {
namespace {

enum class grade : std::int16_t {};

/// Keys with the ends of their type and what lies around its middle, and others at random.
template <class Key>
std::vector<Key> some_keys() {
  std::vector<Key> keys;
  std::mt19937_64 random(5);
  if constexpr (std::is_floating_point_v<Key>) {
    using limits = std::numeric_limits<Key>;
    for (const Key k : {Key{0}, limits::infinity(), limits::max(), limits::min(), limits::denorm_min()}) {
      keys.push_back(k);
      keys.push_back(-k);
    }
    for (int i = 0; i < 2000; ++i)
      keys.push_back(
          std::ldexp(static_cast<Key>(random() % 1000) - 500, static_cast<int>(random() % 60) - 30));
  } else {
    for (std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      for (const unsigned shift : {0U, 7U, 15U, 31U, 63U})
        keys.push_back((Key)(n << shift));  // NOLINT: whatever bits it leaves
    }
    for (int i = 0; i < 2000; ++i) keys.push_back((Key)random());  // NOLINT
  }
  return keys;
}

template <class Key, class Order>
void expect_images() {
  using image = btree::key_image<Key, Order>;
  const Order order;
  const auto keys = some_keys<Key>();
  for (const Key a : keys) {
    EXPECT_EQ(image::key(image::of(a)), a);
    for (const Key b : keys) {
      if (order(a, b) != (image::of(a) < image::of(b))) {
        ADD_FAILURE() << "another order of " << image::of(a) << " and " << image::of(b);
        return;
      }
    }
  }
}

TEST(key_image, has_the_order_of_the_keys) {
  expect_images<std::uint64_t, std::less<>>();
  expect_images<std::int64_t, std::less<std::int64_t>>();
  expect_images<std::int32_t, std::greater<>>();
  expect_images<std::uint8_t, std::less<std::uint8_t>>();
  expect_images<signed char, std::greater<signed char>>();
  expect_images<bool, std::less<>>();
  expect_images<char32_t, std::less<>>();
  expect_images<grade, std::less<>>();
  expect_images<const char*, std::greater<>>();
  expect_images<float, std::less<>>();
  expect_images<double, std::greater<>>();
}

TEST(key_image, is_there_for_orders_by_value) {
  struct by_last_digit {
    bool operator()(int a, int b) const { return a % 10 < b % 10; }
  };
  static_assert(btree::has_image<int, std::less<>>);
  static_assert(!btree::has_image<int, by_last_digit>);
  static_assert(!btree::has_image<int, std::less<long>>);
  static_assert(!btree::has_image<long double, std::less<>>);
}

TEST(key_image, both_zeros_are_one_key) {
  ordered_map<double, int> map;
  EXPECT_TRUE(map.insert(-0.0, 1));
  EXPECT_FALSE(map.insert(0.0, 2));
  EXPECT_EQ(map.find(0.0), 1);
  EXPECT_EQ(map.first()->key, 0.0);
}

struct point {
  std::int16_t x;
  std::int16_t y;
  friend bool operator==(const point&, const point&) = default;
};
struct by_y_then_x {
  bool operator()(point a, point b) const { return a.y != b.y ? a.y < b.y : a.x < b.x; }
};

/// Against std::map.
template <class Key, class Order = std::less<Key>, class Value = std::uint64_t, class Draw>
void expect_as_std_map(Draw draw) {
  ordered_map<Key, Value, map_traits, Order> map;
  std::map<Key, Value, Order> expected;
  std::mt19937_64 random(6);
  for (int i = 0; i < 6000; ++i) {
    const Key k = draw(random);
    const auto v = static_cast<Value>(i);
    EXPECT_EQ(map.insert(k, v), expected.emplace(k, v).second);
    const Key other = draw(random);
    if (i % 3 == 0) {
      EXPECT_EQ(map.erase(other), expected.erase(other) == 1);
    }
  }
  test::expect_same_entries(map, expected);
}

template <bool All>
void expect_keys_of_each_kind() {
  expect_as_std_map<std::int32_t>([](auto& r) { return static_cast<std::int32_t>(r()); });
  expect_as_std_map<double>([](auto& r) { return std::ldexp(static_cast<double>(r()) - 0x1p63, -40); });
  expect_as_std_map<point, by_y_then_x>(
      [](auto& r) { return point{static_cast<std::int16_t>(r()), static_cast<std::int16_t>(r() % 50)}; });
  if constexpr (All) {
    expect_as_std_map<std::int64_t, std::greater<>>([](auto& r) { return static_cast<std::int64_t>(r()); });
    expect_as_std_map<std::uint8_t>([](auto& r) { return static_cast<std::uint8_t>(r()); });
    expect_as_std_map<grade>([](auto& r) { return static_cast<grade>(r()); });
    expect_as_std_map<float, std::greater<float>>(
        [](auto& r) { return static_cast<float>(static_cast<std::int32_t>(r())) / 1000; });
  }
}
TEST(ordered_map_keys, of_each_kind) { expect_keys_of_each_kind<test::every_entry>(); }

// As many entries in a line as there is room for.
template <bool All>
void expect_values_of_each_size() {
  const auto draw = [](auto& r) { return r() % 5000 * 977; };
  expect_as_std_map<std::uint64_t, std::less<>, std::int16_t>(draw);
  expect_as_std_map<std::uint64_t, std::less<>, long double>(draw);
  if constexpr (All) {
    expect_as_std_map<std::uint64_t, std::less<>, std::int32_t>(draw);
    expect_as_std_map<std::uint64_t, std::less<>, std::int8_t>(draw);
  }
}
TEST(ordered_map_keys, with_values_of_each_size) { expect_values_of_each_size<test::every_entry>(); }

}  // namespace
}  // namespace espalier
