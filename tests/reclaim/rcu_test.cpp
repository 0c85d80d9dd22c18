// Reclamation by grace periods, and none.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <thread>
#include <type_traits>
#include <utility>

#include "espalier/reclaim/leaky.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

static_assert(!std::is_copy_constructible_v<rcu_domain> && !std::is_move_constructible_v<rcu_domain>);
static_assert(!std::is_copy_constructible_v<rcu_domain::read_section> &&
              !std::is_move_constructible_v<rcu_domain::read_section>);

TEST(rcu, no_reader_to_wait_for) {
  rcu_domain domain;
  domain.synchronize();
  {
    const rcu_domain::read_section inside(domain);
  }
  domain.synchronize();
  std::thread([&] { const rcu_domain::read_section inside(domain); }).join();
  domain.synchronize();
}

TEST(rcu, a_thread_may_be_inside_one_domain_and_wait_for_another) {
  rcu_domain one;
  rcu_domain other;
  const rcu_domain::read_section inside(one);
  other.synchronize();
  const rcu_domain::read_section inside_too(other);
}

TEST(rcu, a_section_holds_the_grace_period_up) {
  rcu_domain domain;
  std::atomic<bool> leaving{false};
  std::barrier entered(2);
  std::thread reader([&] {
    const rcu_domain::read_section inside(domain);
    entered.arrive_and_wait();
    // Long enough, mostly, for a call that does not wait to return: what is right passes at any pace.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    leaving = true;
  });
  entered.arrive_and_wait();
  domain.synchronize();
  EXPECT_TRUE(leaving);
  reader.join();
}

TEST(rcu, readers_that_come_again_and_again_do_not_hold_it_up) {
  rcu_domain domain;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) const rcu_domain::read_section inside(domain);
  });
  for (int i = 0; i < 200; ++i) domain.synchronize();
  done = true;
  reader.join();
}

/// Readers follow an index into a table of slots. A writer that has moved the index and waited for a grace
/// period may spoil the slot that it led to before.
TEST(rcu, what_was_replaced_is_not_read_after_a_grace_period) {
  constexpr int good = 1;
  struct shared {
    rcu_domain domain;
    std::array<std::atomic<int>, 8> slot{};
    std::atomic<std::size_t> current{0};
    std::atomic<bool> done{false};
    std::atomic<int> spoilt{0};
  } all;
  all.slot[0] = good;
  test::on_threads(4, [&all](int t) {
    if (t == 0) {
      for (std::size_t i = 1; i <= 2000; ++i) {
        const std::size_t next = i % all.slot.size();
        all.slot[next].store(good, std::memory_order_relaxed);
        const std::size_t before = all.current.load(std::memory_order_relaxed);
        all.current.store(next, std::memory_order_release);
        all.domain.synchronize();
        all.slot[before].store(0, std::memory_order_relaxed);
      }
      all.done = true;
    } else if (t == 1) {
      while (!all.done) all.domain.synchronize();
    } else {
      while (!all.done) {
        const rcu_domain::read_section inside(all.domain);
        const std::size_t now = all.current.load(std::memory_order_acquire);
        for (int look = 0; look < 3; ++look) {
          if (all.slot[now].load(std::memory_order_relaxed) != good) all.spoilt.fetch_add(1);
        }
      }
    }
  });
  EXPECT_EQ(all.spoilt, 0);
}

/// Threads that come and go take over the counts of those before them.
TEST(rcu, short_lived_threads) {
  rcu_domain domain;
  for (int round = 0; round < 20; ++round) {
    test::on_threads(4, [&](int t) {
      for (int i = 0; i < 10; ++i) {
        if (t == 0)
          domain.synchronize();
        else
          const rcu_domain::read_section inside(domain);
      }
    });
  }
  domain.synchronize();
}

int reclaimed = 0;
const retired entry{nullptr, nullptr, nullptr, [](const retired&) noexcept { ++reclaimed; }};

TEST(leaky, counts_and_never_reclaims) {
  static_assert(!leaky::reclaims && !std::is_copy_constructible_v<leaky::guard>);
  reclaimed = 0;
  {
    leaky domain;
    auto first = domain.pin();
    auto guard = std::move(first);
    guard.reserve(2);
    guard.retire(entry);
    guard.retire(entry);
    std::thread([&] {
      auto theirs = domain.pin();
      theirs.reserve(1);
      theirs.retire(entry);
    }).join();
    EXPECT_EQ(domain.retired_count(), 3U);
    domain.purge(nullptr);
  }
  EXPECT_EQ(reclaimed, 0);
}

TEST(unprotected, reclaims_at_once) {
  static_assert(unprotected::reclaims && !std::is_copy_constructible_v<no_guard>);
  static_assert(std::is_empty_v<unprotected> && std::is_empty_v<no_guard>);
  reclaimed = 0;
  unprotected domain;
  auto guard = domain.pin();
  guard.reserve(1);
  EXPECT_EQ(reclaimed, 0);
  guard.retire(entry);
  EXPECT_EQ(reclaimed, 1);
  domain.purge(nullptr);
  EXPECT_EQ(reclaimed, 1);
}

}  // namespace
}  // namespace espalier
