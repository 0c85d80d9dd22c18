#include "espalier/delegation/runtime.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/delegation/partitioned_map.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/map/ordered/ordered_map.hpp"

namespace {

using namespace espalier;
using namespace espalier::delegation;

static_assert(sizeof(message) == 64 && alignof(message) == 64);

struct counter {
  std::atomic<long> n{0};
};

/// A thread that serves a locality until the end of its scope.
class server {
 public:
  server(runtime& of, unsigned locality)
      : of_(of), thread_([this, locality] {
          of_.serve_until(locality, stop_);
          of_.leave();
        }) {}
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server() {
    of_.stop_serving(stop_);
    thread_.join();
  }

 private:
  runtime& of_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class two_localities : public ::testing::Test {
 protected:
  two_localities() { threads.attach(0); }
  runtime threads{localities::in_turn(2)};
  partitions<counter> all{threads, 2};
};

TEST_F(two_localities, results_of_every_kind) {
  const server there(threads, 1);
  EXPECT_EQ(all.call_at(1, [](counter& c) { return ++c.n; }), 1);
  all.call_at(1, [](counter& c) { ++c.n; });
  const std::string text = all.call_at(1, [](counter&) { return std::string(100, 'x'); });
  EXPECT_EQ(text, std::string(100, 'x'));
  const std::array<std::uint64_t, 20> large{1, 2, 3};
  const auto twice = all.call_at(1, [large](counter&) {
    auto result = large;
    for (auto& n : result) n *= 2;
    return result;
  });
  EXPECT_EQ(twice[2], 6U);
  const auto owned = all.call_at(1, [](counter&) { return std::make_unique<int>(7); });
  EXPECT_EQ(*owned, 7);
  auto argument = std::make_unique<int>(8);
  EXPECT_EQ(all.call_at(1, [a = std::move(argument)](counter&) { return *a; }), 8);
  EXPECT_EQ(all.call_at(1, [](counter&) { return -1; }), -1);
}

TEST_F(two_localities, operations_without_waiting) {
  const server there(threads, 1);
  std::vector<completion<long>> later;
  for (int i = 0; i < 200; ++i) {
    later.push_back(all.execute_at(1, [i](counter& c) { return c.n += i; }));
    auto large = all.execute_at(1, [room = std::array<long, 30>{}](counter&) { return room; });
  }
  long sum = 0;
  for (int i = 0; i < 200; ++i) EXPECT_EQ(later[static_cast<std::size_t>(i)].await(), sum += i);
}

TEST_F(two_localities, one_that_has_run_is_ready) {
  auto done = all.execute_at(0, [](counter&) { return 3; });
  EXPECT_TRUE(done.is_ready());
  EXPECT_EQ(done.await(), 3);
}

TEST_F(two_localities, exceptions) {
  const server there(threads, 1);
  const auto fails = [](counter&) -> int { throw std::runtime_error("the reason"); };
  EXPECT_THROW(all.call_at(0, fails), std::runtime_error);
  try {
    all.call_at(1, fails);
    FAIL();
  } catch (const std::runtime_error& thrown) {
    EXPECT_STREQ(thrown.what(), "the reason");
  }
  try {
    all.broadcast(0, [&](counter& c) -> int { throw &c == &all[0] ? 10 : 11; }, std::plus<int>());
    FAIL();
  } catch (int thrown) {
    EXPECT_EQ(thrown, 10) << "of the first partition";
  }
  EXPECT_THROW(all.execute_at(1, fails).await(), std::runtime_error);
  std::string seen;
  all.execute_at(1, fails).then([&](outcome<int> result) {
    try {
      result.get();
    } catch (const std::runtime_error& thrown) {
      seen = thrown.what();
    }
  });
  threads.barrier();
  EXPECT_EQ(seen, "the reason");
  EXPECT_THROW(all.broadcast(0, fails, std::plus<int>()), std::runtime_error);
}

/// Operations, each of which waits for the next one.
long chain_of_calls(partitions<counter>& all, unsigned at, int steps) {
  return all.call_at(at, [&all, at, steps](counter& c) -> long {
    ++c.n;
    return steps == 1 ? 1 : chain_of_calls(all, (at + 1) % all.count(), steps - 1) + 1;
  });
}

/// Runs a function in an operation inside others, on the calling thread's own partition.
void inside(partitions<counter>& all, unsigned operations, const std::function<void()>& what) {
  all.call_at(all.threads().here(), [&](counter&) {
    if (operations == 1)
      what();
    else
      inside(all, operations - 1, what);
  });
}

/// Waits for what other threads have to bring about. A test fails that waits for long.
[[nodiscard]] bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    hw::park();
  }
  return true;
}

