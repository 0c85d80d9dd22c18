#include "espalier/memory/parts/slab.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

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
  EXPECT_EQ(s.usage().bytes_reserved % GetParam(), 0U);
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

TEST(slab, threads_never_get_the_same_block) {
  slab s(32);
  constexpr int threads = 4;
  test::on_threads(threads, [&](int t) {
    std::vector<std::uint64_t*> mine;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      if (i % 3 != 2 || mine.empty()) {
        auto* const words = static_cast<std::uint64_t*>(s.allocate());
        std::fill_n(words, 4, i << 8U | static_cast<std::uint64_t>(t));
        mine.push_back(words);
      } else {
        std::swap(mine[i % mine.size()], mine.back());
        const std::uint64_t* const words = mine.back();
        ASSERT_EQ(words[0] & 0xFFU, static_cast<std::uint64_t>(t));
        ASSERT_TRUE(std::all_of(words, words + 4, [&](std::uint64_t w) { return w == words[0]; }));
        s.deallocate(mine.back());
        mine.pop_back();
      }
    }
    for (std::uint64_t* const words : mine) s.deallocate(words);
  });
  EXPECT_EQ(s.usage().blocks, 0U);
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

bool is_mapped(void* where) {
  auto* const page = static_cast<std::byte*>(where) - address(where) % hw::page_size();
  unsigned char flag = 0;
  return mincore(page, hw::page_size(), &flag) == 0 || errno != ENOMEM;
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

bool is_refused(slab& s) {
  try {
    (void)s.allocate();
    return false;
  } catch (const std::bad_alloc&) {
    return true;
  }
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
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    rlimit tight = before;
    tight.rlim_cur = address_space_in_use() + (std::size_t{1} << 20U);
    setrlimit(RLIMIT_AS, &tight);
    bool refused = false;
    while (!refused && blocks.size() < blocks.capacity()) {
      try {
        blocks.push_back(s.allocate());
      } catch (const std::bad_alloc&) {
        refused = true;
      }
    }
    if (!refused) return no_refusal;
    if (s.usage().blocks != blocks.size()) return count_changed;
    // Again and again: a refusal must not wear anything out, nor the lock be left held.
    for (int i = 0; i < 3; ++i) {
      if (!is_refused(s)) return no_refusal;
      if (s.usage().blocks != blocks.size()) return count_changed;
    }
    for (int i = 0; i < 500; ++i) {
      s.deallocate(blocks.back());
      blocks.pop_back();
    }
    try {
      for (int i = 0; i < 500; ++i) blocks.push_back(s.allocate());
    } catch (const std::bad_alloc&) {
      return cannot_reuse;
    }
    setrlimit(RLIMIT_AS, &before);
    try {
      for (int i = 0; i < 50000; ++i) blocks.push_back(s.allocate());
    } catch (const std::bad_alloc&) {
      return cannot_go_on;
    }
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

}  // namespace
}  // namespace espalier
