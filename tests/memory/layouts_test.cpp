// Where placements put their blocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/numa_local.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "memory/placement_audit.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }
std::uintptr_t page_of(const void* memory) { return address(memory) / hw::page_size(); }
std::uintptr_t line_of(const void* memory) { return address(memory) / hw::cache_line_bytes; }

constexpr block node32{32, 32, memory_role::node};
constexpr block node16{16, 16, memory_role::node};

constexpr std::array roles{memory_role::node, memory_role::leaf, memory_role::descriptor, memory_role::value,
                           memory_role::other};

template <class Placement>
class apart_by_role : public testing::Test {};
using placements_by_role = testing::Types<segregated, numa_local>;
TYPED_TEST_SUITE(apart_by_role, placements_by_role);

TYPED_TEST(apart_by_role, roles_never_share_a_page) {
  TypeParam source;
  std::map<std::uintptr_t, std::set<memory_role>> roles_on_page;
  std::vector<std::pair<void*, block>> blocks;
  for (int i = 0; i < 2000; ++i) {
    for (const memory_role role : roles) {
      const block b{40, 8, role};
      void* const memory = source.allocate(b);
      blocks.emplace_back(memory, b);
      roles_on_page[page_of(memory)].insert(role);
      roles_on_page[page_of(static_cast<std::byte*>(memory) + b.bytes - 1)].insert(role);
    }
  }
  for (const auto& [page, owners] : roles_on_page) EXPECT_EQ(owners.size(), 1U);
  // Reuse must not mix them either, even when another thread does the freeing.
  std::thread([&] {
    for (const auto& [memory, b] : blocks) source.deallocate(memory, b);
  }).join();
  for (int i = 0; i < 2000; ++i) {
    for (const memory_role role : roles) {
      const std::set<memory_role>& owners = roles_on_page[page_of(source.allocate({40, 8, role}))];
      EXPECT_TRUE(owners.empty() || owners.contains(role));
    }
  }
}

TEST(segregated, sizes_never_share_a_page) {
  segregated source;
  std::map<std::uintptr_t, std::set<std::size_t>> sizes_on_page;
  for (int i = 0; i < 1000; ++i) {
    for (const std::size_t bytes : {16U, 24U, 32U, 40U}) {
      sizes_on_page[page_of(source.allocate({bytes, 8, memory_role::node}))].insert(bytes);
    }
  }
  for (const auto& [page, owners] : sizes_on_page) EXPECT_EQ(owners.size(), 1U);
}

TEST(segregated, nodes_in_a_row_are_neighbours) {
  segregated source;
  const block b{40, 8, memory_role::node};
  auto* before = static_cast<std::byte*>(source.allocate(b));
  for (int i = 0; i < 90; ++i) {
    auto* const next = static_cast<std::byte*>(source.allocate(b));
    EXPECT_EQ(next - before, 40);
    before = next;
  }
}

TEST(segregated, a_single_leaf_takes_no_arena) {
  const block leaf{2400, 64, memory_role::leaf};
  segregated source;
  void* const first = source.allocate(leaf);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  EXPECT_EQ(source.usage().blocks, 1U);
  EXPECT_EQ(source.usage().bytes_in_use, bytes_held(source, first, leaf));
  EXPECT_EQ(source.usage().bytes_reserved, hw::heap_bytes(bytes_held(source, first, leaf), leaf.align));
  void* const second = source.allocate(leaf);
  EXPECT_NE(page_of(second), page_of(first));
  EXPECT_EQ(source.usage().blocks, 2U);
  source.deallocate(first, leaf);
  EXPECT_EQ(source.usage().blocks, 1U);
  source.deallocate(second, leaf);
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.allocate(leaf), second) << "a map with arenas has all its blocks from them";
}

using split = split_clusters<32, 24>;

template <class Placement>
class clusters : public testing::Test {};
using clustering_placements = testing::Types<clustered, split>;
TYPED_TEST_SUITE(clusters, clustering_placements);

TYPED_TEST(clusters, hold_a_node_in_the_line_of_the_one_it_is_asked_for_near) {
  TypeParam source;
  for (int i = 0; i < 500; ++i) {
    void* const parent = source.allocate(node32);
    void* const child = source.allocate(node32, parent);
    EXPECT_NE(child, parent);
    EXPECT_EQ(line_of(child), line_of(parent));
    EXPECT_NE(line_of(source.allocate(node32, parent)), line_of(parent)) << "there was room for one";
  }
}

