#include "espalier/memory/baselines/disturbed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier {
namespace {

constexpr block node{32, 32, memory_role::node};

/// Remembers in which order blocks were asked for, by all instances.
struct listing : shared_heap {
  static inline std::vector<std::size_t> asked;
  void* allocate(const block& b, const void* near = nullptr) {
    asked.push_back(b.bytes);
    return shared_heap::allocate(b, near);
  }
};

static_assert(heap_placement<shared_heap> && heap_placement<shifted<shared_heap>>);
static_assert(!heap_placement<segregated>, "its instances have arenas of their own");

TEST(shifted, puts_one_block_before_the_first_of_each_thread) {
  listing::asked.clear();
  {
    shifted<listing> source;
    const auto two_of = [&](std::size_t bytes) {
      const block b{bytes, 8, memory_role::node};
      for (int i = 0; i < 2; ++i) source.deallocate(source.allocate(b), b);
    };
    two_of(40);
    std::thread(two_of, 48).join();
    two_of(56);
  }
  EXPECT_EQ(listing::asked, (std::vector<std::size_t>{32, 40, 40, 32, 48, 48, 56, 56}));
}

TEST(shifted, counts_the_extra_blocks_as_reserved_only) {
  shifted<shared_heap> source;
  void* const memory = source.allocate(node);
  EXPECT_EQ(source.usage().blocks, 1U);
  EXPECT_GE(source.usage().bytes_in_use, 32U);
  EXPECT_GE(source.usage().bytes_reserved, source.usage().bytes_in_use + 32);
  source.deallocate(memory, node);
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
  EXPECT_GE(source.usage().bytes_reserved, 32U) << "kept to the end";
}

}  // namespace
}  // namespace espalier
