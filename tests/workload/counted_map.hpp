#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::workload::testing {

/// Calls of a counted_map.
struct calls_made {
  int finds = 0;
  int assigns = 0;
  int updates = 0;
  friend bool operator==(const calls_made&, const calls_made&) = default;
};

/// A std::map under a lock, which counts the calls that a read-modify-write is made of.
template <bool Exchanges>
class counted_map : public map_facade<counted_map<Exchanges>, std::uint64_t, std::uint64_t, std::less<>,
                                      no_guard, uncounted_size> {
  using base = map_facade<counted_map, std::uint64_t, std::uint64_t, std::less<>, no_guard, uncounted_size>;
  friend typename base::contract;

 public:
  static constexpr map_properties properties{.name = Exchanges ? "exchanging" : "plain",
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::strict,
                                             .scan = scan_guarantee::per_key,
                                             .region_protection = false,
                                             .paper = "",
                                             .exchanges = Exchanges};

  [[nodiscard]] no_guard pin() const noexcept { return {}; }
  /// Quiescent only, as is entries().
  [[nodiscard]] const calls_made& calls() const noexcept { return calls_; }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& entries() const noexcept { return entries_; }

 private:
  std::optional<std::uint64_t> do_find(no_guard&, std::uint64_t key) const {
    const std::lock_guard hold(lock_);
    ++calls_.finds;
    return value_at(key);
  }
  bool do_contains(no_guard&, std::uint64_t key) const {
    const std::lock_guard hold(lock_);
    return entries_.contains(key);
  }
  bool do_insert(no_guard&, std::uint64_t key, std::uint64_t value) {
    const std::lock_guard hold(lock_);
    return entries_.emplace(key, value).second;
  }
  bool do_assign(no_guard&, std::uint64_t key, std::uint64_t value) {
    const std::lock_guard hold(lock_);
    ++calls_.assigns;
    return entries_.insert_or_assign(key, value).second;
  }
  bool do_erase(no_guard&, std::uint64_t key) {
    const std::lock_guard hold(lock_);
    return entries_.erase(key) != 0;
  }
  template <class Function>
  std::optional<std::uint64_t> do_update(no_guard&, std::uint64_t key, Function&& f) {
    const std::lock_guard hold(lock_);
    ++calls_.updates;
    const std::optional<std::uint64_t> before = value_at(key);
    if (const std::optional<std::uint64_t> after = f(before))
      entries_.insert_or_assign(key, *after);
    else
      entries_.erase(key);
    return before;
  }
  template <class Visit>
  void do_scan(no_guard&, const scan_bound<std::uint64_t, std::less<>>& bound, Visit&& visit) const {
    const std::lock_guard hold(lock_);
    for (const auto& [key, value] : entries_) {
      if (bound.admits(key) && !visit(key, value)) return;
    }
  }
  [[nodiscard]] std::size_t do_size() const { return entries_.size(); }

  [[nodiscard]] std::optional<std::uint64_t> value_at(std::uint64_t key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }

  mutable std::mutex lock_;
  mutable calls_made calls_;
  std::map<std::uint64_t, std::uint64_t> entries_;
};

static_assert(exchanging_ordered_map<counted_map<true>>);
static_assert(concurrent_ordered_map<counted_map<false>> && !exchanging_ordered_map<counted_map<false>>);

}  // namespace espalier::workload::testing
