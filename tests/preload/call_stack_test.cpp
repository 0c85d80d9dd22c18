// How the callers of an allocation are found.

#include <alloca.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unwind.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "espalier/measure/random.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/frame_rule.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using cfa_from = frame_rule::cfa_from;
using fp_from = frame_rule::fp_from;
using code_bytes = std::vector<std::uint8_t>;

// Instructions, by their names in DWARF.
constexpr std::uint8_t nop = 0x00;
constexpr std::uint8_t advance_loc = 0x40;
constexpr std::uint8_t offset = 0x80;
constexpr std::uint8_t restore = 0xc0;
constexpr std::uint8_t advance_loc1 = 0x02;
constexpr std::uint8_t advance_loc2 = 0x03;
constexpr std::uint8_t undefined = 0x07;
constexpr std::uint8_t same_value = 0x08;
constexpr std::uint8_t in_register = 0x09;
constexpr std::uint8_t remember_state = 0x0a;
constexpr std::uint8_t restore_state = 0x0b;
constexpr std::uint8_t def_cfa = 0x0c;
constexpr std::uint8_t def_cfa_register = 0x0d;
constexpr std::uint8_t def_cfa_offset = 0x0e;
constexpr std::uint8_t def_cfa_expression = 0x0f;
constexpr std::uint8_t expression = 0x10;
constexpr std::uint8_t args_size = 0x2e;
constexpr std::uint8_t rbp = 6;
constexpr std::uint8_t rsp = 7;
constexpr std::uint8_t return_column = 16;

/// An .eh_frame_hdr with functions of 256 bytes each, from `code` on, and their .eh_frame.
class tables {
 public:
  static constexpr std::uintptr_t code = 0x1000;  // behind the header, in a place that is never read

  explicit tables(const std::vector<code_bytes>& functions,
                  const code_bytes& common = {def_cfa, rsp, 8, offset | return_column, 1},
                  const char* augmentation = "zR") {
    header_.resize(12 + 8 * functions.size());
    const std::size_t cie = put_common(common, augmentation);
    std::vector<std::size_t> entries;
    for (std::size_t i = 0; i < functions.size(); ++i) entries.push_back(put_function(cie, i, functions[i]));
    // Relative to the header itself, or to the pointer's own place.
    all_.insert(all_.begin(), header_.begin(), header_.end());
    const std::uint8_t encodings[] = {1, 0x1b, 0x03, 0x3b};
    std::memcpy(all_.data(), encodings, sizeof encodings);
    store(4, static_cast<std::int32_t>(header_.size()) - 4);
    store(8, static_cast<std::int32_t>(functions.size()));
    for (std::size_t i = 0; i < functions.size(); ++i) {
      store(12 + 8 * i, static_cast<std::int32_t>(code + 256 * i));
      store(16 + 8 * i, static_cast<std::int32_t>(header_.size() + entries[i]));
      store(header_.size() + entries[i] + 8,
            static_cast<std::int32_t>(code + 256 * i - (header_.size() + entries[i] + 8)));
    }
  }

  /// Rule at so many bytes into a function.
  [[nodiscard]] frame_rule at(std::size_t function, std::uintptr_t into) const {
    const auto base = reinterpret_cast<std::uintptr_t>(all_.data());
    return frame_rule_in(reinterpret_cast<const std::byte*>(all_.data()),
                         base + code + 256 * function + into);
  }
  code_bytes& raw() { return all_; }

