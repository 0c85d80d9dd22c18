#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/studied/masstree_node.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/backoff.hpp"

// One layer of Masstree, a B+tree: seeks, splits, removal and scans. Mao, Kohler and Morris, "Cache Craftiness for Fast
// Multicore Key-Value Storage", EuroSys 2012. The paper has a trie of them; keys of a word need one. An anchor has its
// root.
//
// A seek takes no lock. It loads a child from a node, then the child's version, and then asks whether the node has
// changed: if not, the child was its child when the child's version was loaded. After an insert of another child the
// seek repeats the step, after a split it starts at the top.
//
// In a border node the reader loads the permutation and the entry, and then asks whether the node has changed. If the
// node was split meanwhile, the reader follows the links to the right as long as the key is not smaller than the low
// key of the next node (advance).
//
//   split   Locks the full node and its ancestors, up to the first that is not full or that holds the root. Marks all
//           of them, then moves the upper half of each full one to a fresh node on its right.
//   unlink  Locks an empty border node, its left neighbour, and its ancestors up to the first that has other children.
//           The range of the nodes that go falls to the left neighbour, or if the node was the first child of that
//           ancestor, to the right one, whose low key becomes that of the node.
//   root    A new root, and one that has a single child left, are exchanged where the pointer to the root is.
//
// Locks are taken from right to left, and from below to above. So there is no deadlock.
//
// Invariants
//   (M1) The keys below a node lie in the range that the separators beside its pointer give it, in its parent and so on
//        up. What lies in a range leaves a node only by a split or with the node, and its version shows both.
//   (M2) The low key of a border node is the separator on its left. It becomes smaller, never larger.
//   (M3) A node that is not linked is marked as deleted, and became so with the locks of all that lead to it held,
//        after the node above was marked. So a seek that loads this mark finds the node above changed, and does not
//        begin here. A marked node is never linked again.
//   (M4) The parent of the root is the anchor.
//
// Reclamation. The erase that unlinks nodes retires them after it has released all locks. (I1) The pointers from above
// and from the left are gone, and right neighbours have another left one. (I2) Only the erase that empties a border
// node, with its lock held, unlinks it. (I3) A pointer to a node is copied only with the lock of the node that has it,
// or of the left neighbour; both are held by what unlinks. Readers that are still in such a node see the mark.
//
// Orderings: those of masstree_node.hpp. Nodes are published by the store of a pointer to them, and reached by a load
// that this protocol validates.

namespace espalier::btree {

template <class Version, class Key, class Word, class Compare, class Fanout>
class masstree_layer {
  template <class Fields>
  struct alignas(hw::cache_line_bytes) laid_out : Fields {
    using Fields::Fields;
  };

 public:
  using node = masstree_node<Version>;
  using border = laid_out<border_node<Version, Key, Word, Fanout::leaf>>;
  using interior = laid_out<interior_node<Version, Key, Fanout::inner>>;
  using stamp = typename Version::stamp;
  using guard = typename Version::guard;

  /// Where the pointer to the root is; null while the map is empty.
  struct anchor : node {
    anchor() noexcept : node(node_kind::root_holder) {}
    node_field<node*> root;
  };

  /// A border node and the version that a reader saw; or nothing.
  struct place {
    border* leaf = nullptr;
    stamp seen;
    [[nodiscard]] explicit operator bool() const noexcept { return leaf != nullptr; }
    [[nodiscard]] bool changed() const noexcept { return leaf->version.changed(seen); }
  };

  [[nodiscard]] static border* as_border(node* n) noexcept { return static_cast<border*>(n); }
  [[nodiscard]] static interior* as_interior(node* n) noexcept { return static_cast<interior*>(n); }

  // Seeks.

  /// Requests the lines of a node that a search reads, all at once, before its version is loaded. What lies behind them
  /// is for scans and updates, and the last words.
  static void prefetch(const node* n) noexcept {
    constexpr std::size_t most = 4 * hw::cache_line_bytes;
    for (std::size_t at = 0; at < std::min(most, sizeof(border)); at += hw::cache_line_bytes)
      __builtin_prefetch(reinterpret_cast<const char*>(n) + at);
  }