TYPED_TEST(clusters, leave_other_roles_and_sizes_to_the_arenas) {
  TypeParam source;
  const auto neighbour = [&](const block& b, const void* near) {
    const std::uintptr_t first = address(source.allocate(b));
    return address(source.allocate(b, near)) - first;
  };
  void* const leaf = source.allocate({32, 32, memory_role::leaf});
  EXPECT_EQ(neighbour({32, 32, memory_role::leaf}, nullptr), 32U);
  EXPECT_EQ(neighbour({40, 8, memory_role::node}, leaf), 40U);
  EXPECT_EQ(neighbour({48, 8, memory_role::node}, leaf), 48U);
}

TEST(clustered, four_small_nodes_fill_a_line) {
  clustered source;
  void* const first = source.allocate(node16);
  std::set<void*> line{first};
  for (int i = 0; i < 3; ++i) {
    void* const next = source.allocate(node16, first);
    EXPECT_EQ(line_of(next), line_of(first));
    line.insert(next);
  }
  EXPECT_EQ(line.size(), 4U);
  EXPECT_NE(line_of(source.allocate(node16, first)), line_of(first));
}

TEST(clustered, a_block_without_a_neighbour_opens_a_line) {
  clustered source;
  int stranger = 0;
  void* const elsewhere = source.allocate({40, 8, memory_role::node});
  std::set<std::uintptr_t> lines;
  for (const void* const near : {static_cast<const void*>(nullptr), static_cast<const void*>(&stranger),
                                 static_cast<const void*>(elsewhere)}) {
    for (int i = 0; i < 10; ++i) lines.insert(line_of(source.allocate(node32, near)));
  }
  EXPECT_EQ(lines.size(), 30U);
}

TEST(clustered, room_that_comes_free_is_found_again_and_whole_lines_are_used_again) {
  clustered source;
  void* const parent = source.allocate(node32);
  void* const child = source.allocate(node32, parent);
  for (int i = 0; i < 5; ++i) {
    source.deallocate(child, node32);
    EXPECT_EQ(source.allocate(node32, parent), child);
  }
  source.deallocate(parent, node32);
  EXPECT_EQ(source.allocate(node32, child), parent);
  source.deallocate(child, node32);
  source.deallocate(parent, node32);
  EXPECT_EQ(source.usage().blocks, 0U);

  std::vector<void*> nodes;
  std::uint64_t reserved = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2000; ++i)
      nodes.push_back(source.allocate(node32, i % 2 == 0 ? nullptr : nodes.back()));
    EXPECT_EQ(source.usage().blocks, 2000U);
    EXPECT_EQ(source.usage().bytes_in_use, 2000U * 32);
    if (round == 0) reserved = source.usage().bytes_reserved;
    EXPECT_EQ(source.usage().bytes_reserved, reserved);
    for (void* const n : nodes) source.deallocate(n, node32);
    nodes.clear();
  }
}

TEST(split_block, rests_fit_behind_the_fronts) {
  for (const std::size_t front : {16U, 32U, 64U}) {
    for (std::size_t rest = 8; rest <= 512; rest += 8) {
      const split_block shape{front, rest};
      const std::size_t blocks = shape.fronts_bytes() / front;
      EXPECT_EQ(shape.fronts_bytes() % front, 0U);
      EXPECT_LE(shape.fronts_bytes() + blocks * rest, split_block::group_bytes);
      EXPECT_GT(shape.fronts_bytes() + blocks * rest, split_block::group_bytes / 100 * 94);
      const auto group = reinterpret_cast<const std::byte*>(std::uintptr_t{5} * split_block::group_bytes);
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}, blocks / 2, blocks - 1})
        EXPECT_EQ(address(shape.rest_of(group + i * front)),
                  address(group) + shape.fronts_bytes() + i * rest);
    }
  }
}