[[nodiscard]] bool is_readable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

TEST_F(two_localities, nested_operations) {
  const server there(threads, 1);
  EXPECT_EQ(chain_of_calls(all, 1, 8), 8);
  EXPECT_EQ(all[0].n + all[1].n, 8);
}

TEST_F(two_localities, nesting_has_a_limit) {
  const server there(threads, 1);
  const int most = static_cast<int>(threads.chosen().nesting);
  EXPECT_EQ(chain_of_calls(all, 1, most), most);
  EXPECT_THROW(chain_of_calls(all, 1, most + 1), nesting_error);
  EXPECT_EQ(all.call_at(1, [](counter&) { return 1; }), 1);
}

TEST_F(two_localities, what_refers_to_a_frame_ends_before_it) {
  int ran = 0;
  inside(all, threads.chosen().nesting, [&] {
    const auto counts = [&ran](counter&) { return ++ran; };
    EXPECT_THROW(all.broadcast(0, counts, std::plus<int>()), nesting_error);
    EXPECT_EQ(ran, 0) << "it has submitted something";
  });
  threads.barrier();
  EXPECT_EQ(ran, 0);

  // The second copy does not succeed, when the first one is on its way.
  struct brittle {
    int* copies;
    int* ran;
    brittle(int* c, int* r) : copies(c), ran(r) {}
    brittle(const brittle& other) : copies(other.copies), ran(other.ran) {
      if (++*copies == 2) throw std::bad_alloc();
    }
    int operator()(counter&) const { return ++*ran; }
  };
  runtime three(localities::in_turn(3));
  partitions<counter> part(three, 3);
  three.attach(0);
  int copies = 0;
  EXPECT_THROW(part.broadcast(0, brittle(&copies, &ran), std::plus<int>()), std::bad_alloc);
  EXPECT_EQ(ran, 1) << "what was submitted has not run";
}

TEST_F(two_localities, a_map_inside_as_many_operations_as_may_wait) {
  using map_type = partitioned<ordered_map<std::uint64_t, std::uint64_t>>;
  map_type map(threads, 2);
  for (std::uint64_t key = 0; key < 32; ++key) map.insert(key, key);
  const std::array<std::uint64_t, 4> keys{1, 2, 3, 4};
  std::array<std::optional<std::uint64_t>, 4> found;
  const std::uint64_t before = threads.counts().sent;
  inside(all, threads.chosen().nesting, [&] {
    EXPECT_THROW(static_cast<void>(map.find_batch(keys, found)), nesting_error);
    EXPECT_THROW(map.scan([](std::uint64_t, std::uint64_t) { return true; }), nesting_error);
  });
  EXPECT_EQ(threads.counts().sent, before) << "it has submitted something";
  inside(all, threads.chosen().nesting - 1, [&] { EXPECT_EQ(map.find_batch(keys, found), 4U); });
}

TEST_F(two_localities, results_that_submit_when_they_are_destroyed) {
  struct parting {
    std::function<void()> say;
    explicit parting(std::function<void()> s) : say(std::move(s)) {}
    parting(parting&& other) noexcept : say(std::exchange(other.say, nullptr)) {}
    ~parting() {
      if (say) say();
    }
  };
  for (const unsigned depth : {1U, 32U}) {
    runtime two(localities::in_turn(2), {.ring_depth = depth});
    partitions<counter> part(two, 2);
    two.attach(0);
    const auto add = [](counter& c) { ++c.n; };
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(part.execute_at(
          1, [&](counter&) { return parting([&] { static_cast<void>(part.execute_at(1, add)); }); }));
      static_cast<void>(part.execute_at(1, [&](counter&) { return parting([&] { part.call_at(1, add); }); }));
      // In memory of its own, as is the operation.
      static_cast<void>(part.execute_at(1, [&, large = parting([&] { part.call_at(1, add); })](counter&) {
        return std::pair(parting([&] { part.call_at(1, add); }), std::array<int, 20>{});
      }));
    }
    two.leave();
    EXPECT_EQ(part[1].n, 400);
  }
}

