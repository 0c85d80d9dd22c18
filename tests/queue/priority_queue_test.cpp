// Priority queues: order and equal keys with one thread, conservation with several.

#include "espalier/queue/priority_queue_concept.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "espalier/queue/shavit_lotan_queue.hpp"

namespace espalier {
namespace {

template <class Key, class Value, queue_order Order, class Compare = std::less<Key>>
using queue_of = shavit_lotan_queue<Key, Value, Order, map_traits, Compare>;

template <class Order>
class priority_queue : public ::testing::Test {};
using orders = ::testing::Types<std::integral_constant<queue_order, queue_order::quiescently_consistent>,
                                std::integral_constant<queue_order, queue_order::linearizable>>;
TYPED_TEST_SUITE(priority_queue, orders);

TYPED_TEST(priority_queue, fulfils_the_concept) {
  using queue = queue_of<unsigned, std::string, TypeParam::value>;
  static_assert(concurrent_priority_queue<queue>);
  EXPECT_EQ(queue::properties.order, TypeParam::value);
}

TYPED_TEST(priority_queue, elements_come_in_the_order_of_keys_and_of_pushes) {
  queue_of<int, std::string, TypeParam::value> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.try_pop_min());
  EXPECT_FALSE(queue.try_find_min());
  std::multimap<int, std::string> expected;
  for (int i = 0; i < 300; ++i) {
    const std::string value = "an element with a value that owns memory, number " + std::to_string(i);
    expected.emplace(i * 37 % 50, value);
    queue.push(i * 37 % 50, value);
  }
  for (const auto& [key, value] : expected) {
    const map_entry<int, std::string> e{key, value};
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.try_find_min(), e);
    EXPECT_EQ(queue.try_pop_min(), e);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.try_pop_min());
  EXPECT_EQ(queue.check_invariants(), nullptr);
}

TYPED_TEST(priority_queue, a_comparator_and_what_is_left_at_the_end) {
  queue_of<int, std::string, TypeParam::value, std::greater<int>> queue;
  auto guard = queue.pin();
  for (int i = 0; i < 20; ++i) queue.push(guard, i, std::string(100, 'x'));
  EXPECT_EQ(queue.try_pop_min(guard)->key, 19);
  EXPECT_EQ(queue.try_find_min(guard)->key, 18);
}

/// Threads push and pop. Each element is popped once; what is popped at the end comes in order.
TYPED_TEST(priority_queue, conserves_elements) {
  constexpr std::size_t threads = 4;
  constexpr std::uint64_t pushes = 4000;
  queue_of<std::uint64_t, std::uint64_t, TypeParam::value> queue;
  std::array<std::vector<std::uint64_t>, threads + 1> popped;
  std::vector<std::thread> team;
  for (std::size_t t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < pushes; ++i) {
        const std::uint64_t id = t * pushes + i;
        queue.push(id * 0x9e3779b97f4a7c15U >> 58U, id);  // 64 keys
        if (i % 8 == 7) continue;
        if (const auto e = queue.try_pop_min()) popped[t].push_back(e->value);
      }
    });
  }
  for (std::thread& one : team) one.join();
  EXPECT_EQ(queue.check_invariants(), nullptr);
  std::uint64_t last = 0;
  while (const auto e = queue.try_pop_min()) {
    EXPECT_GE(e->key, last);
    last = e->key;
    popped[threads].push_back(e->value);
  }
  std::vector<std::uint64_t> all;
  for (const auto& some : popped) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), threads * pushes);
  for (std::uint64_t id = 0; id < all.size(); ++id) ASSERT_EQ(all[id], id);
  queue.domain().collect();
  EXPECT_EQ(queue.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier
