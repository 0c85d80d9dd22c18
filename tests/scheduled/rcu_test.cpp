#include "espalier/reclaim/rcu.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "scheduled/rcu_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;

void expect_kept(const char* name, const std::function<void(sim::scene&)>& build) {
  for (const auto model :
       {sim::memory_model::sequential, sim::memory_model::buffered, sim::memory_model::weak}) {
    sim::exploration_options o;
    o.schedules = sim::scaled_schedules(5000);
    o.model = model;
    const auto report = sim::explore(name, o, build);
    EXPECT_TRUE(report.passed()) << report;
  }
}

TEST(rcu, a_section_is_waited_for) { expect_kept("a_section_is_waited_for", sim::section_is_waited_for); }

TEST(rcu, all_sections_are_waited_for) {
  expect_kept("all_sections_are_waited_for", sim::all_sections_are_waited_for);
}

TEST(rcu, two_wait_at_once) { expect_kept("two_wait_at_once", sim::two_wait_at_once); }

/// A thread that has ended, or that waits for the caller outside of sections, delays no grace period.
TEST(rcu, threads_outside_are_not_waited_for) {
  expect_kept("threads_outside_are_not_waited_for", [](sim::scene& s) {
    auto& domain = s.make<rcu_domain>();
    auto& returned = s.make<std::atomic<bool>>(false);
    s.thread("ends", [&] { const rcu_domain::read_section inside(domain); });
    s.thread("waits outside", [&] {
      {
        const rcu_domain::read_section inside(domain);
      }
      while (!returned.load()) sim::wait_for_others();
    });
    s.thread("synchronizes", [&] {
      domain.synchronize();
      returned = true;
    });
  });
}

/// Sections of another domain are not waited for.
TEST(rcu, domains_are_apart) {
  expect_kept("domains_are_apart", [](sim::scene& s) {
    auto& one = s.make<rcu_domain>();
    auto& other = s.make<rcu_domain>();
    auto& returned = s.make<std::atomic<bool>>(false);
    s.thread("stays inside", [&] {
      const rcu_domain::read_section inside(other);
      while (!returned.load()) sim::wait_for_others();
      one.synchronize();
    });
    s.thread("synchronizes", [&] {
      one.synchronize();
      returned = true;
    });
  });
}

}  // namespace
