#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// The policies from which lists make their own.
using list_traits = basic_map_traits<segregated, unused_policy, epoch_domain, unused_policy, unused_policy>;
/// The same for lists with locks in their nodes.
using locking_list_traits = list_traits::with_lock<ttas_lock>;

/// A scan against the direction of a list, in pieces: each walks from the first node, and keeps the last nodes that the bound
/// admits. first() returns the first node, next(node) the one behind; both may return null. visit(node) returns
/// whether the scan goes on. Nodes stay allocated until the scan ends. As many walks as there are pieces of 64 entries.
template <class Key, class Bound, class First, class Next, class Visit>
void scan_against_list(Bound bound, First&& first, Next&& next, Visit&& visit) {
  constexpr std::size_t kept_most = 64;
  using node_pointer = decltype(first());
  std::array<node_pointer, kept_most> kept;
  std::optional<Key> last;
  std::size_t admitted = kept_most + 1;
  while (admitted > kept_most) {
    admitted = 0;
    for (node_pointer n = first(); n != nullptr && bound.admits(n->key); n = next(*n))
      kept[admitted++ % kept_most] = n;
    const std::size_t end = admitted;
    for (std::size_t i = 1; i <= std::min(end, kept_most); ++i) {
      node_pointer const n = kept[(end - i) % kept_most];
      if (!bound.admits(n->key)) continue;  // a second node with the key that was visited last
      last = n->key;
      bound.move_behind(*last);
      if (!visit(*n)) return;
    }
  }
}

/// Adds entries that the bound admits to a batch, in its direction, until it is full: of a list that does not change meanwhile. first
/// and next as above; value_of(node) is the entry's value.
template <class Key, class Value, class Bound, class First, class Next, class ValueOf>
void fill_from_list(entry_batch<Key, Value>& out, const Bound& bound, First&& first, Next&& next,
                    ValueOf&& value_of) {
  const auto add = [&](const auto& n) {
    out.add(n.key, value_of(n));
    return !out.full();
  };
  if constexpr (Bound::reverse) {
    scan_against_list<Key>(bound, first, next, add);
  } else {
    const auto* n = first();
    while (n != nullptr && !bound.admits(n->key)) n = next(*n);
    while (n != nullptr && add(*n)) n = next(*n);
  }
}

