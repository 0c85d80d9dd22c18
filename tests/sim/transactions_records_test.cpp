// Which bytes are one record: intervals that are annotated, annotated anew, and forgotten.

#include <gtest/gtest.h>

#include "sim/transactions/byte_mask.hpp"
#include "sim/transactions/records.hpp"

namespace {

using espalier::hw::record_kind;
using espalier::sim::abort_reason;
using espalier::sim::byte_mask;
using espalier::sim::records;

constexpr std::uint64_t line = 100;
constexpr std::uint64_t first = line * 64;

class meeting : public testing::Test {
 protected:
  abort_reason of(std::uint64_t one, std::uint64_t other) const {
    const abort_reason reason = known.meeting(line, byte_mask(one, 1), byte_mask(other, 1));
    EXPECT_EQ(reason, known.meeting(line, byte_mask(other, 1), byte_mask(one, 1)));
    return reason;
  }
  records known;
};

TEST(byte_mask, whole_and_parts) {
  EXPECT_EQ(byte_mask(0, 64), ~std::uint64_t{0});
  EXPECT_EQ(byte_mask(0, 1), 1U);
  EXPECT_EQ(byte_mask(8, 8), 0xff00U);
  EXPECT_EQ(byte_mask(63, 1), std::uint64_t{1} << 63U);
}

TEST_F(meeting, without_annotations_is_about_bytes) {
  EXPECT_EQ(of(3, 3), abort_reason::true_conflict);
  EXPECT_EQ(of(3, 4), abort_reason::false_conflict);
}

TEST_F(meeting, in_one_record_is_true) {
  known.annotate(first + 8, first + 24, record_kind::record);
  EXPECT_EQ(of(8, 23), abort_reason::true_conflict);
  EXPECT_EQ(of(7, 8), abort_reason::false_conflict);
  EXPECT_EQ(of(23, 24), abort_reason::false_conflict);
}

TEST_F(meeting, of_two_records_is_false) {
  known.annotate(first + 0, first + 16, record_kind::record);
  known.annotate(first + 16, first + 32, record_kind::record);
  EXPECT_EQ(of(15, 16), abort_reason::false_conflict);
}

TEST_F(meeting, in_metadata) {
  known.annotate(first + 0, first + 16, record_kind::metadata);
  known.annotate(first + 16, first + 32, record_kind::record);
  known.annotate(first + 32, first + 48, record_kind::metadata);
  EXPECT_EQ(of(0, 0), abort_reason::metadata);
  EXPECT_EQ(of(0, 15), abort_reason::metadata);
  EXPECT_EQ(of(0, 16), abort_reason::false_conflict);
  EXPECT_EQ(of(0, 32), abort_reason::false_conflict);
}

TEST_F(meeting, a_shared_record_outweighs_shared_metadata) {
  known.annotate(first + 0, first + 16, record_kind::metadata);
  known.annotate(first + 16, first + 32, record_kind::record);
  EXPECT_EQ(known.meeting(line, byte_mask(0, 17), byte_mask(8, 24)), abort_reason::true_conflict);
  EXPECT_EQ(known.meeting(line, byte_mask(0, 17), byte_mask(8, 8)), abort_reason::metadata);
  EXPECT_EQ(known.meeting(line, byte_mask(0, 64), byte_mask(8, 8) | byte_mask(40, 1)),
            abort_reason::true_conflict);
}

TEST_F(meeting, in_a_record_of_several_lines) {
  known.annotate(first - 128, first + 8, record_kind::record);
  known.annotate(first + 60, first + 100, record_kind::record);
  EXPECT_EQ(of(0, 7), abort_reason::true_conflict);
  EXPECT_EQ(of(60, 63), abort_reason::true_conflict);
  EXPECT_EQ(of(7, 60), abort_reason::false_conflict);
}

TEST_F(meeting, after_new_annotations_knows_only_those) {
  known.annotate(first + 0, first + 64, record_kind::record);
  known.annotate(first + 16, first + 32, record_kind::metadata);
  EXPECT_EQ(of(0, 15), abort_reason::true_conflict);
  EXPECT_EQ(of(16, 31), abort_reason::metadata);
  EXPECT_EQ(of(32, 63), abort_reason::true_conflict);
  EXPECT_EQ(of(0, 63), abort_reason::false_conflict) << "cut in two";
  known.annotate(first + 8, first + 40, record_kind::record);
  EXPECT_EQ(of(8, 39), abort_reason::true_conflict);
  EXPECT_EQ(of(7, 8), abort_reason::false_conflict);
  EXPECT_EQ(of(40, 63), abort_reason::true_conflict);
}

TEST_F(meeting, after_forgetting_is_about_bytes) {
  known.annotate(first - 64, first + 8, record_kind::record);
  known.annotate(first + 8, first + 16, record_kind::record);
  known.annotate(first + 24, first + 64, record_kind::record);
  known.forget(first + 4, first + 32);
  EXPECT_EQ(of(0, 3), abort_reason::true_conflict);
  EXPECT_EQ(of(4, 7), abort_reason::false_conflict);
  EXPECT_EQ(of(8, 15), abort_reason::false_conflict);
  EXPECT_EQ(of(24, 31), abort_reason::false_conflict);
  EXPECT_EQ(of(32, 63), abort_reason::true_conflict);
  known.forget(0, ~std::uint64_t{0});
  EXPECT_EQ(of(0, 3), abort_reason::false_conflict);
}

TEST_F(meeting, ignores_empty_ranges) {
  known.annotate(first, first, record_kind::record);
  known.annotate(first, first + 8, record_kind::record);
  known.forget(first + 4, first + 4);
  EXPECT_EQ(of(0, 7), abort_reason::true_conflict);
}

}  // namespace
