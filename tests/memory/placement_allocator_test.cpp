#include "espalier/memory/placement_allocator.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier {
namespace {

struct recording_placement : shared_heap {
  std::vector<block> asked;
  void* allocate(const block& b, const void* near = nullptr) {
    asked.push_back(b);
    return shared_heap::allocate(b, near);
  }
};

TEST(placement_allocator, asks_for_what_the_container_needs_in_its_role) {
  recording_placement source;
  {
    const std::vector<double, placement_allocator<double, recording_placement, memory_role::value>> numbers(
        5, 1.5, placement_allocator<double, recording_placement, memory_role::value>(source));
    ASSERT_EQ(source.asked.size(), 1U);
    EXPECT_EQ(source.asked[0].bytes, 5 * sizeof(double));
    EXPECT_EQ(source.asked[0].align, alignof(double));
    EXPECT_EQ(source.asked[0].role, memory_role::value);
    EXPECT_EQ(source.usage().blocks, 1U);
  }
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(placement_allocator, serves_node_containers_through_rebinding) {
  recording_placement source;
  using entry = std::pair<const int, int>;
  {
    std::map<int, int, std::less<>, placement_allocator<entry, recording_placement>> map{
        placement_allocator<entry, recording_placement>(source)};
    for (int i = 0; i < 100; ++i) map[i * 37 % 101] = i;
    EXPECT_EQ(source.usage().blocks, 100U);
    for (const block& b : source.asked) {
      EXPECT_GT(b.bytes, sizeof(entry));
      EXPECT_EQ(b.role, memory_role::node);
    }
    const auto node = map.extract(map.begin());
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

}  // namespace
}  // namespace espalier
