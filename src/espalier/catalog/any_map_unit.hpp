#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "espalier/catalog/any_map.hpp"
#include "espalier/catalog/codec.hpp"
#include "espalier/catalog/erased_map_of.hpp"

// What makes an algorithm of the catalogue one of any_map's: the build compiles a unit with it for each.

namespace espalier::detail {

template <class Map>
class any_map_of : public catalog::erased_map_of<Map, catalog::number_codec<>, any_map::held> {
  using key = catalog::key;
  using value = catalog::value;
  using base = catalog::erased_map_of<Map, catalog::number_codec<>, any_map::held>;
  using base::map_;

 public:
  using base::base;

  [[nodiscard]] std::optional<value> find(key k) const override { return map_.find(k); }
  [[nodiscard]] bool contains(key k) const override { return map_.contains(k); }
  bool insert(key k, value v) override { return map_.insert(k, v); }
  bool assign(key k, value v) override { return map_.insert_or_assign(k, v); }
  bool erase(key k) override { return map_.erase(k); }
  void scan(key from, any_map::visit_function visit, void* visitor) const override {
    map_.scan(from, [=](key k, value v) { return visit(visitor, k, v); });
  }
  [[nodiscard]] std::optional<map_entry<key, value>> lower_bound(key k) const override {
    return map_.lower_bound(k);
  }
  std::size_t find_batch(std::span<const key> keys, std::span<std::optional<value>> results) const override {
    return map_.find_batch(keys, results);
  }
  std::size_t insert_batch(std::span<const map_entry<key, value>> entries) override {
    return map_.insert_batch(entries);
  }
  std::size_t erase_batch(std::span<const key> keys) override { return map_.erase_batch(keys); }
  [[nodiscard]] std::size_t size() const override { return map_.size(); }
  [[nodiscard]] const char* check_invariants() const override {
    if constexpr (requires { map_.check_invariants(); })
      return map_.check_invariants();
    else
      return nullptr;
  }
  std::size_t collect() override {
    if constexpr (requires { map_.domain().collect(); })
      return map_.domain().collect();
    else
      return 0;
  }
};

/// Where none is lent.
template <class Map>
[[nodiscard]] any_placement own_placement() {
  const std::vector<std::string_view> names = placement_names();
  const std::string_view own = Map::traits_type::placement_type::name;
  // One that splits the algorithm's nodes is part of the map's type.
  return any_placement(std::ranges::find(names, own) != names.end() ? own : "clustered");
}

/// Held is any_map_of, or derives from it.
template <class Map, template <class> class Held = any_map_of>
std::unique_ptr<any_map::held> make_placed_any_map(const any_map_options& o) {
  using map = catalog::placed<Map, any_placement>;
  typename map::reclaimer_type* domain = nullptr;
  if constexpr (std::is_same_v<typename map::reclaimer_type, epoch_domain>) domain = o.domain;
  return std::make_unique<Held<map>>(domain, o.placement ? *o.placement : own_placement<Map>());
}

template <class Entry>
std::unique_ptr<any_map::held> make_any_map(const any_map_options& o) {
  using plain = typename Entry::map_type;
  if constexpr (Entry::placement_is == catalog::placing::chosen) {
    return make_placed_any_map<plain>(o);
  } else {
    if (o.placement)
      throw std::invalid_argument("any_map: '" + Entry::name() + "' has a placement of its own");
    return std::make_unique<any_map_of<plain>>();
  }
}

/// The default of an algorithm.
template <class EntryList>
[[nodiscard]] any_map::choice any_map_choice() {
  any_map::choice chosen{};
  EntryList::for_each([&]<class Entry>() {
    if constexpr (Entry::variant.empty())
      chosen = {Entry::algorithm, &make_any_map<Entry>, Entry::placement_is == catalog::placing::chosen};
  });
  return chosen;
}

}  // namespace espalier::detail

#define ESPALIER_CATALOG_UNIT(algorithm)                                                                     \
  namespace espalier::detail {                                                                               \
  any_map::choice any_map_choice_of_##algorithm();                                                           \
  any_map::choice any_map_choice_of_##algorithm() { return any_map_choice<espalier::catalog::algorithm>(); } \
  }
