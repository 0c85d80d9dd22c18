#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/sync/elision.hpp"
#include "support/abort_statuses.hpp"

// For all users of lock elision over scripted transactions: how often each cause is attempted before the lock is taken,
// and what is learnt. A user instantiates the suite `eliding` with types that have
//
//     Use()             as new, with small_budgets
//     bool take_one()   runs a section; whether it took the lock
//     counts()          elision_counts

namespace espalier::test {

inline constexpr elision_budgets small_budgets{.conflict = 3, .capacity = 1, .lock_held = 2, .other = 1};

template <class Use>
struct eliding : ::testing::Test {};
TYPED_TEST_SUITE_P(eliding);

TYPED_TEST_P(eliding, retries_each_cause_as_often_as_its_budget_says) {
  struct elision_cause {
    hw::abort_status status;
    std::size_t attempts;
    elision_event counted;
  };
  constexpr std::array causes{
      elision_cause{abort_statuses::conflict, 4, elision_event::conflict},
      elision_cause{abort_statuses::capacity, 2, elision_event::capacity},
      elision_cause{abort_statuses::held, 3, elision_event::lock_held},
      elision_cause{hw::abort_status::asked_for(inner_lock_held), 3, elision_event::lock_held},
      elision_cause{abort_statuses::no_reason, 2, elision_event::other},
      elision_cause{hw::abort_status::asked_for(not_elidable), 1, elision_event::other}};
  for (const elision_cause& c : causes) {
    SCOPED_TRACE(to_string(c.status));
    TypeParam use;
    const hw::scripted::cue script({}, c.status);
    EXPECT_TRUE(use.take_one());
    EXPECT_EQ(script.transactions(), c.attempts);
    elision_counts counts;
    counts.of_event[static_cast<std::size_t>(c.counted)] = c.attempts;
    counts.of_event[static_cast<std::size_t>(elision_event::fallback)] = 1;
    EXPECT_EQ(use.counts(), counts);
    EXPECT_EQ(counts.attempts(), c.attempts);
    EXPECT_EQ(counts.sections(), 1U);
  }
}

TYPED_TEST_P(eliding, takes_no_lock_after_aborts_that_budgets_allow) {
  using namespace abort_statuses;
  TypeParam use;
  const hw::scripted::cue script({conflict, no_reason, conflict, capacity, conflict});
  EXPECT_FALSE(use.take_one());
  EXPECT_EQ(script.transactions(), 6U);
  EXPECT_EQ(use.counts().of(elision_event::commit), 1U);
}

TYPED_TEST_P(eliding, skips_more_and_more_sections_where_all_fall_back_until_they_commit) {
  TypeParam use;
  {
    const hw::scripted::cue script({}, abort_statuses::capacity);
    std::vector<int> attempted;
    for (int section = 1; section <= 40; ++section) {
      const std::size_t before = script.transactions();
      EXPECT_TRUE(use.take_one());
      if (script.transactions() != before) attempted.push_back(section);
    }
    EXPECT_EQ(attempted, (std::vector<int>{1, 2, 4, 7, 12, 21, 38}));
  }
  EXPECT_EQ(use.counts().of(elision_event::fallback), 7U);
  EXPECT_EQ(use.counts().of(elision_event::skipped), 33U);
  const hw::scripted::cue script({});
  for (int i = 0; i < 100; ++i) static_cast<void>(use.take_one());
  EXPECT_GE(script.transactions(), 70U);
  const std::uint64_t skipped = use.counts().of(elision_event::skipped);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(use.take_one());
  EXPECT_EQ(use.counts().of(elision_event::skipped), skipped) << "after a commit nothing is skipped";
}

TYPED_TEST_P(eliding, counts_what_a_run_under_the_lock_has_healed) {
  using namespace abort_statuses;
  TypeParam use;
  const hw::scripted::cue script({no_reason, no_reason, hw::scripted::commit,  // healed
                                  capacity, capacity, hw::scripted::commit,    // healed
                                  conflict, conflict, conflict, conflict,
                                  hw::scripted::commit,  // not by the run under the lock
                                  hw::scripted::commit});
  while (script.remaining() != 0) static_cast<void>(use.take_one());
  EXPECT_EQ(use.counts().of(elision_event::healed), 2U);
  EXPECT_EQ(use.counts().of(elision_event::fallback), 3U);
  EXPECT_EQ(use.counts().of(elision_event::commit), 4U);
}

REGISTER_TYPED_TEST_SUITE_P(eliding, retries_each_cause_as_often_as_its_budget_says,
                            takes_no_lock_after_aborts_that_budgets_allow,
                            skips_more_and_more_sections_where_all_fall_back_until_they_commit,
                            counts_what_a_run_under_the_lock_has_healed);

}  // namespace espalier::test
