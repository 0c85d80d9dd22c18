// Reclamation by epochs, by quiescence, by grace periods, and none.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/reclaim/leaky.hpp"
#include "espalier/reclaim/quiescence.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "support/allocation_failure.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"

namespace espalier {
namespace {

/// What both domains keep that reclaim after a while.
template <class Domain>
class delayed : public ::testing::Test {
  using guard_type = typename Domain::guard;
  static_assert(!std::is_copy_constructible_v<guard_type> && !std::is_copy_assignable_v<guard_type>);
  static_assert(std::is_nothrow_move_constructible_v<guard_type> &&
                std::is_nothrow_move_assignable_v<guard_type>);
};
struct names_of_domains {
  template <class Domain>
  static std::string GetName(int) {
    return std::is_same_v<Domain, epoch_domain> ? "epoch" : "quiescence";
  }
};
using domains = ::testing::Types<epoch_domain, quiescence_domain>;
TYPED_TEST_SUITE(delayed, domains, names_of_domains);

/// Counts what comes back, by owner: an owner is one of these.
struct tally {
  std::atomic<std::uint64_t> reclaimed{0};

  /// An entry that stands for nothing but itself.
  retired entry() noexcept {
    return {nullptr, nullptr, this, [](const retired& e) noexcept {
              static_cast<tally*>(e.owner)->reclaimed.fetch_add(1, std::memory_order_relaxed);
            }};
  }
};

template <class Reclaimer>
void retire_some(Reclaimer& domain, tally& owner, int n) {
  for (int i = 0; i < n; ++i) {
    auto guard = domain.pin();
    guard.reserve(1);
    guard.retire(owner.entry());
  }
}

/// A thread that pins at the constructor and stays pinned until the destructor.
template <class Domain>
class pinned_thread {
 public:
  explicit pinned_thread(Domain& domain)
      : thread_([this, &domain] {
          slot = hw::thread_slot();
          number = gettid();
          auto guard = domain.pin();
          step_.arrive_and_wait();
          step_.arrive_and_wait();
        }) {
    step_.arrive_and_wait();
  }
  pinned_thread(const pinned_thread&) = delete;
  pinned_thread& operator=(const pinned_thread&) = delete;
  ~pinned_thread() {
    step_.arrive_and_wait();
    thread_.join();
  }

  std::uint32_t slot = 0;
  std::int32_t number = 0;

