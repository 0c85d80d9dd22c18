#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/memory/pmr.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

using key = std::uint64_t;
using value = std::uint64_t;

struct wide_value {
  std::array<std::uint64_t, 5> words;
};

/// Gives the processor away around some acquisitions and releases: on few cores the windows in which a wrong
/// order of locks shows would otherwise hardly ever open.
class restless_lock {
 public:
  void lock() noexcept {
    stir();
    lock_.lock();
    stir();
  }
  [[nodiscard]] bool try_lock() noexcept { return lock_.try_lock(); }
  void unlock() noexcept {
    lock_.unlock();
    stir();
  }
  [[nodiscard]] bool is_locked() const noexcept { return lock_.is_locked(); }

 private:
  static void stir() noexcept {
    thread_local std::minstd_rand random(static_cast<std::uint32_t>(gettid()));
    if (random() % 16 == 0) sched_yield();
  }
  ttas_lock lock_;
};

template <class Map>
class locked_baselines : public testing::Test {};

using maps = testing::Types<locked_map<key, value>, global_lock_bst<key, value>,
                            global_lock_bst<key, value, map_traits::with_lock<ticket_lock>>,
                            hand_over_hand_bst<key, value>,
                            hand_over_hand_bst<key, value, map_traits::with_placement<shared_heap>>,
                            hand_over_hand_bst<key, value, map_traits::with_lock<restless_lock>>>;
TYPED_TEST_SUITE(locked_baselines, maps);

template <class Map>
std::vector<std::pair<key, value>> contents(Map& map, key from = 0) {
  std::vector<std::pair<key, value>> all;
  map.scan(from, [&](key k, value v) { all.emplace_back(k, v); });
  return all;
}

/// Maps each key to itself and something more.
template <class Map>
void insert_all(Map& map, std::initializer_list<key> keys, value more = 0) {
  for (const key k : keys) ASSERT_TRUE(map.insert(k, k + more));
}

TYPED_TEST(locked_baselines, keep_the_contract_at_compile_time) {
  static_assert(exchanging_ordered_map<TypeParam>);
  static_assert(std::is_same_v<typename TypeParam::guard_type, no_guard>);
  static_assert(!TypeParam::properties.region_protection);
  static_assert(!std::is_copy_constructible_v<no_guard> && std::is_nothrow_move_constructible_v<no_guard>);
}

TYPED_TEST(locked_baselines, agree_with_std_map_over_random_operations) {
  TypeParam map;
  std::map<key, value> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 40000; ++i) {
    const key k = random() % 200 == 0 ? std::numeric_limits<key>::max() : random() % 150;
    const value v = random();
    switch (random() % 5) {
      case 0:
        ASSERT_EQ(map.insert(k, v), model.emplace(k, v).second);
        break;
      case 1:
        ASSERT_EQ(map.insert_or_assign(k, v), model.insert_or_assign(k, v).second);
        break;
      case 2:
        ASSERT_EQ(map.erase(k), model.erase(k) == 1);
        break;
      case 3: {
        const auto at = model.find(k);
        const auto found = map.find(k);
        ASSERT_EQ(found.has_value(), at != model.end());
        if (found) {
          ASSERT_EQ(*found, at->second);
        }
        break;
      }
      default:
        ASSERT_EQ(map.contains(k), model.contains(k));
    }
    if (i % 500 == 0) {
      ASSERT_EQ(map.check_invariants(), nullptr);
      const std::vector<std::pair<key, value>> expected(model.lower_bound(75), model.end());
      ASSERT_EQ(contents(map, 75), expected);
      ASSERT_EQ(map.usage().blocks, model.size());
    }
  }
}

