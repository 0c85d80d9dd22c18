// The weak memory model, by the litmus tests of the literature: what C++ forbids is never seen, what it permits is
// found.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::failure_kind;
using sim::scene;
using enum std::memory_order;

using order = std::memory_order;

sim::exploration_report explore(const char* name, const std::function<void(scene&)>& build) {
  sim::exploration_options o;
  o.schedules = 3000;
  o.model = sim::memory_model::weak;
  return sim::explore(name, o, build);
}

/// The outcome that each scene calls impossible.
void expect_forbidden(const char* name, const std::function<void(scene&)>& build) {
  const auto report = explore(name, build);
  EXPECT_TRUE(report.passed()) << name << ": " << report;
}
void expect_allowed(const char* name, const std::function<void(scene&)>& build,
                    failure_kind kind = failure_kind::requirement) {
  const auto report = explore(name, build);
  ASSERT_FALSE(report.passed()) << name << " is not found in " << report.runs << " schedules";
  EXPECT_EQ(report.failure->kind, kind) << report;
}

struct two_words {
  std::atomic<int> x{0};
  std::atomic<int> y{0};
};

/// Message passing: y announces that x was written; with fences where their orders are given.
template <order Store, order Load, order Before = relaxed, order Behind = relaxed>
void message_passing(scene& s) {
  auto& w = s.make<two_words>();
  s.thread("writer", [&w] {
    w.x.store(1, relaxed);
    if constexpr (Before != relaxed) std::atomic_thread_fence(Before);
    w.y.store(1, Store);
  });
  s.thread("reader", [&w] {
    const bool told = w.y.load(Load) == 1;
    if constexpr (Behind != relaxed) std::atomic_thread_fence(Behind);
    const int seen = w.x.load(relaxed);
    sim::require(!told || seen == 1, "the message comes before what it tells of");
  });
}

TEST(weak_memory, message_passing_takes_release_and_acquire) {
  expect_forbidden("release, acquire", message_passing<release, acquire>);
  expect_forbidden("seq_cst", message_passing<seq_cst, seq_cst>);
  expect_allowed("relaxed, acquire", message_passing<relaxed, acquire>);
  expect_allowed("release, relaxed", message_passing<release, relaxed>);
}

TEST(weak_memory, fences_order_relaxed_accesses) {
  expect_forbidden("fences", message_passing<relaxed, relaxed, release, acquire>);
  expect_forbidden("seq_cst fences", message_passing<relaxed, relaxed, seq_cst, seq_cst>);
  expect_allowed("no release fence", message_passing<relaxed, relaxed, acquire, acquire>);
  expect_allowed("no acquire fence", message_passing<relaxed, relaxed, release, release>);
}

/// Dekker's pattern.
template <order Store, order Load, bool Fence>
void store_buffering(scene& s) {
  auto& w = s.make<two_words>();
  auto& seen = s.make<std::array<std::atomic<int>, 2>>();
  const auto thread = [&seen](std::atomic<int>& mine, std::atomic<int>& other, int me) {
    mine.store(1, Store);
    if constexpr (Fence) std::atomic_thread_fence(seq_cst);
    seen[me].store(other.load(Load), relaxed);
  };
  s.thread("a", [&w, thread] { thread(w.x, w.y, 0); });
  s.thread("b", [&w, thread] { thread(w.y, w.x, 1); });
  s.at_end([&seen] { sim::require(seen[0].load() == 1 || seen[1].load() == 1, "one sees the other"); });
}

TEST(weak_memory, dekkers_pattern_takes_seq_cst) {
  expect_forbidden("seq_cst", store_buffering<seq_cst, seq_cst, false>);
  expect_forbidden("seq_cst fences", store_buffering<relaxed, relaxed, true>);
  expect_allowed("release and acquire", store_buffering<release, acquire, false>);
  expect_allowed("seq_cst stores alone", store_buffering<seq_cst, acquire, false>);
}