 private:
  std::barrier<> step_{2};
  std::thread thread_;
};

TYPED_TEST(delayed, nothing_comes_back_while_an_older_pin_lives) {
  tally owner;
  TypeParam domain;
  {
    const pinned_thread reader(domain);
    retire_some(domain, owner, 1000);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(domain.collect(), 1000U);
    EXPECT_EQ(owner.reclaimed, 0U);
    EXPECT_EQ(domain.statistics().retired, 1000U);
    EXPECT_EQ(domain.statistics().reclaimed, 0U);
  }
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(owner.reclaimed, 1000U);
  EXPECT_EQ(domain.statistics().reclaimed, 1000U);
}

TYPED_TEST(delayed, retiring_alone_keeps_what_waits_bounded) {
  tally owner;
  TypeParam domain;
  std::uint64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    retire_some(domain, owner, 100);
    const auto now = domain.statistics();
    most = std::max(most, now.retired - now.reclaimed);
  }
  EXPECT_LT(most, 500U) << "nobody is pinned in between: a few bags";
}

TYPED_TEST(delayed, the_own_pin_protects_too) {
  tally owner;
  TypeParam domain;
  {
    auto guard = domain.pin();
    for (int i = 0; i < 500; ++i) {
      guard.reserve(1);
      guard.retire(owner.entry());
    }
    EXPECT_EQ(owner.reclaimed, 0U);
  }
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(owner.reclaimed, 500U);
}

TYPED_TEST(delayed, a_renewed_guard_keeps_what_is_retired_later_and_nothing_else) {
  tally owner;
  TypeParam domain;
  auto guard = domain.pin();
  const auto others = [&](int n) { std::thread([&] { retire_some(domain, owner, n); }).join(); };
  for (int i = 1; i <= 5; ++i) {
    others(100);
    EXPECT_GE(domain.collect(), 100U);
    for (int advances = 0; advances < 4; ++advances) {
      guard.renew();
      domain.collect();
    }
    EXPECT_EQ(domain.collect(), 0U);
    EXPECT_EQ(owner.reclaimed, 100U * static_cast<unsigned>(i));
  }
  auto inner = domain.pin();
  others(100);
  for (int advances = 0; advances < 4; ++advances) {
    inner.renew();
    domain.collect();
  }
  EXPECT_EQ(owner.reclaimed, 500U);
  EXPECT_TRUE(guard.protects(domain));
  TypeParam other;
  EXPECT_FALSE(guard.protects(other));
  const auto taken = std::move(guard);
  EXPECT_FALSE(guard.protects(domain));
  std::thread([&] { EXPECT_FALSE(taken.protects(domain)); }).join();
}

TYPED_TEST(delayed, a_moved_guard_takes_the_pin_along) {
  TypeParam domain;
  const auto pinned = [&] { return domain.statistics().pinned_threads; };
  {
    auto first = domain.pin();
    {
      auto second = std::move(first);
      EXPECT_EQ(pinned(), 1U);
    }
    EXPECT_EQ(pinned(), 0U) << "the empty guard holds nothing";
  }
  EXPECT_EQ(pinned(), 0U);
  tally owner;
  TypeParam other;
  {
    auto guard = domain.pin();
    guard = other.pin();
    EXPECT_EQ(pinned(), 0U) << "assignment lets the old pin go";
    EXPECT_EQ(other.statistics().pinned_threads, 1U);
    auto& same = guard;
    guard = std::move(same);
    EXPECT_EQ(other.statistics().pinned_threads, 1U);
    guard.reserve(1);
    guard.retire(owner.entry());
  }
  EXPECT_EQ(other.statistics().pinned_threads, 0U);
  EXPECT_EQ(other.statistics().retired, 1U);
  EXPECT_EQ(domain.statistics().retired, 0U);
}

/// Who holds things up, or nobody's slot.
template <class Domain>
typename Domain::stall oldest_of(const Domain& domain) {
  return domain.statistics().oldest.value_or(typename Domain::stall{hw::max_thread_slots, 0, 0, 0});
}

TYPED_TEST(delayed, statistics_name_the_thread_that_holds_everything_up) {
  tally owner;
  TypeParam domain;
  EXPECT_FALSE(domain.statistics().oldest);
  {
    const pinned_thread reader(domain);
    retire_some(domain, owner, 1000);
    const auto now = domain.statistics();
    EXPECT_EQ(now.pinned_threads, 1U);
    EXPECT_EQ(now.retired, 1000U);
    EXPECT_EQ(now.reclaimed, 0U);
    const auto oldest = oldest_of(domain);
    EXPECT_EQ(oldest.slot, reader.slot);
    EXPECT_EQ(oldest.thread, reader.number);
    EXPECT_GE(oldest.lag, 1U);
    EXPECT_GE(oldest.refusals, 10U) << "an attempt for each bag";
    {
      // One that is pinned more recently does not hide it.
      const auto guard = domain.pin();
      std::thread([&] { domain.collect(); }).join();
      EXPECT_EQ(domain.statistics().pinned_threads, 2U);
      EXPECT_EQ(oldest_of(domain).slot, reader.slot);
      EXPECT_GT(oldest_of(domain).refusals, oldest.refusals);
    }
  }
  EXPECT_FALSE(domain.statistics().oldest);
  domain.collect();
  const auto after = domain.pin();
  EXPECT_EQ(oldest_of(domain).slot, hw::thread_slot());
  EXPECT_EQ(oldest_of(domain).lag, 0U);
  EXPECT_EQ(oldest_of(domain).refusals, 0U);
}

TYPED_TEST(delayed, threads_that_come_and_go_leave_nothing_behind) {
  tally owner;
  TypeParam domain;
  std::uint64_t expected = 0;
  for (int generation = 0; generation < 10; ++generation) {
    test::on_threads(4, [&](int t) { retire_some(domain, owner, 1 + 70 * t); });
    expected += 4 + 70 * (0 + 1 + 2 + 3);
    EXPECT_EQ(domain.collect(), 0U);
    EXPECT_EQ(owner.reclaimed, expected);
  }
}

TYPED_TEST(delayed, the_bags_of_an_ended_thread_are_adopted) {
  tally ended;
  tally busy;
  TypeParam domain;
  {
    const pinned_thread reader(domain);
    std::thread([&] { retire_some(domain, ended, 63 * 5); }).join();
    EXPECT_EQ(ended.reclaimed, 0U);
  }
  // No call of collect(): the traffic of others has to do it. The last bag may still be open.
  retire_some(domain, busy, 63 * 200);
  EXPECT_GE(ended.reclaimed, 63U * 4);
}

TYPED_TEST(delayed, purge_takes_its_owners_entries_and_no_others) {
  tally a;
  tally b;
  TypeParam domain;
  {
    const pinned_thread reader(domain);  // keeps full bags waiting
    test::on_threads(3, [&](int) {
      for (int i = 0; i < 200; ++i) {
        retire_some(domain, a, 1);
        retire_some(domain, b, 2);
      }
    });
    domain.purge(&a);
    EXPECT_EQ(a.reclaimed, 600U);
    EXPECT_EQ(b.reclaimed, 0U);
    EXPECT_EQ(domain.statistics().reclaimed, 600U);
    EXPECT_EQ(domain.collect(), 1200U);
    domain.purge(&a);
    EXPECT_EQ(a.reclaimed, 600U) << "each entry once";
  }
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(a.reclaimed, 600U);
  EXPECT_EQ(b.reclaimed, 1200U);
}

TYPED_TEST(delayed, destruction_reclaims_everything) {
  tally owner;
  {
    TypeParam domain;
    {
      const pinned_thread reader(domain);
      retire_some(domain, owner, 200);
    }
    std::thread([&] { retire_some(domain, owner, 30); }).join();
    EXPECT_LT(owner.reclaimed, 230U);
  }
  EXPECT_EQ(owner.reclaimed, 230U);
}

TYPED_TEST(delayed, retiring_what_was_reserved_never_allocates) {
  tally owner;
  TypeParam domain;
  const pinned_thread reader(domain);  // so that no bag can be used again
  test::failure_plan reserving;
  test::failure_plan retiring;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::size_t n = 1 + i % 300;
    auto guard = domain.pin();
    {
      const test::armed now(reserving);
      guard.reserve(n);
    }
    const test::armed now(retiring);
    for (std::size_t k = 0; k < n; ++k) guard.retire(owner.entry());
  }
  EXPECT_EQ(retiring.seen, 0U);
  EXPECT_GT(reserving.seen, 0U) << "the counter would notice";
}

