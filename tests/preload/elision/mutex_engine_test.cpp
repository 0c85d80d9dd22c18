#include "preload/elision/mutex_engine.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/pause.hpp"
#include "preload/kernel/pages.hpp"
#include "support/eliding.hpp"
#include "support/on_threads.hpp"

namespace {

/// Of each thread; instead of the library's own.
thread_local std::uint64_t waits_awake = 0;

}  // namespace

namespace espalier::hw {

void cpu_relax() noexcept { ++waits_awake; }
void park() noexcept {
  ++waits_awake;
  sched_yield();
}

}  // namespace espalier::hw

namespace espalier::preload {
namespace {

using hw::scripted;
using namespace test::abort_statuses;

constexpr elision_budgets budgets = test::small_budgets;
constexpr mutex_engine<hw::open_scripted>::manner eliding{.budgets = budgets, .even_alone = true};
constexpr timespec long_ago{1, 0};

struct words {
  int lock;
  int owner;
  unsigned users;
  bool operator==(const words&) const = default;
};
constexpr words untouched{0, 0, 0};

words of(const pthread_mutex_t& mutex) {
  return {mutex.__data.__lock, mutex.__data.__owner, mutex.__data.__nusers};
}
words taken_here() { return {1, static_cast<int>(gettid()), 1}; }

/// Of all sections.
counted_section sums_of(const section_counts& counts) {
  counted_section all{};
  counts.for_each([&](const counted_section& one) {
    for (std::size_t e = 0; e < elision_events; ++e) all.elided.of_event[e] += one.elided.of_event[e];
    all.taken += one.taken;
    all.waited += one.waited;
  });
  return all;
}

class elided_mutex_use {
 public:
  elided_mutex_use() {
    EXPECT_TRUE(counts_.start());
    engine_->start_eliding(eliding);
  }
  bool take_one() {
    const std::uint64_t before = sums_of(counts_).taken;
    EXPECT_EQ(engine_->lock(mutex_, 1), 0);
    const bool taken = !scripted::active();
    EXPECT_EQ(of(mutex_), taken ? taken_here() : untouched);
    EXPECT_EQ(engine_->unlock(mutex_), 0);
    EXPECT_FALSE(scripted::active());
    EXPECT_EQ(of(mutex_), untouched);
    EXPECT_EQ(sums_of(counts_).taken, before + (taken ? 1 : 0));
    EXPECT_EQ(sums_of(counts_).waited, 0U);
    return taken;
  }
  [[nodiscard]] elision_counts counts() const { return sums_of(counts_).elided; }

 private:
  memory_budget budget_;
  section_counts counts_{budget_};
  std::unique_ptr<mutex_engine<hw::open_scripted>> engine_ =
      std::make_unique<mutex_engine<hw::open_scripted>>(counts_);
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

struct elision_engine : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(counts.start());
    engine->start_eliding(eliding);
  }
  void TearDown() override {
    EXPECT_FALSE(sections_of_thread.eliding()) << "a section is left open";
    EXPECT_FALSE(scripted::active());
  }

  int lock(pthread_mutex_t& one) { return engine->lock(one, site); }
  int unlock(pthread_mutex_t& one) { return engine->unlock(one); }
  void run(pthread_mutex_t& one) {
    EXPECT_EQ(lock(one), 0);
    EXPECT_EQ(unlock(one), 0);
  }

  [[nodiscard]] counted_section sums() const { return sums_of(counts); }
  [[nodiscard]] std::uint64_t counted(elision_event e) const { return sums().elided.of(e); }

