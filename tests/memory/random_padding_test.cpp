#include "espalier/memory/baselines/disturbed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

static_assert(heap_placement<random_padding<shared_heap>> && !heap_placement<random_padding<segregated>>);
static_assert(random_padding<segregated>::releases_on_destruction);

constexpr block node{64, 64, memory_role::node};

/// Remembers what it was asked for, and refuses to take back anything else.
struct exact : shared_heap {
  static inline std::vector<std::size_t> asked;
  static inline std::map<void*, std::size_t> out;
  void* allocate(const block& b, const void* near = nullptr) {
    void* const memory = shared_heap::allocate(b, near);
    asked.push_back(b.bytes);
    out[memory] = b.bytes;
    return memory;
  }
  void deallocate(void* memory, const block& b) noexcept {
    EXPECT_EQ(out[memory], b.bytes);
    out.erase(memory);
    shared_heap::deallocate(memory, b);
  }
};

/// The sizes that a thread of its own asks for, for blocks of 64 bytes.
std::vector<std::size_t> asked_sizes(unsigned count) {
  exact::asked.clear();
  std::thread([&] {
    random_padding<exact> source;
    std::vector<void*> blocks;
    for (unsigned i = 0; i < count; ++i) {
      blocks.push_back(source.allocate(node));
      std::memset(blocks.back(), 0xFF, node.bytes);
    }
    for (void* const b : blocks) source.deallocate(b, node);
  }).join();
  EXPECT_TRUE(exact::out.empty());
  return exact::asked;
}

TEST(random_padding, asks_for_more_in_several_steps_and_returns_what_it_asked_for) {
  const std::vector<std::size_t> sizes = asked_sizes(400);
  std::array<unsigned, 8> of_step{};
  for (const std::size_t bytes : sizes) {
    ASSERT_TRUE(bytes >= 65 && bytes <= 64 + 113 && (bytes - 65) % 16 == 0) << bytes;
    ++of_step[(bytes - 65) / 16];
  }
  for (const unsigned count : of_step) EXPECT_GT(count, 20U);
}

TEST(random_padding, is_the_same_in_every_run) {
  // The slot of an ended thread passes to the next one.
  EXPECT_EQ(asked_sizes(50), asked_sizes(50));
}

TEST(random_padding, makes_strides_irregular) {
  if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "a sanitizer has few size classes";
  random_padding<shared_heap> source;
  const block b{1008, 8, memory_role::node};  // 1 KiB apart in glibc
  std::vector<std::byte*> blocks(200);
  for (std::byte*& memory : blocks) memory = static_cast<std::byte*>(source.allocate(b));
  std::sort(blocks.begin(), blocks.end());
  std::map<std::ptrdiff_t, unsigned> count;
  for (std::size_t i = 1; i < blocks.size(); ++i) ++count[blocks[i] - blocks[i - 1]];
  for (std::byte* const memory : blocks) source.deallocate(memory, b);
  for (const auto& [stride, times] : count) EXPECT_LT(times, 100U) << "a stride of " << stride;
}

TEST(random_padding, leaves_alignment_and_contents_alone) {
  random_padding<segregated> source;
  for (std::size_t align = 1; align <= 128; align *= 2) {
    const block b{align * 3, align, memory_role::leaf};
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(source.allocate(b));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % align, 0U);
      std::memset(blocks.back(), i, b.bytes);
    }
    for (int i = 0; i < 100; ++i) {
      const auto* const bytes = static_cast<const unsigned char*>(blocks[static_cast<std::size_t>(i)]);
      ASSERT_TRUE(std::all_of(bytes, bytes + b.bytes, [&](unsigned char c) { return c == i; }));
    }
    for (void* const memory : blocks) source.deallocate(memory, b);
  }
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U) << "each block went back to the slab that it came from";
}

TEST(random_padding, a_size_that_cannot_be_padded_is_refused) {
  random_padding<segregated> source;
  EXPECT_THROW((void)source.allocate({std::numeric_limits<std::size_t>::max() - 5, 1, memory_role::value}),
               std::bad_alloc);
  EXPECT_EQ(source.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier
