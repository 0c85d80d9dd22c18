#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tree/bulk_load.hpp"
#include "espalier/map/tree/entry_operations.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/optimistic_access.hpp"
#include "espalier/map/tree/tree_changes.hpp"
#include "espalier/map/tree/tree_nodes.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// A B+tree: the operations of the contract, made of steps that an access runs (access.hpp). What a leaf looks like, the
// tree's type decides; it may also replace find_word(), try_apply() and try_collect(), which go to one leaf, and
// scan_stored().
//
// A step takes no lock on its way down. From a node it reads the pointer to a child, validates the node, begins a
// section of the child, and validates the node again: then the child was its child when the section of the child began.
// The first validation is what allows the step to touch the child at all, and the second one what a merge in between
// would break. A step that fails starts again from the root. In a transaction, the sections and their validations are
// empty, and the compiler removes them.
//
// Where a leaf has no room, make_room() makes some. Where a leaf has become sparse, merge_sparse() merges it (both in
// tree_changes.hpp; tree_nodes.hpp has the nodes and the searches, which know no map). Both go
// down from the root, as a search does, and make one change a step, with the guards of the nodes that it concerns:
//
//   split     the parent, the full node. All nodes above have room by then, so nothing propagates upwards.
//   merge     the parent, the left node, the right node. Or both have half of the entries then, which a full leaf of some maps
//             prefers to a split
//   the root  the anchor, the root
//
// No thread waits for the lock of a node while it holds one: upgrade() never waits. So there is no deadlock.
//
// Invariants
//   (B1) The keys below a node lie between the separators beside its pointer in its parent, and so on up. This range
//        changes only under the node's guard, and the node's version with it.
//   (B2) A node that is not linked is obsolete. It becomes so under its parent's guard, before the parent's version
//        changes. (In a transaction no other thread is between the two.)
//   (B3) All leaves have the same depth. A node is full, sparse or empty only until a later update of its range; nothing
//        depends on that. The last leaf stays when it is empty: to retire it would take a list of as many bytes.
//
// Reclamation. The merge that unlinks the right node retires it after its step, and so does the one that unlinks a root
// that has a single child. (I1) The parent held the only pointer, or the anchor. (I2) They hold the guard of what they
// unlink, and what is obsolete is never locked again. (I3) A pointer to a node is written when the node is created, or
// moved between nodes under guards, of which one keeps it.
//
// Memory. make_room() allocates before its step, and throws std::bad_alloc with the tree unchanged. merge_sparse() reserves
// room for its retirements first; without memory for that, sparse nodes stay as they are.
//
// Orderings: those of sync/optimistic_lock.hpp. A node is published by the store of its pointer under its parent's
// guard, and reached by a load that this protocol validates.

namespace espalier {

/// The default policies of B+trees.
using btree_traits = basic_map_traits<segregated, unused_policy, epoch_domain, unused_policy, unused_policy>;

}  // namespace espalier

namespace espalier::btree {

/// Where nodes have the keys as they are. key_image.hpp has the other case.
template <class UserKey, class UserOrder>
struct keys_themselves {
  using type = UserKey;
  using order = UserOrder;
  [[nodiscard]] static const type& of(const UserKey& key) noexcept { return key; }
  [[nodiscard]] static const UserKey& key(const type& stored) noexcept { return stored; }
};

/// The nodes of a tree where it says no others.
template <class Image, template <class Word> class LeafOf, unsigned Children, class Access>
struct plain_nodes_for {
  template <class Word>
  using nodes = tree_nodes<typename Image::type, typename Image::order, LeafOf<Word>, Children, Access>;
};

/// Image says what nodes have for the keys of the map's user, and how it is ordered.
template <class Map, class UserKey, class Value, class Traits, class UserOrder,
          template <class Word> class LeafOf, unsigned Children, class Access,
          class Image = keys_themselves<UserKey, UserOrder>,
          class NodesFor = plain_nodes_for<Image, LeafOf, Children, Access>>
class tree : public entry_operations<Map, UserKey, Value, Traits, UserOrder, typename Image::type, 0>,
             protected NodesFor::template nodes<word_for<Value>> {
  using Key = typename Image::type;
  using Compare = typename Image::order;
  static_assert(std::is_default_constructible_v<Key>,
                "a node has room for keys that are not there yet: a key must have a default constructor");
  using base = entry_operations<Map, UserKey, Value, Traits, UserOrder, Key, 0>;

 public:
  using base::base;
  using typename base::guard_type;

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::self;
  using base::store_;
  using typename base::change;
  using typename base::effect;
  using typename base::holder;
  using typename base::outcome;
  using typename base::store;
  using typename base::word;
  using nodes = typename NodesFor::template nodes<word>;
  using nodes::access_;
  using nodes::anchor_;
  using nodes::guesses;
  using nodes::root_at_rest;
  using nodes::run;
  using nodes::visit_below;
  using typename nodes::anchor;
  using typename nodes::inner;
  using typename nodes::leaf;
  using typename nodes::place;
  using typename nodes::section;
  template <class Section>
  using basic_place = typename nodes::template basic_place<Section>;
  using content = typename leaf::content;

  /// No other thread may use the map any more.
  ~tree() { destroy_all(); }

  /// Both maps are at rest.
  void swap_with(tree& other) noexcept {
    base::swap_with(other);
    nodes::swap_with(other);
  }

  /// The order of what nodes have.
  [[nodiscard]] decltype(auto) order() const noexcept {
    if constexpr (std::is_same_v<Compare, UserOrder>)
      return base::key_comp();
    else
      return Compare();
  }

  /// Goes to the leaf of a key. Nothing if a writer came between. `How` reads the locks on the way.
  template <class How = Access>
  [[nodiscard]] std::optional<basic_place<typename How::section>> try_seek(const Key& key) const
      noexcept(Access::repeats_steps) {
    return nodes::template try_seek<How>(typename nodes::child_of_key{order(), key},
                                         [](const auto&) { return false; });
  }

  /// The word of the key's value, or nothing.
  [[nodiscard]] std::optional<word> find_word(const UserKey& user_key) const {
    const auto& key = Image::of(user_key);
    return run([&]() noexcept(Access::repeats_steps) -> std::optional<std::optional<word>> {
      const auto at = try_seek(key);
      if (!at) return std::nullopt;
      if (at->node == nullptr) return std::optional<word>();
      const auto found = at->as_leaf().find(at->here, order(), key);
      if (!at->here.validate()) return std::nullopt;
      return found;
    });
  }

  /// Changes the entry of the key, if its leaf has room; nothing if a writer came between.
  [[nodiscard]] std::optional<outcome> try_apply(const Key& key, const change& wanted) const
      noexcept(Access::repeats_steps) {
    const auto at = try_seek(key);
    if (!at) return std::nullopt;
    if (at->node == nullptr) return outcome{.what = wanted.insert_where_absent ? effect::full : effect::none};
    leaf& of_key = at->as_leaf();
    const auto where = of_key.seek(at->here, order(), key);
    // Without the lock where there is nothing to do.
    if (where.found ? wanted.present == change::where_present::keep : !wanted.insert_where_absent)
      return at->here.validate() ? std::optional(outcome{}) : std::nullopt;
    auto held = at->here.upgrade();
    if (!held) return std::nullopt;
    const outcome done = of_key.apply(held, where, key, wanted);
    if (!leaf::renews(done.what)) held.release_unchanged();
    return done;
  }

  /// Where a scan stands. A fence is where keys end in the direction of the scan: those of the leaf, and those of its
  /// parent.
  struct position {
    place leaf;
    std::optional<Key> fence;
    std::optional<Key> parent_fence;
  };

  /// The leaf where a scan begins.
  template <class Bound>
  [[nodiscard]] std::optional<position> try_seek_bound(const Bound& bound) const {
    std::optional<Key> fence;
    std::optional<Key> parent_fence;
    const auto first_child = [&](const inner& in, const section& seen) {
      const unsigned index = index_of(in, seen, bound);
      parent_fence = fence;
      fence = fence_of<Bound>(in, seen, index, fence);
      return index;
    };
    const auto at = nodes::template try_seek<Access>(first_child, [](const place&) { return false; });
    if (!at) return std::nullopt;
    return position{*at, fence, parent_fence};
  }

  /// Copies the entries of the leaf where the bound begins. `at` is where the scan stands, or nothing. False if a writer
  /// came between: `at` and `found` are then to be set anew.
  template <class Bound>
  [[nodiscard]] bool try_collect(const Bound& from, std::optional<position>& at, content& found) const
      noexcept(Access::repeats_steps) {
    if (!at) at = try_seek_bound(from);
    if (!at) return false;
    found.count = 0;
    if (at->leaf.node == nullptr) return true;
    at->leaf.as_leaf().copy_to(at->leaf.here, order(), found);
    return at->leaf.here.validate();
  }

  /// For a change of nodes.
  [[nodiscard]] auto changes() noexcept { return plain_changes<store, nodes>(store_, *this, order()); }
  [[gnu::noinline]] void make_room(guard_type& guard, const Key& key) {
    self().changes().make_room(guard, key);
  }
  [[gnu::noinline]] void merge_sparse(guard_type& guard, const Key& key) noexcept {
    self().changes().merge_sparse(guard, key, holder::retirements);
  }

  /// After an erase.
  [[gnu::always_inline]] void tidy(guard_type& guard, const Key& key, const outcome& done) noexcept {
    if (nodes::leaves_little(done.left)) [[unlikely]]
      merge_sparse(guard, key);
  }

  /// A step of apply(). Not a lambda: compilers do not agree where one is said to be inlined.
  struct applying {
    const Map& map;
    const Key& key;
    const change& wanted;
    unsigned attempts = 0;
    [[nodiscard, gnu::always_inline]] std::optional<outcome> operator()() noexcept(Access::repeats_steps) {
      if constexpr (requires { map.try_apply(key, wanted, attempts); })
        return map.try_apply(key, wanted, attempts++);
      else
        return map.try_apply(key, wanted);
    }
  };
  /// Changes the entry of the key, for which it makes room. Merges nodes after an erase.
  [[gnu::always_inline]] outcome apply(guard_type& guard, const UserKey& user_key, const change& wanted) {
    const auto& key = Image::of(user_key);
    outcome done = run(applying{self(), key, wanted});
    if (done.what == effect::full) [[unlikely]] {
      // With copies, whose addresses may be taken: the change and the outcome stay in registers.
      const outcome later = self().apply_with_room(guard, key, change(wanted));
      done.what = later.what;
      done.before = later.before;
      done.left = later.left;
    } else if (done.what == effect::erased) {
      tidy(guard, key, done);
    }
    return done;
  }
  /// After an attempt that found no room.
  [[nodiscard, gnu::noinline]] outcome apply_with_room(guard_type& guard, const Key& key,
                                                       const change& wanted) {
    while (true) {
      make_room(guard, key);
      const outcome done = run(applying{self(), key, wanted});
      if (done.what == effect::full) continue;
      if (done.what == effect::erased) tidy(guard, key, done);
      return done;
    }
  }

  template <indexed_entries Iterator>
  void do_bulk_load(Iterator first, std::size_t n, unsigned threads) {
    if (n == 0) return;
    bulk_loading load(*this, n);
    make_all(load.nodes.size(), threads, [&](std::size_t i) { load.make_leaf(first, i); });
    while (load.nodes.size() > 1) load.make_level();
    destroy_below(root_at_rest());  // the leaf of a map that has become empty
    anchor_.root.set(exclusive_access{}, std::exchange(load.nodes[0], nullptr));
  }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    if constexpr (std::is_same_v<Image, keys_themselves<UserKey, UserOrder>>) {
      self().scan_stored(bound, visit);
    } else {
      using stored_bound =
          scan_bound<Key, Compare, Bound::reverse ? scan_direction::reverse : scan_direction::forward>;
      if (!bound.key()) return self().scan_stored(stored_bound::whole(order()), visit);
      const Key key = Image::of(*bound.key());
      self().scan_stored(
          bound.excludes_key() ? stored_bound::behind(order(), key) : stored_bound::at(order(), key), visit);
    }
  }
  template <class Bound, class Visit>
  void scan_stored(const Bound& bound, Visit& visit) const {
    Bound from = bound;
    std::optional<Key> reached;  // what `from` refers to, after the first leaf
    std::optional<position> at;
    content found;
    while (true) {
      for (backoff pause; !access_.once([&]() noexcept(Access::repeats_steps) {
             // A step that an abort has left half done begins anew.
             if constexpr (Access::repeats_steps) at.reset();
             return self().try_collect(from, at, found);
           });
           pause.wait())
        at.reset();
      if (at->leaf.node == nullptr) return;
      for (unsigned i = 0; i < found.count; ++i) {
        const unsigned e = Bound::reverse ? found.count - 1 - i : i;
        if (from.admits(found.key[e]) && !visit(Image::key(found.key[e]), holder::read(found.slot[e])))
          return;
      }
      if (!at->fence) return;
      reached = at->fence;
      from = Bound::reverse ? Bound::behind(order(), *reached) : Bound::at(order(), *reached);
      if (!Access::steps_connect || !step<Bound>(*at)) at.reset();
    }
  }