  static constexpr std::uintptr_t site = 0x1234;
  memory_budget budget;
  section_counts counts{budget};
  std::unique_ptr<mutex_engine<hw::open_scripted>> engine =
      std::make_unique<mutex_engine<hw::open_scripted>>(counts);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
};

TEST_F(elision_engine, begins_no_attempt_while_the_mutex_is_held) {
  acquire(mutex_words(mutex), 1);
  std::size_t attempts = 1;
  std::thread waiter([&] {
    const scripted::cue script({});
    EXPECT_EQ(lock(mutex), 0);
    attempts = script.transactions();
    EXPECT_EQ(of(mutex).owner, static_cast<int>(gettid()));
    EXPECT_EQ(unlock(mutex), 0);
  });
  // It has given up looking, and sleeps.
  while (mutex_words(mutex).lock_word().load() != mutex_awaited) sched_yield();
  release(mutex_words(mutex));
  waiter.join();
  EXPECT_EQ(attempts, 0U);
  EXPECT_EQ(of(mutex), untouched);
  EXPECT_EQ(counted(elision_event::fallback), 1U);
  EXPECT_EQ(sums().waited, 1U);
}

TEST_F(elision_engine, waits_awake_for_no_mutex_with_sleepers) {
  acquire(mutex_words(mutex), 1);
  mutex_words(mutex).lock_word() = mutex_awaited;
  std::uint64_t waits = 0;
  std::thread waiter([&] {
    const scripted::cue script({});
    const std::uint64_t before = waits_awake;
    EXPECT_EQ(lock(mutex), 0);
    waits = waits_awake - before;
    EXPECT_EQ(unlock(mutex), 0);
  });
  while (counted(elision_event::fallback) == 0) sched_yield();
  release(mutex_words(mutex));
  waiter.join();
  EXPECT_LE(waits, 2U);
}

TEST_F(elision_engine, trying_neither_attempts_nor_learns_where_the_mutex_is_held) {
  const scripted::cue script({});
  acquire(mutex_words(mutex), 1);
  for (int i = 0; i < 5; ++i) {
    const words before = of(mutex);
    EXPECT_EQ(engine->trylock(mutex, site), EBUSY);
    EXPECT_EQ(of(mutex), before);
    EXPECT_EQ(engine->clocklock(mutex, CLOCK_REALTIME, long_ago, site), ETIMEDOUT);
    EXPECT_EQ(engine->clocklock(mutex, CLOCK_MONOTONIC, {0, -1}, site), EINVAL);
  }
  EXPECT_EQ(script.transactions(), 0U);
  EXPECT_EQ(sums().elided, elision_counts{});
  release(mutex_words(mutex));
  run(mutex);
  EXPECT_EQ(script.transactions(), 1U);
}

TEST_F(elision_engine, trying_and_waiting_for_a_moment_elide_too) {
  const scripted::cue script({scripted::commit, scripted::commit, capacity, capacity, no_reason, no_reason});
  EXPECT_EQ(engine->trylock(mutex, site), 0);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_EQ(engine->clocklock(mutex, CLOCK_REALTIME, long_ago, site), 0);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_EQ(engine->trylock(mutex, site), 0);
  EXPECT_EQ(of(mutex), taken_here());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_EQ(engine->clocklock(mutex, CLOCK_MONOTONIC, long_ago, site), 0);
  EXPECT_EQ(of(mutex), taken_here());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_EQ(engine->clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, long_ago, site), EINVAL);
  EXPECT_EQ(of(mutex), untouched);
}

TEST_F(elision_engine, a_mutex_that_the_thread_elides_is_busy) {
  const scripted::cue script({});
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(engine->trylock(mutex, site), EBUSY);
  EXPECT_TRUE(scripted::active()) << "to find it busy aborts nothing";
  EXPECT_EQ(engine->trylock(other, site), 0);
  EXPECT_EQ(of(other), untouched);
  EXPECT_EQ(engine->trylock(other, site), EBUSY);
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_EQ(unlock(other), 0);
}

TEST_F(elision_engine, sections_nest_in_one_transaction_that_ends_with_the_last) {
  const scripted::cue script({});
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(lock(other), 0);
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(lock(mutex), 0) << "hand over hand";
  EXPECT_EQ(unlock(other), 0);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(script.transactions(), 1U);
  EXPECT_EQ(counted(elision_event::commit), 1U);
  EXPECT_EQ(of(mutex), untouched);
  EXPECT_EQ(of(other), untouched);
}

