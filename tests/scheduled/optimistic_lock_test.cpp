#include <gtest/gtest.h>

#include "scheduled/optimistic_lock_scenes.hpp"
#include "scheduled/schedules.hpp"

namespace {

using namespace espalier;

TEST(optimistic_lock, keeps_its_promises) {
  sim::optimistic::for_each_scene([](const char* name, void (*build)(sim::scene&)) {
    sim::exploration_options o;
    o.schedules = sim::scaled_schedules(6000);
    const sim::exploration_report report = sim::explore(name, o, build);
    EXPECT_TRUE(report.passed()) << report;
  });
}

/// The control: a reader that does not validate sees half of a change.
TEST(optimistic_lock, what_is_not_validated_may_be_torn) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(6000);
  const sim::exploration_report report = sim::explore("not_validated", o, [](sim::scene& s) {
    auto& p = s.make<sim::optimistic::guarded_pair>();
    s.thread("writes", [&p] { p.add(); });
    s.thread("reads", [&p] {
      const optimistic_lock::read_section seen = p.lock.read();
      const int a = p.left.load(seen);
      sim::require(a == p.right.load(seen), "torn");
    });
  });
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.failure->kind, sim::failure_kind::requirement) << report;
}

}  // namespace
