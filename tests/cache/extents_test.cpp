// The memory of large entries: what is free is joined and used again, and what it takes counts against the limit.

#include "espalier/cache/extents.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "espalier/hw/pages.hpp"

namespace espalier::caching {
namespace {

constexpr std::size_t limit = std::size_t{1} << 20U;

struct Extents : testing::Test {
  memory_budget budget{limit};
  hw::page_run memory = hw::map_pages(extents::address_bytes(limit));
  extents all{budget, memory.data(), extents::address_bytes(limit)};
  const std::size_t page = extents::unit_bytes;

  std::uint32_t allocate_units(std::size_t n) { return all.allocate(n * page - extents::header_bytes); }
};

TEST_F(Extents, CountWholeUnitsAndKeepTheirMemoryUntilItIsDiscarded) {
  const std::uint32_t one = all.allocate(page);  // and the header
  ASSERT_NE(one, extents::none);
  EXPECT_EQ(all.bytes_of(one), 2 * page);
  EXPECT_EQ(budget.used(), 2 * page);
  EXPECT_EQ(all.free_bytes(), 0U);
  all.drop(one);
  EXPECT_EQ(budget.used(), 2 * page) << "its memory waits for the next one";
  EXPECT_EQ(all.free_bytes(), 2 * page);
  EXPECT_EQ(all.allocate(page), one);
  EXPECT_EQ(budget.used(), 2 * page);
  all.drop(one);
  EXPECT_TRUE(all.discard_for(limit));
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(all.free_bytes(), 0U);
}

TEST_F(Extents, FreeNeighboursAreJoined) {
  const std::uint32_t a = allocate_units(3);
  const std::uint32_t b = allocate_units(5);
  const std::uint32_t c = allocate_units(4);
  const std::uint32_t last = allocate_units(1);
  for (const std::uint32_t gone : {a, c, b}) all.drop(gone);
  EXPECT_EQ(allocate_units(12), a);
  EXPECT_EQ(budget.used(), 13 * page);
  all.drop(a);
  all.drop(last);
}

TEST_F(Extents, AreRefusedWhereTheBudgetHasNoRoom) {
  budget.take(limit - 4 * page);
  EXPECT_EQ(allocate_units(5), extents::none);
  const std::uint32_t one = allocate_units(4);
  EXPECT_NE(one, extents::none);
  all.drop(one);
  budget.take(2 * page);  // above the limit
  EXPECT_TRUE(all.discard_for(0));
  EXPECT_LE(budget.used(), limit);
}

TEST_F(Extents, AHoldKeepsOneUntilItsEnd) {
  const std::uint32_t one = allocate_units(2);
  std::memset(all.at(one) + extents::header_bytes, 'x', page);
  all.hold(one);
  all.drop(one);
  EXPECT_EQ(all.free_bytes(), 0U);
  EXPECT_NE(allocate_units(2), one);
  EXPECT_EQ(static_cast<char>(all.at(one)[page]), 'x');
  all.drop(one);
  EXPECT_EQ(all.free_bytes(), 2 * page);
}

TEST_F(Extents, FormQueuesByAge) {
  const std::uint32_t a = allocate_units(2);
  const std::uint32_t b = allocate_units(3);
  const std::uint32_t c = allocate_units(4);
  all.list(a, queue::fresh, 1);
  all.list(b, queue::fresh, 2);
  all.list(c, queue::proven, 3);
  EXPECT_EQ(all.listed_bytes(queue::fresh), 5 * page);
  EXPECT_EQ(all.oldest(queue::fresh).index, a);
  EXPECT_EQ(all.oldest(queue::fresh).age, 1U);
  EXPECT_EQ(all.newer(a, queue::fresh).index, b);
  EXPECT_EQ(all.newer(b, queue::fresh).index, extents::none);
  EXPECT_EQ(all.newer(c, queue::fresh).index, extents::none) << "it is of the other queue";
  all.unlist(a);
  all.list(a, queue::proven, 4);
  EXPECT_EQ(all.oldest(queue::fresh).index, b);
  EXPECT_EQ(all.newer(c, queue::proven).index, a);
  EXPECT_EQ(all.listed_bytes(queue::proven), 6 * page);
  for (const std::uint32_t one : {a, b, c}) {
    all.unlist(one);
    all.drop(one);
  }
  EXPECT_EQ(all.oldest(queue::proven).index, extents::none);
}

// Against a model: no two overlap, all memory is accounted for, and in the end all is one again.
TEST_F(Extents, AnyOrderOfSizes) {
  std::mt19937 draw(7);
  std::map<std::uint32_t, std::size_t> held;
  std::size_t sum = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (draw() % 2 == 0 && !held.empty()) {
      const auto gone = std::next(held.begin(), static_cast<std::ptrdiff_t>(draw() % held.size()));
      sum -= gone->second;
      all.drop(gone->first);
      held.erase(gone);
    } else {
      const std::size_t pages = 1 + draw() % 40;
      std::uint32_t one = allocate_units(pages);
      if (one == extents::none && all.discard_for(pages * page)) one = allocate_units(pages);
      if (one == extents::none) continue;
      const auto after = held.lower_bound(one);
      if (after != held.end()) {
        ASSERT_LE(one + pages, after->first);
      }
      if (after != held.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, one);
      }
      held[one] = pages;
      sum += pages;
    }
    ASSERT_EQ(budget.used(), sum * page + all.free_bytes());
    ASSERT_LE(budget.used(), limit);
  }
  for (const auto& [one, pages] : held) all.drop(one);
  ASSERT_TRUE(all.discard_for(limit));
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(allocate_units(limit / page), 0U);
}

}  // namespace
}  // namespace espalier::caching
