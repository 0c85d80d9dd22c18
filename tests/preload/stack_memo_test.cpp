#include "preload/recording/call_stack.hpp"

#include <alloca.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace espalier::preload {
namespace {

using stack = std::vector<std::uintptr_t>;

memory_budget budget;
call_stack walker(budget);
std::map<stack, std::uint32_t> numbers;
std::unique_ptr<stack_memo> memo;
unsigned wanted = most_frames;
std::uint32_t generation = 0;
int found = 0;
int walked = 0;

/// Looks the stack of its caller up, and demands that what is remembered is what is there.
__attribute__((noinline)) void look() {
  const caller_state here = caller_of_this();
  stack frames(most_frames);
  frames.resize(walker.walk(here, frames.data(), wanted));
  const auto number = static_cast<std::uint32_t>(numbers.size() + 1);
  const std::uint32_t expected = numbers.try_emplace(frames, number).first->second;
  const std::uint32_t known = memo->find(here, generation);
  if (known != 0) {
    ++found;
    EXPECT_EQ(known, expected);
  } else {
    ++walked;
    const auto intern = [&](const std::uintptr_t* of, unsigned depth) {
      EXPECT_EQ(stack(of, of + depth), frames);
      return expected;
    };
    EXPECT_EQ(memo->walk(walker, here, wanted, generation, intern), expected);
  }
  asm volatile("" ::: "memory");
}

/// So many times from one and the same place: loops of a known number of rounds are unrolled.
template <class Call>
__attribute__((noinline)) void times(int n, Call&& call) {
  asm volatile("" : "+r"(n));
  for (int i = 0; i < n; ++i) call(i);
}

struct preload_stack_memo : ::testing::Test {
  preload_stack_memo() {
    static const bool started = walker.start();
    EXPECT_TRUE(started);
    memo = std::make_unique<stack_memo>();
    numbers.clear();
    wanted = most_frames;
    generation = 0;
    found = walked = 0;
  }
};

__attribute__((noinline)) void leaf() {
  look();
  asm volatile("" ::: "memory");
}
// Two callers whose frames are alike: the leaf is called from the same place of the stack.
__attribute__((noinline)) void one(int depth);
__attribute__((noinline)) void other(int depth);
__attribute__((noinline)) void next(int depth) {
  if (depth == 0) {
    leaf();
  } else if (depth % 2 != 0) {
    one(depth / 2);
  } else {
    other(depth / 2);
  }
  asm volatile("" ::: "memory");
}
void one(int depth) {
  next(depth);
  asm volatile("" ::: "memory");
}
void other(int depth) {
  next(depth);
  asm volatile("" ::: "memory");
}

TEST_F(preload_stack_memo, finds_what_was_just_walked) {
  times(10, [](int) { leaf(); });
  EXPECT_EQ(walked, 1);
  EXPECT_EQ(found, 9);
}

TEST_F(preload_stack_memo, tells_stacks_apart_that_differ_far_out) {
  // Every choice of callers, at the same depth: the innermost frames and all stack pointers are the same.
  times(3, [](int) { times(16, [](int path) { next(8 + path / 2); }); });
  EXPECT_GE(found, 3 * 8) << "the second of each two: no path runs twice in a row but these";
  EXPECT_GE(numbers.size(), 8U);
}

TEST_F(preload_stack_memo, remembers_two_stacks_of_one_place_in_turns) {
  times(20, [](int i) { next(i % 2 == 0 ? 8 : 12); });
  EXPECT_EQ(numbers.size(), 2U);
  EXPECT_EQ(walked, 2);
  EXPECT_EQ(found, 18);
}

__attribute__((noinline)) void of_size(std::size_t bytes, int depth) {
  auto* const space = static_cast<volatile char*>(alloca(bytes));
  space[0] = 1;
  space[bytes - 1] = 1;
  if (depth == 0) {
    leaf();
  } else {
    of_size(bytes, depth - 1);
  }
  asm volatile("" ::"r"(space) : "memory");
}

TEST_F(preload_stack_memo, is_right_whatever_runs) {
  std::minstd_rand random(11);  // NOLINT: the same run each time
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 3) {
      case 0:
        next(static_cast<int>(random() % 64));
        break;
      case 1:
        of_size(16 + 16 * (random() % 8), static_cast<int>(random() % 4));
        break;
      default:
        leaf();
    }
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(walked, 2000);
}

TEST_F(preload_stack_memo, forgets_what_is_of_another_generation) {
  times(4, [](int i) {
    generation = static_cast<std::uint32_t>(i / 2);
    leaf();
  });
  EXPECT_EQ(walked, 2);
  EXPECT_EQ(found, 2);
}

TEST_F(preload_stack_memo, forgets_when_told) {
  times(4, [](int) {
    leaf();
    memo->clear();
  });
  EXPECT_EQ(found, 0);
}

TEST_F(preload_stack_memo, does_not_remember_a_refusal) {
  for (int i = 0; i < 3; ++i) {
    const caller_state here = caller_of_this();
    EXPECT_EQ(memo->find(here, 0), 0U);
    EXPECT_EQ(memo->walk(walker, here, wanted, 0, [](const std::uintptr_t*, unsigned) { return 0U; }), 0U);
  }
}

TEST_F(preload_stack_memo, remembers_no_more_words_than_it_has_room_for) {
  // Words are counted, and too many are not half of them.
  words_read read;
  read.clear();
  std::vector<std::uintptr_t> words(40, 5);
  const auto begin = reinterpret_cast<std::uintptr_t>(words.data());
  for (std::size_t i = 0; i < 32; ++i) read.add(begin, begin + 8 * i, 5);
  EXPECT_TRUE(read.whole());
  EXPECT_TRUE(read.same(begin));
  words[31] = 6;
  EXPECT_FALSE(read.same(begin));
  read.add(begin, begin + 256, 5);
  EXPECT_FALSE(read.whole());
  read.clear();
  read.add(begin, begin + (std::uintptr_t{1} << 32U), 5);
  EXPECT_FALSE(read.whole()) << "distances have 32 bits";
}

}  // namespace
}  // namespace espalier::preload
