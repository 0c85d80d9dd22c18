#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "espalier/map/locked_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::workload::testing {

/// Calls of a counted_map.
struct calls_made {
  int finds = 0;
  int assigns = 0;
  int updates = 0;
  friend bool operator==(const calls_made&, const calls_made&) = default;
};

/// A locked_map that counts the calls that a read-modify-write is made of. For one thread.
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
  [[nodiscard]] const calls_made& calls() const noexcept { return calls_; }

 private:
  std::optional<std::uint64_t> do_find(no_guard&, std::uint64_t key) const {
    ++calls_.finds;
    return map_.find(key);
  }
  bool do_contains(no_guard&, std::uint64_t key) const { return map_.contains(key); }
  bool do_insert(no_guard&, std::uint64_t key, std::uint64_t value) { return map_.insert(key, value); }
  bool do_assign(no_guard&, std::uint64_t key, std::uint64_t value) {
    ++calls_.assigns;
    return map_.insert_or_assign(key, value);
  }
  bool do_erase(no_guard&, std::uint64_t key) { return map_.erase(key); }
  template <class Function>
  std::optional<std::uint64_t> do_update(no_guard&, std::uint64_t key, Function&& f) {
    ++calls_.updates;
    return map_.update(key, f);
  }
  template <class Visit>
  void do_scan(no_guard&, const typename base::bound_type& bound, Visit&& visit) const {
    map_.scan(
        0, [&](std::uint64_t key, std::uint64_t value) { return !bound.admits(key) || visit(key, value); });
  }
  [[nodiscard]] std::size_t do_size() const { return map_.size(); }

  mutable calls_made calls_;
  locked_map<std::uint64_t, std::uint64_t> map_;
};

static_assert(exchanging_ordered_map<counted_map<true>>);
static_assert(concurrent_ordered_map<counted_map<false>> && !exchanging_ordered_map<counted_map<false>>);

}  // namespace espalier::workload::testing