// Enough for several groups and several spans.
TEST(split_clusters, no_two_parts_share_a_byte) {
  split source;
  std::vector<void*> nodes;
  constexpr std::size_t count = 200'000;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(source.allocate(node32, i % 3 == 0 ? nullptr : nodes.back()));
    std::memset(nodes.back(), static_cast<int>(i % 251), 32);
    std::memset(split::rest_of(nodes.back()), static_cast<int>(i % 241), 24);
  }
  std::vector<std::pair<std::uintptr_t, std::size_t>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const front = static_cast<const std::byte*>(nodes[i]);
    const auto* const rest = static_cast<const std::byte*>(split::rest_of(front));
    ASSERT_TRUE(std::all_of(front, front + 32, [&](std::byte b) { return b == std::byte(i % 251); }));
    ASSERT_TRUE(std::all_of(rest, rest + 24, [&](std::byte b) { return b == std::byte(i % 241); }));
    ASSERT_EQ(address(rest) % 8, 0U);
    parts.emplace_back(address(front), 32);
    parts.emplace_back(address(rest), 24);
  }
  std::sort(parts.begin(), parts.end());
  for (std::size_t i = 1; i < parts.size(); ++i)
    ASSERT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first);
  EXPECT_EQ(source.usage().blocks, count);
  EXPECT_EQ(source.usage().bytes_in_use, count * 56);
  EXPECT_GE(source.usage().bytes_reserved, source.usage().bytes_in_use);
}

TEST(split_clusters, a_small_map_takes_little) {
  split source;
  for (int i = 0; i < 10; ++i) EXPECT_NE(source.allocate(node32), nullptr);
  EXPECT_LE(source.usage().bytes_reserved, std::size_t{16} << 10U);
}

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

TEST(index_aware, large_blocks_do_not_all_begin_at_one_index) {
  index_aware source;
  EXPECT_LE(most_at_one_index(allocate(source, 64, node_of(40000))), 2U);
}

using page_binding = numa_local::page_binding;

/// A machine that hwloc is told of. With `ours` it takes the description for this machine's.
hw::topology described(const char* synthetic, bool ours = false) {
  setenv("HWLOC_SYNTHETIC", synthetic, 1);
  if (ours) setenv("HWLOC_THISSYSTEM", "1", 1);
  hw::topology machine = hw::topology::discover();
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  return machine;
}

/// Two NUMA nodes with processors 0 to 1 and 2 to 3.
hw::topology two_nodes() { return described("pack:2 [numa] core:2 pu:1"); }

// Where the calling thread is said to run.
thread_local std::optional<unsigned> cpu;
std::optional<unsigned> said_cpu() { return cpu; }

constexpr std::size_t numa_sizes[] = {40, 1000, 5000, 50000};

TEST(numa_local, blocks_belong_to_the_node_where_their_thread_runs) {
  numa_local source(two_nodes(), said_cpu);
  std::set<std::uintptr_t> pages[2];
  for (int i = 0; i < 400; ++i) {
    for (const std::size_t bytes : numa_sizes) {
      cpu = static_cast<unsigned>(i % 4);
      auto* const memory = static_cast<std::byte*>(source.allocate(node_of(bytes)));
      EXPECT_EQ(source.numa_node_of(memory, node_of(bytes)), *cpu / 2);
      for (std::size_t at = 0; at < bytes; at += hw::page_size())
        pages[*cpu / 2].insert(reinterpret_cast<std::uintptr_t>(memory + at) / hw::page_size());
    }
  }
  for (const std::uintptr_t page : pages[0]) EXPECT_FALSE(pages[1].contains(page));
}

TEST(numa_local, a_processor_that_is_not_told_or_not_described_is_of_the_first_node) {
  numa_local source(two_nodes(), said_cpu);
  for (const std::optional<unsigned> unknown :
       {std::optional<unsigned>(), std::optional(4U), std::optional(1000000U)}) {
    cpu = unknown;
    EXPECT_EQ(source.numa_node_of(source.allocate(node_of(40)), node_of(40)), 0U);
  }
}

