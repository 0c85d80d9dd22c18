#pragma once

#include <absl/base/config.h>
#include <absl/container/btree_map.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "bench/peers/support/adapter.hpp"
#include "espalier/hw/cache_line.hpp"

#define ESPALIER_PEERS_QUOTE_VALUE(text) #text
#define ESPALIER_PEERS_QUOTE(macro) ESPALIER_PEERS_QUOTE_VALUE(macro)
#ifdef ABSL_LTS_RELEASE_VERSION
#define ESPALIER_PEERS_ABSEIL "Abseil " ESPALIER_PEERS_QUOTE(ABSL_LTS_RELEASE_VERSION)
#else
#define ESPALIER_PEERS_ABSEIL "Abseil"
#endif

namespace espalier::peers {

/// absl::btree_map under one lock. Description gives the properties, the mutex, and the locks that readers and writers
/// take. A scan holds the lock while it visits, so its visitor must not call the map. Without a guard it releases the
/// lock every few hundred keys, so it is not a snapshot.
template <class Description, class Key>
class btree_under_lock {
  using key_view = key_view_of<Key>;
  using reader = typename Description::reader;
  using writer = typename Description::writer;

 public:
  using thread_scope = no_thread_scope;
  static constexpr map_properties properties = Description::properties;

  [[nodiscard]] std::optional<std::uint64_t> find(key_view key) {
    const reader lock(mutex_);
    const auto at = map_.find(native(key));
    if (at == map_.end()) return std::nullopt;
    return at->second;
  }

  [[nodiscard]] bool contains(key_view key) {
    const reader lock(mutex_);
    return map_.contains(native(key));
  }

  bool insert(key_view key, std::uint64_t value) {
    const writer lock(mutex_);
    return map_.try_emplace(native(key), value).second;
  }

  bool insert_or_assign(key_view key, std::uint64_t value) {
    const writer lock(mutex_);
    return map_.insert_or_assign(native(key), value).second;
  }

  bool erase(key_view key) {
    const writer lock(mutex_);
    return map_.erase(native(key)) != 0;
  }

  template <class Visitor>
  std::size_t scan(key_view from, Visitor&& visitor) {
    const reader lock(mutex_);
    std::size_t visits = 0;
    for (auto at = map_.lower_bound(native(from)); at != map_.end(); ++at) {
      ++visits;
      if (!visit_entry(visitor, at->first, at->second)) break;
    }
    return visits;
  }

 private:
  /// As the library's own order takes it.
  static decltype(auto) native(key_view key) noexcept {
    if constexpr (std::is_same_v<Key, std::string>)
      return absl::string_view(key.data(), key.size());
    else
      return key;
  }

  alignas(hw::false_sharing_bytes) typename Description::mutex mutex_;
  alignas(hw::false_sharing_bytes) absl::btree_map<Key, std::uint64_t> map_;
};

template <class Description, class Key = std::uint64_t>
using locked_btree = peer_map<btree_under_lock<Description, Key>, Key>;

}  // namespace espalier::peers
