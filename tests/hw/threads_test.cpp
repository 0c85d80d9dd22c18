// What threads have of the machine: slots, pauses and sleeps, fences.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/slot_table.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "support/crowd.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier::hw {
namespace {

using table = slot_table<4>;
using tenure = table::tenure;

constexpr auto all_live = [](std::int32_t) noexcept { return false; };
constexpr auto all_gone = [](std::int32_t) noexcept { return true; };

TEST(slot_table, hands_each_slot_out_once_and_refuses_more) {
  table slots;
  EXPECT_EQ(slots.used(), 0U);
  std::set<std::uint32_t> taken;
  for (std::int32_t thread = 1; thread <= 4; ++thread) {
    const std::uint32_t slot = slots.take(thread, tenure::ends_with_thread, all_live);
    ASSERT_LT(slot, table::none);
    EXPECT_EQ(slots.holder_of(slot), thread);
    EXPECT_GT(slots.used(), slot);
    taken.insert(slot);
  }
  EXPECT_EQ(taken.size(), 4U);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), table::none);
  slots.release(2);
  EXPECT_EQ(slots.holder_of(2), 0);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), 2U);
  EXPECT_EQ(slots.holder_of(2), 5);
}

TEST(slot_table, reclaims_late_slots_of_threads_that_are_gone) {
  table slots;
  for (std::int32_t thread = 1; thread <= 4; ++thread)
    ASSERT_LT(slots.take(thread, tenure::late, all_live), table::none);
  EXPECT_EQ(slots.take(5, tenure::late, all_live), table::none) << "a thread that is there keeps its slot";
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), table::none);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 3; }), 2U)
      << "where no slot is free";
  EXPECT_EQ(slots.take(6, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 5; }),
            table::none)
      << "the slot is no longer late";
  EXPECT_EQ(slots.take(4, tenure::late, all_live), 3U) << "the number was an earlier thread's";
}

TEST(slot_table, late_threads_share_few_slots) {
  table slots;
  for (std::int32_t thread = 1; thread <= 1000; ++thread)
    ASSERT_EQ(slots.take(thread, tenure::late, all_gone), 0U);
  EXPECT_EQ(slots.used(), 1U);
}

TEST(slot_table, does_not_ask_about_threads_while_slots_are_free) {
  table slots;
  ASSERT_EQ(slots.take(1, tenure::late, all_live), 0U);
  bool asked = false;
  const auto asking = [&](std::int32_t) noexcept { return asked = true; };
  EXPECT_EQ(slots.take(2, tenure::ends_with_thread, asking), 1U);
  EXPECT_FALSE(asked);
}

TEST(slot_table, keeps_one_thread_in_a_child_process) {
  table slots;
  for (std::int32_t thread = 1; thread <= 3; ++thread)
    ASSERT_LT(slots.take(thread, thread == 2 ? tenure::late : tenure::ends_with_thread, all_live),
              table::none);
  slots.keep_only(1, 77);
  EXPECT_EQ(slots.holder_of(0), 0);
  EXPECT_EQ(slots.holder_of(1), 77);
  EXPECT_EQ(slots.holder_of(2), 0);
  EXPECT_EQ(slots.used(), 3U);
  for (const std::uint32_t free : {0U, 2U, 3U})
    EXPECT_EQ(slots.take(78, tenure::ends_with_thread, all_live), free);
  EXPECT_EQ(slots.take(79, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 77; }), 1U)
      << "late as it was";
  slots.keep_only(table::none, 80);
  for (std::uint32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(slots.holder_of(slot), 0);
}

TEST(thread_slot, is_constant_for_a_thread) {
  const std::uint32_t mine = thread_slot();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(thread_slot(), mine);
  EXPECT_LT(mine, thread_slots_used());
  EXPECT_EQ(thread_slot_owner(mine), gettid());
}

TEST(thread_slot, live_threads_have_different_ones) {
  constexpr int threads = 40;
  std::barrier together(threads);
  std::mutex lock;
  std::set<std::uint32_t> slots{thread_slot()};
  test::on_threads(threads, [&](int) {
    {
      const std::lock_guard hold(lock);
      slots.insert(thread_slot());
    }
    together.arrive_and_wait();
    EXPECT_EQ(thread_slot_owner(thread_slot()), gettid());
  });
  EXPECT_EQ(slots.size(), static_cast<std::size_t>(threads) + 1);
  EXPECT_GT(thread_slots_used(), *slots.rbegin());
}