// Around the size of a batch, in the three orders that shape an unbalanced tree differently.
TYPED_TEST(locked_baselines, scan_every_number_of_keys_from_every_start) {
  for (const int order : {0, 1, 2}) {
    for (const key size : std::initializer_list<key>{0, 1, 63, 64, 65, 127, 128, 129, 300}) {
      TypeParam map;
      std::vector<key> keys;
      keys.reserve(size);
      for (key k = 0; k < size; ++k) keys.push_back(2 * k + 1);
      if (order == 1) std::reverse(keys.begin(), keys.end());
      if (order == 2) std::shuffle(keys.begin(), keys.end(), std::mt19937_64(size));
      for (const key k : keys) map.insert(k, ~k);
      for (const key from : {key{0}, size / 2, size, 2 * size, 2 * size + 1}) {
        auto guard = map.pin();
        std::vector<std::pair<key, value>> seen;
        const std::size_t visits = map.scan(guard, from, [&](key k, value v) { seen.emplace_back(k, v); });
        std::vector<std::pair<key, value>> expected;
        for (key k = 1; k < 2 * size; k += 2) {
          if (k >= from) expected.emplace_back(k, ~k);
        }
        ASSERT_EQ(seen, expected) << "size " << size << ", from " << from;
        ASSERT_EQ(visits, expected.size());
      }
    }
  }
}