TEST_F(two_localities, a_chain_without_waiting_has_no_limit) {
  constexpr int steps = 100'000;
  for (const unsigned p : {0U, 1U}) {
    int ran = 0;
    std::function<void()> next = [&] {
      if (++ran != steps) static_cast<void>(all.execute_at(p, [&](counter&) { next(); }));
    };
    next();
    threads.barrier();
    while (ran != steps) threads.poll();

    ran = 0;
    next = [&] {
      if (++ran != steps) all.execute_at(p, [](counter&) {}).then([&](outcome<void>) { next(); });
    };
    next();
    while (ran != steps) threads.barrier();
  }
}

TEST_F(two_localities, continuations_that_wait_have_a_limit) {
  // Each one waits for a message behind that of the next one.
  runtime two(localities::in_turn(2), {.ring_depth = 4});
  partitions<counter> part(two, 2);
  two.attach(0);
  int begun = 0;
  int on_stack = 0;
  int deepest = 0;
  std::function<void()> next = [&] {
    for (int i = 0; i < 2; ++i) {
      part.execute_at(1, [](counter&) {}).then([&](outcome<void>) {
        deepest = std::max(deepest, ++on_stack);
        if (++begun < 2000) next();
        part.call_at(1, [](counter&) {});
        --on_stack;
      });
    }
  };
  next();
  two.leave();
  EXPECT_GE(begun, 2000);
  EXPECT_LE(deepest, static_cast<int>(two.chosen().nesting));
}

TEST_F(two_localities, what_is_postponed_runs_in_its_order_and_when_it_is_awaited) {
  const auto most = static_cast<int>(threads.chosen().nesting);
  std::vector<int> ran;
  std::function<void(int)> nest = [&](int left) {
    if (left != 0) return static_cast<void>(all.execute_at(0, [&, left](counter&) { nest(left - 1); }));
    const auto note = [&](int n) {
      return [&ran, n](counter&) {
        ran.push_back(n);
        return n;
      };
    };
    static_cast<void>(all.execute_at(0, note(1)));
    static_cast<void>(all.execute_at(1, note(2)));
    all.execute_at(0, note(3)).then([&](outcome<int> result) { ran.push_back(10 * result.get()); });
    auto discarded = all.execute_at(0, note(4));
    auto moved = std::move(discarded);
    EXPECT_TRUE(ran.empty());
    ran.push_back(0);
    std::move(moved).then([&](outcome<int> result) { ran.push_back(10 * result.get()); });
  };
  nest(most);
  EXPECT_THAT(ran, ::testing::ElementsAre(0, 1, 2, 3, 4, 30, 40));

  // Continuations have no depth: here the thread may wait.
  int seen = 0;
  std::function<void(int)> follow = [&](int left) {
    all.execute_at(0, [](counter& c) { ++c.n; }).then([&, left](outcome<void>) {
      if (left != 1) return follow(left - 1);
      auto one = all.execute_at(0, [](counter&) { return 5; });
      auto other = all.execute_at(0, [](counter&) { return 6; });
      EXPECT_TRUE(other.is_ready());
      seen = one.await() + other.await();
      static_cast<void>(all.execute(7, [](counter& c) { c.n = 70; }));
      EXPECT_EQ(all.run_here(7, [](counter& c) { return c.n.load(); }), 70);
      bool continued = false;
      all.execute_at(1, [](counter&) {}).then([&](outcome<void>) { continued = true; });
      threads.barrier();
      EXPECT_TRUE(continued);
      EXPECT_EQ(all.broadcast(0, [](counter&) { return 1; }, std::plus<int>()), 2);
    });
  };
  follow(most);
  EXPECT_EQ(seen, 11);
}

TEST_F(two_localities, waiting_without_end_is_refused) {
  bool refused = false;
  std::function<void()> next = [&] {
    if (refused) return;
    static_cast<void>(all.execute_at(0, [&](counter&) { next(); }));
    try {
      threads.barrier();
    } catch (const nesting_error&) {
      refused = true;
    }
  };
  next();
  EXPECT_TRUE(refused);
}

TEST_F(two_localities, continuations_have_no_limit) {
  const server there(threads, 1);
  int steps = 0;
  std::function<void()> next = [&] {
    all.execute_at(1, [](counter&) {}).then([&](outcome<void>) {
      if (++steps < 100) next();
    });
  };
  next();
  while (steps < 100) threads.barrier();
}

TEST_F(two_localities, a_locality_without_threads) {
  for (int i = 1; i <= 1000; ++i) ASSERT_EQ(all.call_at(1, [](counter& c) { return ++c.n; }), i);
  EXPECT_EQ(threads.counts().served_by_sender, 1000U);
}

