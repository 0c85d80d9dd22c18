#include "preload/recording/young_blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace espalier::preload {
namespace {

using ::testing::ElementsAre;

constexpr std::uintptr_t base = 0x5000'0000;

struct preload_young_blocks : ::testing::Test {
  memory_budget budget;
  block_table table{budget};
  std::unique_ptr<young_blocks> young = std::make_unique<young_blocks>();

  static block_record block(std::uintptr_t address, std::uint64_t asked = 24, std::uint32_t site = 7) {
    return {address, asked, asked + 8, site};
  }
  void put(const block_record& b) {
    ASSERT_TRUE(young->has_room(b.address));
    young->put(b);
  }
  std::vector<std::uintptr_t> there() const {
    std::vector<std::uintptr_t> addresses;
    young->visit([&](const block_record& b) { addresses.push_back(b.address); });
    return addresses;
  }
  /// An address whose block goes to the same place as that of another.
  std::uintptr_t rival_of(std::uintptr_t address) const {
    for (std::uintptr_t other = address + 16;; other += 16) {
      if (!young->has_room(other)) return other;
    }
  }
};

TEST_F(preload_young_blocks, are_taken_as_they_were_put) {
  put(block(base, 100, 3));
  block_record taken{};
  EXPECT_FALSE(young->take(base + 16, &taken));
  EXPECT_TRUE(young->take(base, &taken));
  EXPECT_EQ(taken, block(base, 100, 3));
  EXPECT_FALSE(young->take(base, nullptr)) << "once";
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(young->not_moved(), 1U);
}

TEST_F(preload_young_blocks, have_room_for_neighbours) {
  // What a thread allocates in a row is what it is likely to give back.
  for (std::uintptr_t i = 0; i < young_blocks::places; ++i) put(block(base + 16 * i));
  EXPECT_EQ(there().size(), young_blocks::places);
}

TEST_F(preload_young_blocks, move_to_the_table_for_another) {
  put(block(base, 100, 3));
  const std::uintptr_t other = rival_of(base);
  EXPECT_FALSE(young->take(other, nullptr)) << "the same place is not the same block";
  EXPECT_TRUE(young->moved(other, table));
  put(block(other));
  EXPECT_THAT(there(), ElementsAre(other));
  EXPECT_EQ(young->not_moved(), 1U) << "the other counts in the table";
  block_record removed{};
  EXPECT_TRUE(table.erase(base, &removed));
  EXPECT_EQ(removed, block(base, 100, 3));
}

TEST_F(preload_young_blocks, of_the_same_address_are_the_latest) {
  put(block(base, 100, 3));
  EXPECT_TRUE(young->holds(base));
  EXPECT_FALSE(young->holds(rival_of(base)));
  EXPECT_EQ(young->asked_for(base), 100U);
  young->put(block(base, 50, 4));
  block_record taken{};
  EXPECT_TRUE(young->take(base, &taken));
  EXPECT_EQ(taken, block(base, 50, 4));
}

TEST_F(preload_young_blocks, tell_of_what_they_replace_in_the_table) {
  ASSERT_TRUE(table.insert(block(base, 100)));
  put(block(base, 50));
  std::uint64_t replaced = 7;
  EXPECT_TRUE(young->moved(base, table, &replaced));
  EXPECT_EQ(replaced, 107U);
  put(block(base, 20));
  put(block(base + 16, 30));
  EXPECT_TRUE(young->all_moved(table, &replaced));
  EXPECT_EQ(replaced, 157U);
}

TEST_F(preload_young_blocks, all_move_when_their_thread_ends) {
  for (std::uintptr_t i = 0; i < 5; ++i) put(block(base + 16 * i));
  EXPECT_TRUE(young->all_moved(table));
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(table.size(), 5U);
  EXPECT_EQ(young->not_moved(), 0U);
}

TEST_F(preload_young_blocks, are_lost_where_the_table_refuses_them) {
  budget.set_limit(0);
  put(block(base));
  EXPECT_FALSE(young->moved(base, table));
  EXPECT_THAT(there(), ElementsAre()) << "their thread goes on";
}

TEST_F(preload_young_blocks, are_given_back_by_others_once) {
  // The owner puts and moves, another thread gives every block back: each is in exactly one of the two places.
  constexpr std::uintptr_t blocks = 20'000;
  std::atomic<std::uintptr_t> handed{0};
  std::uintptr_t from_owner = 0;
  std::uintptr_t from_table = 0;
  std::thread other([&] {
    for (std::uintptr_t i = 0; i < blocks; ++i) {
      while (handed.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      const std::uintptr_t address = base + 16 * i;
      block_record taken{};
      const bool young_still = young->take_of_other(address, &taken);
      (young_still ? from_owner : from_table) += 1;
      ASSERT_TRUE(young_still || table.erase(address, &taken)) << i;
      ASSERT_EQ(taken, block(address, i));
    }
  });
  for (std::uintptr_t i = 0; i < blocks; ++i) {
    const std::uintptr_t address = base + 16 * i;
    if (!young->has_room(address)) {
      ASSERT_TRUE(young->moved(address, table));
    }
    young->put(block(address, i));
    handed.store(i + 1, std::memory_order_release);
  }
  other.join();
  EXPECT_EQ(from_owner + from_table, blocks);
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(young->not_moved() + table.inserted(), blocks);
}

}  // namespace
}  // namespace espalier::preload
