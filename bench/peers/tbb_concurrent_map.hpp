#pragma once

#include <oneapi/tbb/concurrent_map.h>
#include <oneapi/tbb/version.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bench/peers/support/adapter.hpp"
#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// oneTBB's skip list. It erases only while no other thread uses the map, so there is no erase here. Nodes then stay
/// until the map is destroyed, and readers need no protection. The allocator is given explicitly, because the default
/// one would load tbbmalloc where that is installed. Present values are overwritten through find, because the library's
/// emplace allocates a node on every call.
template <class Key>
class tbb_skip_list {
  using key_view = key_view_of<Key>;

 public:
  using thread_scope = no_thread_scope;

  static constexpr map_properties properties{"tbb_concurrent_map",
                                             progress::lock_free,
                                             progress::lock_free,
                                             balance::relaxed,
                                             false,
                                             "oneTBB " TBB_VERSION_STRING ", concurrent_map"};

  [[nodiscard]] std::optional<std::uint64_t> find(key_view key) {
    const auto at = map_.find(key);
    if (at == map_.end()) return std::nullopt;
    return at->second.read();
  }

  [[nodiscard]] bool contains(key_view key) { return map_.contains(key); }

  bool insert(key_view key, std::uint64_t value) { return map_.emplace(key, value).second; }

  bool insert_or_assign(key_view key, std::uint64_t value) {
    auto at = map_.find(key);
    if (at == map_.end()) {
      bool added = false;
      std::tie(at, added) = map_.emplace(key, value);
      if (added) return true;
    }
    at->second.write(value);
    return false;
  }

  template <class Visitor>
  std::size_t scan(key_view from, Visitor&& visitor) {
    std::size_t visits = 0;
    for (auto at = map_.lower_bound(from); at != map_.end(); ++at) {
      ++visits;
      if (!visit_entry(visitor, at->first, at->second.read())) break;
    }
    return visits;
  }

 private:
  ::tbb::concurrent_map<Key, value_cell, default_order<Key>, std::allocator<std::pair<const Key, value_cell>>>
      map_;
};

using tbb_concurrent_map = peer_map<tbb_skip_list<std::uint64_t>>;
using tbb_concurrent_string_map = peer_map<tbb_skip_list<std::string>, std::string>;
static_assert(concurrent_ordered_map<tbb_concurrent_map> && !tbb_concurrent_map::supports_erase &&
              tbb_concurrent_map::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using tbb_concurrent_map = entry_list<
    entry_with_strings<espalier::peers::tbb_concurrent_map, espalier::peers::tbb_concurrent_string_map>>;

}  // namespace espalier::catalog
