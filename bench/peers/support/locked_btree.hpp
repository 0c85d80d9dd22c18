#pragma once

#include <absl/base/config.h>
#include <absl/container/btree_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>

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
template <class Description>
class btree_under_lock {
  using reader = typename Description::reader;
  using writer = typename Description::writer;

 public:
  using thread_scope = no_thread_scope;
  static constexpr map_properties properties = Description::properties;

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) {
    const reader lock(mutex_);
    const auto at = map_.find(key);
    if (at == map_.end()) return std::nullopt;
    return at->second;
  }

  [[nodiscard]] bool contains(std::uint64_t key) {
    const reader lock(mutex_);
    return map_.contains(key);
  }

  bool insert(std::uint64_t key, std::uint64_t value) {
    const writer lock(mutex_);
    return map_.emplace(key, value).second;
  }

  bool insert_or_assign(std::uint64_t key, std::uint64_t value) {
    const writer lock(mutex_);
    return map_.insert_or_assign(key, value).second;
  }

  bool erase(std::uint64_t key) {
    const writer lock(mutex_);
    return map_.erase(key) != 0;
  }

  template <class Visitor>
  std::size_t scan(std::uint64_t from, Visitor&& visitor) {
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
  alignas(hw::false_sharing_bytes) absl::btree_map<std::uint64_t, std::uint64_t> map_;
};

template <class Description>
using locked_btree = peer_map<btree_under_lock<Description>>;

}  // namespace espalier::peers
