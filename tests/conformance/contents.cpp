// The contents of a map, one thread: every operation compared with std::map.

#include <gtest/gtest.h>

#include "support/model.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

/// Inserts in the given order, then erases in the given order.
void fill_and_empty(const subject_type& type, std::span<const key> order_in, std::span<const key> order_out) {
  const auto map = make(type);
  operations& plain = map->plain();
  model expected;
  for (int round = 0; round < 2; ++round) {
    for (const key k : order_in) {
      ASSERT_EQ(plain.insert(k, k + 7), expected.try_emplace(k, k + 7).second) << "insert " << k;
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(plain, expected));
    expect_sound_at_rest(*map, type);
    for (const key k : order_out) {
      ASSERT_EQ(plain.erase(k), expected.erase(k) == 1) << "erase " << k;
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(plain, expected, order_in));
    expect_sound_at_rest(*map, type);
    expect_emptied(*map, type);
  }
}

}  // namespace

ESPALIER_CHECK(conformance, empty_map) {
  const auto map = make(type);
  for (int round = 0; round < 2; ++round) {
    for (const key k : boundary_keys(type)) {
      EXPECT_EQ(map->plain().find(k), std::nullopt);
      EXPECT_FALSE(map->plain().contains(k));
      EXPECT_FALSE(map->plain().erase(k));
      EXPECT_EQ(map->plain().scan(k, [](key, value) { return true; }), 0U);
    }
    expect_sound_at_rest(*map, type);
    EXPECT_EQ(map->usage().blocks, blocks_when_empty(type));
  }
}

ESPALIER_CHECK(conformance, random_operations_few_keys) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const key count : {key{1}, key{2}, key{3}, key{12}}) {
      const auto map = make(type);
      model expected;
      random_source random(seed, count);
      const auto keys = key_range(0, count);
      run_against_model(map->plain(), expected, random, keys, {}, 1500);
      ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, keys)) << seed;
      expect_sound_at_rest(*map, type);
    }
  }
}

ESPALIER_CHECK(conformance, random_operations_many_keys) {
  const auto map = make(type);
  model expected;
  random_source random(11);
  const auto keys = key_range(0, 3000, 3);
  for (int round = 0; round < 4; ++round) {
    run_against_model(map->plain(), expected, random, keys, {}, 4000);
    ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, keys));
    expect_sound_at_rest(*map, type);
  }
}

ESPALIER_CHECK(conformance, whole_key_domain) {
  const auto keys = boundary_keys(type);
  ASSERT_EQ(keys.front(), 0U);
  ASSERT_EQ(keys.back(), type.largest_key);
  // Each key alone, so that no neighbour affects the result.
  for (const key k : keys) {
    const auto map = make(type);
    for (const value v : boundary_values()) {
      ASSERT_TRUE(map->plain().insert(k, v)) << k;
      ASSERT_FALSE(map->plain().insert(k, v + 1)) << k;
      ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), {{k, v}}, keys));
      ASSERT_FALSE(map->plain().insert_or_assign(k, ~v)) << k;
      ASSERT_EQ(map->plain().find(k), ~v) << k;
      ASSERT_TRUE(map->plain().erase(k)) << k;
      ASSERT_FALSE(map->plain().erase(k)) << k;
      ASSERT_TRUE(map->plain().insert_or_assign(k, v)) << k;
      ASSERT_EQ(map->plain().find(k), v) << k;
      ASSERT_TRUE(map->plain().erase(k)) << k;
    }
    expect_sound_at_rest(*map, type);
  }
  // All together.
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto map = make(type);
    model expected;
    random_source random(seed, 77);
    run_against_model(map->plain(), expected, random, keys, boundary_values(), 3000);
    ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, keys));
    expect_sound_at_rest(*map, type);
  }
}

ESPALIER_CHECK(conformance, keys_far_apart) {
  // Alternates between both ends of the domain: every comparison is between keys that differ by more than half of a
  // 32-bit number, and of a 64-bit number if the domain allows.
  std::vector<key> keys;
  for (key i = 0; i < 200; ++i) {
    keys.push_back(i * 3);
    keys.push_back(type.largest_key - i * 5);
  }
  fill_and_empty(type, keys, keys);
  std::vector<key> other_way(keys.rbegin(), keys.rend());
  fill_and_empty(type, keys, other_way);
}

