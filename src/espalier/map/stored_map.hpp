#pragma once

#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/node_store.hpp"

namespace espalier {

/// What every map over a node_store has besides its algorithm: the store, its constructors, and the names of the
/// contract. A map derives from it with its own type.
template <class Map, class Key, class Value, class Compare, class Store>
class stored_map : public map_facade<Map, Key, Value, Compare, typename Store::guard_type> {
  using facade = map_facade<Map, Key, Value, Compare, typename Store::guard_type>;

 public:
  using reclaimer_type = typename Store::reclaimer_type;
  using typename facade::guard_type;

  /// If the domain is null, the map creates its own; a shared one must outlive the map. The further arguments construct
  /// the placement.
  template <class... PlacementArguments>
  explicit stored_map(reclaimer_type* domain = nullptr, PlacementArguments&&... placement)
      : store_(domain, std::forward<PlacementArguments>(placement)...) {}
  /// With a comparator that has a state.
  template <class... PlacementArguments>
  explicit stored_map(const Compare& less, reclaimer_type* domain = nullptr,
                      PlacementArguments&&... placement)
      : facade(less), store_(domain, std::forward<PlacementArguments>(placement)...) {}
  stored_map(const stored_map&) = delete;
  stored_map& operator=(const stored_map&) = delete;

  [[nodiscard]] guard_type pin() const { return store_.pin(); }

  [[nodiscard]] memory_usage usage() const noexcept { return store_.usage(); }
  [[nodiscard]] const auto& placement() const noexcept { return store_.placement(); }
  [[nodiscard]] reclaimer_type& domain() noexcept { return store_.domain(); }

 protected:
  ~stored_map() = default;

  alignas(hw::false_sharing_bytes) Store store_;
};

}  // namespace espalier
