#include "espalier/hw/open_transaction.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "support/abort_statuses.hpp"
#include "support/sanitizers.hpp"

namespace espalier::hw {
namespace {

using namespace test::abort_statuses;

TEST(open_scripted, takes_the_steps_of_the_cue_at_its_begin) {
  const scripted::cue script({conflict, scripted::commit, capacity});
  EXPECT_EQ(open_scripted::begin(), conflict);
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(open_scripted::begin(), std::nullopt);
  EXPECT_TRUE(scripted::active());
  open_scripted::end();
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(open_scripted::begin(), capacity);
  EXPECT_EQ(script.transactions(), 3U);
}

TEST(open_scripted, an_abort_inside_ends_it) {
  const scripted::cue script({});
  ASSERT_EQ(open_scripted::begin(), std::nullopt);
  open_scripted::abort<abort_code::lock_held>();
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(open_scripted::begin(), std::nullopt) << "an abort ends with its transaction";
  EXPECT_EQ(script.transactions(), 2U) << "the second is an outermost one";
  open_scripted::end();
}

TEST(open_scripted, transactions_with_bodies_join_it) {
  ASSERT_EQ(open_scripted::begin(), std::nullopt);
  EXPECT_EQ(scripted::run([]() noexcept {}), (transaction_outcome{true, {}}));
  EXPECT_TRUE(scripted::active());
  open_scripted::end();
}

TEST(look_for_rtm, agrees_with_the_backend_of_bodies) {
  const rtm_support found = look_for_rtm();
  EXPECT_NE(found, rtm_support::unknown);
  EXPECT_EQ(found == rtm_support::commits, rtm::available());
}

/// Runs with the processor's transactions, where it has any.
class open_rtm_transactions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rtm::available()) GTEST_SKIP() << rtm::probe().reason;
    if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "no transactions under sanitizers";
  }
};

/// The section lies between two functions, as it does between a lock and an unlock.
__attribute__((noinline)) std::optional<abort_status> enter(int attempts) {
  std::optional<abort_status> status;
  for (int i = 0; i < attempts; ++i) {
    status = open_rtm::begin();
    if (!status || status->is_explicit()) break;
  }
  return status;
}
__attribute__((noinline)) void leave() { open_rtm::end(); }

TEST_F(open_rtm_transactions, commit_keeps_what_was_written_between_the_calls) {
  volatile int value = 1;
  if (const auto status = enter(10'000)) FAIL() << to_string(*status);
  value = 2;
  leave();
  EXPECT_EQ(value, 2);
}

TEST_F(open_rtm_transactions, abort_goes_back_into_the_function_that_has_returned) {
  volatile int value = 1;
  const auto status = enter(10'000);
  if (!status) {
    value = 2;
    open_rtm::abort<abort_code::user_1>();
    FAIL() << "control comes here after an abort";
  }
  EXPECT_EQ(value, 1);
  EXPECT_EQ(status->code(), abort_code::user_1) << to_string(*status);
}

}  // namespace
}  // namespace espalier::hw
