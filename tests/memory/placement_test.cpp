#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "memory/placement_audit.hpp"
#include "memory/shipped_placements.hpp"

// What every placement promises, found out by one audit; placements that break one promise each show that
// the audit would notice.

namespace espalier {
namespace {

using test::audit;
using test::every_size;
using test::refusals;

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

/// The same of each placement that is chosen by name, plain and recorded.
class chosen_placements
    : public testing::TestWithParam<std::tuple<std::string_view, any_placement::recording>> {
 protected:
  void SetUp() override {
    const auto [name, keeps] = GetParam();
    for (const placement_choice& c : placement_names()) {
      if (c.name == name && !c.available()) GTEST_SKIP() << c.why_not;
    }
  }
  static any_placement make() {
    const auto [name, keeps] = GetParam();
    return any_placement(name, keeps);
  }
};

std::vector<std::string_view> every_name() {
  std::vector<std::string_view> names;
  for (const placement_choice& c : placement_names()) names.push_back(c.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<chosen_placements::ParamType>& one) {
  const auto [name, keeps] = one.param;
  return (keeps == any_placement::recording::on ? "recorded_" : "") + std::string(name);
}

INSTANTIATE_TEST_SUITE_P(all, chosen_placements,
                         testing::Combine(testing::ValuesIn(every_name()),
                                          testing::Values(any_placement::recording::off,
                                                          any_placement::recording::on)),
                         test_name);

TEST_P(chosen_placements, keep_their_promises) {
  any_placement source = make();
  EXPECT_EQ(audit(source), "");
}

TEST_P(chosen_placements, have_blocks_of_every_size) {
  any_placement source = make();
  EXPECT_EQ(every_size(source), "");
}

TEST_P(chosen_placements, tell_what_a_block_takes) {
  any_placement source = make();
  expect_held(source);
}

TEST_P(chosen_placements, refuse_without_a_change) { EXPECT_EQ(refusals(make), ""); }

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
