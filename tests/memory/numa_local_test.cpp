#include "espalier/memory/numa_local.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "memory/placement_audit.hpp"

namespace espalier {
namespace {

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

constexpr std::size_t sizes[] = {40, 1000, 5000, 50000};

block node_of(std::size_t bytes) { return {bytes, 8, memory_role::node}; }

TEST(numa_local, blocks_belong_to_the_node_where_their_thread_runs) {
  numa_local source(two_nodes(), said_cpu);
  std::set<std::uintptr_t> pages[2];
  for (int i = 0; i < 400; ++i) {
    for (const std::size_t bytes : sizes) {
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
  for (const std::size_t bytes : sizes) {
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
  for (const std::size_t bytes : sizes) {
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
  for (const std::size_t bytes : sizes) {
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

TEST(numa_local, roles_never_share_a_page) {
  numa_local source;
  std::set<std::uintptr_t> pages[2];
  for (int i = 0; i < 500; ++i) {
    for (const memory_role role : {memory_role::node, memory_role::leaf})
      pages[role == memory_role::leaf ? 1 : 0].insert(
          reinterpret_cast<std::uintptr_t>(source.allocate({40, 8, role})) / hw::page_size());
  }
  for (const std::uintptr_t page : pages[0]) EXPECT_FALSE(pages[1].contains(page));
}

}  // namespace
}  // namespace espalier