TEST(thread_slot, returns_with_its_thread_and_serves_the_next_one) {
  const std::uint32_t mine = thread_slot();
  std::uint32_t first = mine;
  std::thread([&] { first = thread_slot(); }).join();
  EXPECT_NE(first, mine);
  EXPECT_EQ(thread_slot_owner(first), 0);
  const std::uint32_t used = thread_slots_used();
  // Plain memory passes from one thread to the next by the slot alone: a race detector would object if
  // taking it over did not synchronise with giving it up.
  std::vector<int> written(used, 0);
  constexpr int threads = 50;
  std::atomic<int> started{0};
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (int t = 0; t < threads; ++t) {
    const int before = started.load(std::memory_order_relaxed);
    workers.emplace_back([&] {
      const std::uint32_t slot = thread_slot();
      if (slot < written.size()) ++written[slot];
      started.fetch_add(1, std::memory_order_relaxed);
    });
    while (started.load(std::memory_order_relaxed) == before) std::this_thread::yield();
  }
  for (std::thread& w : workers) w.join();
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { EXPECT_EQ(thread_slot(), first); }).join();
  }
}

TEST(thread_slot, no_thread_owns_what_was_never_handed_out) {
  EXPECT_EQ(thread_slot_owner(max_thread_slots), 0);
  EXPECT_EQ(thread_slot_owner(~std::uint32_t{0}), 0);
}

/// Asks for the slot from a destructor that comes after everything that the thread has used.
struct destroyed_last {
  std::uint32_t* seen;
  ~destroyed_last() { *seen = thread_slot(); }
};

TEST(thread_slot, serves_the_destructors_of_thread_local_objects) {
  std::uint32_t first = max_thread_slots;
  std::uint32_t last = max_thread_slots;
  std::thread([&] {
    thread_local const destroyed_last user{&last};  // made before the first call
    EXPECT_EQ(user.seen, &last);
    first = thread_slot();
  }).join();
  EXPECT_EQ(first, last);
  EXPECT_EQ(thread_slot_owner(first), 0) << "given back all the same";
}

/// A thread that asks for its slot again after it was given back.
class late_thread {
 public:
  late_thread() {
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, run, this) != 0) throw std::bad_alloc();
    pthread_join(thread, nullptr);
    // The kernel wakes the joining thread a little earlier than it forgets the ended one.
    while (syscall(SYS_tgkill, getpid(), number, 0) == 0) std::this_thread::yield();
  }

  std::int32_t number = 0;
  std::uint32_t slot = max_thread_slots;

 private:
  static pthread_key_t key() {
    static const pthread_key_t one = [] {
      (void)thread_slot();  // the library's key is the older one, hence destroyed first
      pthread_key_t fresh{};
      pthread_key_create(&fresh,
                         [](void* self) { static_cast<late_thread*>(self)->slot = try_thread_slot(); });
      return fresh;
    }();
    return one;
  }
  static void* run(void* self) {
    static_cast<late_thread*>(self)->number = gettid();
    (void)thread_slot();
    pthread_setspecific(key(), self);
    return nullptr;
  }
};

TEST(thread_slot, a_late_slot_serves_again_when_its_thread_is_gone) {
  const late_thread first;
  ASSERT_LT(first.slot, max_thread_slots);
  EXPECT_EQ(thread_slot_owner(first.slot), first.number) << "it was not given back";
  EXPECT_NE(first.slot, thread_slot());
  std::thread([&] { EXPECT_NE(thread_slot(), first.slot) << "there are free ones"; }).join();
  const std::uint32_t used = thread_slots_used();
  for (std::uint32_t i = 0; i < max_thread_slots + 100; ++i)
    ASSERT_LT(late_thread().slot, max_thread_slots) << i;
  EXPECT_LE(thread_slots_used(), used + 1);
}

TEST(thread_slot, too_many_threads_are_refused_until_one_ends) {
  if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "too many threads for a sanitizer";
  const std::uint32_t mine = thread_slot();
  constexpr std::uint32_t asked = max_thread_slots + 2;
  {
    const test::crowd all(asked);
    if (all.size() < asked) GTEST_SKIP() << "this system allows only " << all.size() << " more threads";
    EXPECT_EQ(thread_slot(), mine);
    EXPECT_LE(all.holders, max_thread_slots - 1);
    EXPECT_GE(all.holders, max_thread_slots - 3) << "this thread's, and a late one";
  }
  EXPECT_EQ(thread_slots_used(), max_thread_slots);
  bool served = false;
  std::thread([&] { served = thread_slot() < max_thread_slots; }).join();
  EXPECT_TRUE(served) << "the slots came back";
}

static_assert(noexcept(cpu_relax()) && noexcept(park()));

