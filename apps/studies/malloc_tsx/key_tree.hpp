#pragma once

#include <atomic>
#include <boost/intrusive/avl_set.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/hw/cache_line.hpp"

namespace espalier {

namespace key_tree_detail {
namespace bi = boost::intrusive;
using hook = bi::avl_set_base_hook<bi::optimize_size<true>, bi::link_mode<bi::normal_link>>;
}  // namespace key_tree_detail

struct tree_node : key_tree_detail::hook {
  tree_node() = default;
  tree_node(std::uint32_t k, std::uint32_t v) noexcept : key(k), value(v) {}
  std::uint32_t key = 0;
  std::uint32_t value = 0;
};

/// The tree of figure 2 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan
/// and Lev, section 2): an AVL tree of nodes that the caller owns, for transactions.
///
/// It has that paper's two changes. The count of elements is alone in its pair of lines, and each operation updates it
/// last. A transaction that reads the tree then conflicts with a transaction that changes it only where their paths
/// meet. The line that all writers write is in a write set as briefly as possible.
class key_tree {
  struct key_of {
    using type = std::uint32_t;
    const type& operator()(const tree_node& n) const noexcept { return n.key; }
  };
  using set = key_tree_detail::bi::avl_set<tree_node, key_tree_detail::bi::key_of_value<key_of>,
                                           key_tree_detail::bi::constant_time_size<false>>;

 public:
  /// The node with this key, or null.
  [[nodiscard]] const tree_node* find(std::uint32_t key) const noexcept {
    const auto at = nodes_.find(key);
    return at == nodes_.end() ? nullptr : &*at;
  }

  /// Finds the node with a key, or inserts the one that make() returns. The second is true where it was inserted.
  template <class Make>
  std::pair<tree_node*, bool> insert_or_find(std::uint32_t key, const Make& make) noexcept {
    set::insert_commit_data place;
    const auto [at, absent] = nodes_.insert_check(key, place);
    if (!absent) return {&*at, false};
    tree_node* const fresh = make();
    nodes_.insert_commit(*fresh, place);
    count_last(1);
    return {fresh, true};
  }

  /// Unlinks the node with this key and returns it, or null.
  tree_node* erase(std::uint32_t key) noexcept {
    const auto at = nodes_.find(key);
    if (at == nodes_.end()) return nullptr;
    tree_node* const gone = &*at;
    nodes_.erase(at);
    count_last(-1);
    return gone;
  }

  /// Unlinks all nodes and passes a pointer to each to dispose().
  template <class Dispose>
  void clear(const Dispose& dispose) noexcept {
    nodes_.clear_and_dispose(dispose);
    count_.value = 0;
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_.value; }
  [[nodiscard]] const set& nodes() const noexcept { return nodes_; }

  /// What is wrong with the tree, or null.
  [[nodiscard]] const char* check_invariants() const noexcept {
    std::size_t found = 0;
    const tree_node* before = nullptr;
    for (const tree_node& n : nodes_) {
      if (before != nullptr && before->key >= n.key) return "a key follows one not smaller";
      if (++found > size()) break;
      before = &n;
    }
    return found == size() ? nullptr : "the count is not that of the nodes";
  }

 private:
  void count_last(std::ptrdiff_t change) noexcept {
    // Keeps the compiler from moving the update up between the writes of the links.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    count_.value += static_cast<std::size_t>(change);
  }

  alignas(hw::false_sharing_bytes) set nodes_;
  hw::padded<std::size_t> count_;
};

}  // namespace espalier