TEST_F(elision_engine, beyond_what_nests_mutexes_are_taken_inside) {
  const scripted::cue script({});
  std::array<pthread_mutex_t, thread_sections::most_nested + 2> all{};
  for (pthread_mutex_t& one : all) EXPECT_EQ(lock(one), 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(of(all[i]), i < thread_sections::most_nested ? untouched : taken_here()) << i;
  EXPECT_EQ(engine->trylock(all.back(), site), EBUSY);
  EXPECT_EQ(engine->trylock(mutex, site), 0);
  EXPECT_EQ(of(mutex), taken_here());
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_TRUE(scripted::active());
  for (pthread_mutex_t& one : all) EXPECT_EQ(unlock(one), 0);
  for (const pthread_mutex_t& one : all) EXPECT_EQ(of(one), untouched);
  EXPECT_EQ(script.transactions(), 1U);
}

TEST_F(elision_engine, an_outer_mutex_may_be_taken_and_an_inner_one_elided) {
  const scripted::cue script({conflict, conflict, conflict, conflict});
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(lock(other), 0);
  EXPECT_EQ(of(mutex), taken_here());
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(unlock(mutex), 0) << "the taken one is given back inside";
  EXPECT_EQ(of(mutex), untouched);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(unlock(other), 0);
}

TEST_F(elision_engine, an_inner_mutex_that_is_held_aborts) {
  const scripted::cue script({});
  acquire(mutex_words(other), 1);
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(engine->trylock(other, site), EBUSY);
  EXPECT_TRUE(scripted::active());
  EXPECT_EQ(engine->clocklock(other, CLOCK_REALTIME, long_ago, site), ETIMEDOUT);
  EXPECT_FALSE(scripted::active()) << "there is no waiting for it inside";
  release(mutex_words(other));
}

TEST_F(elision_engine, a_mutex_locked_again_by_its_holder_aborts) {
  const scripted::cue script({});
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_FALSE(scripted::active()) << "where it is no transaction the program shows what it does";
  EXPECT_EQ(unlock(mutex), 0);
}

TEST_F(elision_engine, a_mutex_that_is_locked_inside_is_not_committed) {
  const scripted::cue script({});
  EXPECT_EQ(lock(mutex), 0);
  mutex_words(mutex).lock_word() = mutex_awaited;  // as glibc's condition variables do
  EXPECT_EQ(unlock(mutex), 0);
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(counted(elision_event::commit), 0U);
  EXPECT_EQ(mutex_words(mutex).lock_word(), mutex_awaited);
}

TEST_F(elision_engine, destroying_aborts_where_the_mutex_is_elided_alone) {
  const scripted::cue script({});
  EXPECT_EQ(lock(mutex), 0);
  engine->before_destroy(other);
  EXPECT_TRUE(scripted::active());
  engine->before_destroy(mutex);
  EXPECT_FALSE(scripted::active());
  engine->before_destroy(mutex);
}

pthread_mutex_t of_kind(int kind) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  mutex.__data.__kind = kind;
  return mutex;
}

TEST_F(elision_engine, normal_mutexes_are_not_elided_but_taken) {
  const scripted::cue script({});
  pthread_mutexattr_t attributes;
  pthread_mutex_t normal;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
  pthread_mutex_init(&normal, &attributes);
  ASSERT_TRUE(mutex_words(normal).is_plain());
  EXPECT_EQ(lock(normal), 0);
  EXPECT_EQ(of(normal), taken_here());
  EXPECT_EQ(unlock(normal), 0);
  EXPECT_EQ(script.transactions(), 0U);
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(lock(normal), 0);
  EXPECT_EQ(of(normal), taken_here());
  EXPECT_TRUE(scripted::active()) << "inside a transaction it is taken, which is undone with it";
  EXPECT_EQ(unlock(normal), 0);
  EXPECT_EQ(unlock(mutex), 0);
}

TEST(mutex_kinds, are_told_apart) {
  for (const int plain : {0, 256, 512, 256 + 512, 3, 3 + 256}) {
    pthread_mutex_t mutex = of_kind(plain);
    EXPECT_TRUE(mutex_words(mutex).is_plain()) << plain;
    EXPECT_EQ(mutex_words(mutex).may_be_elided(), plain == 0 || plain == 3) << plain;
  }
  // Recursive, errorcheck; robust, inheriting, protected, shared; destroyed.
  for (const int kind : {1, 2, 1 + 256, 2 + 256, 16, 32, 64, 128, 3 + 128, 128 + 256, -1}) {
    pthread_mutex_t mutex = of_kind(kind);
    EXPECT_FALSE(mutex_words(mutex).is_plain()) << kind;
  }
  pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
  EXPECT_TRUE(mutex_words(adaptive).is_plain());
  pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  EXPECT_FALSE(mutex_words(recursive).is_plain());
}

