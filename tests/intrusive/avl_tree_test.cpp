#include "espalier/intrusive/avl_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "espalier/workload/random.hpp"

namespace espalier {
namespace {

using ::testing::HasSubstr;

struct node : avl_hook {
  explicit node(int k = 0, int v = 0) : key(k), value(v) {}
  int key;
  int value;
};
using tree = avl_tree<node, &node::key>;

static_assert(sizeof(avl_hook) == 24);
static_assert(sizeof(tree) == 256 && alignof(tree) == 128,
              "the count has its own pair of lines, and so has the rest");
static_assert(!std::is_copy_constructible_v<tree> && !std::is_copy_constructible_v<node>);

/// Depths in order of keys: they tell the shape.
std::vector<std::size_t> depths(const tree& of) {
  std::vector<std::size_t> all;
  of.visit_nodes([&](const node&, std::size_t depth) { all.push_back(depth); });
  return all;
}

/// Height of what lies in [from, to) below `depth`, by the depths alone; -1 where a node is uneven by more than one or
/// the depths are no tree's.
int height(const std::vector<std::size_t>& shape, std::size_t from, std::size_t to, std::size_t depth) {
  if (from == to) return 0;
  const auto begin = shape.begin();
  const auto at =
      std::find(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to), depth);
  if (at == begin + static_cast<std::ptrdiff_t>(to)) return -1;
  const auto middle = static_cast<std::size_t>(at - begin);
  const int left = height(shape, from, middle, depth + 1);
  const int right = height(shape, middle + 1, to, depth + 1);
  if (left < 0 || right < 0 || std::abs(left - right) > 1) return -1;
  return 1 + std::max(left, right);
}

int height(const tree& of) {
  const std::vector<std::size_t> shape = depths(of);
  return height(shape, 0, shape.size(), 0);
}

std::vector<int> keys(const tree& of) {
  std::vector<int> all;
  for (const node* n = of.first(); n != nullptr; n = of.next(*n)) all.push_back(n->key);
  return all;
}

/// Held against the tree's own examination, and against one that knows nothing of its links.
void expect_sound(const tree& t) {
  ASSERT_EQ(t.check_invariants(), nullptr) << t.check_invariants();
  const std::vector<std::size_t> shape = depths(t);
  ASSERT_EQ(shape.size(), t.size());
  ASSERT_GE(height(shape, 0, shape.size(), 0), 0) << ::testing::PrintToString(shape);
}

/// A tree of a given shape, with the keys 0, 10, 20 and so on.
class shaped_tree {
 public:
  explicit shaped_tree(const std::vector<std::size_t>& shape) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      nodes_.push_back(std::make_unique<node>(static_cast<int>(10 * i)));
    // From the top down: a tree cut off at any depth is balanced, so that no insertion rotates.
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(shape[i], i); });
    for (const std::size_t i : order) EXPECT_TRUE(made.insert(*nodes_[i]));
    EXPECT_EQ(depths(made), shape);
  }
  tree made;

 private:
  std::vector<std::unique_ptr<node>> nodes_;
};

TEST(avl_tree, of_every_shape_takes_an_insertion_anywhere_and_an_erasure_of_any_node) {
  // OEIS A006265: AVL trees with n nodes.
  const std::vector<std::size_t> known{1, 1, 2, 1, 4, 6, 4, 17, 32, 44, 60, 70, 184, 476};
  std::set<std::vector<std::size_t>> shapes{{}};
  for (std::size_t n = 0; n < known.size(); ++n) {
    ASSERT_EQ(shapes.size(), known[n]) << n << " nodes";
    std::set<std::vector<std::size_t>> larger;
    for (const auto& shape : shapes) {
      for (std::size_t gap = 0; gap <= n; ++gap) {
        shaped_tree t(shape);
        node fresh(static_cast<int>(10 * gap) - 5);
        ASSERT_TRUE(t.made.insert(fresh));
        ASSERT_NO_FATAL_FAILURE(expect_sound(t.made)) << ::testing::PrintToString(shape) << " gap " << gap;
        std::vector<int> expected(n);
        for (std::size_t i = 0; i < n; ++i) expected[i] = static_cast<int>(10 * i);
        expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(gap), fresh.key);
        ASSERT_EQ(keys(t.made), expected);
        larger.insert(depths(t.made));
      }
      for (std::size_t victim = 0; victim < n; ++victim) {
        shaped_tree t(shape);
        const int key = static_cast<int>(10 * victim);
        ASSERT_EQ(t.made.erase(key)->key, key);
        ASSERT_NO_FATAL_FAILURE(expect_sound(t.made))
            << ::testing::PrintToString(shape) << " victim " << victim;
        const std::vector<int> left = keys(t.made);
        ASSERT_EQ(left.size(), n - 1);
        for (std::size_t i = 0; i < n - 1; ++i)
          ASSERT_EQ(left[i], static_cast<int>(10 * (i + (i >= victim ? 1 : 0))));
      }
    }
    shapes = std::move(larger);
  }
}

