#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/bst/ticket.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "memory/placement_audit.hpp"
#include "memory/shipped_placements.hpp"
#include "support/refusal.hpp"

// What every placement promises, found out by one audit; placements that break one promise each show that
// the audit would notice.

namespace espalier {
namespace {

using test::audit;
using test::every_size;
using test::refusals;
using testing::HasSubstr;

template <class Placement>
class placements : public testing::Test {};

TYPED_TEST_SUITE(placements, test::shipped_placements);

TYPED_TEST(placements, keep_their_promises) {
  TypeParam source;
  EXPECT_EQ(audit(source), "");
  EXPECT_FALSE(TypeParam::name.empty());
}

TYPED_TEST(placements, have_blocks_of_every_size) {
  TypeParam source;
  EXPECT_EQ(every_size(source), "");
}

TYPED_TEST(placements, refuse_without_a_change) {
  EXPECT_EQ(refusals([] { return TypeParam(); }), "");
}

/// What the blocks take is what is in use.
template <placement Placement>
void expect_held(Placement& source) {
  std::vector<std::pair<void*, block>> all;
  std::uint64_t held = 0;
  for (const std::size_t bytes : {1U, 16U, 24U, 40U, 64U, 65U, 400U, 1000U, 1025U, 5000U}) {
    const block b{bytes, 16, bytes % 2 == 0 ? memory_role::node : memory_role::descriptor};
    void* const memory = source.allocate(b);
    all.emplace_back(memory, b);
    EXPECT_GE(bytes_held(source, memory, b), bytes);
    held += bytes_held(source, memory, b);
  }
  EXPECT_EQ(source.usage().bytes_in_use, held);
  for (const auto& [memory, b] : all) source.deallocate(memory, b);
}

TYPED_TEST(placements, tell_what_a_block_takes) {
  TypeParam source;
  expect_held(source);
}

TYPED_TEST(placements, die_with_blocks_in_use_only_where_they_say_so) {
  // Blocks are left to those that release them: a leak checker objects where the promise is false.
  TypeParam source;
  for (const std::size_t bytes : {16U, 32U, 40U, 64U, 400U, 1000U, 1025U, 3000U, 5000U, 40000U}) {
    for (unsigned role = 0; role < memory_role_count; ++role) {
      const block b{bytes, 8, static_cast<memory_role>(role)};
      void* const memory = source.allocate(b);
      std::memset(memory, 1, bytes);
      if (!TypeParam::releases_on_destruction) source.deallocate(memory, b);
    }
  }
}

/// Blocks up to 2 MiB come from arenas: they begin at all indices of a cache, and are used again.
template <class Placement>
class arenas : public testing::Test {};
using arena_placements =
    testing::Types<segregated, clustered, split_clusters<32, 24>, index_aware, numa_local>;
TYPED_TEST_SUITE(arenas, arena_placements);

TYPED_TEST(arenas, have_blocks_up_to_two_mebibytes) {
  for (const std::size_t bytes : {1025U, 4096U, 33000U, 70000U, 1U << 20U, 2U << 20U}) {
    TypeParam source;
    const block b{bytes, 8, memory_role::node};
    auto* const first = static_cast<std::byte*>(source.allocate(b));
    auto* const second = static_cast<std::byte*>(source.allocate(b));
    const std::size_t held = bytes_held(source, first, b);
    EXPECT_EQ(held / hw::cache_line_bytes % 2, 1U) << bytes;
    if (bytes < 100000) {
      std::set<std::uintptr_t> indices;
      for (int i = 0; i < 64; ++i) {
        indices.insert(reinterpret_cast<std::uintptr_t>(source.allocate(b)) % 4096 / hw::cache_line_bytes);
      }
      EXPECT_EQ(indices.size(), 64U) << bytes;
    }
    const std::uint64_t reserved = source.usage().bytes_reserved;
    source.deallocate(second, b);
    EXPECT_EQ(source.allocate(b), second) << bytes;
    EXPECT_EQ(source.usage().bytes_reserved, reserved) << bytes;
  }
}

/// Allocates in rounds, and frees all between them.
template <placement Placement, class Allocations>
void expect_use_again(const Allocations& allocations) {
  Placement source;
  std::uint64_t reserved = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::pair<void*, block>> all;
    allocations([&](const block& b, bool beside_the_last) {
      all.emplace_back(source.allocate(b, beside_the_last ? all.back().first : nullptr), b);
    });
    if (round == 0) reserved = source.usage().bytes_reserved;
    // The thread may move to another node, which has a memory of its own.
    if (!std::is_same_v<Placement, numa_local>) {
      EXPECT_EQ(source.usage().bytes_reserved, reserved);
    }
    EXPECT_EQ(source.usage().blocks, all.size());
    for (const auto& [memory, b] : all) source.deallocate(memory, b);
    EXPECT_EQ(source.usage().blocks, 0U);
    EXPECT_EQ(source.usage().bytes_in_use, 0U);
  }
}

TYPED_TEST(arenas, use_again_what_comes_back) {
  // index_aware's second round takes one region more, and the later ones none.
  if constexpr (!std::is_same_v<TypeParam, index_aware>) {
    expect_use_again<TypeParam>([](auto allocate) {
      for (int i = 0; i < 100'000; ++i) allocate({32, 32, memory_role::node}, i % 2 != 0);
    });
  }
  expect_use_again<TypeParam>([](auto allocate) {
    for (std::size_t bytes = 1; bytes <= 5000; bytes += 7) {
      const auto role = static_cast<memory_role>(bytes % memory_role_count);
      allocate({bytes, std::size_t{1} << (bytes % 9), role}, false);
    }
  });
}

TYPED_TEST(arenas, align_blocks_up_to_two_mebibytes) {
  TypeParam source;
  std::vector<std::pair<void*, block>> all;
  for (std::size_t align = 1; align <= size_class::largest; align *= 2) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1500}, align, align + 1}) {
      const block b{bytes, align, memory_role::leaf};
      void* const memory = source.allocate(b);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % align, 0U) << bytes << " bytes at " << align;
      static_cast<std::byte*>(memory)[0] = static_cast<std::byte*>(memory)[bytes - 1] = std::byte{1};
      all.emplace_back(memory, b);
    }
  }
  EXPECT_THROW((void)source.allocate({8, 2 * size_class::largest, memory_role::leaf}), std::bad_alloc);
  EXPECT_EQ(source.usage().blocks, all.size());
  for (const auto& [memory, b] : all) source.deallocate(memory, b);
  EXPECT_EQ(source.usage().blocks, 0U);
}

