#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// The default policies.
using locked_nodes_traits =
    basic_map_traits<segregated, unused_policy, unused_policy, ttas_lock, unused_policy>;

/// What maps share that have an entry in each node, and are read and written under locks only: their operations, and how they
/// are inspected. The traits' reclaimer has nothing to do; `unprotected` replaces it. Walks has visit_all(top, visit) and
/// destroy_all(top, destroy) over all nodes at rest, and link(edge, node), which links a new node there.
///
/// The algorithm derives from it, befriends it, and provides
///   node               with its value
///   top()              the node from which all others are reached, or null
///   locks              constructed from the map; what a seek holds then, and releases when it is destroyed
///   seek(key, locks&)  returns a place, which does not change while the locks are held: the target, which is the node
///                      with the key, or null; the edge to it, or the empty edge where the key would be; the parent,
///                      which has the edge, or null if it is the map's own
///   unlink(place)      erases the target's key: unlinks a node, so that no thread has or gets a pointer to it once
///                      the locks are released, and returns it
template <class Map, class Key, class Value, class Traits, class Compare, class Walks>
class locked_nodes : public stored_map<Map, Key, Value, Compare,
                                       node_store<typename Traits::template with_reclaimer<unprotected>>> {
  using base =
      stored_map<Map, Key, Value, Compare, node_store<typename Traits::template with_reclaimer<unprotected>>>;

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  /// The domain does nothing for this map. The parameter exists so that every map is constructed alike.
  using base::base;

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    Walks::visit_all(self().top(), [&](const auto& n) {
      visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
    });
  }

 protected:
  using typename base::contract;
  friend contract;
  using base::store_;
  using store = node_store<typename Traits::template with_reclaimer<unprotected>>;

  // No other thread may use the map any more.
  ~locked_nodes() = default;

  /// Frees all nodes; for the destructor of the algorithm.
  template <class Node>
  void destroy_all(Node* top) noexcept {
    if constexpr (store::template must_visit<Node>())
      Walks::destroy_all(top, [this](Node* n) { store_.destroy(memory_role::node, n); });
  }

 private:
  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    typename Map::locks hold(self());
    const auto at = self().seek(key, hold);
    if (at.target == nullptr) return std::nullopt;
    return at.target->value;
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    typename Map::locks hold(self());
    return self().seek(key, hold).target != nullptr;
  }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    typename Map::locks hold(self());
    const auto at = self().seek(key, hold);
    if (at.target != nullptr) return false;
    link(at, key, value);
    return true;
  }

  bool do_assign(guard_type&, const Key& key, const Value& value) {
    typename Map::locks hold(self());
    const auto at = self().seek(key, hold);
    if (at.target == nullptr) {
      link(at, key, value);
      return true;
    }
    espalier::replace(at.target->value, value);
    return false;
  }

  bool do_erase(guard_type&, const Key& key) {
    typename Map::node* removed = nullptr;
    {
      typename Map::locks hold(self());
      const auto at = self().seek(key, hold);
      if (at.target == nullptr) return false;
      removed = self().unlink(at);
    }
    store_.destroy(memory_role::node, removed);
    return true;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type&, const Key& key, Function&& f) {
    typename Map::node* removed = nullptr;
    std::optional<Value> before;
    {
      typename Map::locks hold(self());
      const auto at = self().seek(key, hold);
      if (at.target != nullptr) before.emplace(at.target->value);
      std::optional<Value> after = f(before);
      if (before && after)
        espalier::replace(at.target->value, std::move(*after));
      else if (after)
        link(at, key, *after);
      else if (before)
        removed = self().unlink(at);
    }
    if (removed != nullptr) store_.destroy(memory_role::node, removed);
    return before;
  }

  template <class Place>
  void link(const Place& at, const Key& key, const Value& value) {
    Walks::link(*at.edge,
                store_.template create<typename Map::node>(memory_role::node, at.parent, key, value));
  }

  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }
};

}  // namespace espalier
