#include "preload/recording/call_stack.hpp"

#include <alloca.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unwind.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using stack = std::vector<std::uintptr_t>;

/// The unwinder that exceptions use: the oracle.
stack unwound() {
  stack frames;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        // What called the outermost frame is given as 0.
        if (_Unwind_GetIP(context) != 0) static_cast<stack*>(to)->push_back(_Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &frames);
  return frames;
}

memory_budget budget;
call_stack walker(budget);

/// Both stacks of the caller of this, which is where they must agree. The first frames differ: this function
/// is where the oracle was called.
struct both {
  stack walked;
  stack expected;
};
both seen;

__attribute__((noinline)) void look() {
  const caller_state here = caller_of_this();
  stack walked(most_frames);
  walked.resize(walker.walk(here, walked.data(), most_frames));
  stack expected = unwound();
  // The oracle begins in unwound() and has this function next.
  expected.erase(expected.begin(), std::ranges::find(expected, here.pc));
  if (expected.size() > most_frames) expected.resize(most_frames);
  seen = {walked, expected};
  asm volatile("" ::: "memory");
}

void expect_agreement(std::size_t least) {
  EXPECT_GE(seen.walked.size(), least);
  EXPECT_EQ(seen.walked, seen.expected);
}

struct preload_call_stack : ::testing::Test {
  preload_call_stack() {
    static const bool started = walker.start();
    EXPECT_TRUE(started);
  }
};

__attribute__((noinline)) int plain(int depth) {
  if (depth == 0) {
    look();
    return 1;
  }
  const int below = plain(depth - 1);
  asm volatile("" ::: "memory");
  return below + 1;
}

TEST_F(preload_call_stack, of_plain_frames_is_the_unwinders) {
  EXPECT_EQ(plain(5), 6);
  expect_agreement(8);
}

__attribute__((noinline)) int of_size(std::size_t bytes, int depth) {
  auto* const space = static_cast<volatile char*>(alloca(bytes));
  space[0] = 1;
  space[bytes - 1] = 1;
  if (depth == 0) {
    look();
  } else {
    of_size(bytes * 3 + 8, depth - 1);
  }
  return space[0] + space[bytes - 1];
}

TEST_F(preload_call_stack, follows_frames_whose_size_varies) {
  // The same return addresses, other distances: what was learned of one must not be believed of the next.
  for (const std::size_t bytes : {16U, 4000U, 24U, 100U, 16U}) {
    EXPECT_EQ(of_size(bytes, 4), 2);
    expect_agreement(7);
  }
}

TEST_F(preload_call_stack, is_not_taken_in_by_stale_words) {
  // A frame of varying size filled with return addresses that were right a moment ago.
  static std::uintptr_t stale;
  struct local {
    __attribute__((noinline)) static int fill(std::size_t words, int depth) {
      auto* const space = static_cast<volatile std::uintptr_t*>(alloca(8 * words));
      for (std::size_t i = 0; i < words; ++i) space[i] = stale;
      if (depth > 0) return fill(words, depth - 1) + 1;
      look();
      return static_cast<int>(space[0] != 1);
    }
  };
  for (const std::size_t words : {2U, 2U, 6U, 40U, 3U}) {
    EXPECT_EQ(local::fill(words, 3), 4);
    expect_agreement(6);
    stale = seen.walked[1];
  }
}

struct alignas(128) overaligned {
  char bytes[256];
};

__attribute__((noinline)) int realigned(int depth) {
  overaligned local;
  std::memset(local.bytes, depth, sizeof local.bytes);
  asm volatile("" : : "r"(&local) : "memory");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&local) % 128, 0U);
  if (depth == 0) {
    look();
  } else {
    realigned(depth - 1);
  }
  return local.bytes[depth];
}

TEST_F(preload_call_stack, follows_frames_that_realign_the_stack) {
  EXPECT_EQ(realigned(3), 3);
  expect_agreement(6);
}

__attribute__((noinline)) int realigned_and_of_size(std::size_t bytes, int depth) {
  overaligned local;
  local.bytes[0] = 1;
  auto* const space = static_cast<volatile char*>(alloca(bytes));
  space[0] = 1;
  asm volatile("" : : "r"(&local) : "memory");
  if (depth == 0) {
    look();
  } else {
    realigned_and_of_size(bytes + 40, depth - 1);
  }
  return space[0] + local.bytes[0];
}

