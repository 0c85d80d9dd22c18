#pragma once

#include <cstddef>
#include <type_traits>

#include "espalier/map/bst/internal_tree.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/stored_map.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/no_guard.hpp"

namespace espalier {

/// What internal search trees share if they are read and written under locks only: how nodes are freed, and how the
/// tree is inspected. The traits' reclaimer has nothing to do; `unprotected` replaces it.
///
/// The algorithm derives from it, befriends it, and provides
///   top()         the node at the top, or null
///   detach(key)   erases the key: unlinks a node, so that no thread has or gets a pointer to it, and returns it; null
///                 if the key is absent
template <class Map, class Key, class Value, class Traits, class Compare>
class locked_tree : public stored_map<Map, Key, Value, Compare,
                                      node_store<typename Traits::template with_reclaimer<unprotected>>> {
  using base =
      stored_map<Map, Key, Value, Compare, node_store<typename Traits::template with_reclaimer<unprotected>>>;
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>,
                "keys and values are copied while other threads use them: both must be trivially copyable, "
                "which std::string is not; use a number, an index or a fixed array of characters");

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  /// The domain does nothing for this map. The parameter exists so that every map is constructed alike.
  using base::base;
  using base::erase;

  bool erase(guard_type&, const Key& key) {
    auto* const removed = self().detach(key);
    if (removed == nullptr) return false;
    store_.destroy(memory_role::node, removed);
    return true;
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    internal_tree::visit_all(self().top(), [&](const auto& n) {
      visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
    });
  }

 protected:
  using base::store_;
  using store = node_store<typename Traits::template with_reclaimer<unprotected>>;

  // No other thread may use the map any more.
  ~locked_tree() = default;

  /// Frees all nodes; for the destructor of the algorithm.
  template <class Node>
  void destroy_all(Node* top) noexcept {
    if constexpr (store::template must_visit<Node>())
      internal_tree::destroy_all(top, [this](Node* n) { store_.destroy(memory_role::node, n); });
  }

 private:
  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }
};

}  // namespace espalier
