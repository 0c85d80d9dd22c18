#include "espalier/memory/segregated.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"

namespace espalier {
namespace {

constexpr std::array roles{memory_role::node, memory_role::leaf, memory_role::descriptor, memory_role::value,
                           memory_role::other};

std::uintptr_t page_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) / hw::page_size();
}

TEST(segregated, roles_never_share_a_page) {
  segregated source;
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

TEST(segregated, usage_adds_up_over_roles_sizes_and_large_blocks) {
  segregated source;
  std::vector<std::pair<void*, block>> blocks;
  std::uint64_t bytes = 0;
  for (const memory_role role : roles) {
    for (const std::size_t size : {16U, 40U, 1000U}) {
      const block b{size, 8, role};
      blocks.emplace_back(source.allocate(b), b);
      bytes += size;
    }
  }
  EXPECT_EQ(source.usage().blocks, 15U);
  EXPECT_EQ(source.usage().bytes_in_use, bytes);
  EXPECT_GE(source.usage().bytes_reserved, bytes);
  const block large{5000, 8, memory_role::value};
  blocks.emplace_back(source.allocate(large), large);
  EXPECT_EQ(source.usage().blocks, 16U);
  EXPECT_GE(source.usage().bytes_in_use, bytes + 5000);
  for (const auto& [memory, b] : blocks) source.deallocate(memory, b);
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
}

}  // namespace
}  // namespace espalier
