// Programs with hardware transactions under many schedules: correct ones, with all causes of aborts, and wrong ones,
// which must be found.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/record.hpp"
#include "sim/explore.hpp"
#include "sim/memory/eager_reclaimer.hpp"
#include "sim/memory/traced_heap.hpp"
#include "sim/transactions/simulated_htm.hpp"
#include "support/abort_statuses.hpp"

namespace {

namespace sim = espalier::sim;
using espalier::hw::abort_cause;
using espalier::hw::abort_code;
using espalier::hw::abort_status;
using espalier::hw::cpu_relax;
using espalier::hw::transaction_outcome;
using espalier::hw::transaction_verdict;
using sim::abort_reason;
using htm = sim::simulated_htm;
using namespace espalier::test::abort_statuses;

sim::exploration_options schedules(std::uint64_t n, bool spurious_aborts = true) {
  sim::exploration_options options;
  options.schedules = n;
  options.spurious_aborts = spurious_aborts;
  // The weak model has no transactions.
  options.model = sim::memory_model::buffered;
  return options;
}

/// A scene that is the same in all schedules: one thread.
template <class Body>
sim::exploration_report once(const char* name, Body body,
                             sim::exploration_options options = schedules(1, false)) {
  return sim::explore(name, options, [body](sim::scene& s) { s.thread("only", [body] { body(); }); });
}

/// Transactions, and a lock for those that do not commit. That one which reads the lock too late, or never, is found is
/// shown by the mutants of elided locks.
class elided_lock {
 public:
  template <class Body>
  void run(Body&& body) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const transaction_outcome outcome = htm::run([&]() noexcept {
        if (is_held()) return transaction_verdict::abort(abort_code::lock_held);
        body();
        return transaction_verdict::commit();
      });
      if (outcome.committed) return;
      if (outcome.status.code() == abort_code::lock_held) {
        while (is_held()) cpu_relax();
      }
    }
    while (word_.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
    body();
    word_.store(0, std::memory_order_release);
  }

  [[nodiscard]] bool is_held() const noexcept { return word_.load(std::memory_order_acquire) != 0; }

 private:
  alignas(64) std::atomic<int> word_{0};
};

struct guarded_counter {
  elided_lock lock;
  alignas(64) int value = 0;
};

void count_to_nine(sim::scene& s) {
  auto& counter = s.make<guarded_counter>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&counter] {
      for (int i = 0; i < 3; ++i) counter.lock.run([&] { ++counter.value; });
    });
  }
  s.at_end([&counter] { sim::require(counter.value == 9, "an increment is lost"); });
}

TEST(transactions, counter_of_three_threads) {
  const auto report = sim::explore("counter", schedules(5000), count_to_nine);
  EXPECT_TRUE(report.passed()) << report;
  const sim::transaction_counts& counts = report.transactions;
  EXPECT_EQ(counts.begun, counts.committed + counts.aborted());
  EXPECT_GT(counts.committed, 0U);
  EXPECT_LT(counts.committed, 9 * report.runs) << "the fallback is never taken";
  EXPECT_GT(counts.of(abort_reason::true_conflict), 0U);
  EXPECT_GT(counts.of(abort_reason::explicit_abort), 0U);
  EXPECT_GT(counts.of(abort_reason::other), 0U);
  EXPECT_EQ(counts.of(abort_reason::capacity), 0U);
}

TEST(transactions, same_options_give_the_same_runs) {
  const auto run = [] { return sim::explore("counter", schedules(300), count_to_nine); };
  const auto one = run();
  const auto other = run();
  EXPECT_EQ(one.steps, other.steps);
  EXPECT_EQ(one.transactions, other.transactions);
}

TEST(transactions, a_reader_outside_sees_no_speculative_write_and_aborts_its_writer) {
  const auto report = sim::explore("isolation", schedules(2000, false), [](sim::scene& s) {
    auto& word = s.make<std::atomic<int>>(1);
    auto& seen = s.make<std::array<int, 2>>();
    s.thread("writer", [&word] {
      const transaction_outcome outcome = htm::run([&]() noexcept {
        word.store(77, std::memory_order_relaxed);
        sim::require(word.load() == 77, "a transaction reads its own write, or does not go on");
        return transaction_verdict::abort(abort_code::user_1);
      });
      sim::require(!outcome.committed, "an abort is no commit");
      sim::require(outcome.status == conflict || outcome.status.code() == abort_code::user_1,
                   "the status says conflict, or what the body said");
    });
    s.thread("reader", [&word, &seen] {
      for (int& value : seen) value = word.load();
    });
    s.at_end([&seen, &word] {
      sim::require(seen[0] == 1 && seen[1] == 1 && word == 1, "a speculative write is seen");
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.of(abort_reason::true_conflict), 0U);
  EXPECT_GT(report.transactions.of(abort_reason::explicit_abort), 0U);
}

TEST(transactions, a_copy_outside_has_nothing_that_is_taken_back) {
  const auto report = sim::explore("copy", schedules(2000, false), [](sim::scene& s) {
    struct words {
      alignas(64) std::array<char, 16> from{};
      alignas(64) std::array<char, 16> to{};
      std::size_t volatile size = 16;  // unknown to the compiler, which would otherwise copy without a call
    };
    auto& all = s.make<words>();
    s.thread("writer", [&all] {
      static_cast<void>(htm::run([&]() noexcept {
        all.from[0] = 1;
        all.from[1] = 1;
        return transaction_verdict::abort(abort_code::user_1);
      }));
    });
    s.thread("copies", [&all] {
      std::memcpy(all.to.data(), all.from.data(), all.size);
      sim::require(std::memcmp(all.from.data(), all.to.data(), all.size) == 0,
                   "a speculative write is compared");
    });
    s.at_end([&all] { sim::require(all.to[0] == 0 && all.to[1] == 0, "a speculative write is copied"); });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.of(abort_reason::true_conflict), 0U);
}

TEST(transactions, a_writer_outside_aborts_a_reader) {
  const auto report = sim::explore("reads are stable", schedules(2000, false), [](sim::scene& s) {
    auto& word = s.make<std::atomic<int>>(0);
    s.thread("writer", [&word] {
      word.store(1, std::memory_order_relaxed);
      word.store(2, std::memory_order_relaxed);
    });
    s.thread("reader", [&word] {
      const transaction_outcome outcome = htm::run([&]() noexcept {
        const int once = word.load(std::memory_order_relaxed);
        sim::require(once == word.load(std::memory_order_relaxed),
                     "a transaction reads two values of one word");
      });
      sim::require(outcome.committed || outcome.status == conflict, "nothing but the writer aborts it");
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.committed, 0U);
  EXPECT_GT(report.transactions.of(abort_reason::true_conflict), 0U);
}

TEST(transactions, a_doomed_transaction_does_nothing_more) {
  const auto report = sim::explore("doomed", schedules(2000, false), [](sim::scene& s) {
    struct words {
      alignas(64) int x = 0;
      alignas(64) std::atomic<int> after{0};
    };
    auto& all = s.make<words>();
    s.thread("doomed", [&all] {
      const transaction_outcome outcome = htm::run([&]() noexcept {
        all.x = 1;
        all.after.load();
        sim::require(all.x == 1, "a transaction goes on after it was undone");
        all.after.store(1);
      });
      sim::require(all.after == (outcome.committed ? 1 : 0), "half a transaction has happened");
      sim::require(outcome.committed || outcome.status == conflict, "the status says conflict");
    });
    s.thread("other", [&all] { sim::require(all.x != 2, "there is no 2"); });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.of(abort_cause::conflict), 0U);
}

TEST(transactions, an_abort_leaves_no_trace_in_memory) {
  struct state {
    std::array<unsigned char, 200> bytes;
    int* old;
    int* fresh;
  };
  const auto report = once("no trace", [] {
    auto all = std::make_unique<state>();
    for (std::size_t i = 0; i < all->bytes.size(); ++i) all->bytes[i] = static_cast<unsigned char>(i);
    all->old = new int(5);
    all->fresh = nullptr;
    const state before = *all;
    // Unknown to the compiler, which would otherwise emit an inline loop that is not announced.
    const std::size_t volatile sizes[] = {100, 9};
    const std::size_t many = sizes[0];
    const std::size_t few = sizes[1];
    const transaction_outcome outcome = htm::run([&]() noexcept {
      std::memset(all->bytes.data() + 3, 0xff, many);
      std::memcpy(all->bytes.data() + 130, all->bytes.data() + 1, few);
      all->bytes[199] = 0;
      all->fresh = new int(6);
      delete std::exchange(all->old, all->fresh);
      delete new int(7);
      return transaction_verdict::abort(abort_code::validation);
    });
    sim::require(outcome == transaction_outcome{false, abort_status::asked_for(abort_code::validation)},
                 "the status is the body's own");
    sim::require(all->bytes == before.bytes && all->old == before.old && all->fresh == nullptr,
                 "a byte has changed");
    sim::require(*all->old == 5, "what was freed inside is there");
    delete all->old;
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(transactions, a_commit_frees) {
  const auto report = once("frees", [] {
    int* const old = new int(5);
    sim::require(htm::run([&]() noexcept { delete old; }).committed, "nothing aborts this");
    static_cast<void>(*static_cast<volatile int*>(old));
  });
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.failure->kind, sim::failure_kind::use_after_free) << report;
}

TEST(transactions, what_no_transaction_may_do_aborts) {
  const auto report = once("refused", [] {
    std::mutex mutex;
    const auto status_of = [](auto&& body) {
      bool* const reached = new bool(false);
      const transaction_outcome outcome = htm::run([&]() noexcept {
        body();
        *reached = true;
      });
      sim::require(!*reached, "the body went on");
      delete reached;
      sim::require(!outcome.committed, "it committed");
      return outcome.status;
    };
    sim::require(status_of([] { cpu_relax(); }) == no_reason, "cpu_relax");
    sim::require(status_of([] { espalier::hw::park(); }) == no_reason, "park");
    sim::require(status_of([] { sim::wait_for_others(); }) == no_reason, "wait_for_others");
    sim::require(status_of([] { static_cast<void>(espalier::hw::map_pages(4096, {})); }) == no_reason,
                 "map_pages");
    sim::require(status_of([&] { const std::lock_guard held(mutex); }) == no_reason, "a mutex");
    sim::require(mutex.try_lock(), "the mutex stays free");
    mutex.unlock();
    sim::require(!htm::active(), "no transaction is left");
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_EQ(report.transactions.of(abort_reason::other), 5U);
}

TEST(transactions, inner_ones_join) {
  const auto report = once("inner", [] {
    const auto word = std::make_unique<int>(0);
    const auto inner = [&](std::optional<abort_code> code) {
      return [&word, code]() noexcept {
        sim::require(htm::active(), "it is inside");
        ++*word;
        return code ? transaction_verdict::abort(*code) : transaction_verdict::commit();
      };
    };
    sim::require(!htm::active() && htm::available(), "it is outside");
    const auto both = htm::run([&]() noexcept {
      sim::require(htm::run(inner(std::nullopt)).committed, "the inner one commits");
      ++*word;
    });
    sim::require(both.committed && *word == 2, "both have happened");
    const auto outer_aborts = htm::run([&]() noexcept {
      static_cast<void>(htm::run(inner(std::nullopt)));
      return transaction_verdict::abort(abort_code::user_2);
    });
    sim::require(outer_aborts.status == abort_status::asked_for(abort_code::user_2) && *word == 2,
                 "the outer abort undoes the inner one");
    const auto inner_aborts = htm::run([&]() noexcept {
      static_cast<void>(htm::run(inner(abort_code::user_1)));
      sim::fail("the outer body goes on after an inner abort");
    });
    sim::require(
        inner_aborts.status.code() == abort_code::user_1 && inner_aborts.status.is_nested() && *word == 2,
        "the inner abort takes the outer one along, and says that it was inner");
    sim::require(!htm::active(), "it is outside again");
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_EQ(report.transactions.begun, 3U);
}

TEST(transactions, an_abort_in_an_exception_handler_ends_the_handling) {
  const auto report = once("handler", [] {
    const auto outcome = htm::run([&]() noexcept {
      try {
        throw 1;
      } catch (int) {
        cpu_relax();
      }
    });
    sim::require(!outcome.committed, "a pause aborts");
    sim::require(std::current_exception() == nullptr, "no exception is being handled");
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(transactions, an_abort_may_come_between_the_last_access_and_the_commit) {
  const auto report = sim::explore("late", schedules(300, false), [](sim::scene& s) {
    auto& word = s.make<std::atomic<int>>(0);
    s.thread("one", [&word] { static_cast<void>(htm::run([&]() noexcept { word.load(); })); });
    s.thread("other", [&word] { word.store(1); });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.of(abort_cause::conflict), 0U);
}

[[gnu::noinline]] void pause_deep_inside(int depth) {
  if (depth != 0) return pause_deep_inside(depth - 1), cpu_relax();
  cpu_relax();
}

// In neither function is the failing call the last one: as a tail call it would leave the function no frame.
[[gnu::noinline]] void fail_now() {
  sim::fail("the end");
  cpu_relax();
}
[[gnu::noinline]] void fail_in_the_end() {
  fail_now();
  cpu_relax();
}

TEST(transactions, reports_name_the_calls_after_many_aborts) {
  const auto report = once("calls", [] {
    for (int i = 0; i < 200; ++i) static_cast<void>(htm::run([]() noexcept { pause_deep_inside(4); }));
    fail_in_the_end();
  });
  ASSERT_FALSE(report.passed());
  EXPECT_NE(report.failure->text.find("fail_in_the_end"), std::string::npos) << report;
  EXPECT_EQ(report.failure->text.find("pause_deep_inside"), std::string::npos) << report;
}

/// Two threads in transactions on words of one line.
sim::exploration_report meet(const char* name, std::size_t one, std::size_t other) {
  struct alignas(64) line {
    std::array<int, 16> words{};
    line() {
      espalier::hw::annotate_record(&words[0], 4 * sizeof(int));
      espalier::hw::annotate_record(&words[4], 4 * sizeof(int));
      espalier::hw::annotate_metadata(&words[8], 4 * sizeof(int));
    }
  };
  return sim::explore(name, schedules(300, false), [one, other](sim::scene& s) {
    auto& all = s.make<line>();
    for (const std::size_t i : {one, other}) {
      s.thread(i == one ? "one" : "other",
               [&all, i] { static_cast<void>(htm::run([&]() noexcept { ++all.words[i]; })); });
    }
  });
}

TEST(transactions, conflicts_are_attributed_to_records) {
  const auto expect = [](const sim::exploration_report& report, abort_reason reason) {
    EXPECT_TRUE(report.passed()) << report;
    EXPECT_GT(report.transactions.of(reason), 0U);
    EXPECT_EQ(report.transactions.of(reason), report.transactions.aborted());
  };
  expect(meet("same record", 0, 3), abort_reason::true_conflict);
  expect(meet("two records", 3, 4), abort_reason::false_conflict);
  expect(meet("metadata", 8, 11), abort_reason::metadata);
  expect(meet("no record", 12, 13), abort_reason::false_conflict);
  expect(meet("same word", 12, 12), abort_reason::true_conflict);
}

TEST(transactions, begin_lets_buffered_stores_be_seen) {
  const auto report = sim::explore("begin drains", schedules(3000, false), [](sim::scene& s) {
    struct flags {
      alignas(64) std::atomic<int> of[2];
      alignas(64) int saw[2] = {-1, -1};
    };
    auto& all = s.make<flags>();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      s.thread(i == 0 ? "a" : "b", [&all, i] {
        all.of[i].store(1, std::memory_order_relaxed);
        static_cast<void>(htm::run([&]() noexcept {}));
        all.saw[i] = all.of[1 - i].load(std::memory_order_relaxed);
      });
    }
    s.at_end([&all] { sim::require(all.saw[0] + all.saw[1] >= 1, "neither sees the other"); });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(transactions, stores_inside_are_seen_with_the_commit) {
  const auto report = sim::explore("commit", schedules(3000, false), [](sim::scene& s) {
    struct words {
      alignas(64) std::atomic<int> x{0};
      alignas(64) std::atomic<int> y{0};
      alignas(64) std::atomic<int> committed{0};
    };
    auto& all = s.make<words>();
    s.thread("writer", [&all] {
      const auto outcome = htm::run([&]() noexcept {
        all.x.store(1, std::memory_order_relaxed);
        all.y.store(1, std::memory_order_relaxed);
      });
      if (outcome.committed) all.committed.store(1, std::memory_order_relaxed);
    });
    s.thread("reader", [&all] {
      const bool committed = all.committed.load(std::memory_order_relaxed) == 1;
      const int y = all.y.load(std::memory_order_relaxed);
      const int x = all.x.load(std::memory_order_relaxed);
      sim::require(x >= y, "one store of the two is seen");
      sim::require(!committed || y == 1, "a committed store is not seen");
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.committed, 0U);
}

/// Treiber's stack with a transaction in each operation, and reclaimers and placements inside it.
class transactional_stack {
 public:
  ~transactional_stack() {
    while (head_ != nullptr) {
      node* const top = std::exchange(head_, head_->next);
      free(*this, top);
    }
  }

  void push(int value) {
    lock_.run([&] { head_ = new (heap_.allocate(block)) node{value, head_}; });
  }

  int pop() {
    int value = 0;
    lock_.run([&] {
      auto guard = reclaimer_.pin();
      guard.reserve(1);
      node* const top = head_;
      value = top == nullptr ? 0 : top->value;
      if (top == nullptr) return;
      head_ = top->next;
      guard.retire({top, nullptr, this, [](const espalier::retired& r) noexcept {
                      free(*static_cast<transactional_stack*>(r.owner), static_cast<node*>(r.object));
                    }});
    });
    return value;
  }

  [[nodiscard]] std::size_t nodes() const {
    std::size_t n = 0;
    for (const node* at = head_; at != nullptr; at = at->next) ++n;
    return n;
  }
  [[nodiscard]] std::size_t blocks() const { return heap_.usage().blocks; }
  [[nodiscard]] std::size_t waiting() { return reclaimer_.collect(); }

 private:
  struct node {
    int value;
    node* next;
  };
  static constexpr espalier::block block{sizeof(node), alignof(node), espalier::memory_role::node};

  static void free(transactional_stack& stack, node* n) noexcept { stack.heap_.deallocate(n, block); }

  elided_lock lock_;
  node* head_ = nullptr;
  sim::traced_heap heap_;
  sim::eager_reclaimer reclaimer_;
};

TEST(transactions, reclaimers_and_placements_inside) {
  const auto report = sim::explore("stack", schedules(3000), [](sim::scene& s) {
    auto& stack = s.make<transactional_stack>();
    auto& sum = s.make<std::atomic<int>>(0);
    stack.push(1);
    for (const int value : {10, 100}) {
      s.thread(value == 10 ? "a" : "b", [&stack, &sum, value] {
        stack.push(value);
        sum += stack.pop();
      });
    }
    s.thread("c", [&stack, &sum] { sum += stack.pop(); });
    s.at_end([&stack, &sum] {
      while (stack.nodes() != 0) sum += stack.pop();
      sim::require(sum == 111, "a value is lost, or popped twice");
      sim::require(stack.waiting() == 0, "a guard is left");
      sim::require(stack.blocks() == stack.nodes(), "blocks are counted wrongly");
    });
  });
  EXPECT_TRUE(report.passed()) << report;
  EXPECT_GT(report.transactions.of(abort_cause::conflict), 0U);
}

/// A program without a fallback.
void no_fallback(sim::scene& s) {
  auto& word = s.make<int>(0);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&word] {
      transaction_outcome outcome;
      do {
        outcome = htm::run([&]() noexcept { ++word; });
      } while (!outcome.committed && outcome.status.may_retry());
    });
  }
  s.at_end([&word] { sim::require(word == 2, "an increment is given up"); });
}

TEST(transactions, control_a_missing_fallback_is_found_and_repeated) {
  const auto report = sim::explore("no fallback", schedules(1000), no_fallback);
  ASSERT_FALSE(report.passed());
  EXPECT_NE(report.failure->text.find("an increment is given up"), std::string::npos) << report;
  EXPECT_NE(report.failure->schedule.find(",aborts:"), std::string::npos) << report;

  ASSERT_EQ(setenv("ESPALIER_SCHEDULE", report.failure->schedule.c_str(), 1), 0);
  const auto again = sim::explore("no fallback", schedules(1000), no_fallback);
  ASSERT_EQ(unsetenv("ESPALIER_SCHEDULE"), 0);
  EXPECT_EQ(again.runs, 1U);
  ASSERT_FALSE(again.passed());
  EXPECT_EQ(again.failure->kind, report.failure->kind) << again;
  EXPECT_EQ(again.failure->schedule, report.failure->schedule);

  EXPECT_TRUE(sim::explore("no fallback", schedules(1000, false), no_fallback).passed());
}

TEST(transactions, none_outside_threads_or_without_hardware) {
  EXPECT_FALSE(htm::available());
  EXPECT_FALSE(htm::active());
  const auto never = [] {
    return htm::run([]() noexcept { std::abort(); }) == transaction_outcome{false, no_reason};
  };
  EXPECT_TRUE(never());

  const auto with = sim::explore("set-up", schedules(1), [&](sim::scene& s) {
    sim::require(htm::available() && never(), "there are none in a set-up");
    s.thread("only", [] {});
    s.at_end([&] { sim::require(never(), "there are none in checks"); });
  });
  EXPECT_TRUE(with.passed()) << with;

  auto options = schedules(10);
  options.transactions.reset();
  const auto without = sim::explore("no hardware", options, [&](sim::scene& s) {
    s.thread("only", [&] { sim::require(!htm::available() && !htm::active() && never(), "there are none"); });
  });
  EXPECT_TRUE(without.passed()) << without;
  EXPECT_EQ(without.transactions.begun, 0U);
}

}  // namespace