TEST_F(two_localities, threads_whose_locality_computes) {
  std::atomic<bool> stop{false};
  std::thread computes([&] {
    threads.attach(1);
    while (!stop) hw::park();
  });
  for (int i = 1; i <= 100; ++i) ASSERT_EQ(all.call_at(1, [](counter& c) { return ++c.n; }), i);
  stop = true;
  computes.join();
}

TEST_F(two_localities, looking_for_a_result_brings_it_about) {
  auto polled = all.execute_at(1, [](counter& c) { return ++c.n; });
  for (int i = 0; i < 1000 && all[1].n == 0; ++i) threads.poll();
  EXPECT_EQ(all[1].n, 1);
  auto looked_at = all.execute_at(1, [](counter& c) { return ++c.n; });
  bool is_ready = false;
  for (int i = 0; i < 1000 && !is_ready; ++i) is_ready = looked_at.is_ready();
  EXPECT_TRUE(is_ready);
}

TEST_F(two_localities, a_result_is_taken_once) {
  const auto one = [](counter&) { return std::string("one"); };
  const auto fails = [](counter&) -> int { throw std::runtime_error("no"); };
  for (const unsigned p : {0U, 1U}) {
    auto twice = all.execute_at(p, one);
    EXPECT_EQ(twice.await(), "one");
    EXPECT_THROW(twice.await(), std::logic_error);
    EXPECT_THROW(std::move(twice).then([](outcome<std::string>) {}), std::logic_error);
    auto failed = all.execute_at(p, fails);
    EXPECT_THROW(failed.await(), std::runtime_error);
    EXPECT_THROW(failed.await(), std::logic_error);
    auto continued = all.execute_at(p, one);
    std::move(continued).then([](outcome<std::string>) {});
    EXPECT_THROW(continued.await(), std::logic_error);
    threads.barrier();
  }
}

TEST_F(two_localities, what_is_not_there_is_refused) {
  EXPECT_THROW(all.call_at(7, [](counter&) {}), std::out_of_range);
  EXPECT_THROW(static_cast<void>(all.execute_at(2, [](counter&) {})), std::out_of_range);
  EXPECT_THROW(threads.fence(2, 0), std::out_of_range);
}

TEST_F(two_localities, an_operation_keeps_its_threads_locality) {
  for (const unsigned p : {0U, 1U}) {
    all.call_at(p, [&](counter&) {
      EXPECT_THROW(threads.attach(1), std::logic_error);
      EXPECT_THROW(threads.leave(), std::logic_error);
      threads.attach(0);
    });
  }
  EXPECT_EQ(threads.here(), 0U);
}

TEST_F(two_localities, a_thread_that_ends_leaves) {
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      threads.attach(static_cast<unsigned>(round) % 2);
      for (unsigned p : {0U, 1U}) static_cast<void>(all.execute_at(p, [](counter& c) { ++c.n; }));
    }).join();
  }
  EXPECT_EQ(all[0].n, 50);
  EXPECT_EQ(all[1].n, 50);
}

/// Runs a function when the thread ends.
struct last_words {
  std::function<void()> say;
  ~last_words() { say(); }
};

TEST_F(two_localities, objects_of_a_thread_that_submit_when_they_are_destroyed) {
  std::atomic<int> continued{0};
  for (int round = 1; round <= 2; ++round) {
    std::thread([&] {
      // Older than the thread's first use of the runtime: destroyed after the thread has left it.
      const auto submit = [&] {
        all.execute_at(1, [](counter& c) { ++c.n; }).then([&](outcome<void>) { ++continued; });
      };
      thread_local const last_words oldest{submit};
      thread_local const last_words older{submit};
      static_cast<void>(oldest.say);
      static_cast<void>(older.say);
      EXPECT_FALSE(threads.is_attached()) << "another thread of this slot has not left";
      threads.attach(0);
      submit();
    }).join();
    EXPECT_EQ(all[1].n, 3 * round);
    EXPECT_EQ(continued, 3 * round);
  }
}

TEST_F(two_localities, many_threads_that_come_and_go) {
  constexpr int each = 300;
  std::vector<std::thread> crowd;
  for (unsigned t = 0; t < 12; ++t) {
    crowd.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        if (i % 100 == 50) threads.attach((t + static_cast<unsigned>(i) / 100) % 2);
        if (i % 3 == 0)
          static_cast<void>(all.execute(i, [](counter& c) { ++c.n; }));
        else if (i % 3 == 1)
          all.call(i, [](counter& c) { ++c.n; });
        else
          all.call(i, [&](counter& c) {
            ++c.n;
            all.call(i + 1, [](counter& d) { --d.n; });
            all.call(i, [](counter& d) { ++d.n; });
          });
      }
    });
  }
  for (std::thread& one : crowd) one.join();
  EXPECT_EQ(all[0].n + all[1].n, 12 * each);
}

