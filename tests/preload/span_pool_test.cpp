#include "preload/heap/span_pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "heap_fixture.hpp"
#include "preload/kernel/pages.hpp"
#include "support/sanitizers.hpp"

namespace espalier::preload {
namespace {

struct preload_span_pool : ::testing::Test {
  ~preload_span_pool() override { pool.unmap_all(); }
  region* take(std::size_t regions) { return pool.take(regions, zeroed); }
  static std::byte* memory(region* r) { return span::of(r)->memory(span::number_of(*r)); }

  page_source pages;
  span_pool pool{test_registry, pages};
  bool zeroed = false;
};

TEST_F(preload_span_pool, gives_each_region_once_and_takes_it_again) {
  std::set<region*> all;
  for (std::size_t i = 0; i < 2 * span_pool::most_regions; ++i) {
    region* const r = take(1);
    ASSERT_NE(r, nullptr);
    EXPECT_TRUE(zeroed);
    EXPECT_TRUE(all.insert(r).second);
    EXPECT_EQ(address(memory(r)) % region_bytes, 0U);
    EXPECT_EQ(region_of(memory(r)), r);
    EXPECT_EQ(region_of(memory(r) + region_bytes - 1), r);
    EXPECT_EQ(test_registry.of(memory(r)), address_registry::span);
  }
  EXPECT_EQ(pages.bytes(), 2 * span::bytes);
  for (region* const r : all) pool.release(*r, 1);
  std::set<region*> again;
  for (std::size_t i = 0; i < 2 * span_pool::most_regions; ++i) again.insert(take(1));
  EXPECT_EQ(again, all);
  EXPECT_EQ(pages.bytes(), 2 * span::bytes);
}

TEST_F(preload_span_pool, knows_where_a_span_ends) {
  region* const most = take(span_pool::most_regions);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(span::number_of(*most), 1U);
  std::byte* const end = memory(most) + span_pool::most_regions * region_bytes;
  EXPECT_EQ(address(end) % span::bytes, 0U);
  region* const other = take(1);
  EXPECT_NE(span::of(other), span::of(most));
  pool.release(*most, span_pool::most_regions);
  pool.release(*other, 1);
}

TEST_F(preload_span_pool, finds_rows_between_what_is_taken) {
  std::vector<region*> all;
  for (std::size_t i = 0; i < span_pool::most_regions; ++i) all.push_back(take(1));
  // Holes of one to ten regions, from the second on.
  std::size_t at = 1;
  std::vector<region*> holes;
  for (std::size_t size = 1; size <= 10; ++size) {
    holes.push_back(all[at]);
    for (std::size_t i = 0; i < size; ++i) pool.release(*all[at + i], 1);
    at += size + 1;
  }
  for (std::size_t size = 10; size >= 1; --size) EXPECT_EQ(take(size), holes[size - 1]) << size;
  EXPECT_EQ(pages.bytes(), span::bytes);
}

TEST_F(preload_span_pool, keeps_the_memory_of_so_many_regions_and_takes_these_first) {
  pool.set_keep(2 * region_bytes);
  std::vector<region*> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(take(1));
    std::memset(memory(all.back()), 0xee, region_bytes);
  }
  for (region* const r : all) pool.release(*r, 1);
  EXPECT_EQ(pool.count().dirty_regions, 2U);
  EXPECT_EQ(take(1), all[0]);
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(*memory(all[0]), std::byte{0xee});
  EXPECT_EQ(take(1), all[1]);
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(take(1), all[2]);
  EXPECT_TRUE(zeroed);
  for (std::size_t i = 0; i < region_bytes; ++i) ASSERT_EQ(memory(all[2])[i], std::byte{0}) << i;
}

TEST_F(preload_span_pool, keeps_more_than_that_while_it_is_taken_again) {
  pool.set_keep(region_bytes);
  constexpr std::uint64_t an_hour = 3'600'000;
  pool.set_period(an_hour);
  for (int round = 0; round < 3; ++round) {
    std::vector<region*> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(take(1));
      EXPECT_EQ(zeroed, round == 0);
    }
    for (region* const r : all) pool.release(*r, 1);
    EXPECT_EQ(pool.count().dirty_regions, 4U);
  }
}