ESPALIER_CHECK(conformance, orders_of_insertion) {
  const auto up = key_range(0, 300);
  const std::vector<key> down(up.rbegin(), up.rend());
  std::vector<key> twice;
  for (const key k : up) twice.insert(twice.end(), {k, k, k / 2});
  std::vector<key> outside_in;
  for (key i = 0; i < 150; ++i) outside_in.insert(outside_in.end(), {i, 299 - i});
  const auto mixed = shuffled(up, 5);
  const auto mixed_again = shuffled(up, 6);

  fill_and_empty(type, up, up);
  fill_and_empty(type, up, down);
  fill_and_empty(type, down, up);
  fill_and_empty(type, down, outside_in);
  fill_and_empty(type, twice, twice);
  fill_and_empty(type, outside_in, mixed);
  fill_and_empty(type, mixed, mixed_again);
  fill_and_empty(type, mixed, up);
}

ESPALIER_CHECK(conformance, guarded_and_plain_agree) {
  const auto map = make(type);
  operations& plain = map->plain();
  map->with_guard([&](operations& guarded) {
    ASSERT_TRUE(guarded.insert(5, 50));
    ASSERT_FALSE(plain.insert(5, 51));
    ASSERT_TRUE(plain.insert(6, 60));
    ASSERT_FALSE(guarded.insert(6, 61));
    ASSERT_EQ(guarded.find(6), 60U);
    ASSERT_EQ(plain.find(5), 50U);
    ASSERT_FALSE(guarded.insert_or_assign(6, 62));
    ASSERT_EQ(plain.find(6), 62U);
    ASSERT_FALSE(plain.insert_or_assign(5, 52));
    ASSERT_EQ(guarded.find(5), 52U);
    ASSERT_TRUE(plain.insert_or_assign(7, 70));
    ASSERT_TRUE(guarded.contains(7));
    for (const key from : {key{0}, key{6}, key{8}}) {
      model by_plain;
      model by_guarded;
      const std::size_t a = plain.scan_to_end(from, [&](key k, value v) { by_plain[k] = v; });
      const std::size_t b = guarded.scan_to_end(from, [&](key k, value v) { by_guarded[k] = v; });
      EXPECT_EQ(a, b);
      EXPECT_EQ(by_plain, by_guarded);
    }
    ASSERT_TRUE(guarded.erase(5));
    ASSERT_FALSE(plain.erase(5));
    ASSERT_FALSE(plain.contains(5));
    ASSERT_TRUE(plain.erase(6));
    ASSERT_FALSE(guarded.erase(6));
    ASSERT_FALSE(guarded.contains(6));
  });
  expect_equal(map->plain(), {{7, 70}});
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(conformance, nested_guards) {
  const auto map = make(type);
  model expected;
  random_source random(21);
  const auto keys = key_range(0, 40);
  const auto some = [&](operations& with) { run_against_model(with, expected, random, keys, {}, 150); };
  for (int round = 0; round < 10; ++round) {
    map->with_guard([&](operations& outer) {
      some(outer);
      map->with_guard([&](operations& inner) {
        some(inner);
        some(outer);
        some(map->plain());
        map->with_guard(some);
      });
      some(outer);  // the end of the inner guard must not have ended the outer one's protection
    });
  }
  if (::testing::Test::HasFailure()) return;
  expect_equal(map->plain(), expected, keys);
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(conformance, assigning_keeps_the_contents) {
  const auto map = make(type);
  model expected;
  const auto keys = key_range(0, 200, 2);
  for (const key k : keys) expected[k] = k, map->plain().insert(k, k);
  for (value v = 0; v < 20; ++v) {
    for (const key k : keys) {
      ASSERT_FALSE(map->plain().insert_or_assign(k, v * k));
      expected[k] = v * k;
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(map->plain(), expected, key_range(0, 200)));
  }
  expect_sound_at_rest(*map, type);
}

}  // namespace espalier::test
