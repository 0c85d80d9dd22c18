#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/memory/pmr.hpp"
#include "espalier/sync/std_mutex.hpp"

// What the suites do not see of the locked maps: which nodes an erase moves, blocks of other sizes, huge values.

namespace espalier {
namespace {

using key = std::uint64_t;
using value = std::uint64_t;

struct wide_value {
  std::array<std::uint64_t, 5> words;
};

/// Maps each key to itself and something more.
template <class Map>
void insert_all(Map& map, std::initializer_list<key> keys, value more = 0) {
  for (const key k : keys) ASSERT_TRUE(map.insert(k, k + more));
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
  run(std::type_identity<hand_over_hand_bst<std::uint64_t, value, traits>>{});
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

TEST(string_keys, iterators_own_their_batches) {
  locked_map<std::string, value> map;
  for (value v = 0; v < 200; ++v)
    map.insert("a key that is no small string, number " + std::to_string(1000 + v), v);
  auto at = map.begin();
  auto copy = ++at;
  for (value v = 1; v < 200; ++v, ++copy) ASSERT_EQ(copy->value, v);
  EXPECT_TRUE(copy == map.end());
  EXPECT_EQ(at->key, "a key that is no small string, number 1001");
  copy = at;
  EXPECT_EQ(copy->key, at->key);
  at = map.begin();
  EXPECT_EQ(copy->value, 1U);
}

}  // namespace
}  // namespace espalier
