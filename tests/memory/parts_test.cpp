// What placements are made of.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/index_class.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "memory/placement_audit.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

bool is_mapped(void* where) {
  auto* const page = static_cast<std::byte*>(where) - address(where) % hw::page_size();
  unsigned char flag = 0;
  return mincore(page, hw::page_size(), &flag) == 0 || errno != ENOMEM;
}

std::vector<void*> allocate(slab& s, std::size_t n) {
  std::vector<void*> blocks(n);
  std::generate(blocks.begin(), blocks.end(), [&] { return s.allocate(); });
  return blocks;
}

void deallocate(slab& s, const std::vector<void*>& blocks) {
  for (void* const b : blocks) s.deallocate(b);
}

class slab_of_each_size : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(sizes, slab_of_each_size, testing::Values(16, 24, 32, 40, 64, 104, 1024));

TEST_P(slab_of_each_size, blocks_are_distinct_aligned_and_keep_what_is_written) {
  slab s(GetParam());
  constexpr std::size_t n = 5000;
  const std::vector<void*> blocks = allocate(s, n);
  const std::size_t align = GetParam() & (~GetParam() + 1);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(address(blocks[i]) % align, 0U);
    std::memset(blocks[i], static_cast<int>(i % 251), GetParam());
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(blocks[i]);
    ASSERT_TRUE(std::all_of(bytes, bytes + GetParam(), [&](unsigned char b) { return b == i % 251; })) << i;
  }
  std::vector<void*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < n; ++i) ASSERT_GE(address(sorted[i]) - address(sorted[i - 1]), GetParam());
}

TEST_P(slab_of_each_size, lies_end_to_end_while_it_grows) {
  slab s(GetParam());
  const std::size_t n = (std::size_t{4} << 20U) / GetParam();
  const std::vector<void*> blocks = allocate(s, n);
  std::size_t breaks = 0;
  for (std::size_t i = 1; i < n; ++i)
    breaks += address(blocks[i]) - address(blocks[i - 1]) != GetParam() ? 1 : 0;
  // Spans of 64, 128, ... KiB: six of them reach almost 4 MiB, the seventh passes it.
  EXPECT_LE(breaks, 6U);
  EXPECT_GE(s.usage().bytes_reserved, n * GetParam());
  EXPECT_LE(s.usage().bytes_reserved, n * GetParam() + (std::size_t{64} << 10U))
      << "what is mapped ahead is not in use";
}

TEST_P(slab_of_each_size, usage_is_exact) {
  slab s(GetParam());
  EXPECT_EQ(s.usage().blocks, 0U);
  EXPECT_EQ(s.usage().bytes_reserved, 0U);
  std::vector<void*> blocks = allocate(s, 777);
  EXPECT_EQ(s.usage().blocks, 777U);
  EXPECT_EQ(s.usage().bytes_in_use, 777 * GetParam());
  EXPECT_EQ(s.usage().bytes_reserved % hw::page_size(), 0U);
  deallocate(s, {blocks.begin(), blocks.begin() + 700});
  EXPECT_EQ(s.usage().blocks, 77U);
  EXPECT_EQ(s.usage().bytes_in_use, 77 * GetParam());
  EXPECT_GE(s.usage().bytes_reserved, 777 * GetParam()) << "free blocks stay reserved";
}

TEST_P(slab_of_each_size, memory_is_used_again) {
  slab s(GetParam());
  std::vector<void*> blocks = allocate(s, 3000);
  const std::uint64_t reserved = s.usage().bytes_reserved;
  for (int round = 0; round < 10; ++round) {
    deallocate(s, blocks);
    EXPECT_EQ(s.usage().blocks, 0U);
    blocks = allocate(s, 3000);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 3000U);
    EXPECT_EQ(s.usage().bytes_reserved, reserved);
  }
}

