// Destruction of maps, threads that end, reclaimed memory, and trees as deep as they are large.

#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "support/environment.hpp"
#include "support/model.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

/// Runs body in a thread with a stack so small that recursion as deep as a degenerate tree overflows it.
void with_small_stack(function_ref<void()> body) {
  constexpr std::size_t stack_bytes = std::size_t{instrumented ? 1024U : 128U} << 10U;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread{};
  const int failed = pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        (*static_cast<function_ref<void()>*>(argument))();
        return nullptr;
      },
      &body);
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(failed, 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace

ESPALIER_CHECK(conformance, frees_its_memory) {
  const auto map = make(type);
  random_source random(51);
  const auto keys = key_range(0, 500);
  model expected;
  for (int round = 0; round < 3; ++round) {
    run_against_model(map->plain(), expected, random, keys, {}, 5000);
    expect_sound_at_rest(*map, type);
    for (const key k : keys) map->plain().erase(k);
    expected.clear();
    expect_sound_at_rest(*map, type);
    expect_emptied(*map, type);
  }
}

ESPALIER_CHECK(conformance, dies_full_in_another_thread) {
  auto map = make(type);
  model expected;
  // Each thread leaves entries, and retired memory, to the next; the last one destroys the map.
  for (std::uint64_t t = 0; t < 4; ++t) {
    std::thread([&] {
      random_source random(61, t);
      run_against_model(map->plain(), expected, random, key_range(0, 300), {}, 2000);
      if (t == 2) expect_equal(map->plain(), expected, key_range(0, 300));
      if (t == 3) map.reset();
    }).join();
  }
}

ESPALIER_CHECK(conformance, maps_share_a_domain) {
  const std::shared_ptr<void> domain = type.make_domain();
  if (domain == nullptr) GTEST_SKIP() << "maps of this type share nothing";
  auto first = type.make(domain);
  const auto second = type.make(domain);
  model in_first;
  model in_second;
  random_source random(71);
  const auto keys = key_range(0, 100);
  for (int round = 0; round < 20; ++round) {
    first->with_guard([&](operations& guarded) {
      run_against_model(guarded, in_first, random, keys, {}, 100);
      run_against_model(second->plain(), in_second, random, keys, {}, 100);
    });
    second->with_guard(
        [&](operations&) { run_against_model(first->plain(), in_first, random, keys, {}, 100); });
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(first->plain(), in_first, keys));
  // What the first map retired must be reclaimed with it: its memory may not be touched afterwards.
  first.reset();
  ASSERT_NO_FATAL_FAILURE(expect_equal(second->plain(), in_second, keys));
  for (int round = 0; round < 20; ++round)
    run_against_model(second->plain(), in_second, random, keys, {}, 200);
  const auto third = type.make(domain);
  model in_third;
  run_against_model(third->plain(), in_third, random, keys, {}, 1000);
  expect_equal(second->plain(), in_second, keys);
  expect_equal(third->plain(), in_third, keys);
  expect_sound_at_rest(*second, type);
  expect_sound_at_rest(*third, type);
}

ESPALIER_CHECK(conformance, maps_are_independent) {
  const auto a = make(type);
  auto b = make(type);
  a->with_guard([&](operations& in_a) {
    b->with_guard([&](operations& in_b) {
      for (key k = 0; k < 100; ++k) {
        EXPECT_TRUE(in_a.insert(k, k));
        EXPECT_TRUE(in_b.insert(k, k + 1));
      }
      for (key k = 0; k < 100; k += 2) EXPECT_TRUE(in_b.erase(k));
    });
  });
  EXPECT_EQ(a->plain().scan_to_end(0, [](key k, value v) { EXPECT_EQ(k, v); }), 100U);
  EXPECT_EQ(b->plain().scan_to_end(0, [](key k, value v) { EXPECT_EQ(k + 1, v); }), 50U);
  b.reset();
  EXPECT_EQ(a->plain().scan_to_end(0, [](key k, value v) { EXPECT_EQ(k, v); }), 100U);
  expect_sound_at_rest(*a, type);
}

ESPALIER_CHECK(conformance, as_deep_as_large) {
  // Ascending keys make an unbalanced tree a path. The work is quadratic, so only an algorithm's default does all of
  // it.
  const bool is_default = type.name == type.algorithm;
  const key count = instrumented ? 2000 : is_default ? 20000 : 4000;
  with_small_stack([&] {
    const auto map = make(type);
    map->with_guard([&](operations& guarded) {
      for (key k = 0; k < count; ++k) ASSERT_TRUE(guarded.insert(k, ~k));
    });
    key next = 0;
    EXPECT_EQ(map->plain().scan_to_end(0,
                                       [&](key k, value v) {
                                         EXPECT_TRUE(k == next && v == ~k) << k;
                                         ++next;
                                       }),
              count);
    EXPECT_EQ(map->plain().find(count - 1), ~(count - 1));
    expect_sound_at_rest(*map, type);
    for (key k = count - 1; k > count - 100; --k) EXPECT_TRUE(map->plain().erase(k));
    for (key k = 0; k < count / 2; ++k) EXPECT_TRUE(map->plain().erase(k));
    expect_sound_at_rest(*map, type);
    // The map is destroyed with the rest in it.
  });
}

}  // namespace espalier::test