 public:
  static constexpr std::size_t node_bytes = sizeof(leaf);
  [[nodiscard]] static std::vector<node_type> node_types() {
    std::vector<node_type> all{{memory_role::leaf, "leaf", sizeof(leaf), leaf().members()},
                               {memory_role::node, "inner node", sizeof(inner), inner(1).members()}};
    if constexpr (requires { typename leaf::contended; })
      all.push_back({memory_role::descriptor, "contended form", sizeof(typename leaf::contended),
                     typename leaf::contended().members()});
    return all;
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    visit_below(root_at_rest(), [&]<class Node>(const Node& n) {
      if constexpr (std::is_same_v<Node, leaf>)
        visit_leaf(n, memory_role::leaf, visitor);
      else
        visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (anchor_.lock.is_locked()) return "the anchor is locked";
    node_base* const root = root_at_rest();
    return root == nullptr ? nullptr : check_below(*root, nullptr, nullptr);
  }

 protected:
  /// Destroys the values of a leaf that no thread can reach.
  template <class Leaf>
  void discard_values(Leaf& of_it) noexcept {
    if constexpr (!holder::in_place) {
      typename Leaf::content all;
      of_it.copy_to(exclusive_access{}, order(), all);
      for (unsigned i = 0; i < all.count; ++i) holder::discard(store_, all.slot[i]);
    }
  }
  /// Calls visitor(address, bytes, role) for a leaf, for what is attached to it, and for its values.
  template <class Leaf, class Visitor>
  void visit_leaf(const Leaf& of_it, memory_role role, Visitor& visitor) const {
    visitor(static_cast<const void*>(&of_it), sizeof(Leaf), role);
    if constexpr (requires { of_it.attachment(); }) {
      if (const auto* const more = of_it.attachment())
        visitor(static_cast<const void*>(more), sizeof(*more), memory_role::descriptor);
    }
    if constexpr (!holder::in_place) {
      typename Leaf::content all;
      of_it.copy_to(exclusive_access{}, order(), all);
      for (unsigned i = 0; i < all.count; ++i)
        visitor(static_cast<const void*>(all.slot[i]), sizeof(Value), memory_role::value);
    }
  }

 private:
  /// The child of a node where a scan of the bound begins.
  template <class Bound>
  [[nodiscard]] unsigned index_of(const inner& in, const section& seen, const Bound& bound) const {
    if (!bound.key()) return Bound::reverse ? in.children.get(seen) - 1U : 0;
    if (Bound::reverse && bound.excludes_key()) return in.index_before(seen, order(), *bound.key());
    return in.index_of(seen, order(), *bound.key());
  }

  /// Where the keys of a child end in the direction of the scan, if those of its parent end at `outer`.
  template <class Bound>
  [[nodiscard]] static std::optional<Key> fence_of(const inner& in, const section& seen, unsigned index,
                                                   const std::optional<Key>& outer) noexcept {
    if constexpr (Bound::reverse)
      return index == 0 ? outer : std::optional(in.key.get(seen, index - 1));
    else
      return index + 1 >= in.children.get(seen) ? outer : std::optional(in.key.get(seen, index));
  }

  /// To the next leaf below the same parent. False if there is none, or a writer came between.
  template <class Bound>
  [[nodiscard]] static bool step(position& at) {
    place& to = at.leaf;
    if (to.parent == nullptr) return false;
    if (Bound::reverse ? to.index == 0 : to.index + 1U >= to.parent->children.get(to.above)) return false;
    to.index += Bound::reverse ? -1U : 1U;
    to.node = to.parent->child[to.index].get(to.above);
    at.fence = fence_of<Bound>(*to.parent, to.above, to.index, at.parent_fence);
    if (!to.above.validate()) return false;
    to.here = Access::read(to.node->lock);
    return to.above.validate();
  }

  /// Frees all nodes.
  void destroy_all() noexcept {
    if constexpr (store::template must_visit<leaf>() || store::template must_visit<inner>() ||
                  holder::must_visit())
      destroy_below(root_at_rest());
  }
  void destroy_below(node_base* top) noexcept {
    visit_below(top, [this]<class Node>(Node& n) {
      if constexpr (std::is_same_v<Node, leaf>) discard_values(n);
      plain_changes<store, nodes>::destroy(store_, &n);
    });
  }

  /// The nodes of a load, level by level. If it ends before the map has them, they are freed.
  struct bulk_loading {
    bulk_loading(tree& loaded_map, std::size_t n)
        : map(loaded_map), entries(n), nodes(nodes_for(n, loaded(leaf::capacity))), lows(nodes.size()) {}
    bulk_loading(const bulk_loading&) = delete;
    bulk_loading& operator=(const bulk_loading&) = delete;
    ~bulk_loading() {
      for (node_base* const n : nodes) map.destroy_below(n);
    }

    template <class Iterator>
    [[nodiscard]] static Key key_at(const Iterator first, std::size_t i) {
      const auto& [key, value] = first[static_cast<std::iter_difference_t<Iterator>>(i)];
      return Image::of(key);
    }

    /// The leaf at that place among the nodes.
    template <class Iterator>
    void make_leaf(const Iterator first, std::size_t at) {
      const std::size_t begin = begin_of(at, nodes.size(), entries);
      const std::size_t end = begin_of(at + 1, nodes.size(), entries);
      typename leaf::content all;
      try {
        for (std::size_t i = begin; i < end; ++i) {
          const auto& [key, value] = first[static_cast<std::iter_difference_t<Iterator>>(i)];
          const Key stored = Image::of(key);
          if (i != 0 && !map.order()(i != begin ? all.key[all.count - 1] : key_at(first, i - 1), stored))
            map.throw_unsorted();
          typename holder::pending fresh(map.store_);
          all.add(stored, fresh.get(value));
          fresh.release();
        }
        auto* const made = map.store_.template create<leaf>(memory_role::leaf, nullptr);
        made->assign(exclusive_access{}, all, 0, all.count);
        if constexpr (guesses)
          made->cover(exclusive_access{}, at == 0 ? Key{0} : all.key[0],
                      end == entries ? ~Key{0} : key_at(first, end) - 1);
        nodes[at] = made;
        lows[at] = all.key[0];
      } catch (...) {
        for (unsigned i = 0; i < all.count; ++i) holder::discard(map.store_, all.slot[i]);
        throw;
      }
    }

    /// The inner nodes above the nodes that there are. Each takes the place of the first ones in `nodes`, so that these
    /// always have every node exactly once below them.
    void make_level() {
      const std::size_t below = nodes.size();
      const std::size_t count = nodes_for(below, loaded(Children));
      const unsigned level = nodes[0]->level + 1U;
      typename inner::content all;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = begin_of(i, count, below);
        const std::size_t end = begin_of(i + 1, count, below);
        auto* const fresh = map.store_.template create<inner>(memory_role::node, nullptr, level);
        all.count = 0;
        for (std::size_t child = begin; child < end; ++child)
          all.add(lows[child], std::exchange(nodes[child], nullptr));
        fresh->assign(exclusive_access{}, all, 0, all.count);
        nodes[i] = fresh;
        lows[i] = lows[begin];
      }
      nodes.resize(count);
    }

    tree& map;
    std::size_t entries;
    std::vector<node_base*> nodes;
    std::vector<Key> lows;  ///< the smallest key of each
  };

  /// The keys below n must not be smaller than *low, and must be smaller than *high.
  [[nodiscard]] const char* check_below(node_base& n, const Key* low, const Key* high) const {
    const exclusive_access rest;
    if (n.lock.is_locked()) return "a reachable node is locked";
    if (n.lock.read().obsolete()) return "a reachable node is obsolete";
    if (n.level == 0) {
      if constexpr (requires(const leaf& of_it) { of_it.check(); }) {
        if (const char* wrong = static_cast<const leaf&>(n).check()) return wrong;
      }
      if constexpr (guesses) {
        const leaf& of_it = static_cast<const leaf&>(n);
        if (of_it.first_covered(rest) != (low != nullptr ? *low : Key{0}) ||
            of_it.last_covered(rest) != (high != nullptr ? *high - 1 : ~Key{0}))
          return "a leaf covers other keys than the separators beside it say";
      }
      typename leaf::content all;
      static_cast<leaf&>(n).copy_to(rest, order(), all);
      for (unsigned i = 0; i < all.count; ++i) {
        if (low != nullptr && order()(all.key[i], *low)) return "a key lies right of a larger separator";
        if (high != nullptr && !order()(all.key[i], *high))
          return "a key lies left of a separator not larger";
        if (i > 0 && !order()(all.key[i - 1], all.key[i])) return "a key follows one not smaller";
      }
      return nullptr;
    }
    const inner& in = static_cast<const inner&>(n);
    const unsigned count = in.children.get(rest);
    if (count < 1 || count > Children) return "an inner node has no children, or too many";
    std::array<Key, Children> separators;
    for (unsigned i = 0; i + 1 < count; ++i) separators[i] = in.key.get(rest, i);
    for (unsigned i = 0; i < count; ++i) {
      node_base& below = *in.child[i].get(rest);
      if (below.level + 1 != n.level) return "a leaf is not as deep as the others";
      if (const char* wrong =
              check_below(below, i == 0 ? low : &separators[i - 1], i + 1 == count ? high : &separators[i]))
        return wrong;
    }
    return nullptr;
  }
};

}  // namespace espalier::btree