TEST_P(slab_of_each_size, what_another_thread_frees_comes_back) {
  slab s(GetParam());
  std::vector<void*> blocks;
  std::barrier step(2);
  constexpr std::size_t n = 1000;
  constexpr int rounds = 50;
  std::thread consumer([&] {
    for (int round = 0; round < rounds; ++round) {
      step.arrive_and_wait();
      deallocate(s, blocks);
      step.arrive_and_wait();
    }
  });
  for (int round = 0; round < rounds; ++round) {
    blocks = allocate(s, n);
    EXPECT_EQ(s.usage().blocks, n);
    step.arrive_and_wait();
    step.arrive_and_wait();
    EXPECT_EQ(s.usage().blocks, 0U);
  }
  consumer.join();
  // What the consumer keeps for itself, and the rest of one run.
  EXPECT_LE(s.usage().bytes_reserved, (n + 128) * GetParam() + (std::size_t{64} << 10U));
}

TEST(slab, the_cache_of_an_ended_thread_serves_its_successor) {
  slab s(64);
  std::uint64_t reserved = 0;
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { deallocate(s, allocate(s, 50)); }).join();
    if (i == 0) reserved = s.usage().bytes_reserved;
  }
  EXPECT_EQ(s.usage().bytes_reserved, reserved);
}

TEST(slab, keeps_the_memory_beside_blocks_in_use) {
  slab s(104);
  const std::vector<void*> blocks = allocate(s, (std::size_t{40} << 20U) / 104);
  const std::size_t most = s.usage().bytes_reserved;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::memset(blocks[i], 1, 104);
    if (i % 100 != 0) s.deallocate(blocks[i]);
  }
  EXPECT_EQ(s.usage().bytes_reserved, most);
  for (std::size_t i = 0; i < blocks.size(); i += 100) EXPECT_EQ(*static_cast<unsigned char*>(blocks[i]), 1);
}

TEST(slab, returns_the_memory_of_what_is_free) {
  constexpr std::size_t bytes = 104;
  constexpr std::size_t n = (std::size_t{40} << 20U) / bytes;
  slab s(bytes, slab::side_table::one_byte);
  const std::vector<void*> blocks = allocate(s, n);
  for (void* const b : blocks) std::memset(b, 1, bytes);
  s.side_byte(blocks[7])->store(9);
  const std::size_t most = s.usage().bytes_reserved;
  const std::vector<void*> kept(blocks.begin(), blocks.begin() + 100);
  deallocate(s, std::vector(blocks.begin() + 100, blocks.end()));
  EXPECT_LT(s.usage().bytes_reserved, most / 2);
  std::size_t resident = 0;
  for (std::size_t at = 0; at < bytes * n; at += hw::page_size()) {
    unsigned char in_memory = 0;
    auto* const page = static_cast<std::byte*>(blocks[0]) - address(blocks[0]) % hw::page_size() + at;
    if (mincore(page, hw::page_size(), &in_memory) == 0) resident += in_memory & 1U;
  }
  EXPECT_LT(resident * hw::page_size(), most / 2);
  for (void* const b : kept) EXPECT_EQ(*static_cast<unsigned char*>(b), 1);
  EXPECT_EQ(s.side_byte(blocks[7])->load(), 9);
  // What was returned is handed out again, each block once.
  std::vector<void*> again = allocate(s, n - kept.size());
  EXPECT_LE(s.usage().bytes_reserved, most + (std::size_t{1} << 20U));
  for (void* const b : again) std::memset(b, 2, bytes);
  again.insert(again.end(), kept.begin(), kept.end());
  std::sort(again.begin(), again.end());
  for (std::size_t i = 1; i < again.size(); ++i) ASSERT_GE(address(again[i]) - address(again[i - 1]), bytes);
  for (void* const b : kept) EXPECT_EQ(*static_cast<unsigned char*>(b), 1);
  deallocate(s, again);
  EXPECT_EQ(s.usage().blocks, 0U);
}