  /// From a node down to a border node. child_of(interior) chooses the child. Nothing if keys have left a node on the
  /// way.
  template <class ChildOf>
  [[nodiscard]] static place seek_from(node* n, stamp seen, ChildOf&& child_of) {
    while (seen.kind() != node_kind::border) {
      const interior& in = *as_interior(n);
      node* const child = in.child[child_of(in)].get();
      prefetch(child);
      const stamp below = child->version.stable();
      if (!in.version.changed(seen)) {
        n = child;
        seen = below;
        continue;
      }
      const stamp now = in.version.stable();
      if (now.lost_keys_since(seen)) return {};
      seen = now;
    }
    return {as_border(n), seen};
  }

  /// The border node that child_of leads to. Nothing while the map is empty.
  template <class ChildOf>
  [[nodiscard]] static place seek(const anchor& top, ChildOf&& child_of) {
    for (backoff pause;; pause.wait()) {
      const stamp above = top.version.stable();
      node* const root = top.root.get();
      if (root == nullptr) return {};
      const stamp seen = root->version.stable();
      if (top.version.changed(above)) continue;
      if (const place at = seek_from(root, seen, child_of)) return at;
    }
  }

  /// The function that leads to the key.
  [[nodiscard]] static auto to(const Compare& less, const Key& key) {
    return [&less, &key](const interior& in) { return in.index_of(less, key); };
  }

  /// After a change of the node: to the border node that has the key now. False if the reader must start at the top.
  [[nodiscard]] static bool advance(place& at, const Compare& less, const Key& key) {
    while (true) {
      at.seen = at.leaf->version.stable();
      if (at.seen.deleted()) return false;
      border* const next = as_border(at.leaf->next.get());
      if (next == nullptr || less(key, next->low.get())) return true;
      at.leaf = next;
    }
  }

  // Scans.

  /// A border node where a scan stands, and a copy of what it has. The fence is where its keys end in the direction of
  /// the scan; there is none in the last node.
  struct position {
    place at;
    entries<Key, Word, Fanout::leaf> found;
    std::optional<Key> fence;
    border* beyond;
  };

  /// The function that leads to where the scan begins.
  template <class Bound>
  [[nodiscard]] static auto to_bound(const Compare& less, const Bound& bound) {
    return [&less, &bound](const interior& in) -> unsigned {
      if (!bound.key()) return Bound::reverse ? in.children.get() - 1 : 0;
      if (Bound::reverse && bound.excludes_key()) return in.index_before(less, *bound.key());
      return in.index_of(less, *bound.key());
    };
  }

  /// False if the node has changed since its stamp.
  template <class Bound>
  [[nodiscard]] static bool copy(position& p) noexcept {
    const border& n = *p.at.leaf;
    const permutation order = n.order.get();
    p.found.count = 0;
    for (unsigned rank = 0; rank < order.size(); ++rank)
      p.found.add(n.key[order.slot(rank)].get(), n.word[order.slot(rank)].get());
    p.beyond = as_border((Bound::reverse ? n.prev : n.next).get());
    p.fence.reset();
    if (p.beyond != nullptr) p.fence = (Bound::reverse ? n : *p.beyond).low.get();
    return !p.at.changed();
  }

  /// To the neighbour. False if that is not certain to be the one with the keys behind the fence.
  template <class Bound>
  [[nodiscard]] static bool step(position& p) noexcept {
    const place next{p.beyond, p.beyond->version.stable()};
    // A left neighbour that has been split, or a node that has left the tree, has a closer one.
    if (Bound::reverse && (p.at.leaf->prev.get() != p.beyond || p.at.changed())) return false;
    p.at = next;
    return !next.seen.deleted();
  }

  // Splits.

  /// A border node and interior nodes for a split, and what the last one lacked. A split takes nodes out of a copy, so
  /// that a transaction that aborts has taken nothing. Interior nodes are linked by their parents.
  struct spare_list {
    border* leaf = nullptr;
    interior* first_interior = nullptr;
    unsigned interiors = 0;
    unsigned wanted_interiors = 0;

