#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/elision.hpp"

// The example of CONTRIBUTING.md: a map with two types of nodes, arrays behind them, and a parameter that is no type.
// It is there to be read and tested, not to be used: a write copies a block.
//
// A leaf is a sorted array of entries. The directory is a sorted array of the leaves, each with its lowest key; the
// first leaf also takes smaller keys. A leaf never changes: a write replaces it by a changed copy. The directory changes
// only in its edges to the leaves: a split replaces it by one with an edge more, and an erase of a leaf's last key by one
// with an edge less, or by null.
//
// A write prepares its blocks, then puts them into the map in a section of the one lock, which is elided: a section
// allocates nothing, calls no function of the user, and retires nothing. If another write was there first, it starts
// again.
//
// Progress: find, contains and scan are lock-free and write nothing. Writes take one lock.
//
// Reclamation: a write retires the leaf and the directory that it replaced. Only a section replaces, so each is retired
// once; and no edge that a later reader follows leads to them.
//
// A directory that was replaced does not change any more. A reader that holds it sees the map as it was at the moment
// of the replacement, which lies within the reader's operation.
//
// Linearization points
//   find, contains, each visit of a scan   the read of the edge to the leaf; the replacement, if the directory has been
//                                          replaced by then
//   a write that changes something         replace_leaf, replace_directory; the commit of their transaction
//   any other write                        its read of the edge, as for find
//
// Orderings
//   (1) replace_directory (release) -> read_directory (acquire): a reader sees a directory constructed, and its leaves.
//   (2) replace_leaf (release) -> read_leaf (acquire): a reader sees a leaf with its entries.

namespace espalier::example {

using block_list_traits = basic_map_traits<segregated, unused_policy, epoch_domain, ttas_lock, hw::rtm>;

/// A block is freed as a whole, so its values are copied as bytes.
template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          std::size_t BlockBytes = 4096>
  requires std::is_trivially_copyable_v<Value>
class block_list : public stored_map<block_list<Key, Value, Traits, Compare, BlockBytes>, Key, Value, Compare,
                                     node_store<completed_traits<Traits, block_list_traits>>> {
  using base =
      stored_map<block_list, Key, Value, Compare, node_store<completed_traits<Traits, block_list_traits>>>;
  using base::equal;
  using base::less;
  using base::store_;
  using typename base::store;
  using entry = map_entry<Key, Value>;

  /// The beginning of a block, with an array of elements behind it.
  template <class Element>
  struct alignas(hw::cache_line_bytes) block_header {
    const std::size_t bytes;
    const std::size_t size;

    [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes; }
    [[nodiscard]] std::span<Element> elements() noexcept { return {first(), size}; }
    [[nodiscard]] std::span<const Element> elements() const noexcept {
      return {const_cast<block_header*>(this)->first(), size};
    }
    [[nodiscard]] Element* first() noexcept { return reinterpret_cast<Element*>(this + 1); }
  };

  struct leaf : block_header<entry> {
    explicit leaf(std::size_t entries) noexcept : block_header<entry>{BlockBytes, entries} {}
    static constexpr std::size_t most = (BlockBytes - sizeof(block_header<entry>)) / sizeof(entry);
  };
  using new_leaf = unpublished<store, leaf>;
  static_assert(leaf::most >= 2, "a block has room for two entries, so that it can be split");

  struct edge {
    Key lowest;
    std::atomic<leaf*> to;
  };
  struct directory : block_header<edge> {
    explicit directory(std::size_t edges) noexcept : block_header<edge>{bytes_for(edges), edges} {}
    /// Whole blocks.
    [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t edges) noexcept {
      const std::size_t bytes = sizeof(block_header<edge>) + edges * sizeof(edge);
      return (bytes + BlockBytes - 1) / BlockBytes * BlockBytes;
    }
  };
  using new_directory = unpublished<store, directory>;

 public:
  using traits_type = completed_traits<Traits, block_list_traits>;
  using typename base::guard_type;

  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = block_list<K, V, T, C, BlockBytes>;

  static constexpr map_properties properties{.name = "block_list",
                                             .find_progress = progress::lock_free,
                                             .update_progress = progress::blocking,
                                             .shape = balance::strict,
                                             .region_protection = true,
                                             .paper = "an example of this library's documentation",
                                             .exchanges = true};
  static constexpr std::size_t node_bytes = BlockBytes;

  using base::base;
  /// No other thread may use the map any more.
  ~block_list() {
    if constexpr (store::template must_visit<leaf>()) {
      directory* const all = read_directory();
      if (all == nullptr) return;
      for (edge& e : all->elements()) store_.destroy(memory_role::leaf, read_leaf(e));
      store_.destroy(memory_role::other, all);
    }
  }

  // Quiescent only, for tests and inspection.

  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    const directory* const all = read_directory();
    if (all == nullptr) return;
    visitor(static_cast<const void*>(all), all->bytes, memory_role::other);
    for (const edge& e : all->elements())
      visitor(static_cast<const void*>(read_leaf(e)), read_leaf(e)->bytes, memory_role::leaf);
  }

