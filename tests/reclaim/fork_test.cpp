// Domains in a child of fork() whose parent's threads were pinned, or inside.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/quiescence.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "support/forking.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

class forks : public testing::Test {
 protected:
  void SetUp() override {
    if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "it does not fork among threads";
  }
};
/// Of the domains that reclaim after a while.
template <class Domain>
class forks_of : public forks {};
using domains = testing::Types<epoch_domain, quiescence_domain>;
TYPED_TEST_SUITE(forks_of, domains);

std::atomic<std::uint64_t> reclaimed{0};

void count(const retired&) noexcept { ++reclaimed; }

template <class Domain>
void retire_some(Domain& domain, int n, void (*reclaim)(const retired&) noexcept = count) {
  for (int i = 0; i < n; ++i) {
    auto guard = domain.pin();
    guard.reserve(1);
    guard.retire({nullptr, nullptr, &domain, reclaim});
  }
}

TYPED_TEST(forks_of, a_domain_forgets_the_pins_of_lost_threads) {
  TypeParam domain;
  const test::stopped_thread reader([&](auto stop) {
    const auto outer = domain.pin();
    const auto inner = domain.pin();
    stop();
  });
  retire_some(domain, 200);
  ASSERT_EQ(domain.collect(), 200U);
  EXPECT_EQ(test::in_forked_copy([&]() -> int {
              reclaimed = 0;
              if (domain.statistics().pinned_threads != 0) return 1;
              if (domain.collect() != 0 || reclaimed != 200) return 2;
              // Another thread in the slot that the reader had.
              std::thread([&] { retire_some(domain, 300); }).join();
              return domain.collect() == 0 && reclaimed == 500 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(domain.collect(), 200U) << "the parent's reader is still there";
}

TYPED_TEST(forks_of, a_domain_keeps_the_pin_of_the_thread_that_forks) {
  TypeParam domain;
  auto guard = std::optional(domain.pin());
  EXPECT_EQ(test::in_forked_copy([&]() -> int {
              std::thread([&] { retire_some(domain, 10); }).join();
              if (domain.collect() != 10 || domain.statistics().pinned_threads != 1) return 1;
              if (domain.statistics().oldest->thread != gettid()) return 2;
              guard.reset();
              return domain.collect() == 0 ? 0 : 3;
            }),
            0);
}

/// The entry that stops the thread that gives it back; once.
std::atomic<void (*)(void*)> stop_at_entry{nullptr};
void* stop_argument = nullptr;

void stopping_reclaim(const retired&) noexcept {
  if (const auto stop = stop_at_entry.exchange(nullptr)) stop(stop_argument);
  ++reclaimed;
}

TYPED_TEST(forks_of, a_domain_leaks_bags_that_a_lost_thread_was_changing) {
  TypeParam domain;
  retire_some(domain, 30, stopping_reclaim);  // in this thread's current bag, which the other one gives back
  {
    const test::stopped_thread collector([&](auto stop) {
      stop_argument = &stop;
      stop_at_entry = [](void* s) { (*static_cast<decltype(stop)*>(s))(); };
      domain.collect();
    });
    EXPECT_EQ(test::in_forked_copy([&]() -> int {
                reclaimed = 0;
                if (domain.collect() != 0 || reclaimed != 0) return 1;
                const auto before = domain.statistics();
                if (before.retired != before.reclaimed) return 2;
                retire_some(domain, 500);
                std::thread([&] { retire_some(domain, 500); }).join();
                return domain.collect() == 0 && reclaimed == 1000 ? 0 : 3;
              }),
              0);
  }
  EXPECT_EQ(domain.collect(), 0U);
}

TYPED_TEST(forks_of, room_that_was_reserved_before_is_there) {
  TypeParam domain;
  retire_some(domain, 30, stopping_reclaim);
  {
    auto guard = domain.pin();
    guard.reserve(3);
    const test::stopped_thread purger([&](auto stop) {
      stop_argument = &stop;
      stop_at_entry = [](void* s) { (*static_cast<decltype(stop)*>(s))(); };
      domain.purge(&domain);
    });
    EXPECT_EQ(test::in_forked_copy([&]() -> int {
                reclaimed = 0;
                for (int i = 0; i < 3; ++i) guard.retire({nullptr, nullptr, &domain, count});
                {
                  auto left = std::move(guard);
                }
                return domain.collect() == 0 && reclaimed == 3 ? 0 : 1;
              }),
              0);
  }
  EXPECT_EQ(domain.collect(), 0U);
}

TEST_F(forks, a_grace_period_does_not_wait_for_lost_threads) {
  rcu_domain domain;
  const test::stopped_thread reader([&](auto stop) {
    const rcu_domain::read_section inside(domain);
    stop();
  });
  EXPECT_EQ(test::in_forked_copy([&]() -> int {
              domain.synchronize();
              std::thread([&] { const rcu_domain::read_section inside(domain); }).join();
              domain.synchronize();
              return 0;
            }),
            0);
}

TEST_F(forks, slots_of_lost_threads_are_free) {
  const std::uint32_t mine = hw::thread_slot();
  const test::stopped_thread holder([](auto stop) {
    static_cast<void>(hw::thread_slot());
    stop();
  });
  EXPECT_EQ(test::in_forked_copy([&]() -> int {
              if (hw::thread_slot() != mine || hw::thread_slot_owner(mine) != gettid()) return 1;
              for (std::uint32_t slot = 0; slot < hw::thread_slots_used(); ++slot) {
                if (slot != mine && hw::thread_slot_owner(slot) != 0) return 2;
              }
              std::uint32_t next = mine;
              std::thread([&] { next = hw::thread_slot(); }).join();
              return next != mine && next < hw::thread_slots_used() ? 0 : 3;
            }),
            0);
}

// In static storage: constant-initialised, used before main and after it.
constinit epoch_domain early_domain;
const bool used_early = [] {
  retire_some(early_domain, 10);
  return true;
}();

TEST_F(forks, a_domain_in_static_storage_is_repaired) {
  ASSERT_TRUE(used_early);
  const test::stopped_thread reader([](auto stop) {
    const auto guard = early_domain.pin();
    stop();
  });
  retire_some(early_domain, 10);
  EXPECT_EQ(test::in_forked_copy([] { return early_domain.collect() == 0 ? 0 : 1; }), 0);
  EXPECT_EQ(test::in_forked_copy([]() -> int { std::exit(0); }), 0) << "destructors run in the child, too";
}

TYPED_TEST(forks_of, children_fork_again) {
  TypeParam domain;
  const test::stopped_thread reader([&](auto stop) {
    const auto guard = domain.pin();
    stop();
  });
  retire_some(domain, 100);
  EXPECT_EQ(test::in_forked_copy([&]() -> int {
              const test::stopped_thread again([&](auto stop) {
                const auto guard = domain.pin();
                stop();
              });
              if (domain.collect() == 0) return 1;
              return test::in_forked_copy([&] { return domain.collect() == 0 ? 0 : 2; });
            }),
            0);
}

TYPED_TEST(forks_of, domains_come_and_go_beside_a_fork) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!end) {
        TypeParam domain;
        retire_some(domain, 3);
      }
    });
  }
  int status = 0;
  for (int i = 0; i < 60 && status == 0; ++i) {
    status = test::in_forked_copy([]() -> int {
      TypeParam domain;
      retire_some(domain, 3);
      return domain.collect() == 0 ? 0 : 1;
    });
  }
  end = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(status, 0);
}

TEST_F(forks, the_heavy_fence_works_beside_lost_threads) {
  const test::stopped_thread other([](auto stop) {
    hw::fence_heavy();
    stop();
  });
  EXPECT_EQ(test::in_forked_copy([]() -> int {
              hw::fence_heavy();
              std::thread([] { hw::fence_heavy(); }).join();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace espalier
