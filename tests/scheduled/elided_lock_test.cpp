// Elided locks in the simulator's transactions, under many schedules: with all causes of aborts, and concurrent with
// sections that take the lock.

#include "espalier/sync/elided_lock.hpp"

#include <gtest/gtest.h>

#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "scheduled/elided_lock_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::scene;

template <class Lock>
class elided_locks : public ::testing::Test {
 protected:
  static sim::transaction_counts expect_kept(const char* name, void (*build)(scene&)) {
    sim::exploration_options o;
    o.schedules = sim::scaled_schedules(2000);
    const auto report = sim::explore(name, o, build);
    EXPECT_TRUE(report.passed()) << report;
    return report.transactions;
  }
};

using all_locks = ::testing::Types<ttas_lock, ticket_lock>;
TYPED_TEST_SUITE(elided_locks, all_locks);

TYPED_TEST(elided_locks, sections_exclude_one_another) {
  const auto counts = this->expect_kept("exclude", sim::elided_and_plain_sections<TypeParam>);
  EXPECT_GT(counts.committed, 0U);
  EXPECT_GT(counts.of(hw::abort_cause::conflict), 0U);
  EXPECT_GT(counts.of(hw::abort_cause::explicit_abort), 0U) << "no transaction ever finds the lock taken";
  EXPECT_GT(counts.of(hw::abort_cause::other), 0U);
}
TYPED_TEST(elided_locks, no_half_section_is_seen) {
  EXPECT_GT(this->expect_kept("pair", sim::elided_reader_of_a_pair<TypeParam>).committed, 0U);
}
TYPED_TEST(elided_locks, the_holder_keeps_the_lock) {
  EXPECT_GT(this->expect_kept("index", sim::elided_writer_through_an_index<TypeParam>).committed, 0U);
}
TYPED_TEST(elided_locks, sections_nest) {
  EXPECT_GT(this->expect_kept("nest", sim::nested_elided_sections<TypeParam>).committed, 0U);
}
TYPED_TEST(elided_locks, a_counter_is_linearizable) {
  EXPECT_GT(this->expect_kept("counter", sim::linearizable_elided_counter<TypeParam>).committed, 0U);
}

TEST(elided_locks_without_transactions, exclude) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(500);
  o.transactions.reset();
  const auto report = sim::explore("plain", o, sim::elided_and_plain_sections<ttas_lock>);
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_EQ(report.transactions.begun, 0U);
}

}  // namespace
