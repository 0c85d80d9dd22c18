// exchange, extract and update, one thread: their outcomes, and functions of an update that throw.

#include <gtest/gtest.h>

#include <optional>

#include "support/model.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

constexpr const char* lacks_them = "the map does not exchange";

/// All outcomes of the three operations for a key that is absent before and after.
void expect_outcomes(operations& map, key k, value v) {
  const std::size_t others = map.size();
  std::optional<value> now = ~v;
  const auto becomes = [&](std::optional<value> next) {
    return map.update(k, [&now, next](std::optional<value> present) {
      now = present;
      return next;
    });
  };
  ASSERT_EQ(map.extract(k), std::nullopt) << k;
  ASSERT_EQ(map.find(k), std::nullopt) << k;
  ASSERT_EQ(becomes(std::nullopt), std::nullopt) << k;
  ASSERT_EQ(now, std::nullopt) << k;
  ASSERT_EQ(map.find(k), std::nullopt) << k;
  ASSERT_EQ(map.size(), others) << k;

  ASSERT_EQ(map.exchange(k, v), std::nullopt) << k;
  ASSERT_EQ(map.find(k), v) << k;
  ASSERT_EQ(map.exchange(k, v + 1), v) << k;
  ASSERT_EQ(map.exchange(k, v + 2), v + 1) << k;
  ASSERT_EQ(map.size(), others + 1) << k;
  ASSERT_EQ(becomes(v + 3), v + 2) << k;
  ASSERT_EQ(now, v + 2) << k;
  ASSERT_EQ(becomes(v + 3), v + 3) << k;  // the same value again
  ASSERT_EQ(map.find(k), v + 3) << k;
  ASSERT_EQ(map.size(), others + 1) << k;
  ASSERT_EQ(map.extract(k), v + 3) << k;
  ASSERT_EQ(map.extract(k), std::nullopt) << k;
  ASSERT_FALSE(map.contains(k)) << k;
  ASSERT_EQ(map.size(), others) << k;

  ASSERT_EQ(becomes(v), std::nullopt) << k;
  ASSERT_EQ(now, std::nullopt) << k;
  ASSERT_FALSE(map.insert(k, v + 1)) << k;
  ASSERT_EQ(map.size(), others + 1) << k;
  ASSERT_EQ(becomes(std::nullopt), v) << k;
  ASSERT_EQ(now, v) << k;
  ASSERT_FALSE(map.erase(k)) << k;
  ASSERT_EQ(map.size(), others) << k;
}

struct no_value {};

}  // namespace

ESPALIER_CHECK(conformance, exchanges) {
  if (!type.properties.exchanges) GTEST_SKIP() << lacks_them;
  const auto keys = boundary_keys(type);
  // Each key alone, then among all others.
  const auto map = make(type);
  for (const bool full : {false, true}) {
    for (const key k : keys) {
      if (full) map->plain().erase(k);
      for (const value v : boundary_values()) {
        ASSERT_NO_FATAL_FAILURE(expect_outcomes(map->plain(), k, v));
        map->with_guard([&](operations& guarded) { expect_outcomes(guarded, k, v); });
        if (::testing::Test::HasFatalFailure()) return;
      }
      if (full) map->plain().insert(k, k);
    }
    expect_sound_at_rest(*map, type);
    for (const key k : keys) map->plain().insert(k, k);
  }

  // What one form of the operations writes, the other one reads.
  const auto shared = make(type);
  model expected;
  random_source random(81);
  const auto few = key_range(0, 5);
  const auto some = [&](operations& with) {
    for (int i = 0; i < 100; ++i) {
      const key k = random.below(few.size());
      const value v = random.next();
      const std::optional<value> before = find(expected, k);
      switch (random.below(3)) {
        case 0:
          ASSERT_EQ(with.exchange(k, v), before) << "exchange " << k;
          expected[k] = v;
          break;
        case 1:
          ASSERT_EQ(with.extract(k), before) << "extract " << k;
          expected.erase(k);
          break;
        default:
          ASSERT_EQ(with.update(k, [&](std::optional<value> now) { return now.value_or(0) + v; }), before)
              << "update " << k;
          expected[k] = before.value_or(0) + v;
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(with, expected, few));
  };
  for (int round = 0; round < 20; ++round) {
    some(shared->plain());
    shared->with_guard([&](operations& outer) {
      some(outer);
      shared->with_guard([&](operations& inner) {
        some(inner);
        some(outer);
        some(shared->plain());
      });
      some(outer);
    });
    if (::testing::Test::HasFatalFailure()) return;
    expect_sound_at_rest(*shared, type);
  }
}

ESPALIER_CHECK(conformance, an_update_whose_function_throws_changes_nothing) {
  if (!type.properties.exchanges) GTEST_SKIP() << lacks_them;
  for (const key count : {key{0}, key{1}, key{40}}) {
    const auto map = make(type);
    model expected;
    const auto keys = key_range(0, 2 * count, 2);
    for (const key k : keys) {
      map->plain().insert(k, k + 7);
      expected[k] = k + 7;
    }
    expect_sound_at_rest(*map, type);
    const std::uint64_t blocks = map->usage().blocks;
    const auto refuse_updates = [&](operations& with) {
      for (key k = 0; k <= 2 * count; ++k) {
        bool asked = false;
        EXPECT_THROW(with.update(k,
                                 [&](std::optional<value> now) -> std::optional<value> {
                                   asked = true;
                                   EXPECT_EQ(now, find(expected, k));
                                   throw no_value();
                                 }),
                     no_value)
            << k;
        EXPECT_TRUE(asked) << k;
      }
      expect_equal(with, expected, key_range(0, 2 * count + 2));
    };
    refuse_updates(map->plain());
    map->with_guard(refuse_updates);
    expect_sound_at_rest(*map, type);
    EXPECT_EQ(map->usage().blocks, blocks) << "an update that threw keeps memory";
    if (::testing::Test::HasFailure()) return;

    random_source random(82);
    run_against_model(map->plain(), expected, random, key_range(0, 2 * count + 1), {}, 1000);
    expect_equal(map->plain(), expected, key_range(0, 2 * count + 2));
    expect_sound_at_rest(*map, type);
  }
}

}  // namespace espalier::test