constexpr block node{40, 8, memory_role::node};

TEST(any_placement, lists_what_there_is) {
  EXPECT_THAT(placement_names(), testing::UnorderedElementsAre("shared_heap", "segregated", "clustered",
                                                               "index_aware", "numa_local", "random_padding",
                                                               "shifted", "chunked_heap", "chunked_heaps"));
}

TEST(any_placement, keeps_the_promises_of_each_plain_and_recorded) {
  for (const std::string_view name : placement_names()) {
    for (const auto keeps : {any_placement::recording::off, any_placement::recording::on}) {
      any_placement source(name, keeps);
      EXPECT_EQ(source.chosen_name(), name);
      EXPECT_EQ(source.is_recorded(), keeps == any_placement::recording::on);
      EXPECT_EQ(audit(source), "") << name;
      expect_held(source);
    }
  }
}

TEST(any_placement, another_name_is_refused_with_those_there_are) {
  for (const std::string_view name : {"", "Segregated", "segregate", "any", "recorded"}) {
    const std::string why = test::refusal([&] { return any_placement(name).usage().blocks; });
    EXPECT_THAT(why, HasSubstr("there is no placement '" + std::string(name) + "'"));
    for (const std::string_view known : placement_names()) EXPECT_THAT(why, HasSubstr(std::string(known)));
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(any_placement, honours_near_where_the_chosen_one_does) {
  constexpr block node32{32, 32, memory_role::node};
  any_placement source("clustered");
  const auto line_of = [](const void* m) { return reinterpret_cast<std::uintptr_t>(m) / 64; };
  void* const parent = source.allocate(node32);
  void* const child = source.allocate(node32, parent);
  EXPECT_EQ(line_of(parent), line_of(child));
  source.deallocate(child, node32);
  source.deallocate(parent, node32);
}

TEST(any_placement, records_on_request) {
  const any_placement plain("segregated");
  EXPECT_THROW(plain.for_each_live([](const live_block&) {}), std::logic_error);
  any_placement source("segregated", any_placement::recording::on);
  EXPECT_TRUE(source.is_recorded());
  EXPECT_EQ(source.chosen_name(), "segregated");
  void* const memory = source.allocate(node);
  std::vector<void*> live;
  source.for_each_live([&](const live_block& one) { live.push_back(one.memory); });
  EXPECT_EQ(live, std::vector<void*>{memory});
  source.deallocate(memory, node);
  source.for_each_live([](const live_block&) { FAIL() << "nothing is in use"; });
}

TEST(any_placement, serves_a_map_and_gets_every_node_back) {
  for (const std::string_view name : placement_names()) {
    // A leak checker, or the placement's own pages, would miss what a dying map left.
    ticket<std::uint64_t, std::uint64_t, map_traits::with_placement<any_placement>> map(nullptr, name);
    for (std::uint64_t k = 0; k < 500; ++k) map.insert(k * 37 % 1009, k);
    for (std::uint64_t k = 0; k < 250; ++k) map.erase(k * 37 % 1009);
    EXPECT_EQ(map.find(499 * 37 % 1009), 499U) << name;
    EXPECT_GE(map.usage().blocks, 2U * 250 - 1) << "a leaf for each key, a router for each but one";
  }
}

struct misaligning : shared_heap {
  void* allocate(const block& b, const void* near = nullptr) {
    return static_cast<std::byte*>(shared_heap::allocate({b.bytes + 1, b.align, b.role}, near)) + 1;
  }
  void deallocate(void* memory, const block& b) noexcept {
    shared_heap::deallocate(static_cast<std::byte*>(memory) - 1, {b.bytes + 1, b.align, b.role});
  }
};

/// Hands out blocks that begin within the block before.
struct overlapping {
  static constexpr std::string_view name = "overlapping";
  static constexpr bool releases_on_destruction = true;
  void* allocate(const block& b, const void* = nullptr) {
    const std::lock_guard hold(lock);
    next = (next + b.align - 1) / b.align * b.align;
    void* const memory = &arena[next];
    next += b.bytes - b.bytes / 4;
    ++count.blocks;
    count.bytes_in_use += b.bytes;
    count.bytes_reserved += b.bytes;
    return memory;
  }
  void deallocate(void*, const block& b) noexcept {
    const std::lock_guard hold(lock);
    --count.blocks;
    count.bytes_in_use -= b.bytes;
    count.bytes_reserved -= b.bytes;
  }
  [[nodiscard]] memory_usage usage() const noexcept { return count; }

  std::mutex lock;
  alignas(128) std::byte arena[std::size_t{4} << 20U];
  std::size_t next = 0;
  memory_usage count;
};

struct forgetting : shared_heap {
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage u = shared_heap::usage();
    if (u.blocks != 0) --u.blocks;
    return u;
  }
};

struct leaking_count : shared_heap {
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage u = shared_heap::usage();
    if (u.blocks == 0) u.blocks = 1;
    return u;
  }
};