    /// Whether there are so many, and the border node.
    [[nodiscard]] bool suffice(unsigned of_interiors) noexcept {
      wanted_interiors = of_interiors;
      return leaf != nullptr && interiors >= of_interiors;
    }
    [[nodiscard]] border& take_border() noexcept { return *std::exchange(leaf, nullptr); }
    [[nodiscard]] interior& take_interior() noexcept {
      --interiors;
      return *std::exchange(first_interior, as_interior(first_interior->parent.held()));
    }
  };

  /// Allocates them, before locks are taken. Destroys at its end those that were not used.
  template <class Store>
  class spare_nodes {
   public:
    explicit spare_nodes(Store& store) noexcept : store_(store) {}
    spare_nodes(const spare_nodes&) = delete;
    spare_nodes& operator=(const spare_nodes&) = delete;
    ~spare_nodes() {
      if (list.leaf != nullptr) destroy(store_, list.leaf);
      while (list.interiors != 0) destroy(store_, &list.take_interior());
    }

    /// What is wanted. Throws std::bad_alloc.
    void provide() {
      if (list.leaf == nullptr) list.leaf = store_.template create<border>(memory_role::leaf, nullptr);
      for (; list.interiors < list.wanted_interiors; ++list.interiors) {
        auto* const fresh = store_.template create<interior>(memory_role::node, nullptr);
        fresh->parent.set(std::exchange(list.first_interior, fresh));
      }
    }

    spare_list list;

   private:
    Store& store_;
  };

  /// The first border node of a map that is empty, unless there is one by now. False if there is no spare node.
  [[nodiscard]] static bool make_root(anchor& top, spare_list& spares) noexcept {
    guard held = top.version.lock();
    if (top.root.held() != nullptr) return true;
    if (!spares.suffice(0)) return false;
    held.mark_inserting();
    border& root = spares.take_border();
    root.parent.set(&top);
    top.root.set(&root);
    return true;
  }

  /// Splits the border node, and the nodes above it that are full. False if there are not enough spare nodes.
  [[nodiscard]] static bool split(border& full, guard held, const border_spot& where, const Key& incoming,
                                  spare_list& spares) noexcept {
    path up(full, std::move(held));
    while (up.add_parent()->version.kind() == node_kind::interior && as_interior(up.top())->is_full()) {
    }
    const bool new_root = up.top()->version.kind() != node_kind::interior;
    const unsigned last = up.count - 1;
    if (!spares.suffice(last - 1 + (new_root ? 1 : 0))) return false;

    for (unsigned i = 0; i < last; ++i) up.held[i].mark_splitting();
    up.held[last].mark_inserting();
    node* left = &full;
    // A fresh node has a parent, which is locked, before children name it as theirs: an erase that goes up waits there.
    border& fresh = spares.take_border();
    fresh.parent.set(up.on_way[1]);
    Key separator = divide(full, where, incoming, fresh);
    node* right = &fresh;
    for (unsigned i = 1; i < last; ++i) {
      interior& above = *as_interior(up.on_way[i]);
      interior& beside = spares.take_interior();
      beside.parent.set(up.on_way[i + 1]);
      separator = above.split(above.index_of_child(left), separator, right, beside);
      left = &above;
      right = &beside;
    }
    if (!new_root) {
      interior& above = *as_interior(up.top());
      above.insert(above.index_of_child(left), separator, right);
      return true;
    }
    interior& root = spares.take_interior();
    root.begin_with(left, separator, right);
    root.parent.set(up.top());
    left->parent.set(&root);
    right->parent.set(&root);
    static_cast<anchor*>(up.top())->root.set(&root);
    return true;
  }

  // Removal.

  /// Nodes that an erase has unlinked, to be retired after all locks are released.
  struct unlinked {
    node* path =
        nullptr;  ///< an empty border node; behind it, by their parents, those that it was the last child of
    node* former_root = nullptr;  ///< of which only one child was left
  };