TEST(weak_memory, reads_of_one_place_are_coherent) {
  expect_forbidden("one reader", [](scene& s) {
    auto& x = s.make<std::atomic<int>>(0);
    s.thread("writer", [&x] {
      x.store(1, relaxed);
      x.store(2, relaxed);
    });
    s.thread("reader", [&x] {
      const int first = x.load(relaxed);
      const int second = x.load(relaxed);
      sim::require(first <= second, "a place does not go back");
    });
  });
  expect_forbidden("by what another reader told", [](scene& s) {
    auto& w = s.make<two_words>();
    s.thread("writer", [&w] { w.x.store(1, relaxed); });
    s.thread("first", [&w] {
      if (w.x.load(relaxed) == 1) w.y.store(1, release);
    });
    s.thread("second", [&w] {
      if (w.y.load(acquire) == 1)
        sim::require(w.x.load(relaxed) == 1, "the second reader sees no less than the first");
    });
  });
}

/// Independent readers of independent writers.
template <order Store, order Load>
void independent_reads(scene& s) {
  auto& w = s.make<two_words>();
  auto& seen = s.make<std::array<std::atomic<int>, 4>>();
  s.thread("x", [&w] { w.x.store(1, Store); });
  s.thread("y", [&w] { w.y.store(1, Store); });
  s.thread("xy", [&w, &seen] {
    seen[0].store(w.x.load(Load), relaxed);
    seen[1].store(w.y.load(Load), relaxed);
  });
  s.thread("yx", [&w, &seen] {
    seen[2].store(w.y.load(Load), relaxed);
    seen[3].store(w.x.load(Load), relaxed);
  });
  s.at_end([&seen] {
    sim::require(!(seen[0].load() == 1 && seen[1].load() == 0 && seen[2].load() == 1 && seen[3].load() == 0),
                 "both readers see the stores in one order");
  });
}

TEST(weak_memory, independent_reads_agree_under_seq_cst_only) {
  expect_forbidden("seq_cst", independent_reads<seq_cst, seq_cst>);
  expect_allowed("release and acquire", independent_reads<release, acquire>);
}

/// The same with stores that are not seq_cst: a later seq_cst load reads nothing older than an earlier one did.
TEST(weak_memory, seq_cst_loads_have_one_order_whatever_the_stores_are) {
  expect_forbidden("relaxed stores", independent_reads<relaxed, seq_cst>);
  expect_forbidden("release stores", independent_reads<release, seq_cst>);
  expect_forbidden("a load, and a fence behind it", [](scene& s) {
    auto& w = s.make<two_words>();
    auto& seen = s.make<std::array<std::atomic<int>, 3>>();
    s.thread("writes", [&w] { w.x.store(1, relaxed); });
    s.thread("reads", [&w, &seen] {
      seen[0].store(w.x.load(seq_cst), relaxed);
      seen[1].store(w.y.load(seq_cst), relaxed);
    });
    s.thread("fences", [&w, &seen] {
      w.y.store(1, relaxed);
      std::atomic_thread_fence(seq_cst);
      seen[2].store(w.x.load(relaxed), relaxed);
    });
    s.at_end([&seen] {
      sim::require(!(seen[0].load() == 1 && seen[1].load() == 0 && seen[2].load() == 0),
                   "the loads have one order with the fence");
    });
  });
}

TEST(weak_memory, shared_owners_are_counted_by_atomics) {
  expect_forbidden("shared_ptr", [](scene& s) {
    auto& shared = s.make<std::shared_ptr<int>>(std::make_shared<int>(7));
    for (const char* name : {"a", "b"}) {
      s.thread(name, [copy = shared]() mutable {
        sim::require(*copy == 7, "it is there");
        copy.reset();
      });
    }
    s.at_end([&shared] { sim::require(*shared == 7, "it is there"); });
  });
}

/// A third thread changes y between writer and reader: by a read-modify-write, which continues the release sequence, or
/// by a store, which does not.
template <bool Modify>
void release_sequence(scene& s) {
  auto& w = s.make<two_words>();
  s.thread("writer", [&w] {
    w.x.store(1, relaxed);
    w.y.store(1, release);
  });
  s.thread("between", [&w] {
    if constexpr (Modify) {
      int one = 1;
      w.y.compare_exchange_strong(one, 2, relaxed);
    } else if (w.y.load(relaxed) == 1) {
      w.y.store(2, relaxed);
    }
  });
  s.thread("reader", [&w] {
    const bool told = w.y.load(acquire) == 2;
    const int seen = w.x.load(relaxed);
    sim::require(!told || seen == 1, "the message comes before what it tells of");
  });
}

