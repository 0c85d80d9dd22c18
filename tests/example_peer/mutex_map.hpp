#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "bench/peers/support/adapter.hpp"
#include "espalier/catalog/entry_list.hpp"

// The example of docs/bring-your-own-map.md.

namespace espalier::peers {

class mutex_map_adapter {
 public:
  using thread_scope = no_thread_scope;  // std::map need not know its threads
  static constexpr map_properties properties{
      "mutex_map", progress::blocking,         progress::blocking, balance::strict,
      false,       "std::map under std::mutex"};

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto at = map_.find(key);
    return at == map_.end() ? std::nullopt : std::optional(at->second);
  }
  [[nodiscard]] bool contains(std::uint64_t key) { return find(key).has_value(); }
  bool insert(std::uint64_t key, std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    return map_.emplace(key, value).second;
  }
  bool insert_or_assign(std::uint64_t key, std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    return map_.insert_or_assign(key, value).second;
  }
  bool erase(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    return map_.erase(key) != 0;
  }
  template <class Visitor>
  void scan(std::uint64_t from, Visitor&& visit) {
    const std::lock_guard lock(mutex_);
    for (auto at = map_.lower_bound(from); at != map_.end(); ++at) {
      if (!visit(at->first, at->second)) return;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> map_;
};

using mutex_map = peer_map<mutex_map_adapter>;

}  // namespace espalier::peers

namespace espalier::catalog {

using mutex_map = entry_list<entry<espalier::peers::mutex_map>>;

}  // namespace espalier::catalog
