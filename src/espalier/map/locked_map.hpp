#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/placement_allocator.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/std_mutex.hpp"

// locked_map: std::map under one lock. It is the control: in the tests every other map must agree with it, and in the
// benchmarks every other map must beat it.
//
// Of the traits it uses the placement and the lock (a mutex by default, since there are many waiters). Nodes are the
// standard library's, so the layout has no effect. No thread reads outside the lock, so the reclaimer has none either.
//
// Each operation takes effect while it holds the lock. An erased node is freed after the lock is released.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = default_order<Key>>
class locked_map : public map_facade<locked_map<Key, Value, Traits, Compare>, Key, Value, Compare, no_guard,
                                     uncounted_size> {
  using facade = map_facade<locked_map, Key, Value, Compare, no_guard, uncounted_size>;
  friend facade;
  using chosen =
      completed_traits<Traits,
                       basic_map_traits<segregated, unused_policy, unused_policy, std_mutex, unused_policy>>;
  using placement_type = typename chosen::placement_type;
  using entry = std::pair<const Key, Value>;
  using tree = std::map<Key, Value, Compare, placement_allocator<entry, placement_type>>;

  // A node of libstdc++'s tree, for reports only: the links, then the entry.
  struct node_links {
    int colour;
    void* links[3];
  };
  static constexpr std::size_t node_align = alignof(entry) > alignof(node_links) ? alignof(entry)
                                                                                 : alignof(node_links);
  static constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) noexcept {
    return (bytes + multiple - 1) / multiple * multiple;
  }
  static constexpr std::size_t entry_offset = round_up(sizeof(node_links), alignof(entry));

 public:
  using traits_type = chosen;
  using reclaimer_type = unprotected;
  using typename facade::guard_type;
  using typename facade::key_view;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = default_order<K>, class T = Traits>
  using rebind = locked_map<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "locked_map",
      .find_progress = progress::blocking,
      .update_progress = progress::blocking,
      .shape = balance::strict,
      .region_protection = false,
      .paper = "baseline: the standard library's std::map under one lock",
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = round_up(entry_offset + sizeof(entry), node_align);

  /// The domain is not used; with it every map is constructed in the same way. The further arguments construct the
  /// placement.
  template <class... PlacementArguments>
  explicit locked_map(reclaimer_type* /*domain*/ = nullptr, PlacementArguments&&... placement)
      : placement_(std::forward<PlacementArguments>(placement)...),
        map_(placement_allocator<entry, placement_type>(placement_)) {}
  /// With a comparator that has a state.
  template <class... PlacementArguments>
  explicit locked_map(const Compare& less, reclaimer_type* /*domain*/ = nullptr,
                      PlacementArguments&&... placement)
      : facade(less),
        placement_(std::forward<PlacementArguments>(placement)...),
        map_(less, placement_allocator<entry, placement_type>(placement_)) {}
  locked_map(const locked_map&) = delete;
  locked_map& operator=(const locked_map&) = delete;

  /// No other thread may use the map any more.
  ~locked_map() = default;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    for (const entry& e : map_) {
      const auto* const node = reinterpret_cast<const std::byte*>(&e) - entry_offset;
      visitor(static_cast<const void*>(node), node_bytes, memory_role::node);
    }
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    const Key* last = nullptr;
    for (const entry& e : map_) {
      if (last != nullptr && !facade::less(*last, e.first)) return "a key follows one not smaller";
      last = &e.first;
    }
    return nullptr;
  }

  [[nodiscard]] memory_usage usage() const noexcept { return placement_.usage(); }
  [[nodiscard]] const placement_type& placement() const noexcept { return placement_; }
  [[nodiscard]] reclaimer_type& domain() noexcept { return domain_; }

 private:
  [[nodiscard]] std::optional<Value> do_find(guard_type&, key_view key) const {
    const lock_guard hold(lock_);
    const auto at = map_.find(key);
    if (at == map_.end()) return std::nullopt;
    return at->second;
  }

  [[nodiscard]] bool do_contains(guard_type&, key_view key) const {
    const lock_guard hold(lock_);
    return map_.find(key) != map_.end();
  }

  template <class Source>
  bool do_insert(guard_type&, key_view key, Source&& value) {
    const lock_guard hold(lock_);
    const auto [at, present] = seek(key);
    if (!present) map_.emplace_hint(at, key, std::forward<Source>(value));
    return !present;
  }

  template <class Source>
  bool do_assign(guard_type&, key_view key, Source&& value) {
    const lock_guard hold(lock_);
    const auto [at, present] = seek(key);
    if (present)
      espalier::replace(at->second, std::forward<Source>(value));
    else
      map_.emplace_hint(at, key, std::forward<Source>(value));
    return !present;
  }

  bool do_erase(guard_type&, key_view key) {
    typename tree::node_type removed;
    const lock_guard hold(lock_);
    const auto [at, present] = seek(key);
    if (present) removed = map_.extract(at);
    return present;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type&, key_view key, Function&& f) {
    typename tree::node_type removed;
    const lock_guard hold(lock_);
    const auto [at, present] = seek(key);
    std::optional<Value> before;
    if (present) before.emplace(at->second);
    std::optional<Value> after = f(before);
    if (before && after)
      espalier::replace(at->second, std::move(*after));
    else if (after)
      map_.emplace_hint(at, key, std::move(*after));
    else if (before)
      removed = map_.extract(at);
    return before;
  }

  /// Where the key is or would be, and whether it is there. With the lock held.
  [[nodiscard]] auto seek(key_view key) {
    const auto at = map_.lower_bound(key);
    return std::pair(at, at != map_.end() && !facade::less(key, at->first));
  }

  /// Copies up to 64 entries at a time under the lock; the visitor may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    batched_scan<Key, Value>(
        bound,
        [this](auto& batch, const Bound& from) {
          const lock_guard hold(lock_);
          const auto fill = [&batch](auto at, auto end) {
            for (; at != end && !batch.full(); ++at) batch.add(at->first, at->second);
          };
          // A reverse iterator refers to the entry before.
          const auto start = !from.key() ? (Bound::reverse ? map_.end() : map_.begin())
                             : from.excludes_key() != Bound::reverse ? map_.upper_bound(*from.key())
                                                                     : map_.lower_bound(*from.key());
          if constexpr (Bound::reverse)
            fill(std::make_reverse_iterator(start), map_.rend());
          else
            fill(start, map_.end());
        },
        visit);
  }

  [[nodiscard]] std::size_t do_size() const {
    const lock_guard hold(lock_);
    return map_.size();
  }

  alignas(hw::false_sharing_bytes) mutable typename chosen::lock_type lock_;
  alignas(hw::false_sharing_bytes) placement_type placement_;
  tree map_;
  [[no_unique_address]] reclaimer_type domain_;
};

}  // namespace espalier
