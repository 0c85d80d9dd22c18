// The cache under chosen schedules.

#include "scheduled/cache_scenes.hpp"

#include <gtest/gtest.h>

#include "scheduled/expect.hpp"

namespace {

using namespace espalier;

sim::exploration_options long_runs() {
  sim::exploration_options o;
  o.step_budget = 400'000;
  return o;
}

TEST(cache, hides_nothing_that_is_there) {
  sim::cached::for_each_scene([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(500, build, long_runs());
  });
}

TEST(cache, hides_nothing_on_weak_memory) {
  sim::exploration_options o;
  o.model = sim::memory_model::weak;
  sim::cached::for_each_weak_scene([&o](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(2'000, build, o);
  });
}

TEST(cache, evicts_nothing_else) {
  sim::cached::for_each_long_scene([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(60, build, long_runs());
  });
}

TEST(cache, keeps_what_is_worth_it) {
  sim::cached::for_each_lone_scene([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(2, build, long_runs());
  });
}

}  // namespace