TEST_F(elision_engine, skips_sections_by_mutex_and_site) {
  elision_sites sites;
  auto place = [&](std::uintptr_t at) {
    return &sites.of(section_key(reinterpret_cast<std::uintptr_t>(&mutex), at));
  };
  std::uintptr_t elsewhere = site + 1;
  while (place(elsewhere) == place(site)) ++elsewhere;
  {
    const scripted::cue script({}, capacity);
    for (int section = 1; section <= 22; ++section) run(mutex);
  }
  const scripted::cue script({});
  run(mutex);
  EXPECT_EQ(script.transactions(), 0U);
  EXPECT_EQ(engine->lock(mutex, elsewhere), 0);
  EXPECT_EQ(script.transactions(), 1U) << "another place in the program has fared no worse yet";
  EXPECT_EQ(unlock(mutex), 0);
}

TEST_F(elision_engine, attempts_each_section_where_it_is_not_to_learn) {
  engine->start_eliding({.budgets = {.capacity = 0}, .learns = false, .even_alone = true});
  const scripted::cue script({}, capacity);
  for (std::size_t section = 1; section <= 22; ++section) {
    run(mutex);
    EXPECT_EQ(script.transactions(), section);
  }
  EXPECT_EQ(counted(elision_event::fallback), 22U);
  EXPECT_EQ(counted(elision_event::skipped), 0U);
}

TEST_F(elision_engine, takes_mutexes_until_it_is_told_that_transactions_work) {
  const scripted::cue script({});
  engine = std::make_unique<mutex_engine<hw::open_scripted>>(counts);
  run(mutex);
  EXPECT_EQ(lock(mutex), 0);
  EXPECT_EQ(of(mutex), taken_here());
  EXPECT_EQ(unlock(mutex), 0);
  if (alone_in_process()) {
    engine->start_eliding({.budgets = budgets});
    run(mutex);
  }
  EXPECT_EQ(script.transactions(), 0U);
}

TEST_F(elision_engine, keeps_errno) {
  const scripted::cue script({}, no_reason);
  errno = 4321;
  acquire(mutex_words(mutex), 1);
  const timespec soon = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_nsec += now.tv_nsec < 900'000'000 ? 5'000'000 : 0;
    return now;
  }();
  EXPECT_EQ(engine->clocklock(mutex, CLOCK_MONOTONIC, soon, site), ETIMEDOUT);
  release(mutex_words(mutex));
  run(mutex);
  EXPECT_EQ(errno, 4321);
}

/// Those of scripted do not commit: nothing would isolate them.
TEST_F(elision_engine, sections_of_threads_exclude_one_another) {
  constexpr int threads = 4;
  constexpr int rounds = 3000;
  for (const hw::abort_status each : {conflict, capacity, no_reason, held}) {
    int counter = 0;
    test::on_threads(threads, [&](int) {
      const scripted::cue script({}, each);
      for (int i = 0; i < rounds; ++i) {
        if (i % 3 == 0) {
          while (engine->trylock(mutex, site) != 0) sched_yield();
        } else if (i % 3 == 1) {
          timespec moment{};
          clock_gettime(CLOCK_REALTIME, &moment);
          moment.tv_sec += 1000;
          ASSERT_EQ(engine->clocklock(mutex, CLOCK_REALTIME, moment, site), 0);
        } else {
          ASSERT_EQ(lock(mutex), 0);
        }
        const int before = counter;
        if (i % 64 == 0) sched_yield();
        counter = before + 1;
        ASSERT_EQ(unlock(mutex), 0);
      }
    });
    EXPECT_EQ(counter, threads * rounds);
    EXPECT_EQ(of(mutex), untouched);
  }
}

}  // namespace
}  // namespace espalier::preload

namespace espalier::test {

INSTANTIATE_TYPED_TEST_SUITE_P(elided_mutex, eliding, preload::elided_mutex_use);

}  // namespace espalier::test