TEST_F(preload_span_pool, discards_what_was_idle_for_a_period) {
  const auto after_a_period = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  pool.set_keep(region_bytes);
  pool.set_period(1);
  std::vector<region*> all;
  for (int i = 0; i < 8; ++i) all.push_back(take(1));
  for (region* const r : all) std::memset(memory(r), 1, region_bytes);
  region* const used = all.back();
  all.pop_back();
  const auto take_and_release = [&] {
    region* const r = take(1);
    pool.release(*r, 1);
  };
  for (region* const r : all) pool.release(*r, 1);
  // Whatever periods there were so far, one has begun with less than all: the next but one finds what nobody took.
  for (int period = 0; period < 3; ++period) {
    after_a_period();
    take_and_release();
  }
  EXPECT_EQ(pool.count().dirty_regions, 2U) << "the one that is kept, and the one that was taken";
  // The first of them, for that is taken first.
  EXPECT_EQ(take(2), all[0]);
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(take(1), all[2]);
  EXPECT_TRUE(zeroed);
  EXPECT_EQ(memory(all[2])[region_bytes - 1], std::byte{0});
  EXPECT_EQ(*memory(used), std::byte{1}) << "it is not empty";
  EXPECT_EQ(pool.count().free_regions, span_pool::most_regions - 4);
}

TEST_F(preload_span_pool, discards_no_more_than_was_idle_throughout) {
  pool.set_period(1);
  std::vector<region*> all;
  for (int i = 0; i < 6; ++i) all.push_back(take(1));
  for (region* const r : all) pool.release(*r, 1);
  for (int period = 0; period < 3; ++period) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    region* const four = take(4);
    pool.release(*four, 4);
  }
  EXPECT_EQ(pool.count().dirty_regions, 4U);
}

TEST_F(preload_span_pool, discards_the_memory_of_empty_regions) {
  pool.set_keep(span::bytes);
  region* const r = take(3);
  ASSERT_NE(take(1), nullptr) << "so that the span stays";
  std::memset(memory(r), 1, 3 * region_bytes);
  pool.release(*r, 3);
  EXPECT_EQ(pool.discard_empty(), 3 * region_bytes);
  EXPECT_EQ(pool.discard_empty(), 0U);
  EXPECT_EQ(take(3), r);
  EXPECT_TRUE(zeroed);
  EXPECT_EQ(memory(r)[3 * region_bytes - 1], std::byte{0});
}

TEST_F(preload_span_pool, unmaps_empty_spans) {
  pool.set_keep(4 * span::bytes);
  std::vector<region*> all;
  for (int i = 0; i < 3; ++i) all.push_back(take(span_pool::most_regions));
  std::byte* const kept = memory(all[1]);
  for (const int i : {0, 2}) pool.release(*all[static_cast<std::size_t>(i)], span_pool::most_regions);
  EXPECT_EQ(pages.bytes(), 3 * span::bytes);
  pool.discard_empty();
  EXPECT_EQ(pages.bytes(), span::bytes);
  EXPECT_EQ(pool.count().spans, 1U);
  EXPECT_EQ(pool.count().free_regions, 0U);
  EXPECT_EQ(test_registry.of(kept), address_registry::span);
  for (const int i : {0, 2})
    EXPECT_EQ(test_registry.of(all[static_cast<std::size_t>(i)]), address_registry::foreign);
  // There is more where they came from.
  EXPECT_NE(take(1), nullptr);
  EXPECT_EQ(pages.bytes(), 2 * span::bytes);
  pool.release(*all[1], span_pool::most_regions);
}

