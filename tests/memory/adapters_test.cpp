// Placements over others, allocators over placements, and placements to compare with.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/memory/baselines/chunked_heap.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/placement_allocator.hpp"
#include "espalier/memory/recorded.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "memory/placement_audit.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

static_assert(heap_placement<recorded<shared_heap>> && !heap_placement<recorded<segregated>>);
static_assert(recorded<segregated>::releases_on_destruction &&
              !recorded<shared_heap>::releases_on_destruction);

using facts = std::tuple<std::size_t, std::size_t, memory_role>;

facts facts_of(const block& b) { return {b.bytes, b.align, b.role}; }

template <class Placement>
std::map<void*, facts> live_in(const Placement& source) {
  std::map<void*, facts> found;
  source.for_each_live([&](const live_block& one) {
    EXPECT_TRUE(found.emplace(one.memory, facts_of(one.asked)).second) << "visited twice";
  });
  return found;
}

TEST(recorded, knows_each_block_in_use_as_it_was_asked_for) {
  recorded<shared_heap> source;
  EXPECT_TRUE(live_in(source).empty());
  std::map<void*, facts> expected;
  std::vector<std::pair<void*, block>> blocks;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 3 != 0 || blocks.empty()) {
      const block b{1 + random() % 200, std::size_t{1} << (random() % 8),
                    static_cast<memory_role>(random() % memory_role_count)};
      void* const memory = source.allocate(b);
      blocks.emplace_back(memory, b);
      expected[memory] = facts_of(b);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [memory, b] = blocks.back();
      blocks.pop_back();
      source.deallocate(memory, b);
      expected.erase(memory);
    }
    if (i == 10 || i == 5000) {
      EXPECT_EQ(live_in(source), expected);
    }
  }
  EXPECT_EQ(live_in(source), expected);
  EXPECT_EQ(source.usage().blocks, expected.size());
  EXPECT_GE(source.record_bytes(), expected.size() * 32);
  for (const auto& [memory, b] : blocks) source.deallocate(memory, b);
  EXPECT_TRUE(live_in(source).empty());
}

TEST(recorded, leaves_the_layout_below_alone) {
  recorded<segregated> source;
  segregated plain;
  // As far as the first span reaches, which lies where the system will have it.
  const auto offsets = [](auto& from) {
    const block b{40, 8, memory_role::node};
    std::vector<std::ptrdiff_t> all;
    std::byte* first = nullptr;
    for (int i = 0; i < 1500; ++i) {
      auto* const memory = static_cast<std::byte*>(from.allocate(b));
      if (first == nullptr) first = memory;
      all.push_back(memory - first);
      if (i % 5 == 4) from.deallocate(memory, b);
    }
    return all;
  };
  EXPECT_EQ(offsets(source), offsets(plain));
}

TEST(recorded, threads_that_free_each_others_blocks_lose_nothing) {
  recorded<segregated> source;
  constexpr int threads = 4;
  const block b{48, 16, memory_role::node};
  std::array<std::atomic<void*>, 64> mailbox{};
  test::on_threads(threads, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < 5000; ++i) {
      void* const mine = source.allocate(b);
      if (void* const theirs = mailbox[random() % mailbox.size()].exchange(mine, std::memory_order_acq_rel))
        source.deallocate(theirs, b);
      if (i % 1000 == 0) {
        std::set<void*> seen;
        source.for_each_live([&](const live_block& one) {
          EXPECT_TRUE(seen.insert(one.memory).second);
          EXPECT_EQ(facts_of(one.asked), facts_of(b));
        });
      }
    }
  });
  std::map<void*, facts> expected;
  for (const std::atomic<void*>& left : mailbox) {
    if (void* const memory = left.load()) expected[memory] = facts_of(b);
  }
  EXPECT_EQ(live_in(source), expected);
}

/// Serves from memory that it has from the beginning, and refuses on demand.
struct prepared {
  static constexpr std::string_view name = "prepared";
  static constexpr bool releases_on_destruction = true;
  void* allocate(const block&, const void* = nullptr) {
    if (refuse) throw std::bad_alloc();
    ++asked;
    return &memory[next++ % count];
  }
  void deallocate(void*, const block&) noexcept {}
  [[nodiscard]] memory_usage usage() const noexcept { return {}; }

  static constexpr std::size_t count = std::size_t{4} << 20U;
  std::vector<char> memory = std::vector<char>(count);
  std::size_t next = 0;
  std::uint64_t asked = 0;
  bool refuse = false;
};

std::uint64_t count_live(const recorded<prepared>& source) {
  std::uint64_t live = 0;
  source.for_each_live([&](const live_block&) { ++live; });
  return live;
}

