#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

// What tests expect of a scene under many schedules. It has the name of its test.

namespace espalier::sim {

inline exploration_report explore_in_test(const std::function<void(scene&)>& build, exploration_options o) {
  return explore(::testing::UnitTest::GetInstance()->current_test_info()->name(), o, build);
}

/// No schedule breaks it.
inline exploration_report expect_kept(double schedules, const std::function<void(scene&)>& build,
                                      exploration_options o = {}) {
  o.schedules = scaled_schedules(schedules);
  exploration_report report = explore_in_test(build, std::move(o));
  EXPECT_TRUE(report.passed()) << report;
  return report;
}

inline void expect_kept_in_all_models(double schedules, const std::function<void(scene&)>& build,
                                      exploration_options o = {}) {
  for (const auto model : {memory_model::sequential, memory_model::buffered, memory_model::weak}) {
    o.model = model;
    expect_kept(schedules, build, o);
  }
}

/// The control: some schedule breaks it, in this way, and is reported with these words.
inline void expect_broken(failure_kind kind, double schedules, const std::function<void(scene&)>& build,
                          const char* words = "", exploration_options o = {}) {
  // A run with fewer schedules than usual would find less.
  const double usual = std::max(schedules, static_cast<double>(scaled_schedules(schedules)));
  o.schedules = static_cast<std::uint64_t>(usual);
  const exploration_report report = explore_in_test(build, std::move(o));
  ASSERT_FALSE(report.passed()) << "nothing was found in " << report.runs << " schedules";
  EXPECT_EQ(report.failure->kind, kind) << report;
  EXPECT_NE(report.failure->text.find(words), std::string::npos) << report;
}

}  // namespace espalier::sim