TYPED_TEST(locked_baselines, a_visitor_may_stop_and_may_call_the_map) {
  TypeParam map;
  for (key k = 0; k < 200; ++k) map.insert(k, 0);
  EXPECT_EQ(map.scan(10, [](key k, value) { return k < 90; }), 81U);
  // Erasing the key at hand and inserting behind it: neither blocks nor disturbs the rest.
  std::vector<key> seen;
  map.scan(0, [&](key k, value) {
    seen.push_back(k);
    EXPECT_TRUE(map.erase(k));
    EXPECT_EQ(map.find(k), std::nullopt);
  });
  EXPECT_EQ(seen.size(), 200U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_TRUE(contents(map).empty());
  EXPECT_EQ(map.usage().blocks, 0U);
}

TYPED_TEST(locked_baselines, a_chain_of_many_nodes_neither_recurses_nor_leaks) {
  TypeParam map;
  constexpr key length = 1500;  // quadratic to build
  for (key k = 0; k < length; ++k) map.insert(k % 2 == 0 ? k : 2 * length - k, k);
  EXPECT_EQ(map.check_invariants(), nullptr);
  std::size_t visited = 0;
  map.visit_nodes([&](const void*, std::size_t bytes, memory_role role) {
    EXPECT_EQ(bytes, TypeParam::node_bytes);
    EXPECT_EQ(role, memory_role::node);
    ++visited;
  });
  EXPECT_EQ(visited, length);
}

TYPED_TEST(locked_baselines, threads_lose_no_update) {
  TypeParam map;
  constexpr int threads = 4;
  constexpr key keys = 8;
  std::array<std::atomic<int>, keys> balance{};  // inserts minus erases that said true
  test::on_threads(threads, [&](int t) {
    std::mt19937_64 random(static_cast<std::uint64_t>(t) + 1);
    for (int i = 0; i < 3000; ++i) {
      const key k = random() % keys;
      if (random() % 2 == 0) {
        if (map.insert(k, k + 100)) balance[k].fetch_add(1, std::memory_order_relaxed);
      } else if (map.erase(k)) {
        balance[k].fetch_sub(1, std::memory_order_relaxed);
      }
      if (const auto found = map.find(k)) {
        EXPECT_EQ(*found, k + 100);
      }
    }
  });
  EXPECT_EQ(map.check_invariants(), nullptr);
  std::size_t present = 0;
  for (key k = 0; k < keys; ++k) {
    EXPECT_EQ(balance[k].load(), map.contains(k) ? 1 : 0) << k;
    if (map.contains(k)) ++present;
  }
  EXPECT_EQ(map.usage().blocks, present);
}

// Erasing an even key moves an odd one up, where trees copy: no find and no scan may miss it meanwhile.
TYPED_TEST(locked_baselines, keys_that_stay_are_never_missed_while_others_move) {
  TypeParam map;
  constexpr key pairs = 64;
  const auto insert_evens = [&] {
    // Middle first: the evens become inner nodes with the odd keys as their successors.
    for (key step = pairs; step >= 1; step /= 2) {
      for (key k = step; k <= pairs; k += step) map.insert(2 * k, 0);
    }
  };
  insert_evens();
  for (key k = 1; k <= pairs; ++k) map.insert(2 * k + 1, 1);

  std::atomic<bool> stop{false};
  std::thread mover([&] {
    for (int round = 0; round < 30; ++round) {
      for (key k = 1; k <= pairs; ++k) map.erase(2 * k);
      insert_evens();
    }
    stop.store(true);
  });
  std::thread finder([&] {
    std::mt19937_64 random(3);
    while (!stop.load()) {
      const key k = 2 * (1 + random() % pairs) + 1;
      ASSERT_EQ(map.find(k), std::optional<value>(1)) << k;
    }
  });
  while (!stop.load()) {
    key expected_odd = 3;
    key before = 0;
    map.scan(0, [&](key k, value v) {
      EXPECT_LT(before, k);
      before = k;
      if (k % 2 == 0) return;
      EXPECT_EQ(k, expected_odd);
      EXPECT_EQ(v, 1U);
      expected_odd = k + 2;
    });
    ASSERT_EQ(expected_odd, 2 * pairs + 3);
  }
  mover.join();
  finder.join();
  EXPECT_EQ(map.check_invariants(), nullptr);
}

template <class Map>
std::map<key, const void*> node_of_each_key(const Map& map) {
  std::map<key, const void*> nodes;
  map.visit_nodes([&](const void* node, std::size_t, memory_role) {
    nodes[*static_cast<const key*>(node)] = node;  // a tree node begins with its key
  });
  return nodes;
}

TEST(two_child_erase, relinks_the_successor_in_global_lock_bst) {
  for (const bool far : {false, true}) {
    global_lock_bst<key, value> map;
    insert_all(map, {50, 20, 80, 90});
    if (far) {
      insert_all(map, {70, 60, 65});
    }
    auto nodes = node_of_each_key(map);
    EXPECT_TRUE(map.erase(50));
    nodes.erase(50);
    EXPECT_EQ(node_of_each_key(map), nodes);
    EXPECT_EQ(map.check_invariants(), nullptr);
  }
}

TEST(two_child_erase, copies_the_successor_in_hand_over_hand_bst) {
  for (const bool far : {false, true}) {
    hand_over_hand_bst<key, value> map;
    insert_all(map, {50, 20, 80, 90}, 1);
    if (far) {
      insert_all(map, {70, 60, 65}, 1);
    }
    auto nodes = node_of_each_key(map);
    const key successor = far ? 60 : 80;
    EXPECT_TRUE(map.erase(50));
    nodes[successor] = nodes[50];
    nodes.erase(50);
    EXPECT_EQ(node_of_each_key(map), nodes);
    EXPECT_EQ(map.find(successor), std::optional<value>(successor + 1));
    EXPECT_EQ(map.check_invariants(), nullptr);
  }
}

/// Remembers which blocks are out.
class recording_resource final : public std::pmr::memory_resource {
 public:
  std::set<std::pair<const void*, std::size_t>> out;

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    void* const memory = std::pmr::new_delete_resource()->allocate(bytes, align);
    out.emplace(memory, bytes);
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t align) override {
    EXPECT_EQ(out.erase({memory, bytes}), 1U);
    std::pmr::new_delete_resource()->deallocate(memory, bytes, align);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

template <class Map>
void expect_visits_are_allocations(Map& map, const recording_resource& resource) {
  std::set<std::pair<const void*, std::size_t>> visited;
  map.visit_nodes([&](const void* node, std::size_t bytes, memory_role) { visited.emplace(node, bytes); });
  EXPECT_EQ(visited, resource.out);
}

TEST(visit_nodes, reports_exactly_what_was_allocated) {
  recording_resource resource;
  const auto run = [&](auto type) {
    using map_type = typename decltype(type)::type;
    using small_key = typename map_type::key_type;
    {
      map_type map(nullptr, &resource);
      for (small_key k = 0; k < 30; ++k) map.insert(static_cast<small_key>(k * 7 % 31), {});
      for (small_key k = 0; k < 30; k = static_cast<small_key>(k + 3)) map.erase(k);
      expect_visits_are_allocations(map, resource);
      EXPECT_EQ(map.usage().blocks, resource.out.size());
    }
    EXPECT_TRUE(resource.out.empty());
  };
  using traits = map_traits::with_placement<pmr_placement>;
  run(std::type_identity<locked_map<std::uint64_t, value, traits>>{});
  run(std::type_identity<locked_map<std::uint16_t, std::uint8_t, traits>>{});
  run(std::type_identity<locked_map<std::uint32_t, wide_value, traits>>{});
  run(std::type_identity<global_lock_bst<std::uint32_t, wide_value, traits>>{});
  run(std::type_identity<hand_over_hand_bst<std::uint32_t, wide_value, traits>>{});
  run(std::type_identity<hand_over_hand_bst<std::uint64_t, value, traits::with_layout<line_layout>>>{});
}

TEST(layout, sizes_with_words) {
  EXPECT_EQ((global_lock_bst<key, value>::node_bytes), 32U);
  EXPECT_EQ((hand_over_hand_bst<key, value>::node_bytes), 40U);
  EXPECT_EQ((hand_over_hand_bst<key, value, map_traits::with_layout<line_layout>>::node_bytes), 64U);
}

struct huge_value {
  std::array<std::uint64_t, 4096> words;
};

TEST(large_values, are_copied_whole) {
  hand_over_hand_bst<int, huge_value, map_traits::with_lock<std_mutex>> coupled;
  global_lock_bst<int, huge_value> global;
  locked_map<int, huge_value> control;
  huge_value v{};
  for (int k = -3; k < 3; ++k) {
    v.words.back() = static_cast<std::uint64_t>(k) + 10;
    coupled.insert(k, v);
    global.insert(k, v);
    control.insert(k, v);
  }
  int visits = -3;
  const auto check = [&](int k, const huge_value& seen) {
    EXPECT_EQ(k, visits++);
    EXPECT_EQ(seen.words.back(), static_cast<std::uint64_t>(k) + 10);
  };
  coupled.scan(-3, check);
  visits = -3;
  global.scan(-3, check);
  visits = -3;
  control.scan(-3, check);
  EXPECT_EQ(visits, 3);
}

/// One whose switch the test can reach.
struct switched_placement : shared_heap {
  explicit switched_placement(const bool* refuse) : refuse_(refuse) {}
  void* allocate(const block& b, const void* near = nullptr) {
    if (*refuse_) throw std::bad_alloc();
    return shared_heap::allocate(b, near);
  }

 private:
  const bool* refuse_;
};

TEST(a_refused_allocation, leaves_the_map_unchanged_and_unlocked) {
  using traits = map_traits::with_placement<switched_placement>;
  const auto run = [](auto type) {
    bool refuse = false;
    typename decltype(type)::type map(nullptr, &refuse);
    insert_all(map, {5, 2, 8});
    refuse = true;
    EXPECT_THROW(map.insert(6, 6), std::bad_alloc);
    EXPECT_THROW(map.insert_or_assign(6, 6), std::bad_alloc);
    EXPECT_FALSE(map.insert(5, 1)) << "a present key needs no memory";
    EXPECT_FALSE(map.insert_or_assign(5, 7));
    EXPECT_TRUE(map.erase(8));
    EXPECT_EQ(contents(map), (std::vector<std::pair<key, value>>{{2, 2}, {5, 7}}));
    refuse = false;
    EXPECT_TRUE(map.insert(6, 6));
    EXPECT_EQ(map.check_invariants(), nullptr);
  };
  run(std::type_identity<locked_map<key, value, traits>>{});
  run(std::type_identity<global_lock_bst<key, value, traits::with_lock<mcs_lock>>>{});
  run(std::type_identity<hand_over_hand_bst<key, value, traits>>{});
}

}  // namespace
}  // namespace espalier