  [[nodiscard]] const char* check_invariants() const {
    const directory* const all = read_directory();
    if (all == nullptr) return nullptr;
    const Key* last = nullptr;
    for (const edge& e : all->elements()) {
      const bool first = &e == &all->elements().front();
      if (last != nullptr && !less(*last, e.lowest)) return "a leaf has a key of the leaf behind it";
      for (const entry& one : read_leaf(e)->elements()) {
        if (last != nullptr && !less(*last, one.key)) return "keys are not in order";
        if (!first && less(one.key, e.lowest)) return "a key is smaller than the lowest of its leaf";
        last = &one.key;
      }
    }
    return nullptr;
  }

 private:
  using typename base::contract;
  friend contract;

  // order (1): read_directory, acquire
  [[nodiscard]] directory* read_directory() const noexcept { return root_.load(std::memory_order_acquire); }
  // order (2): read_leaf, acquire
  [[nodiscard]] static leaf* read_leaf(const edge& e) noexcept {
    return e.to.load(std::memory_order_acquire);
  }

  /// The edge to the leaf to which the key belongs.
  [[nodiscard]] edge& seek_edge(directory& all, const Key& key) const {
    const std::span<edge> edges = all.elements();
    const auto behind = std::upper_bound(edges.begin() + 1, edges.end(), key,
                                         [this](const Key& k, const edge& e) { return less(k, e.lowest); });
    return *(behind - 1);
  }