TEST(weak_memory, read_modify_writes_belong_to_the_release_sequence) {
  expect_forbidden("modified", release_sequence<true>);
  expect_allowed("stored", release_sequence<false>);
}

TEST(weak_memory, read_modify_writes_see_the_newest) {
  expect_forbidden("increments", [](scene& s) {
    auto& x = s.make<std::atomic<int>>(0);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&x] {
        x.fetch_add(1, relaxed);
        x.fetch_add(1, relaxed);
      });
    }
    s.at_end([&x] { sim::require(x.load() == 6, "none is lost"); });
  });
}

/// Two words under a version: odd while they change.
template <order Behind>
void sequence_lock(scene& s) {
  struct versioned {
    std::atomic<int> version{0};
    std::atomic<int> first{0};
    std::atomic<int> second{0};
  };
  auto& v = s.make<versioned>();
  s.thread("writer", [&v] {
    v.version.store(1, relaxed);
    std::atomic_thread_fence(release);
    v.first.store(1, relaxed);
    v.second.store(1, relaxed);
    v.version.store(2, release);
  });
  s.thread("reader", [&v] {
    const int before = v.version.load(acquire);
    const int first = v.first.load(relaxed);
    const int second = v.second.load(relaxed);
    std::atomic_thread_fence(Behind);
    const bool valid = before % 2 == 0 && v.version.load(relaxed) == before;
    sim::require(!valid || first == second, "a valid read is of one moment");
  });
}

TEST(weak_memory, a_sequence_lock_takes_the_acquire_fence) {
  expect_forbidden("with it", sequence_lock<acquire>);
  expect_allowed("without it", sequence_lock<release>);
}

/// Plain data behind a pointer.
template <order Store, order Load>
void publication(scene& s) {
  auto& shared = s.make<std::atomic<int*>>(nullptr);
  auto& storage = s.make<int>(0);
  s.thread("writer", [&shared, &storage] {
    storage = 7;
    shared.store(&storage, Store);
  });
  s.thread("reader", [&shared] {
    if (const int* const seen = shared.load(Load)) sim::require(*seen == 7, "it is as it was published");
  });
}

TEST(weak_memory, a_relaxed_publication_is_a_data_race) {
  expect_forbidden("release, acquire", publication<release, acquire>);
  expect_allowed("relaxed, acquire", publication<relaxed, acquire>, failure_kind::data_race);
  expect_allowed("release, relaxed", publication<release, relaxed>, failure_kind::data_race);
}

TEST(weak_memory, plain_accesses_race_unless_a_lock_orders_them) {
  const auto two_writers = [](bool locked) {
    return [locked](scene& s) {
      auto& mutex = s.make<std::mutex>();
      auto& count = s.make<int>(0);
      for (const char* name : {"a", "b"}) {
        s.thread(name, [&mutex, &count, locked] {
          if (locked) mutex.lock();
          ++count;
          if (locked) mutex.unlock();
        });
      }
      s.at_end([&count] { sim::require(count == 2, "none is lost"); });
    };
  };
  expect_forbidden("locked", two_writers(true));
  expect_allowed("unlocked", two_writers(false), failure_kind::data_race);
}

/// A reader announces that it is done; then the block is freed.
template <order Store, order Load>
void last_use(scene& s) {
  auto& done = s.make<std::atomic<bool>>(false);
  auto& block = s.make<std::atomic<int*>>(new int(7));
  s.thread("reader", [&done, &block] {
    sim::require(*block.load(relaxed) == 7, "it is there");
    done.store(true, Store);
  });
  s.thread("owner", [&done, &block] {
    while (!done.load(Load)) sim::wait_for_others();
    delete block.load(relaxed);
  });
}

