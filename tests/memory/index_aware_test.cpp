#include "espalier/memory/index_aware.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/memory/shared_heap.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

constexpr block node_of(std::size_t bytes, memory_role role = memory_role::node) { return {bytes, 8, role}; }

/// The most blocks that begin at one index of a cache of 64 sets.
std::size_t most_at_one_index(const std::vector<void*>& blocks) {
  std::array<std::size_t, 64> load{};
  for (const void* const b : blocks) ++load[address(b) >> 6U & 63U];
  return *std::max_element(load.begin(), load.end());
}

std::vector<void*> allocate(index_aware& source, std::size_t n, const block& b) {
  std::vector<void*> blocks(n);
  std::generate(blocks.begin(), blocks.end(), [&] { return source.allocate(b); });
  return blocks;
}

/// 64k and 64k - 16 bytes, from 64 bytes to 4 KiB.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all{64};
  for (std::size_t bytes = 128; bytes <= 4096; bytes += 64) {
    all.push_back(bytes - 16);
    all.push_back(bytes);
  }
  return all;
}

TEST(index_aware, one_threads_blocks_of_one_size_spread_over_all_indices) {
  for (const std::size_t bytes : sizes()) {
    for (const auto& [n, bound] : {std::pair{128U, 3U}, {512U, 9U}, {640U, 11U}}) {
      index_aware source;
      EXPECT_LE(most_at_one_index(allocate(source, n, node_of(bytes))), bound) << n << " of " << bytes;
    }
  }
}

TEST(index_aware, no_index_has_more_than_its_share_however_many_blocks_there_are) {
  for (const std::size_t bytes : {64U, 128U, 200U, 384U, 512U, 1024U, 2048U, 4096U, 8192U}) {
    index_aware source;
    std::vector<void*> blocks;
    for (std::size_t n = 64; n <= 2048; n += 64) {
      for (int i = 0; i < 64; ++i) blocks.push_back(source.allocate(node_of(bytes)));
      ASSERT_EQ(most_at_one_index(blocks), n / 64) << n << " of " << bytes;
    }
  }
}

TEST(index_aware, the_heap_fails_at_a_size_so_that_the_measure_is_one) {
  shared_heap source;
  std::vector<void*> blocks(128);
  constexpr block b{4096, 4096, memory_role::node};
  std::generate(blocks.begin(), blocks.end(), [&] { return source.allocate(b); });
  EXPECT_EQ(most_at_one_index(blocks), 128U);
  for (void* const memory : blocks) source.deallocate(memory, b);
}

TEST(index_aware, two_roles_that_alternate_spread_together) {
  for (const std::size_t bytes : sizes()) {
    for (const std::size_t n : {64U, 128U, 512U, 640U}) {
      index_aware source;
      std::vector<void*> blocks(n);
      for (std::size_t i = 0; i < n; ++i)
        blocks[i] = source.allocate(node_of(bytes, i % 2 == 0 ? memory_role::node : memory_role::leaf));
      EXPECT_LE(most_at_one_index(blocks) * 4, n / 64 * 5) << n << " of " << bytes;
    }
  }
}

TEST(index_aware, threads_with_few_blocks_each_keep_apart) {
  for (const std::size_t bytes : {64U, 192U, 448U, 512U, 1024U, 4096U}) {
    index_aware source;
    constexpr int threads = 4;
    std::array<std::vector<void*>, threads> blocks;
    std::barrier together(threads);
    test::on_threads(threads, [&](int t) {
      together.arrive_and_wait();  // each has a slot of its own
      blocks[static_cast<std::size_t>(t)] = allocate(source, 16, node_of(bytes));
      together.arrive_and_wait();
    });
    std::vector<void*> all;
    for (const auto& of_one : blocks) all.insert(all.end(), of_one.begin(), of_one.end());
    EXPECT_EQ(most_at_one_index(all), 1U) << "four times 16 of " << bytes;
  }
}

TEST(index_aware, the_first_blocks_of_classes_and_of_placements_do_not_pile_up) {
  std::vector<void*> first;
  index_aware one;
  for (std::size_t bytes = 64; bytes <= 4096; bytes += 64) first.push_back(one.allocate(node_of(bytes)));
  EXPECT_LE(most_at_one_index(first), 4U) << "of classes";
  first.clear();
  std::vector<index_aware> many(64);
  for (index_aware& source : many) first.push_back(source.allocate(node_of(64)));
  EXPECT_LE(most_at_one_index(first), 12U) << "of placements";
}

TEST(index_aware, runs_begin_on_different_pages_of_their_regions) {
  index_aware source;
  std::set<std::uintptr_t> pages;
  for (unsigned role = 0; role < memory_role_count; ++role) {
    for (const std::size_t bytes : {64U, 128U}) {
      void* const memory = source.allocate(node_of(bytes, static_cast<memory_role>(role)));
      // A page's first index is at the next page's beginning: here the region's first line is taken.
      pages.insert((address(memory) % index_class::region_bytes - 64) / run_colour::page_bytes);
    }
  }
  EXPECT_EQ(pages.size(), run_colour::pages);
}

TEST(index_aware, blocks_from_a_line_on_are_lines_and_smaller_ones_that_divide_one_straddle_none) {
  index_aware source;
  for (std::size_t bytes = 1; bytes <= 4200; ++bytes) {
    void* const memory = source.allocate({bytes, 1, memory_role::node});
    if (bytes >= 64) {
      ASSERT_EQ(address(memory) % 64, 0U) << bytes;
    }
  }
  for (const std::size_t bytes : {8U, 16U, 32U, 64U}) {
    for (int i = 0; i < 1000; ++i) {
      const std::uintptr_t begin = address(source.allocate(node_of(bytes)));
      ASSERT_EQ(begin / 64, (begin + bytes - 1) / 64) << bytes;
    }
  }
}

TEST(index_aware, small_blocks_are_dense) {
  index_aware source;
  auto* const first = static_cast<std::byte*>(source.allocate(node_of(32)));
  for (std::ptrdiff_t i = 1; i < 100; ++i) EXPECT_EQ(source.allocate(node_of(32)), first + i * 32);
}

TEST(index_aware, what_is_held_is_little_more_than_what_was_asked) {
  for (std::size_t bytes = 320; bytes <= 4096; bytes += 13) {
    index_aware source;
    const std::vector<void*> blocks = allocate(source, 640, node_of(bytes));
    const auto asked = static_cast<double>(bytes * blocks.size());
    EXPECT_LE(static_cast<double>(source.usage().bytes_reserved), 1.35 * asked) << bytes;
    EXPECT_GE(source.usage().bytes_reserved, source.usage().bytes_in_use);
  }
}

TEST(index_aware, what_comes_back_is_used_again) {
  index_aware source;
  std::uint64_t reserved = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<void*, block>> blocks;
    for (std::size_t bytes = 1; bytes <= 5000; bytes += 7) {
      const block b{bytes, std::size_t{1} << (bytes % 9),
                    static_cast<memory_role>(bytes % memory_role_count)};
      blocks.emplace_back(source.allocate(b), b);
    }
    if (round == 0) reserved = source.usage().bytes_reserved;
    EXPECT_EQ(source.usage().bytes_reserved, reserved);
    for (const auto& [memory, b] : blocks) source.deallocate(memory, b);
  }
}

TEST(index_aware, large_blocks_do_not_all_begin_at_one_index) {
  index_aware source;
  EXPECT_LE(most_at_one_index(allocate(source, 64, node_of(40000))), 2U);
}

}  // namespace
}  // namespace espalier
