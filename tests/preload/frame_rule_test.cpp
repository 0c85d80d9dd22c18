#include "preload/recording/frame_rule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "espalier/workload/random.hpp"

namespace espalier::preload {
namespace {

using cfa_from = frame_rule::cfa_from;
using fp_from = frame_rule::fp_from;
using bytes = std::vector<std::uint8_t>;

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

  explicit tables(const std::vector<bytes>& functions,
                  const bytes& common = {def_cfa, rsp, 8, offset | return_column, 1},
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
  bytes& raw() { return all_; }

 private:
  void store(std::size_t where, std::int32_t value) { std::memcpy(&all_.at(where), &value, sizeof value); }
  static void put_word(bytes& to, std::uint32_t word) {
    for (unsigned shift = 0; shift < 32; shift += 8) to.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  std::size_t put_entry(const bytes& content) {
    const std::size_t begin = all_.size();
    put_word(all_, static_cast<std::uint32_t>(content.size()));
    all_.insert(all_.end(), content.begin(), content.end());
    return begin;
  }
  std::size_t put_common(const bytes& instructions, const char* augmentation) {
    bytes content;
    put_word(content, 0);
    content.push_back(1);
    for (const char* c = augmentation; *c != 0; ++c) content.push_back(static_cast<std::uint8_t>(*c));
    content.insert(content.end(),
                   {0, 1, 0x78, return_column, 1, 0x1b});  // factors 1 and -8, pointers as in code
    content.insert(content.end(), instructions.begin(), instructions.end());
    return put_entry(content);
  }
  std::size_t put_function(std::size_t cie, std::size_t, const bytes& instructions) {
    bytes content;
    put_word(content, static_cast<std::uint32_t>(all_.size() + 4 - cie));
    put_word(content, 0);
    put_word(content, 256);
    content.push_back(0);
    content.insert(content.end(), instructions.begin(), instructions.end());
    return put_entry(content);
  }

  bytes header_;
  bytes all_;
};

constexpr frame_rule nowhere{};

/// Rule within a function of these instructions.
frame_rule rule_of(const bytes& instructions) { return tables({instructions}).at(0, 9); }

/// Rule within a function without instructions whose common entry has an augmentation.
frame_rule augmented(const char* augmentation) {
  return tables({bytes{nop}}, {def_cfa, rsp, 8, offset | return_column, 1}, augmentation).at(0, 9);
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
  const tables of({bytes{def_cfa_offset, 24}, bytes{def_cfa_offset, 32}, bytes{def_cfa_offset, 40}});
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
  const tables of({bytes{def_cfa_expression, 3, 0x76, 0x70, 0x06, expression, rbp, 2, 0x76, 0x00}});
  EXPECT_EQ(of.at(0, 9), (frame_rule{cfa_from::at_frame_pointer, fp_from::at_frame_pointer, -16, 0}));
  const tables plain({bytes{def_cfa_expression, 3, 0x77, 0xc0, 0x00}});
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
  tables of({bytes{nop}});
  EXPECT_NE(of.at(0, 9), nowhere);
  of.raw()[3] = 0x1b;
  EXPECT_EQ(of.at(0, 9), nowhere);
}

TEST(preload_frame_rule, survives_any_instructions) {
  workload::random_generator random(7);
  unsigned described = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    bytes instructions(random.next() % 24);
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

}  // namespace
}  // namespace espalier::preload