TEST(slab, destruction_unmaps_every_page_blocks_in_use_included) {
  std::vector<void*> blocks;
  {
    slab s(64);
    blocks = allocate(s, 60000);
    EXPECT_EQ(std::count_if(blocks.begin(), blocks.end(), is_mapped), 60000);
  }
  EXPECT_EQ(std::count_if(blocks.begin(), blocks.end(), is_mapped), 0);
}

TEST(slab, blocks_larger_than_a_page_are_aligned_to_what_divides_them) {
  for (const std::size_t bytes : {std::size_t{8192}, std::size_t{3} << 14U, std::size_t{256} << 10U}) {
    slab s(bytes);
    const std::vector<void*> blocks = allocate(s, 20);
    for (void* const b : blocks) {
      EXPECT_EQ(address(b) % (bytes & (~bytes + 1)), 0U) << bytes;
      std::memset(b, 1, bytes);
    }
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 20U);
  }
}

TEST(slab, knows_what_lies_in_it) {
  slab s(64);
  slab other(64);
  int stranger = 0;
  EXPECT_FALSE(s.holds(&stranger)) << "it has nothing yet";
  for (void* const b : allocate(s, 5000)) {
    EXPECT_TRUE(s.holds(b));
    EXPECT_TRUE(s.holds(static_cast<std::byte*>(b) + 63));
    EXPECT_FALSE(other.holds(b));
  }
  for (void* const b : allocate(other, 10)) EXPECT_FALSE(s.holds(b));
  EXPECT_FALSE(s.holds(&stranger));
}

std::size_t address_space_in_use() {
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  in >> pages;
  return pages * hw::page_size();
}

// In a child: the limit is for the whole process.
TEST(slab, refused_pages_are_bad_alloc_and_change_nothing) {
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "a sanitizer needs the address space";
  enum outcome { fine, no_refusal, count_changed, cannot_reuse, same_block_twice, cannot_go_on };
  const int outcome = test::in_forked_child([]() -> int {
    slab s(64);
    std::vector<void*> blocks;
    blocks.reserve(1U << 20U);
    const auto refused = [&](std::size_t n) {
      return test::is_refused([&] {
        while (n-- != 0) blocks.push_back(s.allocate());
      });
    };
    {
      const test::address_space_limit tight(address_space_in_use() + (std::size_t{1} << 20U));
      // Again and again: a refusal must not wear anything out, nor the lock be left held.
      for (int i = 0; i < 4; ++i) {
        if (!refused(i == 0 ? blocks.capacity() : 1)) return no_refusal;
        if (s.usage().blocks != blocks.size()) return count_changed;
      }
      for (int i = 0; i < 500; ++i) {
        s.deallocate(blocks.back());
        blocks.pop_back();
      }
      if (refused(500)) return cannot_reuse;
    }
    if (refused(50000)) return cannot_go_on;
    std::sort(blocks.begin(), blocks.end());
    if (std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) return same_block_twice;
    return s.usage().blocks == blocks.size() ? fine : count_changed;
  });
  EXPECT_EQ(outcome, fine);
}

TEST(slab, the_sanitizer_knows_which_blocks_are_free) {
  if (!test::address_sanitizer) GTEST_SKIP() << "only with AddressSanitizer";
  slab s(32);
  auto* const first = static_cast<volatile char*>(s.allocate());
  auto* const second = static_cast<volatile char*>(s.allocate());
  first[0] = 1;
  second[0] = 1;
  s.deallocate(const_cast<char*>(second));
  EXPECT_DEATH(second[0] = 1, "use-after-poison");
  EXPECT_DEATH(second[32] = 1, "use-after-poison") << "never handed out";
}

constexpr std::size_t front_align = std::size_t{256} << 10U;

