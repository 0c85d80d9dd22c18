#include "preload/recording/address_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "espalier/workload/random.hpp"

namespace espalier::preload {
namespace {

using inspect::live_block;

/// Sorts `blocks`, and demands the same as of std::sort. Their bytes grow, so that an order by both keeps
/// blocks with one address as they were.
void expect_sorted(std::vector<live_block> blocks) {
  std::vector<live_block> expected = blocks;
  std::ranges::sort(expected, {}, [](const live_block& b) { return std::pair(b.address, b.bytes); });
  std::vector<live_block> spare(blocks.size());
  const live_block* const sorted = in_address_order(blocks.data(), spare.data(), blocks.size());
  EXPECT_EQ(std::vector<live_block>(sorted, sorted + blocks.size()), expected);
}

std::vector<live_block> blocks_at(std::size_t count, auto&& address) {
  std::vector<live_block> blocks;
  for (std::uint32_t i = 0; i < count; ++i) blocks.push_back({address(i), i, 7, i});
  return blocks;
}

TEST(preload_address_order, is_that_of_comparing) {
  workload::random_generator random(3);
  for (const std::uint64_t mask :
       {std::uint64_t{0xf0}, std::uint64_t{0xffff'fff0}, std::uint64_t{0x7fff'ffff'fff8}, ~std::uint64_t{0},
        std::uint64_t{0x7000'0000'0010}}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{1000}, std::size_t{30'000}})
      expect_sorted(blocks_at(count, [&](std::uint32_t) { return random.next() & mask; }));
  }
}

TEST(preload_address_order, needs_no_digit_that_all_have_in_common) {
  workload::random_generator random(4);
  expect_sorted(blocks_at(5000, [&](std::uint32_t) { return 0x5555'1230'0000 + random.next() % 4096 * 16; }));
  expect_sorted(blocks_at(5000, [](std::uint32_t i) { return 0x7fff'0000'0000 - std::uint64_t{i} * 32; }));
  expect_sorted(blocks_at(3, [](std::uint32_t) { return std::uint64_t{0x1230}; }));
}

TEST(preload_address_order, has_blocks_that_begin_anywhere) {
  workload::random_generator random(5);
  expect_sorted(blocks_at(1000, [&](std::uint32_t) { return 0x1000 + random.next() % 300; }));
}

TEST(preload_address_order, may_be_of_nothing) {
  EXPECT_EQ(in_address_order(nullptr, nullptr, 0), nullptr);
  expect_sorted({{64, 1, 2, 3}});
}

}  // namespace
}  // namespace espalier::preload