/// A tree and a std::map that are told the same.
class twins {
 public:
  ~twins() {
    t_.clear([](node& n) { delete &n; });
  }

  void insert(int key, int value) {
    auto fresh = std::make_unique<node>(key, value);
    const bool added = model_.emplace(key, value).second;
    ASSERT_EQ(t_.insert(*fresh), added) << key;
    if (added) fresh.release();
  }
  void insert_or_assign(int key, int value) {
    const bool absent = !model_.contains(key);
    bool made = false;
    const auto [n, inserted] = t_.insert_or_find(key, [&] {
      made = true;
      return new node(key, value);
    });
    ASSERT_EQ(inserted, absent) << key;
    ASSERT_EQ(made, absent) << key;
    ASSERT_EQ(n->key, key);
    n->value = value;
    model_[key] = value;
  }
  void erase(int key) {
    const std::unique_ptr<node> gone(t_.erase(key));
    const auto known = model_.find(key);
    ASSERT_EQ(gone != nullptr, known != model_.end()) << key;
    if (gone == nullptr) return;
    ASSERT_EQ(gone->key, key);
    ASSERT_EQ(gone->value, known->second);
    model_.erase(known);
  }
  void find(int key) const {
    const node* const n = t_.find(key);
    const auto known = model_.find(key);
    ASSERT_EQ(n != nullptr, known != model_.end()) << key;
    if (n == nullptr) return;
    ASSERT_EQ(n->value, known->second);
  }
  void compare() const {
    ASSERT_EQ(t_.check_invariants(), nullptr) << t_.check_invariants();
    ASSERT_EQ(t_.size(), model_.size());
    ASSERT_EQ(t_.empty(), model_.empty());
    const node* n = t_.first();
    for (const auto& [key, value] : model_) {
      ASSERT_NE(n, nullptr);
      ASSERT_EQ(n->key, key);
      ASSERT_EQ(n->value, value);
      n = t_.next(*n);
    }
    ASSERT_EQ(n, nullptr);
  }
  [[nodiscard]] const tree& tree_itself() const { return t_; }

 private:
  tree t_;
  std::map<int, int> model_;
};

/// The mix of the paper's benchmark, 30 % insertions or updates, 30 % erasures, lookups, over `range` keys.
void run_mix(int range, int operations, int examined_every, std::uint64_t seed) {
  twins both;
  workload::random_generator random(seed);
  for (int i = 0; i < operations; ++i) {
    const int key = static_cast<int>(random.below(static_cast<std::uint64_t>(range)));
    const std::uint64_t what = random.below(10);
    if (what < 2) {
      ASSERT_NO_FATAL_FAILURE(both.insert_or_assign(key, i));
    } else if (what < 3) {
      ASSERT_NO_FATAL_FAILURE(both.insert(key, i));
    } else if (what < 6) {
      ASSERT_NO_FATAL_FAILURE(both.erase(key));
    } else {
      ASSERT_NO_FATAL_FAILURE(both.find(key));
    }
    if (i % examined_every == 0) {
      ASSERT_NO_FATAL_FAILURE(both.compare()) << "operation " << i;
    }
  }
  ASSERT_NO_FATAL_FAILURE(both.compare());
  EXPECT_GT(both.tree_itself().size(), static_cast<std::size_t>(range) / 4);
}

