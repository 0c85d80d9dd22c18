// Priority queues: order and equal keys with one thread, conservation with several.

#include "espalier/queue/priority_queue_concept.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "espalier/delegation/partitioned_queue.hpp"
#include "espalier/queue/heap_queue.hpp"
#include "espalier/queue/shavit_lotan_queue.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {
namespace {

template <class Key, class Value, queue_order Order, class Compare = std::less<Key>>
using queue_of = shavit_lotan_queue<Key, Value, Order, map_traits, Compare>;

struct quiescent {
  /// Blocks that a queue may keep without an element.
  static constexpr std::uint64_t blocks_kept = 0;
  static constexpr bool is_linearizable = false;
  template <class Key, class Value, class Compare = std::less<Key>>
  using queue = queue_of<Key, Value, queue_order::quiescently_consistent, Compare>;
};
struct linearizable {
  static constexpr std::uint64_t blocks_kept = 0;
  static constexpr bool is_linearizable = true;
  template <class Key, class Value, class Compare = std::less<Key>>
  using queue = queue_of<Key, Value, queue_order::linearizable, Compare>;
};
struct heap {
  static constexpr std::uint64_t blocks_kept = 12;  // arrays, each as large as those before
  static constexpr bool is_linearizable = true;
  template <class Key, class Value, class Compare = std::less<Key>>
  using queue = heap_queue<Key, Value, map_traits, Compare>;
};
/// Threads come to its two localities in turn.
template <class Inner>
struct partitioned {
  static constexpr std::uint64_t blocks_kept = 2 * Inner::blocks_kept;
  static constexpr bool is_linearizable = false;
  template <class Key, class Value, class Compare = std::less<Key>>
  using queue = partitioned_queue<typename Inner::template queue<Key, Value, Compare>>;
};

template <class Kind>
class priority_queue : public ::testing::Test {};
using kinds = ::testing::Types<quiescent, linearizable, heap, partitioned<quiescent>,
                               partitioned<linearizable>, partitioned<heap>>;
TYPED_TEST_SUITE(priority_queue, kinds);

TYPED_TEST(priority_queue, fulfils_the_concept) {
  using queue = typename TypeParam::template queue<unsigned, std::string>;
  static_assert(concurrent_priority_queue<queue>);
  EXPECT_EQ(queue::properties.order == queue_order::linearizable, TypeParam::is_linearizable);
}

TYPED_TEST(priority_queue, elements_come_in_the_order_of_keys_and_of_pushes) {
  typename TypeParam::template queue<int, std::string> queue;
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
  typename TypeParam::template queue<int, std::string, std::greater<int>> queue;
  auto guard = queue.pin();
  for (int i = 0; i < 20; ++i) queue.push(guard, i, std::string(100, 'x'));
  EXPECT_EQ(queue.try_pop_min(guard)->key, 19);
  EXPECT_EQ(queue.try_find_min(guard)->key, 18);
}

TYPED_TEST(priority_queue, pops_up_to_a_limit) {
  typename TypeParam::template queue<int, int> queue;
  EXPECT_FALSE(queue.try_pop_min_up_to(100));
  for (int key = 10; key <= 100; key += 10) queue.push(key, -key);
  auto guard = queue.pin();
  EXPECT_FALSE(queue.try_pop_min_up_to(guard, 9));
  for (int key = 10; key <= 50; key += 10) EXPECT_EQ(queue.try_pop_min_up_to(guard, 50)->key, key);
  EXPECT_FALSE(queue.try_pop_min_up_to(guard, 59));
  EXPECT_EQ(queue.try_pop_min(guard)->value, -60);
}

/// Threads push and pop. Each element is popped once; what is popped at the end comes in order.
TYPED_TEST(priority_queue, conserves_elements) {
  constexpr std::size_t threads = 4;
  constexpr std::uint64_t pushes = 4000;
  typename TypeParam::template queue<std::uint64_t, std::uint64_t> queue;
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
  if constexpr (requires { queue.domain().collect(); }) queue.domain().collect();
  EXPECT_LE(queue.usage().blocks, TypeParam::blocks_kept);
}

/// A lock that counts how often it is taken.
struct counting_lock : ttas_lock {
  void lock() noexcept {
    ++taken;
    ttas_lock::lock();
  }
  static inline int taken = 0;
};

TEST(heap_queue, a_look_takes_no_lock_where_elements_are_small) {
  heap_queue<int, std::array<int, 5>, map_traits::with_lock<counting_lock>> queue;
  static_assert(decltype(queue)::shows_elements && !heap_queue<int, std::string>::shows_elements &&
                !heap_queue<int, std::array<int, 8>>::shows_elements);
  queue.push(2, {1, 2, 3, 4, 5});
  queue.push(1, {6, 7, 8, 9, 10});
  const int taken = counting_lock::taken;
  EXPECT_GE(taken, 2);
  EXPECT_EQ(queue.try_find_min()->value[4], 10);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(counting_lock::taken, taken);
  EXPECT_EQ(queue.try_pop_min()->key, 1);
  EXPECT_EQ(queue.try_find_min()->value[0], 1);

  heap_queue<int, std::string, map_traits::with_lock<mcs_lock>> of_strings;
  of_strings.push(1, "one");
  EXPECT_EQ(of_strings.try_find_min()->value, "one");
}

/// Entries of equal keys keep their order where the numbers of pushes begin again, and as many elements as numbers are the most.
TEST(heap_queue, more_pushes_than_numbers) {
  heap_queue<int, int, map_traits, std::less<int>, std::uint8_t> queue;
  constexpr int most = 255;
  int pushed = 0;
  int popped = 0;
  for (; pushed < 40; ++pushed) queue.push(7, pushed);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(queue.try_pop_min()->value, popped++);
    queue.push(7, pushed++);
    queue.push(8, -i);
    EXPECT_EQ(queue.try_find_min()->value, popped);
    if (i % 50 == 49) {
      for (; popped < pushed; ++popped) EXPECT_EQ(queue.try_pop_min()->value, popped);
      for (int j = 49; j >= 0; --j) EXPECT_EQ(queue.try_pop_min()->value, j - i);
      EXPECT_TRUE(queue.empty());
      for (int j = 0; j < 40; ++j) queue.push(7, pushed++);
    }
    ASSERT_EQ(queue.check_invariants(), nullptr);
  }
  for (int n = pushed - popped; n < most; ++n) queue.push(7, pushed++);
  EXPECT_THROW(queue.push(1, 1), std::bad_alloc);
  for (; popped < pushed; ++popped) ASSERT_EQ(queue.try_pop_min()->value, popped);
}