  /// Unlinks a border node that has become empty, and the nodes above that have no other child.
  static unlinked unlink(border& empty, guard held) noexcept {
    unlinked result{&empty, nullptr};
    border* before = nullptr;
    [[maybe_unused]] const guard left = lock_left(empty, before);
    path up(empty, std::move(held));
    while (up.add_parent()->version.kind() == node_kind::interior &&
           as_interior(up.top())->children.held() == 1) {
    }
    const unsigned last = up.count - 1;
    node* const gone = up.on_way[last - 1];
    up.held[last].mark_inserting();
    // From above to below: see (M3).
    for (unsigned i = last; i != 0; --i) up.held[i - 1].mark_deleted();
    gone->parent.set(nullptr);
    if (up.top()->version.kind() == node_kind::root_holder) {
      static_cast<anchor*>(up.top())->root.set(nullptr);
      return result;
    }
    interior& above = *as_interior(up.top());
    const unsigned index = above.index_of_child(gone);
    border* const behind = as_border(empty.next.held());
    if (behind != nullptr) {
      if (index == 0) behind->low.set(empty.low.held());
      behind->prev.set(before);
    }
    if (before != nullptr) before->next.set(behind);
    above.erase(index);
    if (above.children.held() == 1) result.former_root = shorten(up);
    return result;
  }

  template <class Store>
  static void retire(Store& store, typename Store::guard_type& guard, const unlinked& nodes) noexcept {
    for (node* first : {nodes.path, nodes.former_root}) {
      if (first == nullptr) continue;
      store.retire_by(guard, first, nullptr, [](const retired& entry) noexcept {
        for (node* n = static_cast<node*>(entry.object); n != nullptr;) {
          node* const above = n->parent.held();
          destroy(*static_cast<Store*>(entry.owner), n);
          n = above;
        }
      });
    }
  }
  /// Retirements that an erase needs reserved.
  static constexpr unsigned retirements = 2;

  template <class Store>
  static void destroy(Store& store, node* n) noexcept {
    if (n->version.kind() == node_kind::border)
      store.destroy(memory_role::leaf, as_border(n));
    else
      store.destroy(memory_role::node, as_interior(n));
  }

  // At rest.

  /// Children before their parent.
  template <class Visit>
  static void visit_below(node* n, const Visit& visit) {
    if (n == nullptr) return;
    if (n->version.kind() == node_kind::border) return visit(*as_border(n));
    interior& in = *as_interior(n);
    for (unsigned i = 0; i < in.children.held(); ++i) visit_below(in.child[i].held(), visit);
    visit(in);
  }

  /// Destroys the tree. It needs no memory: the count of an interior node says how far it has got.
  template <class Store, class Discard>
  static void destroy_all(Store& store, node* root, const Discard& discard) noexcept {
    for (node* n = root; n != nullptr && n->version.kind() != node_kind::root_holder;) {
      if (n->version.kind() == node_kind::interior) {
        interior& in = *as_interior(n);
        const unsigned left = in.children.held();
        if (left != 0) {
          in.children.set(left - 1);
          n = in.child[left - 1].held();
          continue;
        }
      } else {
        const border& leaf = *as_border(n);
        for_each_word(leaf, discard);
      }
      node* const above = n->parent.held();
      destroy(store, n);
      n = above;
    }
  }

  template <class Visit>
  static void for_each_word(const border& n, const Visit& visit) {
    const permutation order = n.order.held();
    for (unsigned rank = 0; rank < order.size(); ++rank) visit(n.word[order.slot(rank)].held());
  }

  /// What is wrong with the tree, or null.
  [[nodiscard]] static const char* check(anchor& top, const Compare& less) {
    if (top.version.is_locked()) return "the anchor is locked";
    node* const root = top.root.held();
    if (root == nullptr) return nullptr;
    border* last = nullptr;
    if (const char* wrong = check_below(*root, top, less, nullptr, nullptr, last)) return wrong;
    return last->next.held() == nullptr ? nullptr : "the last border node has a right neighbour";
  }