 private:
  void store(std::size_t where, std::int32_t value) { std::memcpy(&all_.at(where), &value, sizeof value); }
  static void put_word(code_bytes& to, std::uint32_t word) {
    for (unsigned shift = 0; shift < 32; shift += 8) to.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  std::size_t put_entry(const code_bytes& content) {
    const std::size_t begin = all_.size();
    put_word(all_, static_cast<std::uint32_t>(content.size()));
    all_.insert(all_.end(), content.begin(), content.end());
    return begin;
  }
  std::size_t put_common(const code_bytes& instructions, const char* augmentation) {
    code_bytes content;
    put_word(content, 0);
    content.push_back(1);
    for (const char* c = augmentation; *c != 0; ++c) content.push_back(static_cast<std::uint8_t>(*c));
    content.insert(content.end(),
                   {0, 1, 0x78, return_column, 1, 0x1b});  // factors 1 and -8, pointers as in code
    content.insert(content.end(), instructions.begin(), instructions.end());
    return put_entry(content);
  }
  std::size_t put_function(std::size_t cie, std::size_t, const code_bytes& instructions) {
    code_bytes content;
    put_word(content, static_cast<std::uint32_t>(all_.size() + 4 - cie));
    put_word(content, 0);
    put_word(content, 256);
    content.push_back(0);
    content.insert(content.end(), instructions.begin(), instructions.end());
    return put_entry(content);
  }

  code_bytes header_;
  code_bytes all_;
};

constexpr frame_rule nowhere{};

/// Rule within a function of these instructions.
frame_rule rule_of(const code_bytes& instructions) { return tables({instructions}).at(0, 9); }

/// Rule within a function without instructions whose common entry has an augmentation.
frame_rule augmented(const char* augmentation) {
  return tables({code_bytes{nop}}, {def_cfa, rsp, 8, offset | return_column, 1}, augmentation).at(0, 9);
}

TEST(preload_frame_rule, follows_the_stack_pointer_through_a_function) {
  const tables of(
      {{advance_loc | 1, def_cfa_offset, 16, offset | rbp, 2, advance_loc | 10, def_cfa_offset, 64}});
  EXPECT_EQ(of.at(0, 1), (frame_rule{cfa_from::stack_pointer, fp_from::unchanged, 8, 0}));
  EXPECT_EQ(of.at(0, 2), (frame_rule{cfa_from::stack_pointer, fp_from::cfa, 16, -16}));
  EXPECT_EQ(of.at(0, 11), (frame_rule{cfa_from::stack_pointer, fp_from::cfa, 16, -16}));
  EXPECT_EQ(of.at(0, 12), (frame_rule{cfa_from::stack_pointer, fp_from::cfa, 64, -16}))
      << "the row of the call, which ends where the return address is";
}

TEST(preload_frame_rule, is_that_of_the_function_and_of_no_other) {
  const tables of(
      {code_bytes{def_cfa_offset, 24}, code_bytes{def_cfa_offset, 32}, code_bytes{def_cfa_offset, 40}});
  EXPECT_EQ(of.at(0, 1).cfa_offset, 24);
  EXPECT_EQ(of.at(0, 256).cfa_offset, 24) << "a call may be its function's last instruction";
  EXPECT_EQ(of.at(1, 1).cfa_offset, 32);
  EXPECT_EQ(of.at(2, 200).cfa_offset, 40);
  EXPECT_EQ(of.at(0, 0), nowhere) << "before the first";
  EXPECT_EQ(of.at(2, 257), nowhere) << "behind the last";
}

TEST(preload_frame_rule, goes_over_to_the_frame_pointer_and_back) {
  const tables of(
      {{advance_loc1, 4, def_cfa_offset, 16, offset | rbp, 2, def_cfa_register, rbp, remember_state,
        advance_loc2, 100, 0, def_cfa, rsp, 8, restore | rbp, advance_loc | 1, restore_state}});
  const frame_rule by_frame_pointer{cfa_from::frame_pointer, fp_from::cfa, 16, -16};
  EXPECT_EQ(of.at(0, 50), by_frame_pointer);
  EXPECT_EQ(of.at(0, 105), (frame_rule{cfa_from::stack_pointer, fp_from::unchanged, 8, 0}));
  EXPECT_EQ(of.at(0, 106), by_frame_pointer);
}

TEST(preload_frame_rule, knows_the_expressions_of_realigned_frames) {
  // What g++ writes: the CFA is the word at rbp - 16, the old rbp lies at rbp + 0.
  const tables of({code_bytes{def_cfa_expression, 3, 0x76, 0x70, 0x06, expression, rbp, 2, 0x76, 0x00}});
  EXPECT_EQ(of.at(0, 9), (frame_rule{cfa_from::at_frame_pointer, fp_from::at_frame_pointer, -16, 0}));
  const tables plain({code_bytes{def_cfa_expression, 3, 0x77, 0xc0, 0x00}});
  EXPECT_EQ(plain.at(0, 9), (frame_rule{cfa_from::stack_pointer, fp_from::unchanged, 64, 0}));
}

TEST(preload_frame_rule, is_nowhere_for_frames_that_it_cannot_describe) {
  EXPECT_EQ(rule_of({undefined, return_column}), nowhere) << "the outermost frame";
  EXPECT_EQ(rule_of({def_cfa_register, 3}), nowhere) << "another register";
  EXPECT_EQ(rule_of({def_cfa_expression, 2, 0x30, 0x06}), nowhere) << "another expression";
  EXPECT_EQ(rule_of({offset | return_column, 2}), nowhere) << "a return address elsewhere";
  EXPECT_EQ(rule_of({0x3f}), nowhere) << "an instruction that there is not";
  EXPECT_EQ(rule_of({restore_state}), nowhere) << "nothing was remembered";
  EXPECT_EQ(rule_of({def_cfa_offset, 0xff, 0xff, 0xff, 0x7f}), nowhere) << "an offset of 28 bits";
  EXPECT_EQ(rule_of({def_cfa_offset}), nowhere) << "the operand is missing";
  EXPECT_EQ(rule_of({advance_loc2, 1}), nowhere) << "half of the operand is missing";
  EXPECT_EQ(rule_of({def_cfa_expression, 100, 0x77}), nowhere) << "an expression longer than its entry";
  EXPECT_NE(augmented("zR"), nowhere);
  EXPECT_EQ(augmented("zRS"), nowhere) << "a signal's frame";
  EXPECT_EQ(augmented("eh"), nowhere) << "an augmentation of old";
}

TEST(preload_frame_rule, says_where_the_frame_pointer_is_lost) {
  EXPECT_EQ(rule_of({undefined, rbp}).fp, fp_from::lost);
  EXPECT_EQ(rule_of({in_register, rbp, 3}).fp, fp_from::lost);
  EXPECT_EQ(rule_of({offset | rbp, 4, same_value, rbp}).fp, fp_from::unchanged);
  EXPECT_EQ(rule_of({args_size, 16, offset | rbp, 4}).fp, fp_from::cfa);
}

TEST(preload_frame_rule, needs_the_table_that_linkers_write) {
  tables of({code_bytes{nop}});
  EXPECT_NE(of.at(0, 9), nowhere);
  of.raw()[3] = 0x1b;
  EXPECT_EQ(of.at(0, 9), nowhere);
}

TEST(preload_frame_rule, survives_any_instructions) {
  measure::random_generator random(7);
  unsigned described = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    code_bytes instructions(random.next() % 24);
    for (std::uint8_t& one : instructions) one = static_cast<std::uint8_t>(random.next());
    if (rule_of(instructions) != nowhere) ++described;
  }
  EXPECT_GT(described, 100U) << "some happen to be valid";
}

TEST(preload_frame_rule, survives_packing) {
  for (const auto cfa : {cfa_from::nowhere, cfa_from::stack_pointer, cfa_from::frame_pointer,
                         cfa_from::at_stack_pointer, cfa_from::at_frame_pointer}) {
    for (const auto fp : {fp_from::unchanged, fp_from::cfa, fp_from::at_frame_pointer, fp_from::lost}) {
      for (const std::int32_t one : {0, 8, -16, (1 << 23) - 1, -(1 << 23)}) {
        const frame_rule rule{cfa, fp, one, -1 - one};
        EXPECT_NE(packed(rule), 0U);
        EXPECT_EQ(unpacked_frame_rule(packed(rule)), rule);
      }
    }
  }
}

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
  const caller_state no_caller{reinterpret_cast<std::uintptr_t>(words),
                               reinterpret_cast<std::uintptr_t>(words), 0};
  EXPECT_EQ(walker.walk(no_caller, frames, 4), 1U);
}

TEST_F(preload_call_stack, reads_nothing_beyond_the_stack) {
  // A frame pointer that points no_caller: a walk that believed it would fault.
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
