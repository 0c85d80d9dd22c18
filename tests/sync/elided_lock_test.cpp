// Elided locks, and how often a transaction is tried.

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "support/abort_statuses.hpp"
#include "support/eliding.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

using hw::abort_code;
using hw::abort_status;
using hw::scripted;
using namespace test::abort_statuses;

// What a section may be.
[[maybe_unused]] constexpr auto nothing = []() noexcept {};
[[maybe_unused]] constexpr auto number = []() noexcept { return 1; };
[[maybe_unused]] constexpr auto may_throw = [] {};
[[maybe_unused]] constexpr auto grows = []() noexcept { return std::vector<int>(); };
static_assert(elidable_section<decltype(nothing)> && elidable_section<decltype(number)>);
static_assert(!elidable_section<decltype(may_throw)>, "nothing can leave a transaction but its result");
static_assert(!elidable_section<decltype(grows)>);

/// A lock that says to each look what the test wants, and counts who takes it. One at a time in a thread.
class observed_lock {
 public:
  static void reset() {
    taken = released = 0;
    looks.clear();
    at_look = [] {};
  }
  void lock() noexcept { ++taken; }
  bool try_lock() noexcept { return ++taken, true; }
  void unlock() noexcept { ++released; }
  [[nodiscard]] bool is_locked() const noexcept {
    at_look();
    if (looks.empty()) return false;
    const bool answer = looks.front();
    looks.erase(looks.begin());
    return answer;
  }

  static thread_local int taken;
  static thread_local int released;
  static thread_local std::vector<bool> looks;  // then free
  static thread_local std::function<void()> at_look;
};
thread_local int observed_lock::taken = 0;
thread_local int observed_lock::released = 0;
thread_local std::vector<bool> observed_lock::looks;
thread_local std::function<void()> observed_lock::at_look = [] {};

struct elided_lock : ::testing::Test {
  void SetUp() override { observed_lock::reset(); }

  using lock_type = elided<observed_lock, scripted>;
  static constexpr elision_budgets budgets = test::small_budgets;

  void run(lock_type& lock) {
    lock.elide([this]() noexcept { ++runs; });
  }
  static std::uint64_t of(const lock_type& lock, elision_event e) { return lock.counts().of(e); }

  int runs = 0;
};

/// A site whose threads share all that is learnt.
class counted_site : public elision_site {
 public:
  void count(elision_event e) noexcept { ++counts_.of_event[static_cast<std::size_t>(e)]; }
  [[nodiscard]] counted_site& local() noexcept { return *this; }
  [[nodiscard]] elision_counts counts() const noexcept { return counts_; }

 private:
  elision_counts counts_;
};

template <class Site>
class elided_lock_use {
 public:
  elided_lock_use() { observed_lock::reset(); }
  bool take_one() {
    const int taken = observed_lock::taken;
    int run = 0;
    EXPECT_EQ(lock_.elide([&run]() noexcept { return 10 + ++run; }), 11);
    EXPECT_EQ(run, 1);
    EXPECT_LE(observed_lock::taken, taken + 1);
    EXPECT_EQ(observed_lock::taken, observed_lock::released);
    return observed_lock::taken != taken;
  }
  [[nodiscard]] elision_counts counts() const { return lock_.counts(); }

 private:
  elided<observed_lock, scripted, Site> lock_{test::small_budgets};
};

TEST_F(elided_lock, commits_without_taking_the_lock) {
  lock_type lock;
  const scripted::cue script({});
  run(lock);
  EXPECT_EQ(lock.elide([]() noexcept { return 7; }), 7);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(script.transactions(), 2U);
  EXPECT_EQ(observed_lock::taken, 0);
  EXPECT_EQ(lock.counts(), (elision_counts{{2}}));
}

TEST_F(elided_lock, reads_the_lock_inside_before_the_section) {
  lock_type lock(budgets);
  const scripted::cue script({});
  // Free outside and taken inside; then taken three times, and free from there on.
  observed_lock::looks = {false, true, true, true, true, false, false};
  std::vector<bool> inside;
  observed_lock::at_look = [&inside] { inside.push_back(scripted::active()); };
  bool looked_first = false;
  lock.elide([&]() noexcept {
    ++runs;
    looked_first = !inside.empty() && inside.back();
  });
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(looked_first);
  EXPECT_EQ(inside, (std::vector<bool>{false, true, false, false, false, false, true}));
  EXPECT_EQ(script.transactions(), 2U);
  EXPECT_EQ(of(lock, elision_event::lock_held), 1U);
  EXPECT_EQ(observed_lock::taken, 0);
}

TEST_F(elided_lock, begins_no_attempt_while_the_lock_is_held) {
  lock_type lock(budgets);
  const scripted::cue script({conflict, held, no_reason});
  // Before each of the four attempts the lock is seen held, then free; inside the committing one it is free.
  observed_lock::looks = {true, true, false, true, false, true, true, true, false, true, false, false};
  std::vector<std::size_t> begun_at_look;
  observed_lock::at_look = [&] { begun_at_look.push_back(script.transactions()); };
  run(lock);
  EXPECT_EQ(begun_at_look, (std::vector<std::size_t>{0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4}));
  EXPECT_EQ(of(lock, elision_event::commit), 1U);
}

