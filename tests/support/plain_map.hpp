#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::test {

constexpr map_properties plain_properties(std::string_view name, bool exchanges = true) {
  return {.name = name,
          .find_progress = progress::blocking,
          .update_progress = progress::blocking,
          .shape = balance::strict,
          .region_protection = false,
          .paper = "std::map",
          .exchanges = exchanges};
}

/// A std::map under a lock, for maps that differ from one in some respect: they derive from it and hide what they do
/// differently.
template <class Self>
class plain_map
    : public map_facade<Self, std::uint64_t, std::uint64_t, std::less<>, no_guard, uncounted_size> {
  using facade = map_facade<Self, std::uint64_t, std::uint64_t, std::less<>, no_guard, uncounted_size>;

 public:
  using key = std::uint64_t;
  using value = std::uint64_t;
  using bound_type = scan_bound<key, std::less<>>;
  using hold = std::scoped_lock<std::mutex>;

  static constexpr map_properties properties = plain_properties("plain_map");

  [[nodiscard]] no_guard pin() const noexcept { return {}; }

  std::optional<value> do_find(no_guard&, key k) const {
    const hold lock(mutex_);
    return value_at(k);
  }
  bool do_contains(no_guard&, key k) const {
    const hold lock(mutex_);
    return map_.contains(k);
  }
  bool do_insert(no_guard&, key k, value v) {
    const hold lock(mutex_);
    return map_.emplace(k, v).second;
  }
  bool do_assign(no_guard&, key k, value v) {
    const hold lock(mutex_);
    return map_.insert_or_assign(k, v).second;
  }
  bool do_erase(no_guard&, key k) {
    const hold lock(mutex_);
    return map_.erase(k) != 0;
  }
  template <class Function>
  std::optional<value> do_update(no_guard&, key k, Function&& f) {
    const hold lock(mutex_);
    const std::optional<value> before = value_at(k);
    store(k, f(before));
    return before;
  }
  template <class Visit>
  void do_scan(no_guard&, const bound_type& bound, Visit&& visit) const {
    const hold lock(mutex_);
    for (const auto& [k, v] : map_) {
      if (bound.admits(k) && !visit(k, v)) return;
    }
  }
  [[nodiscard]] std::size_t do_size() const {
    const hold lock(mutex_);
    return map_.size();
  }

 protected:
  /// With the lock held.
  [[nodiscard]] std::optional<value> value_at(key k) const {
    const auto at = map_.find(k);
    return at == map_.end() ? std::nullopt : std::optional(at->second);
  }
  void store(key k, const std::optional<value>& v) {
    if (v)
      map_[k] = *v;
    else
      map_.erase(k);
  }

  mutable std::mutex mutex_;
  std::map<key, value> map_;
};

}  // namespace espalier::test