/// Waits for another thread in the given way; true when its word arrived.
template <class Wait>
bool gets_word_from_another_thread(Wait&& wait) {
  std::atomic<bool> word{false};
  std::thread other([&] { word.store(true); });
  while (!word.load()) wait();
  other.join();
  return word.load();
}

TEST(pause, loops_around_either_make_progress) {
  EXPECT_TRUE(gets_word_from_another_thread([] { cpu_relax(); }));
  EXPECT_TRUE(gets_word_from_another_thread([] { park(); }));
}

TEST(pause, no_thread_sleeps_on_a_word_that_has_changed) {
  const std::atomic<std::uint32_t> word{1};
  errno = EDOM;
  wait_on(word, 0);
  wake_one(word);
  wake_all(word);
  EXPECT_EQ(errno, EDOM) << "the caller's errno stays";
}

TEST(pause, a_wake_up_is_never_lost) {
  // Two threads pass a turn to and fro; each sleeps whenever it is not its turn.
  std::atomic<std::uint32_t> turn{0};
  constexpr std::uint32_t rounds = 2000;
  test::on_threads(2, [&](int t) {
    const auto mine = static_cast<std::uint32_t>(t);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      for (std::uint32_t seen = turn.load(); seen % 2 != mine; seen = turn.load()) wait_on(turn, seen);
      turn.fetch_add(1);
      wake_one(turn);
    }
  });
  EXPECT_EQ(turn.load(), 2 * rounds);
}

TEST(pause, all_sleepers_are_woken) {
  std::atomic<std::uint32_t> gate{0};
  std::atomic<int> through{0};
  test::on_threads(5, [&](int t) {
    if (t == 0) {
      for (int i = 0; i < 10; ++i) park();
      gate.store(1);
      wake_all(gate);
    } else {
      while (gate.load() == 0) wait_on(gate, 0);
      ++through;
    }
  });
  EXPECT_EQ(through.load(), 4);
}

bool fence_was_asked_for() {
  const char* wish = std::getenv("ESPALIER_FENCE");
  return wish != nullptr && std::string_view(wish) == "fence";
}

TEST(asymmetric_fence, kind_is_what_was_asked_for_or_found) {
  const std::string_view kind = asymmetric_fence_kind();
  if (fence_was_asked_for()) {
    EXPECT_EQ(kind, "fence");
  } else {
    EXPECT_TRUE(kind == "membarrier" || kind == "fence") << kind;
  }
  EXPECT_EQ(detail::membarrier_works, kind == "membarrier");
}

/// Rounds of Dekker's pattern in which neither side saw the other.
int rounds_that_missed(int rounds) {
  struct round {
    alignas(64) std::atomic<int> light{0};
    alignas(64) std::atomic<int> heavy{0};
    int light_saw = 0;
    int heavy_saw = 0;
  };
  std::vector<round> all(static_cast<std::size_t>(rounds));
  std::atomic<int> arrived{0};
  const auto meet = [&](int i) {
    arrived.fetch_add(1);
    for (int looks = 0; arrived.load(std::memory_order_relaxed) < 2 * (i + 1); ++looks) {
      if (looks > 200) std::this_thread::yield();
    }
  };
  std::thread frequent([&] {
    for (int i = 0; i < rounds; ++i) {
      round& r = all[static_cast<std::size_t>(i)];
      meet(i);
      r.light.store(1, std::memory_order_relaxed);
      fence_light();
      r.light_saw = r.heavy.load(std::memory_order_relaxed);
    }
  });
  for (int i = 0; i < rounds; ++i) {
    round& r = all[static_cast<std::size_t>(i)];
    meet(i);
    r.heavy.store(1, std::memory_order_relaxed);
    fence_heavy();
    r.heavy_saw = r.light.load(std::memory_order_relaxed);
  }
  frequent.join();
  int missed = 0;
  for (const round& r : all) missed += r.light_saw == 0 && r.heavy_saw == 0 ? 1 : 0;
  return missed;
}

TEST(asymmetric_fence, at_least_one_side_sees_the_other) { EXPECT_EQ(rounds_that_missed(5000), 0); }

TEST(asymmetric_fence, works_in_a_forked_child) {
  EXPECT_EQ(test::in_forked_child([] {
              fence_light();
              fence_heavy();
              return 42;
            }),
            42);
}

TEST(asymmetric_fence, environment_chooses_the_fallback) {
  if (fence_was_asked_for()) GTEST_SKIP() << "this is the fallback's process";
  EXPECT_EQ(test::reexecute("asymmetric_fence.*", "ESPALIER_FENCE", "fence"), 0);
}

}  // namespace
}  // namespace espalier::hw
