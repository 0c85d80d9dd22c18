#include "espalier/memory/parts/page_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier {
namespace {

constexpr std::size_t front_align = std::size_t{256} << 10U;

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

bool is_mapped(void* where) {
  auto* const page = static_cast<std::byte*>(where) - address(where) % hw::page_size();
  unsigned char flag = 0;
  return mincore(page, hw::page_size(), &flag) == 0 || errno != ENOMEM;
}

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
}  // namespace espalier
