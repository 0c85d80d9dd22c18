#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// The part of an internal search tree that does not depend on its algorithm: inspection, destruction, and a
/// scan by one seek per entry.
///
/// The algorithm derives from it, befriends it, and provides
///   top()             the node at the top, or null
///   cell_of(node)     the value cell that is freed with the node, or null if another node has it; not called
///                     where values are words. For nodes at rest, and for those that no thread can reach.
///                     By default all nodes have their cells
///   first_of(bound)   as stepwise_scan requires it, unless the algorithm has a scan of its own
/// Cells: whether all values lie in cells (node_store.hpp).
template <class Map, class Key, class Value, class Traits, class Compare, bool Cells = !word_value<Value>>
class internal_map : public stored_map<Map, Key, Value, Compare, node_store<Traits>> {
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>>;

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  using base::base;

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    const auto* const top = self().top();
    tree_at_rest::visit_all(top, [&](const auto& n) {
      visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
      if constexpr (!holder::in_place) {
        if (const Value* const cell = Map::cell_of(n))
          visitor(static_cast<const void*>(cell), sizeof(Value), memory_role::value);
      }
    });
  }

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value, Cells>;

  // No other thread may use the map any more.
  ~internal_map() = default;

  /// One seek for each entry. The visitor is called between seeks, and may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    stepwise_scan(bound, [this](const auto& from) { return self().first_of(from); }, visit);
  }

  /// Frees all nodes; for the destructor of the algorithm.
  template <class Node>
  void destroy_all(Node* top) noexcept {
    if constexpr (store::template must_visit<Node>() || holder::must_visit())
      tree_at_rest::destroy_internal(top, [this](Node* n) { destroy(store_, n); });
  }

  template <class Node>
  static const Value* cell_of(const Node& n) noexcept {
    return n.value.load(std::memory_order_relaxed);  // relaxed: the node is at rest, or out of reach
  }

  template <class Node>
  using new_node_of = unpublished_entry<store, Node, holder>;

  /// Frees a node that no thread can reach, with its cell.
  template <class Node>
  static void destroy(store& owner, Node* n) noexcept {
    if constexpr (!holder::in_place) holder::discard(owner, Map::cell_of(*n));
    owner.destroy(memory_role::node, n);
  }

 private:
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }
};

}  // namespace espalier