TYPED_TEST(delayed, a_reservation_of_any_size_holds_at_every_fill_of_a_bag) {
  for (const std::size_t n : {16U, 64U, 200U}) {
    for (std::size_t filled = 0; filled < 130; ++filled) {
      tally owner;
      TypeParam domain;
      const pinned_thread reader(domain);
      retire_some(domain, owner, static_cast<int>(filled));
      auto guard = domain.pin();
      guard.reserve(n);
      guard.reserve(n);  // the second has the room of the first
      const test::refuse_memory none;
      for (std::size_t k = 0; k < n; ++k) guard.retire(owner.entry());
      EXPECT_EQ(domain.statistics().retired, filled + n);
    }
  }
}

TYPED_TEST(delayed, a_refused_reservation_changes_nothing) {
  tally owner;
  TypeParam domain;
  {
    const pinned_thread reader(domain);
    int refusals = 0;
    for (int i = 0; i < 300; ++i) {
      auto guard = domain.pin();
      bool reserved = true;
      {
        const test::refuse_memory none;
        try {
          guard.reserve(8);
        } catch (const std::bad_alloc&) {
          reserved = false;
          ++refusals;
        }
      }
      if (!reserved) guard.reserve(8);
      guard.retire(owner.entry());
    }
    EXPECT_GE(refusals, 5);
    EXPECT_EQ(domain.statistics().retired, 300U);
  }
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(owner.reclaimed, 300U);
}

TYPED_TEST(delayed, a_refused_first_pin_leaves_the_domain_usable) {
  TypeParam domain;
  {
    const test::refuse_memory none;
    EXPECT_THROW((void)domain.pin(), std::bad_alloc);
  }
  EXPECT_EQ(domain.statistics().pinned_threads, 0U);
  const auto guard = domain.pin();
  EXPECT_EQ(domain.statistics().pinned_threads, 1U);
}

/// A cell that notices when it is given back.
struct cell {
  static constexpr std::uint64_t intact = 0x600D600D600D600D;
  std::atomic<std::uint64_t> word{intact};
  static void spoil(const retired& e) noexcept {
    static_cast<cell*>(e.object)->word.store(0, std::memory_order_relaxed);
  }
};