struct counting_refusals : shared_heap {
  void* allocate(const block& b, const void* near = nullptr) {
    ++count;
    return shared_heap::allocate(b, near);
  }
  void deallocate(void* memory, const block& b) noexcept {
    --count;
    shared_heap::deallocate(memory, b);
  }
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage u = shared_heap::usage();
    u.blocks = count;
    return u;
  }
  std::uint64_t count = 0;
};

TEST(control, broken_placements_are_caught) {
  EXPECT_EQ(audit(*std::make_unique<misaligning>()), "a block is not aligned");
  // Two threads write to one block: ThreadSanitizer says so before the audit does.
  if (!test::thread_sanitizer) {
    EXPECT_EQ(audit(*std::make_unique<overlapping>()), "blocks overlap");
  }
  EXPECT_EQ(audit(*std::make_unique<forgetting>()), "the number of blocks is wrong");
  EXPECT_EQ(audit(*std::make_unique<leaking_count>()), "what was freed still counts");
  EXPECT_EQ(every_size(*std::make_unique<misaligning>()), "a block is not aligned");
  EXPECT_EQ(every_size(*std::make_unique<leaking_count>()), "what was freed still counts");
  if (!test::address_sanitizer && !test::thread_sanitizer) {
    EXPECT_EQ(refusals([] { return counting_refusals(); }), "a refusal counts");
  }
}

}  // namespace
}  // namespace espalier
