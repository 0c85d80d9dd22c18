// Pages, and what the kernel says of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"

namespace espalier::hw {
namespace {

/// One entry a page, true where memory stands behind it; empty where any part is not mapped.
std::vector<bool> residency(std::byte* data, std::size_t size) {
  std::vector<unsigned char> flags(size / page_size());
  if (mincore(data, size, flags.data()) != 0) {
    EXPECT_EQ(errno, ENOMEM);
    return {};
  }
  std::vector<bool> resident(flags.size());
  std::transform(flags.begin(), flags.end(), resident.begin(),
                 [](unsigned char flag) { return (flag & 1U) != 0; });
  return resident;
}

bool is_mapped(std::byte* data, std::size_t size) { return !residency(data, size).empty(); }

bool is_aligned(const std::byte* data, std::size_t alignment) {
  return std::bit_cast<std::uintptr_t>(data) % alignment == 0;
}

bool is_zero(const page_run& run) {
  return std::all_of(run.data(), run.data() + run.size(), [](std::byte b) { return b == std::byte{0}; });
}

TEST(pages, zeroed_writable_and_rounded_up) {
  const auto run = map_pages(3 * page_size() + 1);
  EXPECT_EQ(run.size(), 4 * page_size());
  EXPECT_TRUE(is_aligned(run.data(), page_size()));
  EXPECT_TRUE(is_zero(run));
  std::fill(run.data(), run.data() + run.size(), std::byte{0xa5});
  EXPECT_EQ(run.data()[run.size() - 1], std::byte{0xa5});
  EXPECT_FALSE(run.is_huge_advised());
  EXPECT_EQ(run.bound_numa_node(), std::nullopt);
}

TEST(pages, whole_pages_are_not_rounded) {
  EXPECT_EQ(map_pages(page_size()).size(), page_size());
  EXPECT_EQ(map_pages(1).size(), page_size());
}

TEST(pages, destructor_unmaps) {
  std::byte* data = nullptr;
  std::size_t size = 0;
  {
    const auto run = map_pages(64 * page_size());
    data = run.data();
    size = run.size();
    EXPECT_TRUE(is_mapped(data, size));
  }
  for (std::size_t offset = 0; offset < size; offset += page_size()) {
    EXPECT_FALSE(is_mapped(data + offset, page_size()));
  }
}

TEST(pages, move_hands_the_mapping_over) {
  auto first = map_pages(page_size());
  std::byte* data = first.data();
  page_run second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): the empty state is documented
  EXPECT_EQ(first.size(), 0U);

  auto third = map_pages(2 * page_size());
  std::byte* replaced = third.data();
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), page_size());
  EXPECT_FALSE(is_mapped(replaced, 2 * page_size()));

  auto& same = third;
  third = std::move(same);
  EXPECT_EQ(third.data(), data);
  EXPECT_TRUE(is_mapped(data, page_size()));
}

TEST(pages, prefault_backs_every_page) {
  const auto run = map_pages(100 * page_size(), {.prefault = true});
  const auto resident = residency(run.data(), run.size());
  ASSERT_EQ(resident.size(), 100U);
  EXPECT_EQ(std::ranges::count(resident, true), 100);
  EXPECT_TRUE(is_zero(run));
}

TEST(pages, without_prefault_pages_wait_for_a_touch) {
  const auto run = map_pages(100 * page_size());
  EXPECT_EQ(std::ranges::count(residency(run.data(), run.size()), true), 0);
}

TEST(pages, huge_runs_are_aligned_and_whole) {
  ASSERT_TRUE(std::has_single_bit(huge_page_size()));
  // A fresh mapping may be aligned by luck; several in a row are not.
  std::vector<page_run> runs;
  for (int i = 0; i < 5; ++i) {
    const std::size_t wanted = huge_page_size() + static_cast<std::size_t>(i % 2);
    runs.push_back(map_pages(wanted, {.huge = true}));
    const auto& run = runs.back();
    EXPECT_TRUE(is_aligned(run.data(), huge_page_size()));
    EXPECT_EQ(run.size(), huge_page_size() * (i % 2 == 0 ? 1 : 2));
    EXPECT_TRUE(is_mapped(run.data(), run.size()));
    run.data()[run.size() - 1] = std::byte{1};
    const auto mode = transparent_huge_pages();
    EXPECT_EQ(run.is_huge_advised(), mode == "always" || mode == "madvise");
  }
  std::byte* data = runs.front().data();
  const std::size_t size = runs.front().size();
  runs.clear();
  EXPECT_FALSE(is_mapped(data, size));
}

TEST(pages, bound_pages_carry_the_policy) {
  const auto run = map_pages(4 * page_size(), {.numa_node = 0, .prefault = true});
  EXPECT_TRUE(is_zero(run));
  if (!run.bound_numa_node()) GTEST_SKIP() << "this system forbids binding";
  EXPECT_EQ(run.bound_numa_node(), 0U);
  int mode = -1;
  std::vector<unsigned long> nodes(64);
  ASSERT_EQ(syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, run.data(), MPOL_F_ADDR), 0);
  EXPECT_EQ(mode, MPOL_BIND);
  EXPECT_EQ(nodes.front(), 1U);
}

TEST(pages, absent_numa_node_is_named) {
  for (const unsigned node : {1000U, std::numeric_limits<unsigned>::max()}) {
    try {
      map_pages(page_size(), {.numa_node = node});
      ADD_FAILURE() << "bound to node " << node;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("NUMA node " + std::to_string(node)));
    }
  }
}

TEST(pages, refused_sizes) {
  EXPECT_THROW(map_pages(0), std::invalid_argument);
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - page_size(), most / 2}) {
    EXPECT_THROW(map_pages(bytes), std::bad_alloc);
    EXPECT_THROW(map_pages(bytes, {.huge = true}), std::bad_alloc);
  }
}

TEST(pages, mode_is_one_of_the_kernels_words) {
  const std::set<std::string_view> words{"always", "madvise", "never", "unavailable"};
  EXPECT_TRUE(words.contains(transparent_huge_pages()));
  EXPECT_EQ(page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_GE(huge_page_size(), page_size());
}

TEST(page_words, a_page_in_memory_has_a_frame) {
  constexpr std::uint64_t word = std::uint64_t{0x8180'0000'0001'2345};  // soft-dirty and exclusive besides
  EXPECT_TRUE(is_in_memory(word));
  EXPECT_EQ(frame_of(word), 0x12345U);
  EXPECT_FALSE(is_in_memory(word & ~(std::uint64_t{1} << 63U)));
  EXPECT_EQ(frame_of(~std::uint64_t{0}), (std::uint64_t{1} << 55U) - 1);
}

TEST(page_words, huge_pages_are_of_two_kinds) {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  EXPECT_TRUE(is_huge(hugetlb, 5, 6));
  EXPECT_TRUE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 3));
  EXPECT_FALSE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 4)) << "of another size";
  EXPECT_FALSE(is_huge(~(hugetlb | transparent), 512 * 7 + 3, 512 * 9 + 3));
}

}  // namespace
}  // namespace espalier::hw