TEST(recorded, a_refusal_below_leaves_no_record) {
  recorded<prepared> source;
  const block b{1, 1, memory_role::other};
  (void)source.allocate(b);
  source.below().refuse = true;
  for (int i = 0; i < 300; ++i) EXPECT_THROW((void)source.allocate(b), std::bad_alloc);
  EXPECT_EQ(count_live(source), 1U);
  EXPECT_EQ(source.below().asked, 1U);
}

// In a child: the limit is for the whole process.
TEST(recorded, where_the_record_has_no_room_the_placement_below_is_not_asked) {
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "a sanitizer needs the address space";
  enum outcome { fine, refused_at_once, no_refusal, asked_below, wrong_count, cannot_go_on };
  const int outcome = test::in_forked_child([]() -> int {
    recorded<prepared> source;
    const block b{1, 1, memory_role::other};
    std::vector<void*> blocks;
    blocks.reserve(prepared::count);
    for (int i = 0; i < 10; ++i) blocks.push_back(source.allocate(b));
    const auto refused = [&](std::size_t n) {
      return test::is_refused([&] {
        while (n-- != 0) blocks.push_back(source.allocate(b));
      });
    };
    {
      const test::address_space_limit tight(1);  // nothing more is mapped
      if (!refused(prepared::count - blocks.size())) return no_refusal;
      if (count_live(source) != blocks.size()) return wrong_count;
    }
    // Tables that could not grow in between must do.
    if (blocks.size() < 1000) return refused_at_once;
    if (source.below().asked != blocks.size()) return asked_below;
    if (refused(5000)) return cannot_go_on;
    for (void* const memory : blocks) source.deallocate(memory, b);
    return count_live(source) == 0 ? fine : wrong_count;
  });
  EXPECT_EQ(outcome, fine);
}

/// Remembers what all its instances were asked for, in order, and takes back what it handed out and nothing else.
struct exact : shared_heap {
  static inline std::vector<block> asked;
  static inline std::map<void*, std::size_t> out;
  exact() { asked.clear(); }
  void* allocate(const block& b, const void* near = nullptr) {
    void* const memory = shared_heap::allocate(b, near);
    asked.push_back(b);
    out[memory] = b.bytes;
    return memory;
  }
  void deallocate(void* memory, const block& b) noexcept {
    EXPECT_EQ(out[memory], b.bytes);
    out.erase(memory);
    shared_heap::deallocate(memory, b);
  }
  static std::vector<std::size_t> sizes() {
    std::vector<std::size_t> all;
    for (const block& b : asked) all.push_back(b.bytes);
    return all;
  }
};

TEST(placement_allocator, asks_for_what_the_container_needs_in_its_role) {
  exact source;
  {
    const std::vector<double, placement_allocator<double, exact, memory_role::value>> numbers(
        5, 1.5, placement_allocator<double, exact, memory_role::value>(source));
    ASSERT_EQ(source.asked.size(), 1U);
    EXPECT_EQ(source.asked[0].bytes, 5 * sizeof(double));
    EXPECT_EQ(source.asked[0].align, alignof(double));
    EXPECT_EQ(source.asked[0].role, memory_role::value);
    EXPECT_EQ(source.usage().blocks, 1U);
  }
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(placement_allocator, serves_node_containers_through_rebinding) {
  exact source;
  using entry = std::pair<const int, int>;
  {
    std::map<int, int, std::less<>, placement_allocator<entry, exact>> map{
        placement_allocator<entry, exact>(source)};
    for (int i = 0; i < 100; ++i) map[i * 37 % 101] = i;
    EXPECT_EQ(source.usage().blocks, 100U);
    for (const block& b : source.asked) {
      EXPECT_GT(b.bytes, sizeof(entry));
      EXPECT_EQ(b.role, memory_role::node);
    }
    const auto extracted = map.extract(map.begin());
    EXPECT_EQ(source.usage().blocks, 100U);
  }
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(placement_allocator, is_equal_where_the_placement_is_the_same) {
  segregated one;
  segregated other;
  const placement_allocator<int, segregated> a(one);
  const placement_allocator<long, segregated> b(a);
  EXPECT_TRUE(a == b);
  EXPECT_TRUE(a != (placement_allocator<int, segregated>(other)));
  static_assert(!std::allocator_traits<placement_allocator<int, segregated>>::is_always_equal::value);
}

TEST(placement_allocator, refuses_what_has_no_size) {
  shared_heap source;
  placement_allocator<int, shared_heap> a(source);
  EXPECT_THROW((void)a.allocate(std::numeric_limits<std::size_t>::max() / 2), std::bad_array_new_length);
}

static_assert(heap_placement<shared_heap>);
static_assert(!heap_placement<segregated>, "its instances have arenas of their own");
static_assert(heap_placement<shifted<shared_heap>>);
static_assert(heap_placement<extra_allocations<shared_heap>> &&
              !heap_placement<extra_allocations<segregated>>);
static_assert(heap_placement<random_padding<shared_heap>> && !heap_placement<random_padding<segregated>>);
static_assert(random_padding<segregated>::releases_on_destruction);

constexpr block node{64, 64, memory_role::node};

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
    // Another thread frees the block: the counts of the two threads then cancel out.
    std::thread([&] { source.deallocate(memory, {align * 3, align, memory_role::node}); }).join();
    bytes = 0;
    EXPECT_EQ(source.usage().blocks, 0U);
    EXPECT_EQ(source.usage().bytes_in_use, 0U);
  }
  EXPECT_FALSE(shared_heap::releases_on_destruction);
}

