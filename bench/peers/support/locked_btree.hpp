#pragma once

#include <absl/base/config.h>
#include <absl/container/btree_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "bench/peers/support/adapter.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/reclaim/no_guard.hpp"

#define ESPALIER_PEERS_QUOTE_VALUE(text) #text
#define ESPALIER_PEERS_QUOTE(macro) ESPALIER_PEERS_QUOTE_VALUE(macro)
#ifdef ABSL_LTS_RELEASE_VERSION
#define ESPALIER_PEERS_ABSEIL "Abseil " ESPALIER_PEERS_QUOTE(ABSL_LTS_RELEASE_VERSION)
#else
#define ESPALIER_PEERS_ABSEIL "Abseil"
#endif

namespace espalier::peers {

/// absl::btree_map under one lock. Description gives the properties, the mutex, and the locks that readers
/// and writers take. A scan holds the lock while it visits: its visitor must
/// not call the map. Without a guard it lets the lock go every few hundred keys, hence no snapshot.
template <class Description>
class locked_btree : public map_facade<locked_btree<Description>, std::uint64_t, std::uint64_t, std::less<>> {
  using facade = map_facade<locked_btree, std::uint64_t, std::uint64_t, std::less<>>;
  using reader = typename Description::reader;
  using writer = typename Description::writer;

 public:
  using key_type = std::uint64_t;
  using mapped_type = std::uint64_t;
  using guard_type = no_guard;
  using thread_scope = no_thread_scope;

  static constexpr map_properties properties = Description::properties;
  static constexpr bool supports_erase = true;
  static constexpr bool supports_scan = true;

  locked_btree() = default;

  using facade::contains;
  using facade::erase;
  using facade::find;
  using facade::insert;
  using facade::insert_or_assign;
  using facade::scan;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  [[nodiscard]] std::optional<mapped_type> find(guard_type&, const key_type& key) {
    const reader lock(mutex_);
    const auto at = map_.find(key);
    if (at == map_.end()) return std::nullopt;
    return at->second;
  }

  [[nodiscard]] bool contains(guard_type&, const key_type& key) {
    const reader lock(mutex_);
    return map_.contains(key);
  }

  bool insert(guard_type&, const key_type& key, const mapped_type& value) {
    const writer lock(mutex_);
    return map_.emplace(key, value).second;
  }

  bool insert_or_assign(guard_type&, const key_type& key, const mapped_type& value) {
    const writer lock(mutex_);
    return map_.insert_or_assign(key, value).second;
  }

  bool erase(guard_type&, const key_type& key) {
    const writer lock(mutex_);
    return map_.erase(key) != 0;
  }

  template <class Visitor>
  std::size_t scan(guard_type&, const key_type& from, Visitor&& visitor) {
    const reader lock(mutex_);
    std::size_t visits = 0;
    for (auto at = map_.lower_bound(from); at != map_.end(); ++at) {
      ++visits;
      if (!visit_entry(visitor, at->first, at->second)) break;
    }
    return visits;
  }

 private:
  alignas(hw::false_sharing_bytes) typename Description::mutex mutex_;
  alignas(hw::false_sharing_bytes) absl::btree_map<key_type, mapped_type> map_;
};

}  // namespace espalier::peers
