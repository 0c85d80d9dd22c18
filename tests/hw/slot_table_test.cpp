#include "espalier/hw/slot_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace espalier::hw {
namespace {

using table = slot_table<4>;
using tenure = table::tenure;

constexpr auto all_live = [](std::int32_t) noexcept { return false; };
constexpr auto all_gone = [](std::int32_t) noexcept { return true; };

TEST(slot_table, hands_each_slot_out_once_and_refuses_more) {
  table slots;
  EXPECT_EQ(slots.used(), 0U);
  std::set<std::uint32_t> taken;
  for (std::int32_t thread = 1; thread <= 4; ++thread) {
    const std::uint32_t slot = slots.take(thread, tenure::ends_with_thread, all_live);
    ASSERT_LT(slot, table::none);
    EXPECT_EQ(slots.holder_of(slot), thread);
    EXPECT_GT(slots.used(), slot);
    taken.insert(slot);
  }
  EXPECT_EQ(taken.size(), 4U);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), table::none);
  slots.release(2);
  EXPECT_EQ(slots.holder_of(2), 0);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), 2U);
  EXPECT_EQ(slots.holder_of(2), 5);
}

TEST(slot_table, reclaims_late_slots_of_threads_that_are_gone) {
  table slots;
  for (std::int32_t thread = 1; thread <= 4; ++thread)
    ASSERT_LT(slots.take(thread, tenure::late, all_live), table::none);
  EXPECT_EQ(slots.take(5, tenure::late, all_live), table::none) << "a thread that is there keeps its slot";
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, all_live), table::none);
  EXPECT_EQ(slots.take(5, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 3; }), 2U)
      << "where no slot is free";
  EXPECT_EQ(slots.take(6, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 5; }),
            table::none)
      << "the slot is no longer late";
  EXPECT_EQ(slots.take(4, tenure::late, all_live), 3U) << "the number was an earlier thread's";
}

TEST(slot_table, late_threads_share_few_slots) {
  table slots;
  for (std::int32_t thread = 1; thread <= 1000; ++thread)
    ASSERT_EQ(slots.take(thread, tenure::late, all_gone), 0U);
  EXPECT_EQ(slots.used(), 1U);
}

TEST(slot_table, does_not_ask_about_threads_while_slots_are_free) {
  table slots;
  ASSERT_EQ(slots.take(1, tenure::late, all_live), 0U);
  bool asked = false;
  const auto asking = [&](std::int32_t) noexcept { return asked = true; };
  EXPECT_EQ(slots.take(2, tenure::ends_with_thread, asking), 1U);
  EXPECT_FALSE(asked);
}

TEST(slot_table, keeps_one_thread_in_a_child_process) {
  table slots;
  for (std::int32_t thread = 1; thread <= 3; ++thread)
    ASSERT_LT(slots.take(thread, thread == 2 ? tenure::late : tenure::ends_with_thread, all_live),
              table::none);
  slots.keep_only(1, 77);
  EXPECT_EQ(slots.holder_of(0), 0);
  EXPECT_EQ(slots.holder_of(1), 77);
  EXPECT_EQ(slots.holder_of(2), 0);
  EXPECT_EQ(slots.used(), 3U);
  for (const std::uint32_t free : {0U, 2U, 3U})
    EXPECT_EQ(slots.take(78, tenure::ends_with_thread, all_live), free);
  EXPECT_EQ(slots.take(79, tenure::ends_with_thread, [](std::int32_t t) noexcept { return t == 77; }), 1U)
      << "late as it was";
  slots.keep_only(table::none, 80);
  for (std::uint32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(slots.holder_of(slot), 0);
}

}  // namespace
}  // namespace espalier::hw