TEST(avl_tree, is_a_map_after_each_operation) {
  for (const int range : {2, 5, 16, 100}) ASSERT_NO_FATAL_FAILURE(run_mix(range, 6000, 1, 1)) << range;
}

TEST(avl_tree, is_a_map_when_it_is_large) { ASSERT_NO_FATAL_FAILURE(run_mix(20000, 100000, 10007, 2)); }

/// Orders that make trees without balance into lists, or rotate at every step.
std::vector<std::vector<int>> adversarial_orders(int n) {
  std::vector<int> ascending(static_cast<std::size_t>(n));
  std::iota(ascending.begin(), ascending.end(), 0);
  const std::vector<int> descending(ascending.rbegin(), ascending.rend());
  std::vector<int> inwards;
  for (int i = 0; i < n; ++i) inwards.push_back(i % 2 == 0 ? i / 2 : n - 1 - i / 2);
  const std::vector<int> outwards(inwards.rbegin(), inwards.rend());
  std::vector<int> reversed_bits;
  for (int i = 0; i < n; ++i) {
    int bits = 0;
    for (int bit = 1, from = i; bit < n; bit *= 2, from /= 2) bits = 2 * bits + from % 2;
    reversed_bits.push_back(bits);
  }
  return {ascending, descending, inwards, outwards, reversed_bits};
}

TEST(avl_tree, stays_balanced_in_adversarial_orders) {
  constexpr int n = 256;
  for (const std::vector<int>& in : adversarial_orders(n)) {
    for (const std::vector<int>& out : adversarial_orders(n)) {
      twins both;
      for (const int key : in) {
        ASSERT_NO_FATAL_FAILURE(both.insert(key, -key));
        ASSERT_EQ(both.tree_itself().check_invariants(), nullptr);
      }
      ASSERT_NO_FATAL_FAILURE(both.compare());
      ASSERT_LE(height(both.tree_itself()), 1.4405 * std::log2(n + 2));
      for (const int key : out) {
        ASSERT_NO_FATAL_FAILURE(both.erase(key));
        ASSERT_EQ(both.tree_itself().check_invariants(), nullptr);
      }
      ASSERT_NO_FATAL_FAILURE(both.compare());
      ASSERT_TRUE(both.tree_itself().empty());
    }
  }
}

/// The least AVL tree of a height: every node is uneven, to one side.
void append_least(std::vector<std::size_t>& shape, int height, std::size_t depth, bool leaning_right) {
  if (height <= 0) return;
  append_least(shape, leaning_right ? height - 2 : height - 1, depth + 1, leaning_right);
  shape.push_back(depth);
  append_least(shape, leaning_right ? height - 1 : height - 2, depth + 1, leaning_right);
}

TEST(avl_tree, of_fibonacci_rebalances_on_every_level_of_an_erasure) {
  for (const bool right : {false, true}) {
    std::vector<std::size_t> shape;
    append_least(shape, 12, 0, right);
    shaped_tree t(shape);
    ASSERT_EQ(height(t.made), 12);
    // The shallowest leaf lies on the low side of every node.
    const int key = right ? 0 : static_cast<int>(10 * (shape.size() - 1));
    ASSERT_NE(t.made.erase(key), nullptr);
    ASSERT_NO_FATAL_FAILURE(expect_sound(t.made));
    EXPECT_EQ(height(t.made), 11) << "the change went up to the top";
  }
}

TEST(avl_tree, refuses_a_second_node_with_a_key_and_leaves_it_alone) {
  tree t;
  node one(5, 1);
  node two(5, 2);
  EXPECT_TRUE(t.insert(one));
  EXPECT_FALSE(t.insert(two));
  EXPECT_EQ(t.find(5), &one);
  EXPECT_EQ(t.size(), 1U);
  EXPECT_EQ(t.erase(5), &one);
  EXPECT_TRUE(t.insert(two)) << "it is in no tree";
  EXPECT_EQ(t.find(5), &two);
  node before(1);
  EXPECT_TRUE(t.insert(before));
  EXPECT_EQ(t.check_invariants(), nullptr);
}

