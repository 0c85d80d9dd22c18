// The in-memory database under chosen schedules.

#include "scheduled/oltp_scenes.hpp"

#include <gtest/gtest.h>

#include "scheduled/expect.hpp"

namespace {

using namespace espalier;

TEST(oltp, histories_are_serializable) {
  sim::transactional::for_each_scene([](const std::string& name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(100, build, sim::transactional::long_runs());
  });
}

/// The steps of erasing so many rows of one key one by one, the oldest first.
std::uint64_t steps_of_erasing(std::uint64_t rows) {
  sim::exploration_options o;
  o.schedules = 1;
  o.strategies = {"round-robin"};
  o.model = sim::memory_model::sequential;
  o.step_budget = 10'000'000;
  const sim::exploration_report report = sim::explore("erasing", o, [rows](sim::scene& s) {
    using namespace sim::transactional;
    using world = jobs_of<oltp::protocol::no_wait>;
    auto& w = s.make<world>();
    w.jobs.create_index("by kind", oltp::uniqueness::many, [](const job& j) { return j.kind; });
    w.all.transact([&](oltp::transaction& t) {
      for (std::uint64_t id = 0; id < rows; ++id) t.insert(w.jobs, {id});
    });
    s.thread("a", [&w, rows] {
      for (std::uint64_t id = 0; id < rows; ++id)
        w.all.transact([&](oltp::transaction& t) { t.erase(w.jobs, id); });
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  return report.longest_run;
}

TEST(oltp, rows_leave_a_long_list_in_linear_time) {
  const std::uint64_t short_list = steps_of_erasing(300);
  EXPECT_GT(short_list, 300U);
  EXPECT_LT(steps_of_erasing(600), short_list * 5 / 2);
}

}  // namespace