/// Whether a reader that pinned before a cell was detached still finds it intact afterwards.
template <class Reclaimer>
bool protects_a_reader(Reclaimer& domain, int later_retirements) {
  cell first;
  cell second;
  tally owner;
  std::atomic<cell*> shared{&first};
  std::barrier step(2);
  bool was_intact = false;
  std::thread reader([&] {
    auto guard = domain.pin();
    const cell* const seen = shared.load(std::memory_order_acquire);
    step.arrive_and_wait();
    step.arrive_and_wait();
    was_intact = seen->word.load(std::memory_order_relaxed) == cell::intact;
    (void)guard;
  });
  step.arrive_and_wait();
  {
    auto guard = domain.pin();
    guard.reserve(1);
    guard.retire({shared.exchange(&second), nullptr, &owner, cell::spoil});
  }
  retire_some(domain, owner, later_retirements);
  step.arrive_and_wait();
  reader.join();
  domain.purge(&owner);
  return was_intact;
}

TEST(protection, of_a_reader_by_each_reclaimer) {
  epoch_domain epochs;
  quiescence_domain times;
  leaky leaking;
  for (const int later : {0, 1, 62, 63, 64, 1000}) {
    EXPECT_TRUE(protects_a_reader(epochs, later)) << later;
    EXPECT_TRUE(protects_a_reader(times, later)) << later;
    EXPECT_TRUE(protects_a_reader(leaking, later)) << later;
  }
}

// The case for which two epochs of delay, counted from the retiring thread's announcement, would not do: the
// reader pins one epoch later than the thread that then retires what the reader has found.
TEST(epoch, a_reader_younger_than_the_retiring_pin_is_protected) {
  tally owner;
  epoch_domain domain;
  const auto collect_elsewhere = [&] { std::thread([&] { domain.collect(); }).join(); };
  {
    auto retiring = domain.pin();
    const std::uint64_t before = domain.statistics().epoch;
    collect_elsewhere();
    ASSERT_EQ(domain.statistics().epoch, before + 1);
    const pinned_thread reader(domain);
    {
      auto guard = std::move(retiring);
      guard.reserve(1);
      guard.retire(owner.entry());
    }
    domain.collect();
    EXPECT_EQ(domain.statistics().epoch, before + 2);
    EXPECT_EQ(owner.reclaimed, 0U);
  }
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(owner.reclaimed, 1U);
}

TEST(control, a_reclaimer_that_does_not_wait_is_caught) {
  unprotected hasty;
  EXPECT_FALSE(protects_a_reader(hasty, 0));
}

TYPED_TEST(delayed, readers_never_meet_a_reclaimed_cell) {
  constexpr int writers = 2;
  constexpr int readers = 2;
  constexpr std::size_t swaps = 4000;
  std::deque<cell> cells(writers * swaps + 1);  // never used twice: a spoilt one stays spoilt
  TypeParam domain;
  std::atomic<cell*> shared{&cells[0]};
  std::atomic<int> writing{writers};
  std::atomic<std::uint64_t> spoilt{0};
  std::barrier start(writers + readers);
  const auto write = [&](std::size_t first) {
    for (std::size_t i = 0; i < swaps; ++i) {
      if (i % 32 == 0) std::this_thread::yield();
      auto guard = domain.pin();
      guard.reserve(1);
      cell* const before = shared.exchange(&cells[first + i], std::memory_order_acq_rel);
      guard.retire({before, nullptr, nullptr, cell::spoil});
    }
    writing.fetch_sub(1);
  };
  const auto read = [&] {
    do {
      auto guard = domain.pin();
      const cell* const seen = shared.load(std::memory_order_acquire);
      for (int i = 0; i < 50; ++i) {
        if (seen->word.load(std::memory_order_relaxed) != cell::intact) spoilt.fetch_add(1);
      }
    } while (writing.load(std::memory_order_relaxed) != 0);
  };
  test::on_threads(writers + readers, [&](int t) {
    start.arrive_and_wait();
    t < writers ? write(1 + static_cast<std::size_t>(t) * swaps) : read();
  });
  EXPECT_EQ(spoilt, 0U);
  EXPECT_EQ(domain.collect(), 0U);
  EXPECT_EQ(domain.statistics().reclaimed, writers * swaps);
}

bool is_fallback_process() {
  const char* wish = std::getenv("ESPALIER_FENCE");
  return wish != nullptr && std::string_view(wish) == "fence";
}

TEST(fallback, all_of_this_holds_with_ordinary_fences) {
  if (is_fallback_process()) {
    EXPECT_STREQ(hw::asymmetric_fence_kind(), "fence");
  } else {
    EXPECT_EQ(test::reexecute("*", "ESPALIER_FENCE", "fence"), 0);
  }
}

static_assert(!std::is_copy_constructible_v<rcu_domain> && !std::is_move_constructible_v<rcu_domain>);
static_assert(!std::is_copy_constructible_v<rcu_domain::read_section> &&
              !std::is_move_constructible_v<rcu_domain::read_section>);

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