TEST_F(two_localities, what_is_submitted_runs_before_the_end) {
  auto ran = std::make_unique<std::atomic<int>>(0);
  {
    runtime short_lived(localities::in_turn(2));
    partitions<counter> part(short_lived, 2);
    short_lived.attach(0);
    for (int i = 0; i < 20; ++i) static_cast<void>(part.execute_at(1, [&](counter&) { ++*ran; }));
  }
  EXPECT_EQ(*ran, 20);
}

TEST_F(two_localities, destroyed_under_load) {
  auto ran = std::make_unique<std::atomic<int>>(0);
  {
    runtime short_lived(localities::in_turn(2));
    partitions<counter> part(short_lived, 2);
    short_lived.add_poller(0);
    short_lived.add_poller(1);
    std::vector<std::thread> crowd;
    for (unsigned t = 0; t < 4; ++t) {
      crowd.emplace_back([&, t] {
        short_lived.attach(t % 2);
        for (int i = 0; i < 100; ++i) static_cast<void>(part.execute(i, [&](counter&) { ++*ran; }));
      });
    }
    for (std::thread& one : crowd) one.join();
  }
  EXPECT_EQ(*ran, 400);
}

TEST_F(two_localities, an_operation_that_runs_at_the_end_may_wait) {
  long seen = 0;
  {
    partition_variable<long> own(threads, 2, 5);
    partitions<counter> part(threads, 2);
    static_cast<void>(part.execute_at(
        1, [&](counter&) { seen = part.call_at(1, [&](counter& c) { return ++c.n + own.here(); }); }));
  }
  EXPECT_EQ(seen, 6);
}

TEST_F(two_localities, the_end_awaits_what_a_poller_runs) {
  struct mortal {
    explicit mortal(std::atomic<bool>* g) : gone(g) {}
    mortal(const mortal&) = delete;
    mortal& operator=(const mortal&) = delete;
    ~mortal() { *gone = true; }
    std::atomic<bool>* gone;
  };
  std::atomic<bool> gone{false};
  std::atomic<bool> begun{false};
  std::atomic<bool> early{false};
  threads.add_poller(1);
  {
    partitions<mortal> part(threads, 2, by_hash(), &gone);
    static_cast<void>(part.execute_at(1, [&](mortal&) {
      begun = true;
      for (int i = 0; i < 100; ++i) hw::park();
      early = gone.load();
    }));
    while (!begun) hw::park();
  }
  EXPECT_FALSE(early);
}

TEST_F(two_localities, a_thread_leaves_after_the_last_continuation) {
  runtime three(localities::in_turn(3));
  partitions<counter> part(three, 3);
  std::thread([&] {
    three.attach(0);
    part.execute_at(2, [](counter&) {}).then([&](outcome<void>) {
      static_cast<void>(part.execute_at(1, [](counter& c) { ++c.n; }));
    });
  }).join();
  EXPECT_EQ(part[1].n, 1);
}

TEST_F(two_localities, a_descriptor_outlives_its_threads) {
  const int fd = threads.event_fd();
  threads.leave();
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
}