TEST_F(elided_lock, a_lock_that_never_looks_free_is_queued_for_without_an_attempt) {
  lock_type lock(budgets);
  const scripted::cue script({});
  observed_lock::looks.assign(100'000, true);
  run(lock);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(script.transactions(), 0U);
  EXPECT_EQ(observed_lock::looks.size(), 100'000 - most_elision_looks - 1);
  EXPECT_EQ(observed_lock::taken, 1);
  EXPECT_EQ(of(lock, elision_event::fallback), 1U);
}

TEST_F(elided_lock, what_is_passed_over_is_each_threads_own) {
  lock_type lock(budgets);
  const scripted::cue script({}, capacity);
  for (int i = 0; i < 10; ++i) run(lock);
  std::size_t theirs = 0;
  test::on_threads(1, [&](int) {
    const scripted::cue other({});
    lock.elide([]() noexcept {});
    theirs = other.transactions();
  });
  EXPECT_EQ(theirs, 1U);
}

TEST_F(elided_lock, joins_a_transaction_that_is_under_way) {
  lock_type outer(budgets);
  elided<ttas_lock, scripted> inner;
  const scripted::cue script({});
  outer.elide([&]() noexcept { inner.elide([this]() noexcept { ++runs; }); });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(script.transactions(), 1U);
  EXPECT_EQ(inner.counts(), elision_counts{}) << "it is the outermost that is counted";
}

TEST_F(elided_lock, a_lock_in_a_node_needs_a_site_and_no_object_beside_it) {
  struct {
    ttas_lock lock;
    std::uint32_t count = 0;
  } leaf;
  static_assert(sizeof leaf == 8);
  elision_site site;
  const scripted::cue script({scripted::commit, capacity, capacity, capacity});
  const auto count = [&]() noexcept { return ++leaf.count; };
  for (std::uint32_t n = 1; n <= 3; ++n) EXPECT_EQ(elide<scripted>(leaf.lock, site, count), n);
  EXPECT_FALSE(leaf.lock.is_locked());
  EXPECT_TRUE(site.history().skips()) << "two sections in a row have fallen back";
  ttas_lock other;
  EXPECT_EQ(elide<scripted>(other, site, count), 4U);
  EXPECT_EQ(script.remaining(), 1U) << "sections of one site share what is learnt, whatever their lock";
  EXPECT_EQ(elide<scripted>(other, site, count, {.capacity = 1}), 5U);
  EXPECT_EQ(script.transactions(), 5U);
  static_assert(sizeof(elided<ttas_lock, scripted, elision_site>) == 4 * hw::cache_line_bytes);
}

TEST_F(elided_lock, an_inner_lock_that_is_held_undoes_the_outer_section_and_is_waited_for) {
  elided<ttas_lock, scripted> outer(budgets);
  lock_type inner;
  const scripted::cue script({});
  observed_lock::looks = {true, true, true};  // in both retries too
  outer.elide([&]() noexcept { inner.elide([this]() noexcept { ++runs; }); });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(outer.counts().of(elision_event::lock_held), 3U);
  EXPECT_EQ(outer.counts().of(elision_event::fallback), 1U);
  EXPECT_EQ(script.transactions(), 4U) << "in the plain run of the outer section the inner one is elided";
}

TEST_F(elided_lock, a_plain_section_may_throw_and_leaves_the_lock_free) {
  elided<ttas_lock, scripted> lock;
  EXPECT_THROW(lock.locked([&lock] {
    EXPECT_TRUE(lock.is_locked());
    throw std::runtime_error("section");
  }),
               std::runtime_error);
  EXPECT_FALSE(lock.is_locked());
  EXPECT_EQ(lock.locked([] { return 3; }), 3);
}

TEST_F(elided_lock, is_a_plain_lock_where_there_are_no_transactions) {
  elided<observed_lock, hw::unavailable> lock;
  for (int i = 0; i < 3; ++i) lock.elide([this]() noexcept { ++runs; });
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(observed_lock::taken, 3);
  EXPECT_EQ(observed_lock::released, 3);
  EXPECT_EQ(lock.counts(), elision_counts{});
}

constexpr int threads = 4;
constexpr int rounds = 800;

/// Increments that are no read-modify-write all survive only where sections exclude one another.
template <class Lock, class Htm>
void expect_exclusion(scripted::step each) {
  elided<Lock, Htm> lock(elision_budgets{.conflict = 2, .capacity = 0, .lock_held = 2, .other = 1});
  int counter = 0;
  test::on_threads(threads, [&](int t) {
    const scripted::cue script({}, each);
    for (int i = 0; i < rounds; ++i) {
      const auto section = [&]() noexcept {
        const int before = counter;
        counter = before + 1;
      };
      if (i % 8 == t)
        lock.locked([&] {
          section();
          sched_yield();
        });
      else
        lock.elide(section);
    }
  });
  EXPECT_EQ(counter, threads * rounds);
  EXPECT_FALSE(lock.is_locked());
}

TEST(elided_lock_stress, sections_of_threads_exclude_one_another) {
  // Those of scripted do not commit: nothing would isolate them.
  for (const hw::abort_status each : {conflict, capacity, no_reason, held}) {
    expect_exclusion<ttas_lock, scripted>(each);
    expect_exclusion<ticket_lock, scripted>(each);
  }
  expect_exclusion<ttas_lock, hw::unavailable>(scripted::commit);
  expect_exclusion<ticket_lock, hw::unavailable>(scripted::commit);
}

TEST(elided_lock_stress, the_processors_transactions_exclude_one_another) {
  if (!hw::rtm::available()) GTEST_SKIP() << hw::rtm::probe().reason;
  if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "no transactions under sanitizers";
  expect_exclusion<ttas_lock, hw::rtm>(scripted::commit);
  expect_exclusion<ticket_lock, hw::rtm>(scripted::commit);
}

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
  EXPECT_FALSE(history.without_skips().skips());
  EXPECT_TRUE(history.without_skips().heals());
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

namespace espalier::test {

using elided_locks = ::testing::Types<elided_lock_use<elision_by_thread>, elided_lock_use<counted_site>>;
INSTANTIATE_TYPED_TEST_SUITE_P(elided_lock, eliding, elided_locks);

}  // namespace espalier::test
