#include "espalier/memory/shared_heap.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>

#include "support/sanitizers.hpp"

namespace espalier {
namespace {

TEST(shared_heap, takes_blocks_from_malloc_and_counts_them_as_malloc_does) {
  shared_heap source;
  std::uint64_t bytes = 0;
  for (const std::size_t align : {8U, 16U, 32U, 64U, 256U}) {
    void* const memory = source.allocate({align * 3, align, memory_role::node});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % align, 0U);
    EXPECT_GE(malloc_usable_size(memory), align * 3);
    bytes += malloc_usable_size(memory);
    source.deallocate(source.allocate({40, 8, memory_role::leaf}), {40, 8, memory_role::leaf});
    EXPECT_EQ(source.usage().bytes_in_use, bytes);
    EXPECT_EQ(source.usage().bytes_reserved, bytes);
    // Given back by another thread: the counts of two threads then cancel out.
    std::thread([&] { source.deallocate(memory, {align * 3, align, memory_role::node}); }).join();
    bytes = 0;
    EXPECT_EQ(source.usage().blocks, 0U);
    EXPECT_EQ(source.usage().bytes_in_use, 0U);
  }
  EXPECT_FALSE(shared_heap::releases_on_destruction);
}

TEST(shared_heap, a_refusal_is_not_counted) {
  if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "a sanitizer stops at such a size";
  shared_heap source;
  const std::size_t absurd = std::numeric_limits<std::size_t>::max() / 4;
  EXPECT_THROW((void)source.allocate({absurd, 8, memory_role::node}), std::bad_alloc);
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
}

}  // namespace
}  // namespace espalier