 private:
  /// The keys below n must not be smaller than *low, and must be smaller than *high. `last` is the border node before.
  [[nodiscard]] static const char* check_below(node& n, node& parent, const Compare& less, const Key* low,
                                               const Key* high, border*& last) {
    if (n.version.is_locked()) return "a reachable node is locked";
    if (n.version.stable().deleted()) return "a reachable node is deleted";
    if (n.parent.held() != &parent) return "a node does not know its parent";
    if (n.version.kind() == node_kind::border) {
      border& leaf = *as_border(&n);
      if (leaf.prev.held() != last) return "a border node does not know its left neighbour";
      if (last != nullptr && last->next.held() != &leaf)
        return "a border node does not know its right neighbour";
      if (low != nullptr && (less(*low, leaf.low.held()) || less(leaf.low.held(), *low)))
        return "the low key of a border node is not the separator before it";
      last = &leaf;
      const permutation order = leaf.order.held();
      if (order.size() == 0) return "a border node has no entry";
      for (unsigned rank = 0; rank < order.size(); ++rank) {
        const Key k = leaf.key[order.slot(rank)].held();
        if (low != nullptr && less(k, *low)) return "a key lies right of a larger separator";
        if (high != nullptr && !less(k, *high)) return "a key lies left of a separator not larger";
        if (rank > 0 && !less(leaf.key[order.slot(rank - 1)].held(), k))
          return "a key follows one not smaller";
      }
      return nullptr;
    }
    interior& in = *as_interior(&n);
    const unsigned count = in.children.held();
    if (count < 1 || count > Fanout::inner) return "an interior node has no children, or too many";
    for (unsigned i = 0; i < count; ++i) {
      const Key left = i == 0 ? Key{} : in.key[i - 1].held();
      const Key right = i + 1 == count ? Key{} : in.key[i].held();
      if (const char* wrong = check_below(*in.child[i].held(), n, less, i == 0 ? low : &left,
                                          i + 1 == count ? high : &right, last))
        return wrong;
    }
    return nullptr;
  }

  /// Locked nodes from a border node upwards.
  struct path {
    // Each new root has the former one full below it.
    static constexpr unsigned highest = 64;

    path(border& leaf, guard of_leaf) noexcept {
      on_way[0] = &leaf;
      held[0] = std::move(of_leaf);
    }
    [[nodiscard]] node* top() const noexcept { return on_way[count - 1]; }
    node* add_parent() noexcept {
      node* const below = top();
      while (true) {
        node* const parent = below->parent.get();
        guard g = parent->version.lock();
        if (below->parent.get() != parent) continue;
        on_way[count] = parent;
        held[count++] = std::move(g);
        return parent;
      }
    }

    unsigned count = 1;
    std::array<node*, highest> on_way;
    std::array<guard, highest> held;
  };

  /// Locks the left neighbour, if there is one.
  [[nodiscard]] static guard lock_left(border& n, border*& left) noexcept {
    while ((left = as_border(n.prev.get())) != nullptr) {
      guard held = left->version.lock();
      if (n.prev.get() == left) return held;
    }
    return {};
  }

  /// Moves entries of a full border node to a fresh one on its right. Returns the low key of that.
  static Key divide(border& full, const border_spot& where, const Key& incoming, border& fresh) noexcept {
    border* const behind = as_border(full.next.held());
    // Keys that come in order fill their nodes.
    const bool at_end = behind == nullptr && where.rank == Fanout::leaf;
    const unsigned middle = at_end ? Fanout::leaf : (Fanout::leaf + 1) / 2;
    const Key low = at_end ? incoming : full.key[full.order.held().slot(middle)].held();
    fresh.low.set(low);
    fresh.prev.set(&full);
    fresh.next.set(behind);
    full.move_from(middle, fresh);
    if (behind != nullptr) behind->prev.set(&fresh);
    full.next.set(&fresh);
    return low;
  }

  /// If the last node of the path is a root, its only child becomes the root. Returns the former one.
  static node* shorten(path& up) noexcept {
    interior& former = *as_interior(up.top());
    guard& of_former = up.held[up.count - 1];
    node* const holder = up.add_parent();
    if (holder->version.kind() == node_kind::interior) return nullptr;
    up.held[up.count - 1].mark_inserting();
    of_former.mark_deleted();
    node* const root = former.child[0].held();
    static_cast<anchor*>(holder)->root.set(root);
    root->parent.set(holder);
    former.parent.set(nullptr);
    return &former;
  }
};

}  // namespace espalier::btree