/// The part of an ordered list that is the same for all algorithms whose readers take no locks. Finds and scans walk from the
/// head by acquire loads, and write nothing.
///
/// The algorithm derives from it, befriends it, and brings
///   link       what leads to a node: `next`, an atomic pointer or word that holds one, and what its writers lock
///   head_      the link before the first node
///   node       a link with `key`, and `value`, an atomic word of the holder
///   look(node) the node behind and whether the entry is there, as they were at one moment or in this order
///   check(node)  what is wrong with a linked node at rest, or null
/// and do_insert(), do_assign(), do_erase() and do_update() of the contract (map_facade.hpp).
///
/// It promises what makes such a walk right:
///   (a) Keys increase along the list. Where an entry is not there, the node behind may have the same key.
///   (b) `next` of a node that was unlinked never changes again, and does not change between the moment from which the entry
///       is not there and the unlinking.
///   (c) A node whose entry is there is linked.
/// Each node that a walk reaches was linked at a moment since the walk began. Proof by induction: the head is linked. Let the
/// walk read from node a that b follows. If a is linked then, b is. If not, a was linked at some moment of the walk, and by (b)
/// has led to b from then on. So the walk passes no key that is present throughout: it lies behind a at that moment.
///
/// Linearization points of what reads
///   find, contains -> present   look, where the entry is there; for the value see below
///   find, contains -> absent    a moment at which the last node that was passed was linked and led to the next one
///   each visit of a scan        as a find
/// The value is read behind look. If the entry was erased between the two, the find counts immediately before that: the value
/// does not change afterwards.
///
/// Orderings
///   (1) publish, replace, swing (release) in map/list/michael_list.hpp, link, unlink (release) in map/list/lazy_list.hpp, link,
///       unlink (release) in map/list/optik_list.hpp, link, unlink (release) in map/list/parsec_list.hpp -> read_next
///       (acquire): a thread that reaches a node sees it constructed.
///   (2) assign (release) in map/node_store.hpp -> read_value (acquire): a thread that finds a value sees its cell, and what
///       the writer did before it stored the value.
template <class Map, class Key, class Value, class Traits, class Compare>
class list_map : public stored_map<Map, Key, Value, Compare, node_store<Traits>> {
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>>;

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  using base::base;

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    for (const auto* n = next_of(self().head_); n != nullptr; n = next_of(*n)) {
      visitor(static_cast<const void*>(n), sizeof(*n), memory_role::node);
      if constexpr (!holder::in_place) {
        // order (2): read_value, acquire: more than needed at rest.
        visitor(static_cast<const void*>(n->value.load(std::memory_order_acquire)), sizeof(Value),
                memory_role::value);
      }
    }
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    const char* wrong = Map::check(self().head_);
    const auto* n = next_of(self().head_);
    for (const auto* before = n; wrong == nullptr && n != nullptr; n = next_of(*n)) {
      wrong = Map::check(*n);
      if (n != before && !base::less(before->key, n->key)) wrong = "a key follows one not smaller";
      before = n;
    }
    return wrong;
  }

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::less;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value>;

  // No other thread may use the map any more.
  ~list_map() = default;

  template <class Node>
  using new_node = unpublished_entry<store, Node, holder>;

  /// What a node says of itself: the node behind, and whether its entry is there.
  template <class Node>
  struct seen_node {
    Node* next;
    bool present;
  };

  template <class Link>
  [[nodiscard]] static auto* next_of(const Link& l) noexcept {
    return to_pointer(l.next.load(std::memory_order_acquire));  // order (1): read_next, acquire
  }

  /// The first node whose key is not smaller, and the link before, from a link on that is linked and before the key.
  template <class Link, class Node>
  struct place {
    Link* before;
    Node* at;  // null at the end
  };
  template <class Node, class Link>
  [[nodiscard]] place<Link, Node> seek_from(Link& from, const Key& key) const {
    place<Link, Node> p{&from, next_of(from)};
    while (p.at != nullptr && less(p.at->key, key)) p = {p.at, next_of(*p.at)};
    return p;
  }
  /// Whether a seek has come to a node with the key.
  template <class Place>
  [[nodiscard]] bool found(const Place& p, const Key& key) const {
    return p.at != nullptr && !less(key, p.at->key);
  }
  /// Where a new node is requested near: the node that has the link, or none.
  template <class Place>
  [[nodiscard]] const void* near(const Place& p) const noexcept {
    return p.before == &self().head_ ? nullptr : p.before;
  }

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const auto* const n = seek_entry(self().head_, key);
    if (n == nullptr) return std::nullopt;
    return value_of(*n);
  }

  /// A cell is read where it lies: the guard keeps it.
  template <class Visitor>
  bool do_visit(guard_type&, const Key& key, Visitor& visitor) const {
    const auto* const n = seek_entry(self().head_, key);
    if (n == nullptr) return false;
    const Value& value = value_of(*n);
    std::invoke(visitor, value);
    return true;
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    return seek_entry(self().head_, key) != nullptr;
  }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    const auto first = [this] { return next_of(self().head_); };
    if constexpr (Bound::reverse) {
      scan_against_list<Key>(
          bound, first, [](const auto& n) { return next_of(n); },
          [&](const auto& n) {
            const auto* const at = entry_with(&n, n.key);
            return at == nullptr || visit(at->key, value_of(*at));
          });
    } else {
      for (auto* n = first(); n != nullptr;) {
        const auto seen = Map::look(*n);
        if (seen.present && bound.admits(n->key) && !visit(n->key, value_of(*n))) return;
        n = seen.next;
      }
    }
  }

  /// The node with the key whose entry is there, from a link on that is linked and before the key; null if there is none.
  template <class Link>
  [[nodiscard]] const auto* seek_entry(const Link& from, const Key& key) const {
    const auto* n = next_of(from);
    while (n != nullptr && less(n->key, key)) n = next_of(*n);
    return entry_with(n, key);
  }

  template <class Node>
  [[nodiscard]] static decltype(auto) value_of(const Node& n) noexcept {
    return holder::read(n.value.load(std::memory_order_acquire));  // order (2): read_value, acquire
  }

  /// Frees all nodes; for the destructor of the algorithm.
  template <class Node>
  void destroy_all(Node* first) noexcept {
    if constexpr (store::template must_visit<Node>() || holder::must_visit()) {
      while (first != nullptr) destroy(store_, std::exchange(first, next_of(*first)));
    }
  }

  /// Frees a node that no thread can reach, with its cell.
  template <class Node>
  static void destroy(store& owner, Node* n) noexcept {
    // relaxed: the reclaimer, or the owner of the map, has ordered this after all accesses.
    holder::discard(owner, n->value.load(std::memory_order_relaxed));
    owner.destroy(memory_role::node, n);
  }

 private:
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }

  /// The same from the first node on whose key is not smaller.
  template <class Node>
  [[nodiscard]] const Node* entry_with(const Node* n, const Key& key) const {
    while (n != nullptr && !less(key, n->key)) {
      const auto seen = Map::look(*n);
      if (seen.present) return n;
      n = seen.next;
    }
    return nullptr;
  }
};

}  // namespace espalier