TEST(page_blocks, are_aligned_and_within_reach_of_a_zeroed_line_in_front) {
  page_blocks source(front_align);
  for (std::size_t align = 1; align <= front_align / 2; align *= 2) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4096 + 64}, front_align / 2 - 64}) {
      void* const memory = source.allocate(100000, align, offset);
      EXPECT_EQ(address(memory) % align, 0U);
      const std::uintptr_t front = address(source.front_of(memory));
      EXPECT_EQ(front, address(memory) / front_align * front_align);
      EXPECT_GE(address(memory) - front, offset);
      const std::vector<std::byte> zeros(64);
      EXPECT_EQ(std::memcmp(source.front_of(memory), zeros.data(), 64), 0);
      EXPECT_GE(source.block_bytes(memory), 100000U);
      std::memset(source.front_of(memory), 0xFF, 64);
      std::memset(memory, 0xFF, source.block_bytes(memory));
      source.deallocate(memory);
    }
  }
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
  EXPECT_EQ(source.usage().bytes_reserved, 0U);
}

TEST(page_blocks, go_back_to_the_system_at_once_and_with_their_source) {
  std::vector<void*> blocks;
  {
    page_blocks source(front_align);
    for (int i = 0; i < 10; ++i) blocks.push_back(source.allocate(50000, 64));
    // The first, the last and one between, as they are linked.
    for (const std::size_t i : {0U, 9U, 4U}) {
      source.deallocate(blocks[i]);
      EXPECT_FALSE(is_mapped(blocks[i]));
    }
    EXPECT_EQ(source.usage().blocks, 7U);
    EXPECT_GE(source.usage().bytes_reserved, 7U * 50000);
    for (const std::size_t i : {1U, 2U, 3U, 5U, 6U, 7U, 8U}) EXPECT_TRUE(is_mapped(blocks[i]));
  }
  for (void* const b : blocks) EXPECT_FALSE(is_mapped(b));
}