TEST(avl_tree, without_a_key_says_so) {
  tree t;
  EXPECT_EQ(t.find(1), nullptr);
  EXPECT_EQ(t.erase(1), nullptr);
  EXPECT_EQ(t.first(), nullptr);
  EXPECT_TRUE(t.empty());
  EXPECT_EQ(t.check_invariants(), nullptr);
  node n(1);
  t.insert(n);
  EXPECT_EQ(t.find(0), nullptr);
  EXPECT_EQ(t.erase(2), nullptr);
  EXPECT_EQ(t.next(n), nullptr);
  EXPECT_EQ(t.size(), 1U);
}

TEST(avl_tree, is_as_it_was_where_no_node_can_be_made) {
  tree t;
  std::vector<std::unique_ptr<node>> nodes;
  for (int key = 0; key < 20; key += 2) t.insert(*nodes.emplace_back(std::make_unique<node>(key)));
  const auto shape = depths(t);
  const auto [none, inserted] = t.insert_or_find(7, [] { return static_cast<node*>(nullptr); });
  EXPECT_EQ(none, nullptr);
  EXPECT_FALSE(inserted);
  EXPECT_THROW(static_cast<void>(t.insert_or_find(9, []() -> node* { throw std::bad_alloc(); })),
               std::bad_alloc);
  EXPECT_EQ(depths(t), shape);
  EXPECT_EQ(t.size(), 10U);
  EXPECT_EQ(t.check_invariants(), nullptr);
}

struct throwing_less {
  bool operator()(int a, int b) const {
    if (a == 13 || b == 13) throw std::domain_error("13");
    return a < b;
  }
};

TEST(avl_tree, is_as_it_was_where_a_comparison_throws) {
  avl_tree<node, &node::key, throwing_less> t;
  node nodes[3]{node(1), node(2), node(3)};
  for (node& n : nodes) t.insert(n);
  node bad(13);
  EXPECT_THROW(t.insert(bad), std::domain_error);
  EXPECT_THROW(t.erase(13), std::domain_error);
  EXPECT_THROW(static_cast<void>(t.find(13)), std::domain_error);
  EXPECT_EQ(t.size(), 3U);
  EXPECT_EQ(t.check_invariants(), nullptr);
}

struct named : avl_hook {
  explicit named(std::string n) : name(std::move(n)) {}
  std::string name;
};
constexpr auto length_of = [](const named& n) { return n.name.size(); };

TEST(avl_tree, orders_by_what_it_is_told) {
  avl_tree<named, length_of, std::greater<>> t;
  named a("a");
  named bbb("bbb");
  named cc("cc");
  named ddd("ddd");
  EXPECT_TRUE(t.insert(a));
  EXPECT_TRUE(t.insert(bbb));
  EXPECT_TRUE(t.insert(cc));
  EXPECT_FALSE(t.insert(ddd));
  EXPECT_EQ(t.first(), &bbb);
  EXPECT_EQ(t.next(bbb), &cc);
  EXPECT_EQ(t.next(cc), &a);
  EXPECT_EQ(t.next(a), nullptr);
  EXPECT_EQ(t.check_invariants(), nullptr);
}

TEST(avl_tree, leaves_pointers_to_other_nodes_good_when_it_erases) {
  // A node with two children gives its place to its neighbour: the nodes move, not their contents.
  tree t;
  node nodes[7]{node(4), node(2), node(6), node(1), node(3), node(5), node(7)};
  for (node& n : nodes) t.insert(n);
  t.erase(nodes[0]);
  for (const node& n : nodes) EXPECT_EQ(t.find(n.key), n.key == 4 ? nullptr : &n);
}