TEST(shifted, puts_one_block_before_the_first_of_each_thread) {
  {
    shifted<exact> source;
    const auto two_of = [&](std::size_t bytes) {
      const block b{bytes, 8, memory_role::node};
      for (int i = 0; i < 2; ++i) source.deallocate(source.allocate(b), b);
    };
    two_of(40);
    std::thread(two_of, 48).join();
    two_of(56);
  }
  EXPECT_EQ(exact::sizes(), (std::vector<std::size_t>{32, 40, 40, 32, 48, 48, 56, 56}));
}

TEST(shifted, counts_the_extra_blocks_as_reserved_only) {
  constexpr block node32{32, 32, memory_role::node};
  shifted<shared_heap> source;
  void* const memory = source.allocate(node32);
  EXPECT_EQ(source.usage().blocks, 1U);
  EXPECT_GE(source.usage().bytes_in_use, 32U);
  EXPECT_GE(source.usage().bytes_reserved, source.usage().bytes_in_use + 32);
  source.deallocate(memory, node32);
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
  EXPECT_GE(source.usage().bytes_reserved, 32U) << "kept to the end";
}

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

/// The sizes that a thread of its own asks for, for blocks of 64 bytes.
std::vector<std::size_t> asked_sizes(unsigned count) {
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
  return exact::sizes();
}

TEST(chunked_heap, has_blocks_of_one_class_end_to_end_in_chunks_between_those_of_others) {
  // The allocations of a row and of its node: what the ATC 2018 study found in its figure 6 and in its section 4.3.1.
  chunked_heap source;
  constexpr int rows = 1000;
  constexpr std::array<std::size_t, 6> of_row{64, 128, 64, 192, 32, 56};
  std::set<std::uintptr_t> chunks_of_64, places, places_of_nodes;
  std::uintptr_t first = ~std::uintptr_t{0};
  std::uintptr_t last = 0;
  for (int n = 0; n < rows; ++n) {
    for (std::size_t i = 0; i < of_row.size(); ++i) {
      const auto at =
          reinterpret_cast<std::uintptr_t>(source.allocate({of_row[i], 8, static_cast<memory_role>(i)}));
      first = std::min(first, at);
      last = std::max(last, at);
      if (of_row[i] != 64 && of_row[i] != 56) continue;
      EXPECT_EQ(at % 64, 0U);
      chunks_of_64.insert(at / chunked_heap::chunk_bytes);
      places.insert(at % chunked_heap::chunk_bytes / 64);
      if (of_row[i] == 56) places_of_nodes.insert(at % chunked_heap::chunk_bytes / 64);
    }
  }
  EXPECT_EQ(chunks_of_64.size(), (3 * rows + 62) / 63) << "63 blocks a chunk";
  EXPECT_EQ(places.size(), 63U) << "the line at its front is the allocator's";
  EXPECT_EQ(places_of_nodes.size(), 21U) << "a third of them has nodes";
  EXPECT_LT(last - first, 2U << 20U) << "one bank";
  EXPECT_GT(*chunks_of_64.rbegin() - *chunks_of_64.begin() + 1, 2 * chunks_of_64.size())
      << "other classes have chunks between them";
}

TEST(chunked_heaps, has_nodes_and_leaves_in_one_heap_and_other_roles_apart) {
  chunked_heaps source;
  const auto at = [&](memory_role role) {
    return reinterpret_cast<std::uintptr_t>(source.allocate({64, 8, role}));
  };
  const std::uintptr_t first = at(memory_role::node);
  EXPECT_EQ(at(memory_role::leaf), first + 64);
  EXPECT_NE(at(memory_role::descriptor) / chunked_heap::chunk_bytes, first / chunked_heap::chunk_bytes);
  EXPECT_EQ(at(memory_role::node), first + 128);
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