/// The flags of the kernel's mapping that has an address (proc_pid_smaps(5)): "hg" for huge pages, "nh" for none.
std::string flags_of_mapping(const void* memory) {
  std::ifstream mappings("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = begin <= address(memory) && address(memory) < end;
    if (inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "";
}

TEST(page_blocks, are_in_huge_pages_where_they_fill_some) {
  if (hw::transparent_huge_pages() == "unavailable") GTEST_SKIP() << "this kernel has no huge pages";
  const std::size_t large = 2 * hw::huge_page_size() + 1000;
  page_blocks ordinary(2 * hw::huge_page_size());
  page_blocks huge(2 * hw::huge_page_size(), std::nullopt, true);
  const auto flag = [](const void* memory, const char* which) {
    return flags_of_mapping(memory).find(which) != std::string::npos;
  };
  EXPECT_FALSE(flag(ordinary.allocate(large, 64), " hg "));
  EXPECT_FALSE(flag(huge.allocate(1000, 64), " hg "));
  const auto* const block = static_cast<const std::byte*>(huge.allocate(large, 64));
  EXPECT_TRUE(flag(block, " hg "));
  EXPECT_TRUE(flag(block + large - 3000, " hg "));
  EXPECT_TRUE(flag(block + large - 1, " nh "));
}

TEST(page_blocks, refuse_what_cannot_be) {
  page_blocks source(front_align);
  EXPECT_THROW((void)source.allocate(100, front_align), std::bad_alloc);
  EXPECT_THROW((void)source.allocate(std::numeric_limits<std::size_t>::max() - 100, 8), std::bad_alloc);
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(page_blocks, threads_free_each_others) {
  page_blocks source(front_align);
  std::vector<void*> blocks(64);
  test::on_threads(4, [&](int t) {
    for (std::size_t i = static_cast<std::size_t>(t); i < blocks.size(); i += 4)
      blocks[i] = source.allocate(1000 * (i + 1), 64);
  });
  EXPECT_EQ(source.usage().blocks, 64U);
  test::on_threads(4, [&](int t) {
    for (std::size_t i = static_cast<std::size_t>(3 - t); i < blocks.size(); i += 4)
      source.deallocate(blocks[i]);
  });
  EXPECT_EQ(source.usage().blocks, 0U);
}

}  // namespace

namespace size_class {
namespace {

/// Every small size, and many of each doubling above.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t bytes = 1; bytes <= largest; bytes += bytes < 2 * fine_most ? 1 : bytes / 100) {
    all.push_back(bytes);
  }
  for (std::size_t round = fine_most; round <= largest; round *= 2) {
    for (const std::size_t bytes : {round - 1, round, round + 1, round + line}) {
      if (bytes <= largest) all.push_back(bytes);
    }
  }
  return all;
}

TEST(size_class, a_block_holds_what_was_asked_aligned_and_wastes_little) {
  for (std::size_t align = 1; align <= largest; align *= 2) {
    for (const std::size_t bytes : sizes()) {
      const std::size_t held = bytes_for(bytes, align);
      ASSERT_TRUE(has(bytes, align));
      ASSERT_GE(held, bytes);
      ASSERT_GE(held, smallest);
      ASSERT_EQ(held % align, 0U);
      ASSERT_EQ(held % granule, 0U);
      ASSERT_LT(index_of(held), count);
      if (bytes < smallest) continue;
      const std::size_t step = std::max(align, granule);
      if (held > fine_most) {
        ASSERT_LE(held - bytes, std::max(bytes / 8 + line, step)) << bytes << " bytes aligned to " << align;
      } else {
        const std::size_t to_whole_lines = held % line == 0 ? granule : 0;
        ASSERT_LT(held - bytes, step + to_whole_lines) << bytes << " bytes aligned to " << align;
      }
    }
  }
}

TEST(size_class, each_held_size_has_an_index_of_its_own) {
  std::map<std::size_t, std::size_t> held_at;
  for (std::size_t align = 1; align <= largest; align *= 2) {
    for (const std::size_t bytes : sizes()) {
      const std::size_t held = bytes_for(bytes, align);
      EXPECT_EQ(held_at.emplace(index_of(held), held).first->second, held);
    }
  }
}

TEST(size_class, large_blocks_without_an_alignment_begin_at_every_index_of_a_cache) {
  for (const std::size_t bytes : sizes()) {
    if (bytes <= fine_most) continue;
    EXPECT_EQ(bytes_for(bytes, line) / line % 2, 1U) << bytes;
    EXPECT_EQ(bytes_for(bytes, line), bytes_for(bytes, 1)) << bytes;
  }
}

TEST(size_class, what_is_too_large_has_none) {
  EXPECT_FALSE(has(largest + 1, 8));
  EXPECT_FALSE(has(8, 2 * largest));
  EXPECT_FALSE(has(std::numeric_limits<std::size_t>::max(), 8));
}

TEST(size_class, sizes_of_tree_nodes) {
  struct held {
    std::size_t bytes, align, taken;
  };
  for (const auto& [bytes, align, taken] : std::to_array<held>({{1, 1, 16},
                                                                {24, 8, 24},
                                                                {32, 32, 32},
                                                                {40, 8, 40},
                                                                {40, 16, 48},
                                                                {40, 64, 64},
                                                                {48, 8, 48},
                                                                {56, 8, 64},
                                                                {64, 8, 64},
                                                                {112, 8, 112},
                                                                {120, 8, 128},
                                                                {1024, 8, 1024},
                                                                {1025, 8, 17 * line},
                                                                {4096, 8, 65 * line},
                                                                {4096, 4096, 4096},
                                                                {largest, 8, largest + line}}))
    EXPECT_EQ(bytes_for(bytes, align), taken) << bytes << " aligned to " << align;
}

}  // namespace
}  // namespace size_class

