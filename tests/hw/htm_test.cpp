// Transactions: as one call, and open ones; and the records by which a simulator judges their conflicts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/record.hpp"
#include "support/abort_statuses.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"

namespace {

struct annotation {
  const void* first;
  std::size_t bytes;
  int kind;

  friend bool operator==(const annotation&, const annotation&) = default;
};

std::vector<annotation>& annotations() {
  static std::vector<annotation> all;
  return all;
}

}  // namespace

// The simulator's side, played by this test. Without instrumentation nothing may call it.
extern "C" void espalier_annotate_record(const void* first, std::size_t bytes, int kind);
extern "C" void espalier_annotate_record(const void* first, std::size_t bytes, int kind) {
  annotations().push_back({first, bytes, kind});
}

namespace espalier::hw {
namespace {

using namespace test::abort_statuses;

constexpr transaction_outcome committed{true, abort_status{}};

constexpr transaction_outcome aborted(abort_status status) { return {false, status}; }

constexpr transaction_outcome nested_abort(abort_code code) {
  return aborted(abort_status{abort_status::asked_for(code).word() | abort_status::nested_bit});
}

// What a body may be.
[[maybe_unused]] constexpr auto returns_nothing = []() noexcept {};
[[maybe_unused]] constexpr auto judges = []() noexcept { return transaction_verdict::commit(); };
[[maybe_unused]] constexpr auto may_throw = [] {};
[[maybe_unused]] constexpr auto returns_int = []() noexcept { return 1; };
static_assert(transaction_body<decltype(returns_nothing)>);
static_assert(transaction_body<decltype(judges)>);
static_assert(!transaction_body<decltype(may_throw)>);
static_assert(!transaction_body<decltype(returns_int)>);
static_assert(!transactional_backend<int>);

TEST(abort_status, accessors_follow_the_bits_of_the_word) {
  struct expectation {
    std::uint32_t word;
    bool is_explicit, may_retry, is_conflict, is_capacity, is_debug, is_nested;
    abort_cause cause;
  };
  constexpr std::array<expectation, 12> expectations{{
      {0x0000'0000, false, false, false, false, false, false, abort_cause::other},
      {0xff00'0001, true, false, false, false, false, false, abort_cause::explicit_abort},
      {0x0000'0002, false, true, false, false, false, false, abort_cause::other},
      {0x0000'0004, false, false, true, false, false, false, abort_cause::conflict},
      {0x0000'0006, false, true, true, false, false, false, abort_cause::conflict},
      {0x0000'0008, false, false, false, true, false, false, abort_cause::capacity},
      {0x0000'000e, false, true, true, true, false, false, abort_cause::capacity},
      {0x0000'0010, false, false, false, false, true, false, abort_cause::debug},
      {0x0000'0020, false, false, false, false, false, true, abort_cause::nested},
      {0x0100'0021, true, false, false, false, false, true, abort_cause::explicit_abort},
      {0x0000'0034, false, false, true, false, true, true, abort_cause::conflict},
      {0x00ff'ffc0, false, false, false, false, false, false, abort_cause::other},
  }};
  for (const expectation& e : expectations) {
    const abort_status status{e.word};
    SCOPED_TRACE(e.word);
    EXPECT_EQ(status.word(), e.word);
    EXPECT_EQ(status.is_explicit(), e.is_explicit);
    EXPECT_EQ(status.may_retry(), e.may_retry);
    EXPECT_EQ(status.is_conflict(), e.is_conflict);
    EXPECT_EQ(status.is_capacity(), e.is_capacity);
    EXPECT_EQ(status.is_debug(), e.is_debug);
    EXPECT_EQ(status.is_nested(), e.is_nested);
    EXPECT_EQ(status.cause(), e.cause);
  }
}

TEST(abort_status, only_an_explicit_abort_has_a_code) {
  EXPECT_EQ(abort_status{0xff00'0001}.code(), abort_code::lock_held);
  EXPECT_EQ(abort_status{0x0100'0021}.code(), abort_code::validation);
  EXPECT_EQ(abort_status{0x4200'0001}.code(), static_cast<abort_code>(0x42));
  EXPECT_EQ(abort_status{0xff00'0004}.code(), std::nullopt);
  EXPECT_EQ(abort_status{}.code(), std::nullopt);
  EXPECT_EQ(abort_status::asked_for(abort_code::user_2).word(), 0x0300'0001U);
}

TEST(abort_status, text_names_every_bit) {
  EXPECT_EQ(to_string(abort_status{}), "other");
  EXPECT_EQ(to_string(conflict), "conflict, may retry");
  EXPECT_EQ(to_string(abort_status{0x0000'003e}), "conflict, capacity, debug, nested, may retry");
  EXPECT_EQ(to_string(abort_status{0x0000'0002}), "other, may retry");
  EXPECT_EQ(to_string(abort_status{0x0000'0020}), "nested");
  EXPECT_EQ(to_string(abort_status{0xff00'0021}), "explicit (lock held), nested");
  EXPECT_EQ(to_string(abort_status{0x0100'0001}), "explicit (validation)");
  EXPECT_EQ(to_string(abort_status{0x0200'0001}), "explicit (user 1)");
  EXPECT_EQ(to_string(abort_status{0x0300'0001}), "explicit (user 2)");
  EXPECT_EQ(to_string(abort_status{0x4200'0001}), "explicit (code 66)");
}

TEST(abort_cause, has_a_name) {
  EXPECT_EQ(to_string(abort_cause::conflict), "conflict");
  EXPECT_EQ(to_string(abort_cause::capacity), "capacity");
  EXPECT_EQ(to_string(abort_cause::explicit_abort), "explicit");
  EXPECT_EQ(to_string(abort_cause::debug), "debug");
  EXPECT_EQ(to_string(abort_cause::nested), "nested");
  EXPECT_EQ(to_string(abort_cause::other), "other");
}

TEST(unavailable, never_runs_the_body) {
  int runs = 0;
  EXPECT_EQ(unavailable::run([&]() noexcept { ++runs; }), aborted(abort_status{}));
  EXPECT_EQ(unavailable::run([&]() noexcept {
              ++runs;
              return transaction_verdict::commit();
            }),
            aborted(abort_status{}));
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(unavailable::available());
  EXPECT_FALSE(unavailable::active());
}

TEST(scripted, without_a_cue_commits_all) {
  int runs = 0;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(scripted::run([&]() noexcept { ++runs; }), committed);
    EXPECT_EQ(runs, i);
  }
  EXPECT_TRUE(scripted::available());
}

TEST(scripted, transactions_take_the_steps_in_turn_and_then_commit) {
  const scripted::cue script(
      {conflict, capacity, scripted::commit, abort_status::asked_for(abort_code::lock_held), abort_status{}});
  int runs = 0;
  const auto body = [&]() noexcept { ++runs; };
  EXPECT_EQ(script.remaining(), 5U);
  EXPECT_EQ(scripted::run(body), aborted(conflict));
  EXPECT_EQ(scripted::run(body), aborted(capacity));
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(scripted::run(body), committed);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(script.remaining(), 2U);
  EXPECT_EQ(scripted::run(body), aborted(abort_status::asked_for(abort_code::lock_held)));
  EXPECT_EQ(scripted::run(body), aborted(abort_status{}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(scripted::run(body), committed);
  EXPECT_EQ(scripted::run(body), committed);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(script.remaining(), 0U);
  EXPECT_EQ(script.transactions(), 7U);
}

TEST(scripted, the_last_step_can_go_on_for_ever) {
  const scripted::cue script({scripted::commit}, conflict);
  int runs = 0;
  EXPECT_EQ(scripted::run([&]() noexcept { ++runs; }), committed);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(scripted::run([&]() noexcept { ++runs; }), aborted(conflict));
  EXPECT_EQ(runs, 1);
}

TEST(scripted, an_inner_cue_suspends_the_outer_one) {
  const scripted::cue outer({capacity, conflict});
  {
    const scripted::cue inner({abort_status{}});
    EXPECT_EQ(scripted::run(returns_nothing), aborted(abort_status{}));
    EXPECT_EQ(scripted::run(returns_nothing), committed);
    EXPECT_EQ(outer.transactions(), 0U);
  }
  EXPECT_EQ(scripted::run(returns_nothing), aborted(capacity));
  EXPECT_EQ(scripted::run(returns_nothing), aborted(conflict));
}

TEST(scripted, the_bodys_verdict_decides) {
  for (const abort_code code :
       {abort_code::validation, abort_code::user_1, abort_code::user_2, abort_code::lock_held}) {
    const auto outcome = scripted::run([&]() noexcept { return transaction_verdict::abort(code); });
    EXPECT_EQ(outcome, aborted(abort_status::asked_for(code)));
    EXPECT_EQ(outcome.status.code(), code);
    EXPECT_FALSE(scripted::active());
  }
  EXPECT_EQ(scripted::run(judges), committed);
}

TEST(scripted, is_active_inside_alone) {
  bool inside = false;
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(scripted::run([&]() noexcept { inside = scripted::active(); }), committed);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(scripted::active());
}

TEST(scripted, an_inner_transaction_joins_the_outer_one) {
  const scripted::cue script({scripted::commit, conflict});
  transaction_outcome inner;
  bool active_after_inner = false;
  EXPECT_EQ(scripted::run([&]() noexcept {
              inner = scripted::run(returns_nothing);
              active_after_inner = scripted::active();
            }),
            committed);
  EXPECT_EQ(inner, committed);
  EXPECT_TRUE(active_after_inner);
  EXPECT_EQ(script.transactions(), 1U) << "only the outermost takes a step";
  EXPECT_EQ(scripted::run(returns_nothing), aborted(conflict));
}

TEST(scripted, an_inner_abort_is_the_outcome_of_the_outermost) {
  transaction_outcome inner;
  transaction_outcome later;
  bool later_ran = false;
  const auto outer = scripted::run([&]() noexcept {
    inner = scripted::run([]() noexcept { return transaction_verdict::abort(abort_code::user_1); });
    later = scripted::run([&]() noexcept { later_ran = true; });
    return transaction_verdict::abort(abort_code::validation);
  });
  EXPECT_EQ(inner, nested_abort(abort_code::user_1));
  EXPECT_EQ(later, nested_abort(abort_code::user_1));
  EXPECT_FALSE(later_ran);
  EXPECT_EQ(outer, nested_abort(abort_code::user_1)) << "the first abort is the one that a processor reports";
  EXPECT_FALSE(scripted::active());
  EXPECT_EQ(scripted::run(returns_nothing), committed) << "an abort ends with its transaction";
}

TEST(scripted, threads_have_scripts_of_their_own) {
  const scripted::cue mine({conflict});
  std::array<transaction_outcome, 2> theirs{};
  test::on_threads(2, [&](int t) {
    if (t == 0) {
      theirs[0] = scripted::run(returns_nothing);
    } else {
      const scripted::cue cue({capacity});
      theirs[1] = scripted::run(returns_nothing);
    }
  });
  EXPECT_EQ(theirs[0], committed);
  EXPECT_EQ(theirs[1], aborted(capacity));
  EXPECT_EQ(mine.remaining(), 1U);
  EXPECT_EQ(scripted::run(returns_nothing), aborted(conflict));
}

bool kernel_lists_rtm() {
  std::ifstream in("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.find(" rtm") != std::string::npos;
}

TEST(rtm_probe, verdict_comes_with_its_reason) {
  const auto found = rtm::probe();
  EXPECT_FALSE(found.reason.empty());
  EXPECT_EQ(found.reason.find('\n'), std::string::npos);
  EXPECT_EQ(found.available, found.reason == "a trial transaction committed" || rtm_is_emulated());
  EXPECT_EQ(found.available, rtm::available());
}

TEST(rtm_probe, never_available_where_the_processor_lacks_it) {
  if (kernel_lists_rtm()) GTEST_SKIP() << "this processor announces RTM";
  if (rtm_is_emulated()) GTEST_SKIP() << "this processor is helped out";
  const auto found = rtm::probe();
  // A kernel may hide the feature that CPUID still announces; without the announcement the reason says so.
  if (!found.available) {
    EXPECT_THAT(found.reason,
                ::testing::AnyOf(::testing::HasSubstr("does not announce RTM"),
                                 ::testing::HasSubstr("aborts every transaction"),
                                 ::testing::HasSubstr("none of"), ::testing::HasSubstr("of another kind")));
  }
#if defined(__x86_64__)
  if (__builtin_cpu_is("amd") != 0) {
    EXPECT_FALSE(found.available);
    EXPECT_EQ(found.reason, "the processor does not announce RTM (CPUID leaf 7)");
  }
#else
  EXPECT_FALSE(found.available);
#endif
}

TEST(rtm, where_unavailable_never_runs_the_body) {
  if (rtm::available()) GTEST_SKIP() << rtm::probe().reason;
  int runs = 0;
  EXPECT_EQ(rtm::run([&]() noexcept { ++runs; }), aborted(abort_status{}));
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(rtm::active());
}

/// Runs with the processor's transactions. Sanitizers touch shadow memory of their own inside, some of it for
/// the first time.
class rtm_transactions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rtm::available()) GTEST_SKIP() << rtm::probe().reason;
    if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "no transactions under sanitizers";
  }

  /// The outcome of the first attempt that commits or aborts as asked; interrupts and cold pages abort others.
  template <class Body>
  static transaction_outcome settled(Body body) {
    transaction_outcome outcome;
    for (int attempt = 0; attempt < 10'000; ++attempt) {
      outcome = rtm::run(body);
      if (outcome.committed || outcome.status.is_explicit()) break;
    }
    return outcome;
  }
};

TEST_F(rtm_transactions, commit_keeps_the_writes) {
  int value = 0;
  EXPECT_EQ(settled([&]() noexcept { value += 1; }), committed);
  EXPECT_EQ(value, 1);
}

TEST_F(rtm_transactions, abort_undoes_the_writes_and_carries_its_code) {
  for (const abort_code code :
       {abort_code::validation, abort_code::user_1, abort_code::user_2, abort_code::lock_held}) {
    int value = 1;
    const auto outcome = settled([&]() noexcept {
      value = 2;
      return transaction_verdict::abort(code);
    });
    EXPECT_EQ(value, 1);
    EXPECT_EQ(outcome, aborted(abort_status::asked_for(code))) << to_string(outcome.status);
  }
}

TEST_F(rtm_transactions, is_active_inside_alone) {
  bool inside = false;
  EXPECT_FALSE(rtm::active());
  EXPECT_EQ(settled([&]() noexcept { inside = rtm::active(); }), committed);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(rtm::active());
}

TEST_F(rtm_transactions, an_inner_abort_undoes_the_outer_writes) {
  int value = 1;
  const auto outcome = settled([&]() noexcept {
    value = 2;
    (void)rtm::run([]() noexcept { return transaction_verdict::abort(abort_code::user_1); });
    value = 3;
  });
  EXPECT_EQ(value, 1);
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.status.code(), abort_code::user_1);
}

TEST_F(rtm_transactions, what_does_not_fit_aborts) {
  constexpr std::size_t lines = 65'536;
  std::string memory(lines * 64, 'a');
  const auto outcome = rtm::run([&]() noexcept {
    for (std::size_t line = 0; line < lines; ++line) memory[line * 64] = 'b';
  });
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(memory.find('b'), std::string::npos);
}

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

TEST_F(rtm_transactions, open_commit_keeps_what_was_written_between_the_calls) {
  volatile int value = 1;
  if (const auto status = enter(10'000)) FAIL() << to_string(*status);
  value = 2;
  leave();
  EXPECT_EQ(value, 2);
}

TEST_F(rtm_transactions, open_abort_goes_back_into_the_function_that_has_returned) {
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

struct entry {
  long key = 0;
  long value = 0;
};

constexpr bool annotates_constants() {
  const entry one;
  annotate_record(one);
  annotate_metadata(one.key);
  return true;
}
static_assert(annotates_constants());

template <class T>
concept annotatable = requires(const T& object) {
  annotate_record(object);
  annotate_metadata(object);
};
static_assert(annotatable<entry>);
static_assert(!annotatable<entry*>);
static_assert(!annotatable<const void*>);

TEST(record, annotations_reach_an_observer_in_instrumented_builds_alone) {
  annotations().clear();
  const std::array<entry, 2> entries{};
  const long count = 0;
  annotate_record(entries[0]);
  annotate_record(&entries[1], 16);
  annotate_metadata(count);
  annotate_metadata(&entries[1], 3);

  std::vector<annotation> expected;
  if (test::thread_sanitizer) {
    expected = {{entries.data(), sizeof(entry), 0},
                {&entries[1], 16, 0},
                {&count, sizeof(count), 1},
                {&entries[1], 3, 1}};
  }
  EXPECT_EQ(annotations(), expected);
}

}  // namespace
}  // namespace espalier::hw