TEST(avl_tree, takes_back_what_it_had) {
  // What hung below a node before does not come with it.
  tree t;
  node nodes[7]{node(4), node(2), node(6), node(1), node(3), node(5), node(7)};
  for (node& n : nodes) t.insert(n);
  for (node& n : nodes) {
    t.erase(n);
    ASSERT_NO_FATAL_FAILURE(expect_sound(t));
    ASSERT_TRUE(t.insert(n));
    ASSERT_NO_FATAL_FAILURE(expect_sound(t));
    ASSERT_EQ(keys(t), (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  }
}

TEST(avl_tree, hands_over_each_node_once_when_it_is_cleared) {
  for (const int n : {0, 1, 2, 3, 10, 1000}) {
    tree t;
    for (int i = 0; i < n; ++i) t.insert(*new node(i * 7 % 1009));
    std::multiset<int> handed;
    t.clear([&](node& one) {
      handed.insert(one.key);
      delete &one;
    });
    EXPECT_EQ(handed.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(std::set<int>(handed.begin(), handed.end()).size(), static_cast<std::size_t>(n));
    EXPECT_TRUE(t.empty());
    EXPECT_EQ(t.size(), 0U);
    EXPECT_EQ(t.check_invariants(), nullptr);
    node again(1);
    EXPECT_TRUE(t.insert(again));
  }
}

TEST(avl_tree, wants_no_memory_and_may_lie_anywhere) {
  // A node as malloc gives it, at 16 bytes.
  void* const memory = std::aligned_alloc(16, 48);
  ASSERT_NE(memory, nullptr);
  tree t;
  node* const n = new (memory) node(3);
  EXPECT_TRUE(t.insert(*n));
  EXPECT_EQ(t.erase(3), n);
  n->~node();
  std::free(memory);
}

// The examination itself: each kind of damage is found.

struct damaged : ::testing::Test {
  damaged() {
    for (int key = 0; key < 15; ++key) nodes.push_back(std::make_unique<node>(key));
    for (const auto& n : nodes) t.insert(*n);
    EXPECT_EQ(t.check_invariants(), nullptr);
  }
  /// The last word of a hook: parent and balance.
  static std::uintptr_t word(const node& of) {
    std::uintptr_t stored = 0;
    std::memcpy(&stored, reinterpret_cast<const std::byte*>(&of) + 16, sizeof stored);
    return stored;
  }
  static void set_word(node& of, std::uintptr_t to) {
    std::memcpy(reinterpret_cast<std::byte*>(&of) + 16, &to, sizeof to);
  }
  static void set_child(node& of, std::size_t side, const node* to) {
    std::memcpy(reinterpret_cast<std::byte*>(&of) + 8 * side, &to, sizeof to);
  }

  tree t;
  std::vector<std::unique_ptr<node>> nodes;
};

TEST_F(damaged, order_is_found) {
  nodes[3]->key = 8;
  EXPECT_STREQ(t.check_invariants(), "a key lies left of one not larger");
  nodes[3]->key = 3;
  nodes[12]->key = 7;
  EXPECT_STREQ(t.check_invariants(), "a key lies right of one not smaller");
}

TEST_F(damaged, balance_is_found) {
  for (const std::size_t i : {0U, 7U, 11U}) {
    const std::uintptr_t before = word(*nodes[i]);
    for (const std::uintptr_t bits : {0U, 2U}) {
      set_word(*nodes[i], (before & ~std::uintptr_t{3}) | bits);
      EXPECT_THAT(std::string(t.check_invariants()), HasSubstr("balance"));
    }
    set_word(*nodes[i], before);
  }
  EXPECT_EQ(t.check_invariants(), nullptr);
}

TEST_F(damaged, parents_are_found) {
  set_word(*nodes[1], reinterpret_cast<std::uintptr_t>(nodes[11].get()) | 1U);
  EXPECT_STREQ(t.check_invariants(), "a child has another parent");
}

TEST_F(damaged, a_parent_of_the_topmost_is_found) {
  set_word(*nodes[7], reinterpret_cast<std::uintptr_t>(nodes[11].get()) | 1U);
  EXPECT_STREQ(t.check_invariants(), "the topmost node has a parent");
}

TEST_F(damaged, lost_nodes_are_found) {
  // Both leaves of a node, whose balance then is right, but not its parent's.
  set_child(*nodes[1], 0, nullptr);
  set_child(*nodes[1], 1, nullptr);
  EXPECT_NE(t.check_invariants(), nullptr);
  // All that is below the topmost.
  set_child(*nodes[7], 0, nullptr);
  set_child(*nodes[7], 1, nullptr);
  EXPECT_STREQ(t.check_invariants(), "the count is not that of the nodes");
}

TEST_F(damaged, cycles_are_found) {
  set_child(*nodes[0], 0, nodes[7].get());
  EXPECT_NE(t.check_invariants(), nullptr);
}

}  // namespace
}  // namespace espalier