namespace index_class {
namespace {

TEST(index_class, each_class_is_found_by_its_own_size_and_no_smaller_one_holds_a_block) {
  std::size_t before = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t stride = shape_of(c).stride;
    EXPECT_GT(stride, before) << "class " << c;
    EXPECT_EQ(of(stride, 1), c);
    if (before >= 64) {
      EXPECT_EQ(of(before + 1, 1), c);
    }
    before = stride;
  }
  EXPECT_EQ(before, largest_bytes);
  EXPECT_EQ(of(largest_bytes + 1, 1), none);
  EXPECT_EQ(of(static_cast<std::size_t>(-1), 1), none);
}

TEST(index_class, blocks_hold_what_was_asked_aligned) {
  for (std::size_t align = 1; align <= 64; align *= 2) {
    for (std::size_t bytes = 1; bytes <= largest_bytes; ++bytes) {
      const shape s = shape_of(of(bytes, align));
      ASSERT_GE(s.stride, bytes);
      ASSERT_EQ(s.stride % align, 0U) << bytes << " aligned to " << align;
      ASSERT_TRUE(s.stride < line || s.stride % line == 0);
    }
  }
}

TEST(index_class, from_a_line_on_any_64_blocks_of_a_period_begin_at_64_indices) {
  for (std::size_t c = of(64, 64); c < count; ++c) {
    const shape s = shape_of(c);
    const bool odd = s.stride / line % 2 == 1;
    EXPECT_EQ(s.punctuated, !odd);
    if (!odd) {
      EXPECT_LE(s.stride, 6 * line);
    }
    // Where a line is left out, periods begin at multiples of 64 blocks.
    for (std::size_t first = 0; first < 256; first += odd ? 1 : 64) {
      std::set<std::size_t> visited;
      for (std::size_t i = first; i < first + 64; ++i) visited.insert(s.offset(i) / line % indices);
      ASSERT_EQ(visited.size(), 64U) << s.stride << " bytes, from block " << first;
    }
  }
}

TEST(index_class, a_block_is_found_by_each_of_its_bytes) {
  for (std::size_t c = 0; c < count; ++c) {
    const shape s = shape_of(c);
    for (std::size_t i = 0; i < 200; ++i) {
      ASSERT_EQ(s.block_at(s.offset(i)), i) << "class " << c;
      ASSERT_EQ(s.block_at(s.offset(i) + s.stride - 1), i);
      ASSERT_GE(s.offset(i + 1), s.offset(i) + s.stride);
      ASSERT_EQ(s.block_at(s.offset(i + 1) - 1), i) << "the line left out";
    }
  }
}

TEST(index_class, rounding_costs_what_the_header_says) {
  const auto held = [](std::size_t bytes) {
    const shape s = shape_of(of(bytes, 1));
    return static_cast<double>(s.offset(384)) / 384 / static_cast<double>(bytes);
  };
  double worst = 0;
  for (std::size_t bytes = 320; bytes <= largest_bytes; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 1.29);
  EXPECT_EQ(worst, held(449));
  worst = 0;
  for (std::size_t bytes = 4096; bytes <= largest_bytes; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 1.15);
  worst = 0;
  for (std::size_t bytes = 64; bytes < 320; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 2.0);
}

TEST(index_class, small_blocks_are_dense_and_straddle_no_line_where_they_divide_one) {
  EXPECT_EQ(shape_of(of(1, 1)).stride, 16U);
  EXPECT_EQ(shape_of(of(24, 8)).stride, 24U);
  EXPECT_EQ(shape_of(of(33, 16)).stride, 48U);
  EXPECT_EQ(shape_of(of(33, 32)).stride, 64U);
  EXPECT_EQ(shape_of(of(56, 8)).stride, 64U);
  EXPECT_EQ(shape_of(of(64, 64)).stride, 64U);
}

TEST(index_class, room_for_an_alignment_above_a_line) {
  EXPECT_EQ(bytes_within(100, 64), 100U);
  for (std::size_t align = 128; align <= 4096; align *= 2) {
    for (std::size_t begin = 0; begin < 2 * align; begin += line) {
      const std::size_t aligned = (begin + align - 1) / align * align;
      EXPECT_LE(aligned + 100, begin + bytes_within(100, align));
    }
  }
}

}  // namespace
}  // namespace index_class
}  // namespace espalier
