#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "scheduled/lock_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::scene;

template <class Lock>
class locks : public ::testing::Test {
 protected:
  static void expect_kept(const char* name, void (*build)(scene&)) {
    for (const auto model :
         {sim::memory_model::sequential, sim::memory_model::buffered, sim::memory_model::weak}) {
      sim::exploration_options o;
      o.schedules = sim::scaled_schedules(4000);
      o.model = model;
      const auto report = sim::explore(name, o, build);
      EXPECT_TRUE(report.passed()) << report;
    }
  }
};

using all_locks = ::testing::Types<ttas_lock, ticket_lock, mcs_lock, std_mutex>;
TYPED_TEST_SUITE(locks, all_locks);

TYPED_TEST(locks, exclude_two_threads) {
  this->expect_kept("exclude_two_threads", sim::mutual_exclusion<TypeParam, 2, 3>);
}
TYPED_TEST(locks, exclude_three_threads) {
  this->expect_kept("exclude_three_threads", sim::mutual_exclusion<TypeParam, 3, 2>);
}
TYPED_TEST(locks, exclude_four_threads) {
  this->expect_kept("exclude_four_threads", sim::mutual_exclusion<TypeParam, 4, 1>);
}
TYPED_TEST(locks, are_tried) { this->expect_kept("are_tried", sim::tries_beside_lock<TypeParam, 2>); }
TYPED_TEST(locks, nest) { this->expect_kept("nest", sim::nested_locks<TypeParam>); }

/// The next thread sees what one thread did before it unlocked. Nothing but the lock orders a plain store.
TYPED_TEST(locks, hand_on_what_was_written) {
  this->expect_kept("hand_on_what_was_written", [](scene& s) {
    struct list {
      TypeParam lock;
      int* last = nullptr;
      int values[6]{};
      int used = 0;
    };
    auto& shared = s.make<list>();
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&shared] {
        for (int round = 0; round < 2; ++round) {
          sim::lock_user<TypeParam> user(shared.lock);
          user.lock();
          int* const mine = &shared.values[shared.used++];
          *mine = shared.last == nullptr ? 1 : *shared.last + 1;
          shared.last = mine;
          user.unlock();
        }
      });
    }
    s.at_end([&shared] { sim::require(*shared.last == 6, "each saw what the one before it wrote"); });
  });
}

}  // namespace