TEST(partitioned_queue, more_partitions_than_localities) {
  delegation::runtime threads(delegation::localities::in_turn(3));
  for (const unsigned partitions : {0U, 1U, 9U}) {
    partitioned_queue<queue_of<int, int, queue_order::quiescently_consistent>> queue(threads, partitions);
    EXPECT_EQ(queue.parts().count(), partitions == 0 ? 3U : partitions);
    for (int i = 0; i < 100; ++i) queue.push(i * 37 % 100, i);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.try_pop_min()->key, i);
    EXPECT_TRUE(queue.empty());
  }
}

/// Equivalent keys may have different hashes, or none: all elements are in one partition.
TEST(partitioned_queue, an_order_of_its_own) {
  using name = std::array<int, 8>;
  struct by_first {
    bool operator()(const name& a, const name& b) const { return a[0] < b[0]; }
  };
  partitioned_queue<queue_of<name, int, queue_order::quiescently_consistent, by_first>> queue;
  for (int i = 0; i < 20; ++i) queue.push(name{i % 4, i}, i);
  EXPECT_TRUE(queue.parts()[1].empty());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(queue.try_pop_min_up_to(name{3})->value, i / 5 + i % 5 * 4);
  EXPECT_FALSE(queue.try_find_min());
}

/// A pop that may not wait has popped nothing.
TEST(partitioned_queue, inside_as_many_operations_as_may_wait) {
  delegation::runtime threads(delegation::localities::in_turn(2), {.nesting = 2});
  partitioned_queue<queue_of<int, int, queue_order::quiescently_consistent>> queue(threads);
  queue.push(1, 1);
  const auto pops = [&queue](auto&) { return queue.try_pop_min().has_value(); };
  EXPECT_THROW(queue.parts().call_at(0, [&](auto&) { return queue.parts().call_at(0, pops); }),
               delegation::nesting_error);
  EXPECT_TRUE(queue.parts().call_at(0, pops));
}

}  // namespace
}  // namespace espalier
