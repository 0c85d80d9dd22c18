#include "espalier/sync/elision_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "support/abort_statuses.hpp"

namespace espalier {
namespace {

using hw::abort_code;
using hw::abort_status;
using next = elision_attempts::next;
using namespace test::abort_statuses;

constexpr abort_status inner_held = abort_status::asked_for(inner_lock_held);

/// Aborts of one kind until the attempts are given up; what was to be done after each.
std::vector<next> all_after(const elision_budgets& budgets, abort_status status) {
  elision_attempts attempts(budgets);
  std::vector<next> steps;
  do {
    steps.push_back(attempts.after(status));
  } while (steps.back() != next::give_up && steps.size() < 1000);
  return steps;
}

std::vector<next> so_often(unsigned n, next step) {
  std::vector<next> steps(n, step);
  steps.push_back(next::give_up);
  return steps;
}

TEST(elision_attempts, each_cause_has_a_budget_and_a_way_to_wait) {
  constexpr elision_budgets budgets{.conflict = 3, .capacity = 2, .lock_held = 4, .other = 1};
  EXPECT_EQ(all_after(budgets, conflict), so_often(3, next::after_pause));
  EXPECT_EQ(all_after(budgets, capacity), so_often(2, next::again));
  EXPECT_EQ(all_after(budgets, held), so_often(4, next::when_free));
  EXPECT_EQ(all_after(budgets, inner_held), so_often(4, next::after_pause));
  EXPECT_EQ(all_after(budgets, no_reason), so_often(1, next::again));
  EXPECT_EQ(all_after(budgets, abort_status{abort_status::debug_bit}), so_often(1, next::again));
  EXPECT_EQ(all_after(budgets, abort_status{abort_status::nested_bit}), so_often(1, next::again));
  EXPECT_EQ(all_after(budgets, abort_status::asked_for(abort_code::validation)), so_often(1, next::again));
  EXPECT_EQ(all_after(budgets, abort_status::asked_for(not_elidable)), so_often(0, next::again));
  // Both bits: what does not fit is not mended by waiting.
  EXPECT_EQ(all_after(budgets, abort_status{conflict.word() | capacity.word()}), so_often(2, next::again));
}

TEST(elision_attempts, budgets_are_apart) {
  elision_attempts attempts(elision_budgets{.conflict = 1, .capacity = 1, .lock_held = 1, .other = 1});
  EXPECT_EQ(attempts.after(held), next::when_free);
  EXPECT_EQ(attempts.after(conflict), next::after_pause);
  EXPECT_EQ(attempts.after(capacity), next::again);
  EXPECT_EQ(attempts.after(no_reason), next::again);
  EXPECT_EQ(attempts.after(conflict), next::give_up);
}

TEST(elision_attempts, the_last_abort_says_what_was_in_the_way) {
  elision_attempts attempts(elision_budgets{});
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::others) << "the lock never looked free";
  static_cast<void>(attempts.after(no_reason));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::mendable);
  static_cast<void>(attempts.after(conflict));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::others);
  static_cast<void>(attempts.after(capacity));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::mendable);
  static_cast<void>(attempts.after(held));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::others);
  static_cast<void>(attempts.after(abort_status::asked_for(not_elidable)));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::lasting);
  static_cast<void>(attempts.after(inner_held));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::others);
  static_cast<void>(attempts.after(abort_status::asked_for(abort_code::validation)));
  EXPECT_EQ(attempts.obstacle(), elision_obstacle::lasting);
}

/// Sections passed over after each of `n` fallbacks in a row.
std::vector<unsigned> passed_over(elision_history& history, unsigned n,
                                  elision_obstacle met = elision_obstacle::lasting) {
  std::vector<unsigned> runs;
  for (; n > 0; --n) {
    history = history.after_fallback(met);
    unsigned skipped = 0;
    for (; history.skips() && skipped < 5000; ++skipped) history = history.after_skipped();
    runs.push_back(skipped);
  }
  return runs;
}

TEST(elision_history, passes_over_more_with_each_fallback_in_a_row_up_to_a_bound) {
  elision_history history;
  EXPECT_FALSE(history.skips());
  EXPECT_EQ(passed_over(history, 6), (std::vector<unsigned>{0, 1, 2, 4, 8, 16}));
  EXPECT_EQ(passed_over(history, 20).back(), elision_history::most_skipped);
}

TEST(elision_history, is_patient_with_others) {
  elision_history history;
  const auto others = elision_obstacle::others;
  EXPECT_EQ(passed_over(history, elision_history::patience, others),
            std::vector<unsigned>(elision_history::patience, 0));
  elision_history won = history.after_commit();
  EXPECT_EQ(won, elision_history{}) << "one that commits is enough to begin anew";
  EXPECT_EQ(passed_over(history, 4, others), (std::vector<unsigned>{0, 1, 2, 4}));
  EXPECT_EQ(passed_over(won, 2), (std::vector<unsigned>{0, 1})) << "with the section itself it is not";
}

TEST(elision_history, others_change_nothing_about_what_was_learnt) {
  elision_history history;
  static_cast<void>(passed_over(history, 6));
  EXPECT_EQ(passed_over(history, 1, elision_obstacle::others), (std::vector<unsigned>{0}));
  EXPECT_EQ(passed_over(history, 1), (std::vector<unsigned>{32}));
}

TEST(elision_history, commits_halve_what_the_next_fallback_costs) {
  elision_history history;
  static_cast<void>(passed_over(history, 6));
  history = history.after_commit();
  EXPECT_FALSE(history.skips());
  EXPECT_EQ(passed_over(history, 1), (std::vector<unsigned>{16}));
  for (int i = 0; i < 40; ++i) history = history.after_commit();
  EXPECT_EQ(history, elision_history{});
  EXPECT_EQ(passed_over(history, 2), (std::vector<unsigned>{0, 1}));
}

TEST(elision_history, remembers_what_may_have_been_mended_until_a_commit) {
  elision_history history;
  EXPECT_FALSE(history.heals());
  history = history.after_fallback(elision_obstacle::mendable).after_fallback(elision_obstacle::mendable);
  ASSERT_TRUE(history.skips());
  EXPECT_TRUE(history.after_skipped().heals());
  EXPECT_FALSE(history.after_fallback(elision_obstacle::lasting).heals());
  EXPECT_FALSE(history.after_commit().heals());
  EXPECT_EQ(elision_history{history.word()}, history);
}

TEST(elision_counts, events_of_aborts_and_sums) {
  EXPECT_EQ(event_of(conflict), elision_event::conflict);
  EXPECT_EQ(event_of(capacity), elision_event::capacity);
  EXPECT_EQ(event_of(held), elision_event::lock_held);
  EXPECT_EQ(event_of(inner_held), elision_event::lock_held);
  EXPECT_EQ(event_of(no_reason), elision_event::other);
  EXPECT_EQ(event_of(abort_status::asked_for(not_elidable)), elision_event::other);
  elision_counts counts;
  for (std::size_t e = 0; e < elision_events; ++e) counts.of_event[e] = std::uint64_t{1} << e;
  EXPECT_EQ(counts.attempts(), 0b11111U);
  EXPECT_EQ(counts.sections(), 0b10100001U);
  EXPECT_EQ(counts.of(elision_event::healed), 64U);
}

}  // namespace
}  // namespace espalier