TEST_F(preload_call_stack, follows_both_at_once) {
  for (const std::size_t bytes : {16U, 5000U, 100U}) {
    EXPECT_EQ(realigned_and_of_size(bytes, 3), 2);
    expect_agreement(6);
  }
}

TEST_F(preload_call_stack, passes_through_the_c_library) {
  int numbers[] = {3, 1, 2};
  std::qsort(numbers, 3, sizeof(int), [](const void* a, const void* b) {
    look();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  expect_agreement(6);
}

TEST_F(preload_call_stack, ends_where_threads_begin) {
  test::on_threads(3, [](int) {
    // A stack of its own for each: no shared variables here.
    const caller_state here = caller_of_this();
    std::uintptr_t frames[most_frames];
    for (unsigned i = 0; i < 1000; ++i) {
      const unsigned depth = walker.walk(here, frames, most_frames);
      ASSERT_GE(depth, 3U);
      ASSERT_LT(depth, most_frames);
      ASSERT_EQ(frames[0], here.pc);
    }
  });
}

TEST_F(preload_call_stack, has_as_many_frames_as_wanted) {
  const caller_state here = caller_of_this();
  std::uintptr_t frames[3] = {0, 0, 0};
  EXPECT_EQ(walker.walk(here, frames, 1), 1U);
  EXPECT_EQ(frames[0], here.pc);
  EXPECT_EQ(frames[1], 0U);
  EXPECT_EQ(walker.walk(here, frames, 2), 2U);
  EXPECT_EQ(frames[2], 0U);
}

TEST_F(preload_call_stack, knows_rules_once_and_again_after_forgetting) {
  std::size_t known = 0;
  for (unsigned i = 0; i < 3; ++i) {
    // The optimizer must neither unroll the loop nor peel it: a second call would have rules of its own.
    asm volatile("" : "+r"(i));
    plain(3);
    expect_agreement(6);
    if (i > 0) {
      EXPECT_EQ(walker.rules(), known);
    }
    known = walker.rules();
    EXPECT_GT(known, 5U);
    if (i == 1) walker.forget();
  }
}

TEST_F(preload_call_stack, ends_at_code_without_a_module) {
  const std::uintptr_t words[4] = {};
  std::uintptr_t frames[4];
  const caller_state nowhere{reinterpret_cast<std::uintptr_t>(words), reinterpret_cast<std::uintptr_t>(words),
                             0};
  EXPECT_EQ(walker.walk(nowhere, frames, 4), 1U);
}

TEST_F(preload_call_stack, reads_nothing_beyond_the_stack) {
  // A frame pointer that points nowhere: a walk that believed it would fault.
  struct local {
    __attribute__((noinline)) static void look_with_frame_pointer(std::uintptr_t fp, std::size_t bytes) {
      auto* const space = static_cast<volatile char*>(alloca(bytes));
      space[0] = 1;
      caller_state here = caller_of_this();
      here.fp = fp;
      std::uintptr_t frames[most_frames];
      EXPECT_GE(walker.walk(here, frames, most_frames), 1U);
    }
    __attribute__((noinline)) static int of_size(std::uintptr_t fp, std::size_t bytes) {
      auto* const space = static_cast<volatile char*>(alloca(bytes));
      space[0] = 1;
      look_with_frame_pointer(fp, bytes);
      return space[0];
    }
  };
  for (const std::uintptr_t fp :
       {std::uintptr_t{0}, std::uintptr_t{8}, std::uintptr_t{0x7fff'ffff'fff8}, ~std::uintptr_t{7}})
    EXPECT_EQ(local::of_size(fp, 64), 1);
}

TEST(preload_call_stack_memory, refused_is_said) {
  memory_budget none(4096);
  const auto refused = std::make_unique<call_stack>(none);
  EXPECT_FALSE(refused->start());
  EXPECT_EQ(none.bytes(), 0U);
}

}  // namespace
}  // namespace espalier::preload
