#include "espalier/memory/baselines/disturbed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier {
namespace {

static_assert(heap_placement<extra_allocations<shared_heap>> &&
              !heap_placement<extra_allocations<segregated>>);

constexpr block node{64, 64, memory_role::node};

/// What the extra blocks of a thread of its own weigh after each of `count` allocations.
std::vector<std::uint64_t> extra_bytes(unsigned count) {
  std::vector<std::uint64_t> bytes;
  std::thread([&] {
    segregated plain;
    extra_allocations<segregated> source;
    std::vector<void*> blocks;
    std::vector<void*> plain_blocks;
    for (unsigned i = 0; i < count; ++i) {
      blocks.push_back(source.allocate(node));
      plain_blocks.push_back(plain.allocate(node));
      bytes.push_back(source.usage().bytes_reserved - plain.usage().bytes_reserved);
    }
    EXPECT_EQ(source.usage().blocks, plain.usage().blocks);
    EXPECT_EQ(source.usage().bytes_in_use, plain.usage().bytes_in_use);
    for (unsigned i = 0; i < count; ++i) {
      source.deallocate(blocks[i], node);
      plain.deallocate(plain_blocks[i], node);
    }
    EXPECT_EQ(source.usage().bytes_reserved - plain.usage().bytes_reserved, bytes.back())
        << "what is kept is kept to the end";
  }).join();
  return bytes;
}

TEST(extra_allocations, come_one_before_each_block_in_several_sizes) {
  const std::vector<std::uint64_t> bytes = extra_bytes(400);
  std::vector<unsigned> of_size(9);
  std::uint64_t before = 0;
  for (const std::uint64_t now : bytes) {
    const std::uint64_t one = now - before;
    ASSERT_TRUE(one >= 16 && one <= 128 && one % 16 == 0) << one;
    ++of_size[one / 16];
    before = now;
  }
  for (unsigned i = 1; i <= 8; ++i) EXPECT_GT(of_size[i], 20U) << i * 16 << " bytes";
}

TEST(extra_allocations, are_the_same_in_every_run) {
  // The slot of an ended thread passes to the next one.
  EXPECT_EQ(extra_bytes(50), extra_bytes(50));
}

}  // namespace
}  // namespace espalier