TEST(weak_memory, a_block_is_freed_after_its_last_use) {
  expect_forbidden("release, acquire", last_use<release, acquire>);
  expect_allowed("relaxed, acquire", last_use<relaxed, acquire>, failure_kind::data_race);
  expect_allowed("release, relaxed", last_use<release, relaxed>, failure_kind::data_race);
}

TEST(weak_memory, neighbours_in_a_word_do_not_race) {
  expect_forbidden("neighbours", [](scene& s) {
    struct pair {
      char first = 0;
      char second = 0;
    };
    auto& p = s.make<pair>();
    s.thread("first", [&p] { p.first = 1; });
    s.thread("second", [&p] { p.second = 1; });
    s.at_end([&p] { sim::require(p.first == 1 && p.second == 1, "both are there"); });
  });
}

TEST(weak_memory, an_atomic_that_others_see_before_it_is_made_is_a_data_race) {
  expect_allowed(
      "constructed late",
      [](scene& s) {
        auto& shared = s.make<std::atomic<std::atomic<int>*>>(nullptr);
        s.thread("maker", [&shared] { shared.store(new std::atomic<int>(7), relaxed); });
        s.thread("reader", [&shared] {
          if (const std::atomic<int>* const seen = shared.load(relaxed)) static_cast<void>(seen->load());
        });
        s.at_end([&shared] { delete shared.load(); });
      },
      failure_kind::data_race);
}

TEST(weak_memory, a_weak_compare_exchange_fails_now_and_then) {
  expect_allowed("once", [](scene& s) {
    auto& x = s.make<std::atomic<int>>(0);
    s.thread("only", [&x] {
      int zero = 0;
      sim::require(x.compare_exchange_weak(zero, 1), "it is zero");
    });
  });
  expect_forbidden("in a loop", [](scene& s) {
    auto& x = s.make<std::atomic<int>>(0);
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&x] {
        int seen = x.load(relaxed);
        while (!x.compare_exchange_weak(seen, seen + 1, relaxed)) {
        }
      });
    }
    s.at_end([&x] { sim::require(x.load() == 2, "none is lost"); });
  });
}

TEST(weak_memory, memory_that_is_used_again_has_no_past) {
  expect_forbidden("blocks", [](scene& s) {
    auto& handed_on = s.make<std::atomic<std::atomic<int>*>>(nullptr);
    s.thread("a", [&handed_on] {
      for (int i = 1; i <= 3; ++i) {
        auto* const fresh = new std::atomic<int>(0);
        fresh->store(i, relaxed);
        delete handed_on.exchange(fresh, acq_rel);
      }
    });
    s.thread("b", [] {
      for (int i = 0; i < 3; ++i) {
        auto* const mine = new std::atomic<int>(-1);
        sim::require(mine->load(relaxed) == -1, "a new object has its own value");
        delete mine;
      }
    });
    s.at_end([&handed_on] { delete handed_on.load(); });
  });
}

TEST(weak_memory, a_loop_ends_that_waits_for_a_store) {
  expect_forbidden("relaxed flag", [](scene& s) {
    auto& flag = s.make<std::atomic<bool>>(false);
    s.thread("waits", [&flag] {
      while (!flag.load(relaxed)) sim::wait_for_others();
    });
    s.thread("tells", [&flag] { flag.store(true, relaxed); });
  });
}

TEST(weak_memory, a_failure_is_repeated_from_its_schedule) {
  const auto scene = message_passing<relaxed, relaxed>;
  const auto report = explore("repeat", scene);
  ASSERT_FALSE(report.passed());
  EXPECT_NE(report.failure->schedule.find(",weak:"), std::string::npos) << report;
  EXPECT_NE(report.failure->text.find("no longer the newest"), std::string::npos) << report;
  ASSERT_EQ(setenv("ESPALIER_SCHEDULE", report.failure->schedule.c_str(), 1), 0);
  const auto again = explore("repeat", scene);
  ASSERT_EQ(unsetenv("ESPALIER_SCHEDULE"), 0);
  EXPECT_EQ(again.runs, 1U);
  ASSERT_FALSE(again.passed());
  EXPECT_EQ(again.failure->schedule, report.failure->schedule);
  EXPECT_EQ(again.failure->text, report.failure->text);
}

}  // namespace