TEST_F(preload_span_pool, extends_a_row_only_by_what_is_free_behind_it) {
  region* const row = take(4);
  EXPECT_TRUE(pool.extend(*row, 4, 2));
  region* const behind = take(1);
  EXPECT_EQ(span::number_of(*behind), span::number_of(*row) + 6);
  EXPECT_FALSE(pool.extend(*row, 6, 1));
  EXPECT_FALSE(pool.extend(*behind, 1, span::slots)) << "there is no more in a span";
  const std::size_t left = span_pool::most_regions - 7;
  EXPECT_FALSE(pool.extend(*behind, 1, left + 1));
  EXPECT_TRUE(pool.extend(*behind, 1, left));
  EXPECT_FALSE(pool.extend(*behind, 1 + left, 1));
  EXPECT_EQ(pages.bytes(), span::bytes);
}

TEST_F(preload_span_pool, has_nothing_where_memory_is_refused_and_keeps_errno) {
  pages.set_limit(span::bytes);
  ASSERT_NE(take(100), nullptr);
  errno = 1234;
  EXPECT_EQ(take(100), nullptr);
  EXPECT_EQ(errno, 1234);
  EXPECT_NE(take(20), nullptr) << "what is there can be had";
  EXPECT_EQ(pages.bytes(), span::bytes);
}

TEST_F(preload_span_pool, leaves_no_entry_behind) {
  region* const r = take(1);
  pool.unmap_all();
  EXPECT_EQ(test_registry.of(r), address_registry::foreign);
  EXPECT_EQ(pages.bytes(), 0U);
}

TEST(preload_page_source, maps_aligned_and_counts) {
  page_source pages;
  for (const std::size_t align : {page_bytes, std::size_t{1} << 18U, std::size_t{1} << 25U}) {
    void* const got = pages.map(3 * page_bytes, align);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(address(got) % align, 0U);
    EXPECT_EQ(pages.bytes(), 3 * page_bytes);
    std::memset(got, 1, 3 * page_bytes);
    EXPECT_TRUE(page_source::discard(got, 3 * page_bytes));
    EXPECT_EQ(*static_cast<char*>(got), 0);
    page_source::touch(got, 3 * page_bytes);
    EXPECT_EQ(*static_cast<char*>(got), 0);
    pages.unmap(got, 3 * page_bytes);
  }
  EXPECT_EQ(pages.map(~std::size_t{0} - page_bytes + 1, page_bytes), nullptr);
  EXPECT_EQ(pages.map(std::size_t{1} << 62U, std::size_t{1} << 62U), nullptr);
  EXPECT_EQ(pages.bytes(), 0U);
}

TEST(preload_page_source, needs_no_more_addresses_than_it_gives) {
  // A sanitizer's own memory lies all around.
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "addresses are scarce under sanitizers";
  constexpr std::size_t align = std::size_t{1} << 25U;
  page_source pages;
  std::size_t held = 0;  // pages
  ASSERT_TRUE(std::ifstream("/proc/self/statm") >> held);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight{held * page_bytes + align / 2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  void* const got = pages.map(3 * page_bytes, align);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(address(got) % align, 0U);
  pages.unmap(got, 3 * page_bytes);
}

TEST(preload_address_registry, tells_units_apart) {
  auto* const at = reinterpret_cast<std::byte*>(std::uintptr_t{77} * address_registry::unit_bytes);
  test_registry.enter(at, 2 * address_registry::unit_bytes, address_registry::huge);
  EXPECT_EQ(test_registry.of(at - 1), address_registry::foreign);
  EXPECT_EQ(test_registry.of(at), address_registry::huge);
  EXPECT_EQ(test_registry.of(at + 2 * address_registry::unit_bytes - 1), address_registry::huge);
  EXPECT_EQ(test_registry.of(at + 2 * address_registry::unit_bytes), address_registry::foreign);
  test_registry.enter(at, 2 * address_registry::unit_bytes, address_registry::foreign);
  EXPECT_EQ(test_registry.of(nullptr), address_registry::foreign);
  EXPECT_EQ(test_registry.of(reinterpret_cast<void*>(~std::uintptr_t{0})), address_registry::foreign);
}

}  // namespace
}  // namespace espalier::preload