TEST(delegation, descriptors_end_with_the_runtime) {
  int fd = -1;
  {
    runtime threads(localities::in_turn(1));
    fd = threads.event_fd();
    EXPECT_NE(fcntl(fd, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST_F(two_localities, a_thread_with_a_partitions_lock_serves_nothing) {
  partition_lock<> lock(threads);
  std::atomic<bool> posted{false};
  std::atomic<bool> go_on{false};
  std::thread other([&] {
    threads.attach(1);
    static_cast<void>(all.execute_at(0, [&](counter& c) {
      const std::lock_guard hold(lock);
      ++c.n;
    }));
    posted = true;
    while (!go_on) hw::park();
  });
  {
    const std::lock_guard hold(lock);
    while (!posted) hw::park();
    EXPECT_EQ(all.call_at(0, [](counter& c) { return c.n.load(); }), 0);
  }
  go_on = true;
  other.join();
  EXPECT_EQ(all[0].n, 1);
}

TEST_F(two_localities, a_poller_serves_for_threads_that_sleep) {
  threads.add_poller(1);
  std::thread sleeper([&] { threads.attach(1); });
  sleeper.join();
  for (int i = 1; i <= 100; ++i) ASSERT_EQ(all.call_at(1, [](counter& c) { return ++c.n; }), i);
  EXPECT_THROW(threads.add_poller(2), std::out_of_range);
}

TEST_F(two_localities, an_event_loop) {
  const server there(threads, 1);
  int done = 0;
  for (int i = 0; i < 10; ++i)
    all.execute_at(1, [](counter& c) { return ++c.n; }).then([&](outcome<long>) { ++done; });
  while (done < 10) {
    if (threads.arm()) {
      pollfd wait{threads.event_fd(), POLLIN, 0};
      ASSERT_GE(::poll(&wait, 1, -1), 0);
    }
    threads.poll();
  }
}

TEST_F(two_localities, an_event_loop_whose_messages_stay_unserved) {
  bool done = false;
  all.execute_at(1, [](counter&) {}).then([&](outcome<void>) { done = true; });
  while (!done) {
    if (threads.arm()) {
      pollfd wait{threads.event_fd(), POLLIN, 0};
      ASSERT_GE(::poll(&wait, 1, -1), 0);
    }
    threads.poll();
  }
}

TEST_F(two_localities, a_poller_continues_and_serves_itself) {
  runtime three(localities::in_turn(3));
  partitions<counter> part(three, 3);
  three.attach(0);
  three.add_poller(1);
  std::atomic<int> done{0};
  static_cast<void>(part.execute_at(1, [&](counter&) {
    part.execute_at(0, [](counter&) {}).then([&](outcome<void>) { ++done; });
    part.execute_at(2, [](counter&) {}).then([&](outcome<void>) { ++done; });
  }));
  while (done != 2) three.poll();
}

TEST_F(two_localities, an_event_loop_is_woken_to_serve) {
  std::atomic<bool> armed{false};
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    threads.attach(1);
    while (!stop) {
      if (threads.arm()) {
        armed = true;
        pollfd wait{threads.event_fd(), POLLIN, 0};
        ::poll(&wait, 1, 20);
      }
      threads.poll();
    }
  });
  while (!armed) hw::park();
  for (int i = 1; i <= 20; ++i) ASSERT_EQ(all.call_at(1, [](counter& c) { return ++c.n; }), i);
  stop = true;
  loop.join();
}

/// A thread in locality 1 that has armed its descriptor, and does nothing until the end of its scope.
class armed_loop {
 public:
  explicit armed_loop(runtime& of)
      : thread_([this, &of] {
          of.attach(1);
          while (!of.arm()) of.poll();
          fd_ = of.event_fd();
          while (!ends_) hw::park();
          of.leave();
        }) {
    while (fd_ < 0) hw::park();
  }
  armed_loop(const armed_loop&) = delete;
  armed_loop& operator=(const armed_loop&) = delete;
  ~armed_loop() {
    ends_ = true;
    thread_.join();
  }
  [[nodiscard]] bool is_woken() const { return is_readable(fd_); }

 private:
  std::atomic<int> fd_{-1};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST_F(two_localities, each_event_loop_is_woken) {
  const armed_loop one(threads);
  const armed_loop other(threads);
  const armed_loop third(threads);
  for (int woken = 0; woken != 3; ++woken) {
    EXPECT_EQ(one.is_woken() + other.is_woken() + third.is_woken(), woken);
    static_cast<void>(all.execute_at(1, [](counter&) {}));
  }
  EXPECT_TRUE(one.is_woken() && other.is_woken() && third.is_woken());
}

TEST_F(two_localities, a_loop_is_told_of_what_a_sender_runs) {
  // It is armed when the message is there no more.
  std::atomic<int> step{0};
  std::atomic<bool> sleeps{true};
  std::thread loop([&] {
    threads.attach(1);
    threads.poll();
    step = 1;
    while (step != 2) hw::park();
    sleeps = threads.arm();
    threads.poll();
    EXPECT_TRUE(threads.arm());
  });
  while (step != 1) hw::park();
  all.call_at(1, [](counter&) {});
  step = 2;
  loop.join();
  EXPECT_FALSE(sleeps);
}

TEST_F(two_localities, a_sender_is_woken_by_its_answer) {
  const server there(threads, 1);
  std::atomic<bool> begun{false};
  std::atomic<bool> awaited{false};
  const auto sleeps = [&] { return threads.counts().sleeps; };
  auto first = all.execute_at(1, [&](counter&) {
    const std::uint64_t before = sleeps();
    begun = true;
    EXPECT_TRUE(comes_true([&] { return sleeps() > before; }));
    for (int i = 0; i < 100; ++i) hw::park();
  });
  EXPECT_TRUE(comes_true([&] { return begun.load(); }));
  // In the same batch, while the sender sleeps.
  auto second = all.execute_at(1, [&](counter&) { return comes_true([&] { return awaited.load(); }); });
  first.await();
  awaited = true;
  EXPECT_TRUE(second.await());
}

TEST_F(two_localities, each_poller_is_woken) {
  std::atomic<bool> second{false};  // the runtime ends before them, and with it what it runs
  std::atomic<bool> go_on{false};
  runtime two(localities::in_turn(2), {.idle_looks = 1});
  partitions<counter> part(two, 2);
  two.attach(0);
  two.add_poller(1);
  two.add_poller(1);
  while (two.counts().sleeps < 2) hw::park();
  for (int i = 0; i < 100; ++i) hw::park();
  static_cast<void>(
      part.execute_at(1, [&](counter&) { EXPECT_TRUE(comes_true([&] { return second.load(); })); }));
  std::thread other([&] {
    two.attach(0);
    static_cast<void>(part.execute_at(1, [&](counter&) { second = true; }));
    while (!go_on) hw::park();  // it does not serve itself
  });
  EXPECT_TRUE(comes_true([&] { return second.load(); }));
  go_on = true;
  other.join();
}

TEST_F(two_localities, reads_see_what_the_thread_has_written) {
  int key = 0;
  while (all.index_of(key) != 1) ++key;
  for (long i = 1; i <= 100; ++i) {
    static_cast<void>(all.execute(key, [i](counter& c) { c.n = i; }));
    ASSERT_EQ(all.run_here(key, [](counter& c) { return c.n.load(); }), i);
  }
}

TEST_F(two_localities, variables_of_partitions) {
  partition_variable<long> sums(threads, all.count(), 5);
  const server there(threads, 1);
  for (unsigned p : {0U, 1U, 1U}) all.call_at(p, [&](counter&) { ++sums.here(); });
  EXPECT_EQ(sums[0], 6);
  EXPECT_EQ(sums[1], 7);
}

TEST_F(two_localities, counts) {
  for (int i = 0; i < 100; ++i) all.call_at(0, [](counter&) {});
  for (int i = 0; i < 100; ++i) static_cast<void>(all.execute_at(1, [](counter&) {}));
  threads.barrier();
  const statistics did = threads.counts();
  EXPECT_EQ(did.local, 100U);
  EXPECT_EQ(did.sent, 100U);
  EXPECT_EQ(did.served + did.served_by_sender, 100U);
  EXPECT_EQ(did.most_in_ring, threads.chosen().ring_depth);
  EXPECT_GT(did.waits_for_room, 0U);
  EXPECT_EQ(did.deepest, 1U);
  EXPECT_EQ(did.sampled, 2U);
}

TEST(delegation, counts_as_text) {
  EXPECT_THAT(to_string(statistics()),
              ::testing::EndsWith(" unavailable  ticks on average\n unavailable  ticks at most\n"));
  statistics did;
  did.local = 7;
  did.sent = 1234567890123;
  did.sampled = 2;
  did.sampled_ticks = 300;
  did.slowest_ticks = 200;
  const std::string text = to_string(did);
  EXPECT_THAT(text,
              ::testing::StartsWith("           7  operations that were calls\n1234567890123  messages\n"));
  EXPECT_THAT(text, ::testing::EndsWith("         150  ticks on average\n         200  ticks at most\n"));
}

TEST_F(two_localities, an_idle_runtime_costs_nothing) {
  runtime two(localities::in_turn(2), {.idle_looks = 1});
  partitions<counter> part(two, 2);
  two.attach(0);
  two.add_poller(0);
  two.add_poller(1);
  EXPECT_EQ(part.call_at(1, [](counter& c) { return ++c.n; }), 1);
  // Both sleep at some time.
  while (two.counts().sleeps < 2) hw::park();
}

#ifndef NDEBUG
TEST_F(two_localities, no_await_under_a_partitions_lock) {
  partition_lock<> lock(threads);
  lock.lock();
  EXPECT_EQ(all.call_at(0, [](counter&) { return 1; }), 1);
  EXPECT_DEATH(all.call_at(1, [](counter&) {}), "under a partition's lock");
  lock.unlock();
}
#endif

TEST(delegation, more_localities_than_partitions_and_the_reverse) {
  runtime threads(localities::in_turn(3));
  partitions<counter> few(threads, 1);
  partitions<counter> many(threads, 50);
  EXPECT_EQ(few.call(1, [](counter& c) { return ++c.n; }), 1);
  EXPECT_EQ(many.broadcast(0L, [](counter& c) { return ++c.n; }, std::plus<long>()), 50);
  EXPECT_THROW(partitions<counter>(threads, 0), std::invalid_argument);
}

TEST(delegation, where_partitions_lie_is_an_argument) {
  struct placed {
    partition_place place;
    int extra;
    placed(const partition_place& p, int e) : place(p), extra(e) {}
  };
  runtime threads(localities::in_turn(2));
  partitions<placed> all(threads, 3, by_hash(), 7);
  EXPECT_EQ(all[2].place.index, 2U);
  EXPECT_EQ(all[2].place.locality, 0U);
  EXPECT_EQ(all[1].extra, 7);
}

TEST(delegation, senders_read_no_line_that_servers_write) {
  const auto line_of = [](const auto& field) {
    return reinterpret_cast<std::uintptr_t>(&field) / hw::cache_line_bytes;
  };
  delegation::detail::member sender;
  const delegation::detail::ring ring(sender, 4, std::nullopt);
  EXPECT_EQ(line_of(ring.lock), line_of(ring.next));
  EXPECT_NE(line_of(ring.lock), line_of(ring.mask));
  EXPECT_NE(line_of(ring.lock), line_of(ring.messages));
  const partition<counter> part{{0, 1}, {}};
  EXPECT_NE(line_of(part.structure), line_of(part.locality));
}

TEST(delegation, routes) {
  const by_hash hash;
  std::array<int, 4> keys{};
  for (int i = 0; i < 4000; ++i) ++keys[hash.partition(i, 4)];
  EXPECT_THAT(keys, ::testing::Each(::testing::AllOf(::testing::Gt(900), ::testing::Lt(1100))));
  const by_range<std::string> range{{"f", "p"}};
  EXPECT_EQ(range.partition("a", 3), 0U);
  EXPECT_EQ(range.partition("f", 3), 1U);
  EXPECT_EQ(range.partition("z", 3), 2U);
  EXPECT_EQ(range.partition("z", 2), 1U);
  EXPECT_NE(range.number("a"), range.number("b"));
}

/// Does not distinguish large letters from small ones.
struct without_case {
  bool operator()(const std::string& a, const std::string& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](char c, char d) { return (c | 32) < (d | 32); });
  }
};

TEST(delegation, equivalent_keys_of_a_route_with_a_comparator) {
  runtime threads(localities::in_turn(2));
  threads.attach(0);
  partitions<counter, by_range<std::string, without_case>> all(threads, 2, {{"k"}, {}});
  static_cast<void>(all.execute(std::string("X"), [](counter& c) { ++c.n; }));
  EXPECT_EQ(all.run_here(std::string("x"), [](counter& c) { return c.n.load(); }), 1);
}

TEST(delegation, localities_are_checked) {
  EXPECT_THROW(static_cast<void>(localities::in_turn(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(localities::groups({})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(localities::groups({{0}, {}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(localities::groups({{0, 1}, {1}})), std::invalid_argument);
  const localities two = localities::groups({{0, 2}, {1}});
  EXPECT_EQ(two.of_pu(2), 0U);
  EXPECT_EQ(two.of_pu(1), 1U);
  EXPECT_EQ(two.of_pu(3), std::nullopt);
  EXPECT_GE(localities::numa_nodes().count(), 1U);
  EXPECT_THROW(runtime(localities::in_turn(1), {.ring_depth = 0}), std::invalid_argument);
  EXPECT_THROW(runtime(localities::in_turn(1), {.batch = 0}), std::invalid_argument);
  EXPECT_THROW(runtime(localities::in_turn(1), {.nesting = 0}), std::invalid_argument);
  EXPECT_THROW(runtime(localities::in_turn(1), {.nesting = 1001}), std::invalid_argument);
  runtime threads(localities::in_turn(2));
  EXPECT_THROW(threads.attach(2), std::out_of_range);
}

TEST(delegation, threads_come_to_localities_in_turn) {
  runtime threads(localities::in_turn(2));
  std::array<std::atomic<int>, 2> in{};
  std::vector<std::thread> crowd;
  for (int i = 0; i < 6; ++i) crowd.emplace_back([&] { ++in[threads.here()]; });
  for (std::thread& one : crowd) one.join();
  EXPECT_EQ(in[0], 3);
  EXPECT_EQ(in[1], 3);
}

}  // namespace