  /// The first entry of a leaf whose key is not smaller.
  [[nodiscard]] const entry* seek_entry(const leaf& in, const Key& key) const {
    return std::lower_bound(in.elements().data(), in.elements().data() + in.size, key,
                            [this](const entry& e, const Key& k) { return less(e.key, k); });
  }
  [[nodiscard]] bool is_at(const leaf& in, const entry* place, const Key& key) const {
    return place != in.elements().data() + in.size && equal(place->key, key);
  }

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    directory* const all = read_directory();
    if (all == nullptr) return std::nullopt;
    const leaf& in = *read_leaf(seek_edge(*all, key));
    const entry* const place = seek_entry(in, key);
    return is_at(in, place, key) ? std::optional(place->value) : std::nullopt;
  }
  [[nodiscard]] bool do_contains(guard_type& guard, const Key& key) const {
    return do_find(guard, key).has_value();
  }

  template <class Visit>
  void do_scan(guard_type&, const scan_bound<Key, Compare>& bound, Visit&& visit) const {
    directory* const all = read_directory();
    if (all == nullptr) return;
    const edge* e = bound.key() == nullptr ? all->first() : &seek_edge(*all, *bound.key());
    for (; e != all->first() + all->size; ++e) {
      for (const entry& one : read_leaf(*e)->elements()) {
        if (bound.admits(one.key) && !visit(one.key, one.value)) return;
      }
    }
  }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    if (do_contains(guard, key)) return false;
    return !do_update(guard, key, [&](const std::optional<Value>& now) { return now ? now : value; });
  }
  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    return !do_update(guard, key, [&](const std::optional<Value>&) { return std::optional(value); });
  }
  bool do_erase(guard_type& guard, const Key& key) {
    return do_update(guard, key, [](const std::optional<Value>&) { return std::optional<Value>(); })
        .has_value();
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    guard.reserve(2);
    for (;;) {
      directory* const all = read_directory();
      if (all == nullptr) {
        const std::optional<Value> first = f(std::nullopt);
        if (!first || plant(key, *first)) return std::nullopt;
        continue;
      }
      edge& at = seek_edge(*all, key);
      leaf& old = *read_leaf(at);
      const entry* const place = seek_entry(old, key);
      const std::optional<Value> before = is_at(old, place, key) ? std::optional(place->value) : std::nullopt;
      const std::optional<Value> after = f(before);
      if (!before && !after) return std::nullopt;
      // The entries of the old leaf, with this one replaced, added or left out.
      const auto with_change = [&](new_leaf& changed, std::size_t from, std::size_t to) {
        entry* into = changed.emplace_sized(&old, BlockBytes, to - from).first();
        const auto at_place = static_cast<std::size_t>(place - old.elements().data());
        for (std::size_t i = from; i < to; ++i) {
          if (after && i == at_place)
            std::construct_at(into++, entry{key, *after});
          else
            std::construct_at(into++,
                              old.elements()[i < at_place ? i : i + (before ? 1 : 0) - (after ? 1 : 0)]);
        }
      };
      const std::size_t entries = old.size + (after ? 1 : 0) - (before ? 1 : 0);
      new_leaf low(store_, memory_role::leaf);
      new_leaf high(store_, memory_role::leaf);
      if (entries != 0 && entries <= leaf::most) {
        with_change(low, 0, entries);
        if (!replace_leaf(*all, at, old, *low.get())) continue;
      } else {
        if (entries != 0) {
          with_change(low, 0, entries / 2);
          with_change(high, entries / 2, entries);
        }
        if (!replace_directory(*all, at, old, low.get(), high.get())) continue;
        store_.template retire<directory, memory_role::other>(guard, all);
      }
      low.release();
      high.release();
      store_.template retire<leaf, memory_role::leaf>(guard, &old);
      return before;
    }
  }

  /// Runs `change` in a section, if the directory is still this one. Returns whether it did.
  template <class Change>
  bool change_if_current(const directory* all, Change change) {
    return elide<typename traits_type::htm_type>(lock_, site_, [&]() noexcept {
      // relaxed: written in sections only.
      return root_.load(std::memory_order_relaxed) == all && change();
    });
  }

  /// The first entry of the map.
  bool plant(const Key& key, const Value& value) {
    new_leaf only(store_, memory_role::leaf);
    new_directory first(store_, memory_role::other);
    std::construct_at(only.emplace_sized(nullptr, BlockBytes, std::size_t{1}).first(), entry{key, value});
    directory& all = emplace_directory(first, 1);
    std::construct_at(all.first(), key, only.get());
    const bool planted = change_if_current(nullptr, [&]() noexcept {
      // LP: a write that changes something. order (1): replace_directory, release
      root_.store(&all, std::memory_order_release);
      return true;
    });
    if (!planted) return false;
    only.release();
    first.release();
    return true;
  }

  bool replace_leaf(const directory& all, edge& at, const leaf& old, leaf& changed) {
    return change_if_current(&all, [&]() noexcept {
      // relaxed: written in sections only.
      if (at.to.load(std::memory_order_relaxed) != &old) return false;
      // LP: a write that changes something. order (2): replace_leaf, release
      at.to.store(&changed, std::memory_order_release);
      return true;
    });
  }

  /// Replaces the directory by one with these leaves at an edge: two, or none if `low` is null.
  bool replace_directory(directory& all, const edge& at, const leaf& old, leaf* low, leaf* high) {
    const std::size_t edges = low != nullptr ? all.size + 1 : all.size - 1;
    new_directory changed(store_, memory_role::other);
    if (edges != 0) emplace_directory(changed, edges);
    const bool replaced = change_if_current(&all, [&]() noexcept {
      // relaxed: written in sections only.
      if (at.to.load(std::memory_order_relaxed) != &old) return false;
      edge* into = edges != 0 ? changed.get()->first() : nullptr;
      for (const edge& e : all.elements()) {
        if (&e != &at) {
          std::construct_at(into++, e.lowest, read_leaf(e));
        } else if (low != nullptr) {
          std::construct_at(into++, e.lowest, low);
          std::construct_at(into++, high->elements().front().key, high);
        }
      }
      // LP: a write that changes something. order (1): replace_directory, release
      root_.store(changed.get(), std::memory_order_release);
      return true;
    });
    if (replaced) changed.release();
    return replaced;
  }

  static directory& emplace_directory(new_directory& in, std::size_t edges) {
    return in.emplace_sized(nullptr, directory::bytes_for(edges), edges);
  }

  alignas(hw::false_sharing_bytes) std::atomic<directory*> root_{nullptr};
  alignas(hw::false_sharing_bytes) typename traits_type::lock_type lock_;
  alignas(hw::false_sharing_bytes) elision_site site_;
};

}  // namespace espalier::example