TEST(numa_local, a_block_with_pages_of_its_own_knows_its_node) {
  numa_local source(two_nodes(), said_cpu);
  const block b = node_of(2 * size_class::largest);
  cpu = 2;
  void* const memory = source.allocate(b);
  cpu = 0;
  EXPECT_EQ(source.numa_node_of(memory, b), 1U);
  source.deallocate(memory, b);
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(numa_local, a_block_that_is_freed_elsewhere_is_used_again_at_home) {
  for (const std::size_t bytes : numa_sizes) {
    const block b = node_of(bytes);
    numa_local source(two_nodes(), said_cpu);
    std::set<void*> home;
    cpu = 0;
    // More than the freeing thread keeps.
    for (int i = 0; i < 300; ++i) home.insert(source.allocate(b));
    const std::uint64_t reserved = source.usage().bytes_reserved;
    std::thread([&] {
      cpu = 2;
      (void)source.allocate(b);  // both nodes have a slab of this size now
      for (void* const memory : home) source.deallocate(memory, b);
      for (int i = 0; i < 300; ++i) {
        void* const memory = source.allocate(b);
        EXPECT_EQ(source.numa_node_of(memory, b), 1U);
        EXPECT_FALSE(home.contains(memory));
      }
    }).join();
    EXPECT_GE(source.usage().bytes_reserved, reserved);
    int again = 0;
    for (int i = 0; i < 300; ++i) again += home.contains(source.allocate(b)) ? 1 : 0;
    EXPECT_GE(again, 150) << bytes << " bytes";
  }
}

TEST(numa_local, keeps_its_promises_while_threads_move_between_nodes) {
  static std::atomic<unsigned> calls{0};
  const auto moving = []() -> std::optional<unsigned> { return calls.fetch_add(1) / 3 % 4; };
  numa_local source(two_nodes(), moving);
  EXPECT_EQ(test::audit(source), "");
  EXPECT_EQ(test::every_size(source), "");
  EXPECT_EQ(test::refusals([&] { return numa_local(two_nodes(), moving); }), "");
}

TEST(numa_local, says_whether_it_binds) {
  EXPECT_EQ(numa_local(two_nodes()).binding(), page_binding::elsewhere);
  EXPECT_EQ(numa_local(described("pack:1 core:2 pu:1")).binding(), page_binding::one_node);
  const hw::topology here = hw::topology::discover();
  const numa_local source(here);
  if (here.numa_nodes().size() == 1) {
    EXPECT_EQ(source.binding(), page_binding::one_node);
  }
  EXPECT_EQ(source.binds_pages(), source.binding() == page_binding::bound);
  std::set<std::string_view> words;
  for (const page_binding b :
       {page_binding::bound, page_binding::one_node, page_binding::forbidden, page_binding::elsewhere})
    words.insert(to_string(b));
  EXPECT_EQ(words.size(), 4U);
}

TEST(numa_local, a_node_to_which_nothing_can_be_bound_works_and_is_told) {
  // This machine is said to have a node more than it has.
  const std::size_t nodes = hw::topology::discover().numa_nodes().size();
  const std::string more = "pack:" + std::to_string(nodes + 1) + " [numa] core:1 pu:1";
  numa_local source(described(more.c_str(), true), said_cpu);
  EXPECT_EQ(source.binding(), page_binding::forbidden);
  EXPECT_FALSE(source.binds_pages());
  cpu = static_cast<unsigned>(nodes);
  for (const std::size_t bytes : numa_sizes) {
    void* const memory = source.allocate(node_of(bytes));
    std::memset(memory, 1, bytes);
    EXPECT_EQ(source.numa_node_of(memory, node_of(bytes)), nodes);
    source.deallocate(memory, node_of(bytes));
  }
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(numa_local, pages_carry_the_policy_of_their_node) {
  if (!hw::map_pages(1, {.numa_node = 0}).bound_numa_node()) GTEST_SKIP() << "this system forbids binding";
  // A second node, so that there is something to choose; this machine need not have it.
  numa_local source(described("pack:2 [numa] core:1 pu:1", true), said_cpu);
  cpu = 0;
  for (const std::size_t bytes : numa_sizes) {
    auto* const memory = static_cast<std::byte*>(source.allocate(node_of(bytes)));
    for (std::byte* const where : {memory, memory + bytes - 1}) {
      int mode = -1;
      std::array<unsigned long, 64> nodes{};
      ASSERT_EQ(syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, where, MPOL_F_ADDR), 0);
      EXPECT_EQ(mode, MPOL_BIND) << bytes << " bytes";
      EXPECT_EQ(nodes.front(), 1U);
    }
  }
}

}  // namespace
}  // namespace espalier
