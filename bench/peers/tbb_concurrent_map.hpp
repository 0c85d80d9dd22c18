#pragma once

#include <oneapi/tbb/concurrent_map.h>
#include <oneapi/tbb/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "bench/peers/support/adapter.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/reclaim/no_guard.hpp"

namespace espalier::peers {

/// oneTBB's skip list. It erases only while no other thread uses the map, so there is no erase here; nodes
/// then stay until the map dies and readers need no protection. The allocator is named, as the default one
/// would load tbbmalloc where that is installed. Present values are overwritten through find: the library's
/// emplace allocates a node on every call.
class tbb_concurrent_map : public map_facade<tbb_concurrent_map, std::uint64_t, std::uint64_t, std::less<>> {
  using facade = map_facade<tbb_concurrent_map, std::uint64_t, std::uint64_t, std::less<>>;

 public:
  using key_type = std::uint64_t;
  using mapped_type = std::uint64_t;
  using guard_type = no_guard;
  using thread_scope = no_thread_scope;

  static constexpr map_properties properties{"tbb_concurrent_map",
                                             progress::lock_free,
                                             progress::lock_free,
                                             balance::relaxed,
                                             scan_guarantee::per_key,
                                             false,
                                             "oneTBB " TBB_VERSION_STRING ", concurrent_map"};
  static constexpr bool supports_erase = false;
  static constexpr bool supports_scan = true;

  tbb_concurrent_map() = default;

  using facade::contains;
  using facade::erase;
  using facade::find;
  using facade::insert;
  using facade::insert_or_assign;
  using facade::scan;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  [[nodiscard]] std::optional<mapped_type> find(guard_type&, const key_type& key) {
    const auto at = map_.find(key);
    if (at == map_.end()) return std::nullopt;
    return at->second.read();
  }

  [[nodiscard]] bool contains(guard_type&, const key_type& key) { return map_.contains(key); }

  bool insert(guard_type&, const key_type& key, const mapped_type& value) {
    return map_.emplace(key, value).second;
  }

  bool insert_or_assign(guard_type&, const key_type& key, const mapped_type& value) {
    auto at = map_.find(key);
    if (at == map_.end()) {
      bool added = false;
      std::tie(at, added) = map_.emplace(key, value);
      if (added) return true;
    }
    at->second.write(value);
    return false;
  }

  bool erase(guard_type&, const key_type&) { refuse(properties.name, "erase"); }

  template <class Visitor>
  std::size_t scan(guard_type&, const key_type& from, Visitor&& visitor) {
    std::size_t visits = 0;
    for (auto at = map_.lower_bound(from); at != map_.end(); ++at) {
      ++visits;
      if (!visit_entry(visitor, at->first, at->second.read())) break;
    }
    return visits;
  }

 private:
  ::tbb::concurrent_map<key_type, value_cell, std::less<key_type>,
                        std::allocator<std::pair<const key_type, value_cell>>>
      map_;
};

static_assert(concurrent_ordered_map<tbb_concurrent_map>);

}  // namespace espalier::peers

namespace espalier::catalog {

using tbb_concurrent_map = entry_list<entry<espalier::peers::tbb_concurrent_map>>;

}  // namespace espalier::catalog
