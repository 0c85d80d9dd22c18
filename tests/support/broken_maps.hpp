#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

// A map with one selected fault, which the suites must detect. Without a fault it must pass. All variants are free of
// data races and touch only their own memory, so that a check detects the fault and not a crash.

namespace espalier::test {

/// std::map under a lock, with its entries' cells in a node_store. Scans lock for each entry anew and continue by key.
template <class Key, class Value, class Traits = plain_traits, class Compare = std::less<Key>,
          catalog::text Defect = "none">
class broken_map : public map_facade<broken_map<Key, Value, Traits, Compare, Defect>, Key, Value, Compare,
                                     no_guard, uncounted_size> {
  using facade = map_facade<broken_map, Key, Value, Compare, no_guard, uncounted_size>;
  friend facade;
  using store = node_store<typename Traits::template with_reclaimer<unprotected>>;

  template <catalog::text Name>
  static constexpr bool has = Name.view() == Defect.view();

  struct alignas(has<"nodes_unaligned"> ? 8 : 32) cell {
    Value now;
    Value before;
    std::uint64_t unused[has<"erase_keeps_nodes"> ? 1022 : 2];
    explicit cell(const Value& v) noexcept : now(v), before(v), unused{} {}
  };

  struct order {
    bool operator()(const Key& a, const Key& b) const {
      if constexpr (has<"compares_31_bits">) return (a & 0x7fffffffU) < (b & 0x7fffffffU);
      if constexpr (has<"compares_by_difference">) return static_cast<std::int32_t>(a - b) < 0;
      return Compare{}(a, b);
    }
  };
  using tree = std::map<Key, cell*, order>;

 public:
  using traits_type = Traits;
  using reclaimer_type = unprotected;
  using typename facade::guard_type;

  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = broken_map<K, V, T, C, Defect>;

  static constexpr map_properties properties{.name = Defect.view(),
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::strict,
                                             .region_protection = true,  // the soak takes no others
                                             .paper = "a control of the tests",
                                             .reads_beside_writers = true,
                                             .updates_await_reads = false,
                                             .exchanges = true,
                                             .bidirectional = true};
  static constexpr std::size_t node_bytes = sizeof(cell);
  /// The soak moves no window through a map whose nodes go with their entries.
  static constexpr unsigned node_entries = has<"erase_keeps_nodes"> ? 4 : 1;

  explicit broken_map(reclaimer_type* domain = nullptr) : store_(domain) {}
  broken_map(const broken_map&) = delete;
  broken_map& operator=(const broken_map&) = delete;
  ~broken_map() {
    for (const auto& [k, c] : tree_) store_.destroy(memory_role::node, c);
    for (cell* const c : kept_) store_.destroy(memory_role::node, c);
  }

  [[nodiscard]] guard_type pin() const noexcept { return {}; }

  using facade::scan;
  template <class Visitor>
  std::size_t scan(const Key& from, const Key& to, Visitor&& visitor) const {
    if constexpr (has<"scan_includes_end">) {
      std::size_t visits = 0;
      scan(from, [&](const Key& key, const Value& value) {
        if (Compare{}(to, key)) return false;
        ++visits;
        return visit_entry(visitor, key, value);
      });
      return visits;
    }
    return facade::scan(from, to, visitor);
  }

  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    const auto visit = [&](const cell* c) {
      visitor(static_cast<const void*>(c), sizeof(cell), memory_role::node);
    };
    for (const auto& [k, c] : tree_) visit(c);
    for (const cell* const c : kept_) visit(c);
  }
  [[nodiscard]] const char* check_invariants() const noexcept { return nullptr; }
  [[nodiscard]] memory_usage usage() const noexcept { return store_.usage(); }
  [[nodiscard]] reclaimer_type& domain() noexcept { return store_.domain(); }

 private:
  using entry = map_entry<Key, Value>;

  std::optional<Value> do_find(guard_type&, const Key& key) const {
    const lock_guard hold(lock_);
    const auto at = tree_.find(key);
    if (at == tree_.end()) return std::nullopt;
    if constexpr (has<"find_returns_older">) {
      if (++finds_ % 50 == 0) return at->second->before;
    }
    return at->second->now;
  }

  bool do_contains(guard_type&, const Key& key) const {
    const lock_guard hold(lock_);
    return tree_.contains(key);
  }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    if constexpr (has<"reserves_zero">) {
      if (key == 0) return false;
    }
    if constexpr (has<"livelocks">) hang_in_the_thousandth();
    if constexpr (has<"insert_not_atomic">) {
      if (do_contains(guard, key)) return false;
      std::this_thread::yield();
      const lock_guard hold(lock_);
      set(key, value);
      return true;
    }
    const lock_guard hold(lock_);
    if (tree_.contains(key)) return false;
    set(key, value);
    return true;
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    if constexpr (has<"reserves_zero">) {
      if (key == 0) return false;
    }
    if constexpr (has<"assign_in_two_steps">) {
      const bool was_there = do_erase(guard, key);
      std::this_thread::yield();
      const lock_guard hold(lock_);
      set(key, value);
      return !was_there;
    }
    const lock_guard hold(lock_);
    if constexpr (has<"assign_keeps_old">) {
      if (tree_.contains(key)) return false;
    }
    return set(key, value) || has<"assign_reports_new">;
  }

  bool do_erase(guard_type&, const Key& key) {
    bool contended = false;
    if constexpr (has<"erase_takes_neighbour">) {
      erasing_.fetch_add(1);
      std::this_thread::yield();
      contended = erasing_.fetch_sub(1) > 1;  // another erase runs now
    }
    const lock_guard hold(lock_);
    const auto at = tree_.find(key);
    if (at == tree_.end()) return false;
    const auto next = remove(at);
    if (contended && next != tree_.end()) remove(next);
    return true;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type&, const Key& key, Function&& f) {
    if constexpr (has<"update_in_two_steps">) {
      std::optional<Value> read;
      {
        const lock_guard hold(lock_);
        read = value_of(key);
      }
      std::this_thread::yield();
      const std::optional<Value> after = f(std::as_const(read));
      const lock_guard hold(lock_);
      put(key, after);
      return read;
    }
    const lock_guard hold(lock_);
    std::optional<Value> before = value_of(key);
    if constexpr (has<"update_removes_first">) put(key, std::nullopt);
    const std::optional<Value> after = f(std::as_const(before));
    if constexpr (has<"extract_returns_older">) {
      if (before && !after && ++extracts_ % 50 == 0) before = tree_.find(key)->second->before;
    }
    put(key, after);
    return before;
  }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& from, Visit&& visit) const {
    if constexpr (has<"scan_holds_the_lock"> && !Bound::reverse) {
      const lock_guard hold(lock_);
      for (auto at = start(from); at != tree_.end(); ++at) {
        if (!visit(at->first, at->second->now)) break;
      }
      return;
    }
    // A range-for, which has room for what it asks for and no more, never begins at a key.
    constexpr bool ignores_the_end = has<"scan_never_stops">;
    constexpr bool repeats = Bound::reverse ? has<"reverse_scan_repeats"> : has<"scan_repeats">;
    const bool never_stops = ignores_the_end && from.key() != nullptr && !from.excludes_key();
    std::uint64_t visits = 0;
    std::optional<Key> last;
    std::optional<std::ptrdiff_t> position;
    while (const std::optional<entry> e = next_entry(from, last, position)) {
      last = e->key;
      ++visits;
      bool more = visit(e->key, e->value);
      if (repeats && more && visits % 64 == 0) more = visit(e->key, e->value);
      if (!more && !never_stops) break;
      if (has<"scan_by_position"> && visits % 16 == 0) std::this_thread::yield();
    }
  }

  [[nodiscard]] std::size_t do_size() const {
    const lock_guard hold(lock_);
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(std::ssize(tree_) - not_counted_, 0));
  }

  // From here to remove(): called with the lock held.

  [[nodiscard]] std::optional<Value> value_of(const Key& key) const {
    const auto at = tree_.find(key);
    return at == tree_.end() ? std::nullopt : std::optional(at->second->now);
  }

  void put(const Key& key, const std::optional<Value>& value) {
    const std::ptrdiff_t before = std::ssize(tree_);
    if (value) {
      set(key, *value);
    } else if (const auto at = tree_.find(key); at != tree_.end()) {
      remove(at);
    }
    if constexpr (has<"size_ignores_exchanges">) not_counted_ += std::ssize(tree_) - before;
  }

  /// Where a scan begins: at this entry, or in reverse at the one before it.
  template <class Bound>
  [[nodiscard]] typename tree::const_iterator start(const Bound& from) const {
    if constexpr (Bound::reverse) {
      if (from.key() == nullptr) return tree_.end();
      return from.excludes_key() || has<"reverse_scan_excludes_bound"> ? tree_.lower_bound(*from.key())
                                                                       : tree_.upper_bound(*from.key());
    }
    if (from.key() == nullptr) {
      const bool is_zero = !tree_.empty() && tree_.begin()->first == Key{};
      return has<"lowest_excludes_zero"> && is_zero ? std::next(tree_.begin()) : tree_.begin();
    }
    return from.excludes_key() || has<"scan_excludes_bound"> ? tree_.upper_bound(*from.key())
                                                             : tree_.lower_bound(*from.key());
  }

  /// True if the key was absent.
  bool set(const Key& key, const Value& value) {
    auto at = tree_.find(key);
    if (at != tree_.end()) {
      if constexpr (has<"failure_drops_key">) {
        remove(at);
        add(key, value);
        return false;
      }
      at->second->before = at->second->now;
      at->second->now = value;
      return false;
    }
    add(key, value);
    return true;
  }

  void add(const Key& key, const Value& value) {
    unpublished<store, cell> fresh(store_, memory_role::node);
    fresh.emplace(nullptr, value);
    cell* const c = fresh.get();
    if constexpr (has<"failure_leaks">) fresh.release();
    tree_.emplace(key, c);
    fresh.release();
  }

  typename tree::iterator remove(typename tree::iterator at) {
    if constexpr (has<"erase_keeps_nodes">)
      kept_.push_back(at->second);
    else if constexpr (!has<"erase_leaks">)
      store_.destroy(memory_role::node, at->second);
    return tree_.erase(at);
  }

  template <class Bound>
  std::optional<entry> next_entry(const Bound& from, const std::optional<Key>& last,
                                  std::optional<std::ptrdiff_t>& position) const {
    const lock_guard hold(lock_);
    if constexpr (Bound::reverse) {
      const auto behind = last ? tree_.lower_bound(*last) : start(from);
      if (behind == tree_.begin()) return std::nullopt;
      const auto at = std::prev(behind);
      return entry{at->first, at->second->now};
    }
    auto at = last ? tree_.upper_bound(*last) : start(from);
    if constexpr (has<"scan_by_position">) {
      if (!position) position = std::distance(tree_.begin(), at);
      if (*position >= std::ssize(tree_)) return std::nullopt;
      at = std::next(tree_.begin(), (*position)++);
    }
    if (at == tree_.end()) return std::nullopt;
    return entry{at->first, at->second->now};
  }

  void hang_in_the_thousandth() {
    if (calls_.fetch_add(1) < 1000) return;
    while (calls_.load() != 0) std::this_thread::yield();
  }

  mutable ttas_lock lock_;
  store store_;
  tree tree_;
  std::vector<cell*> kept_;  ///< what is reached, and not used again
  mutable std::uint64_t finds_ = 0;
  std::uint64_t extracts_ = 0;
  std::ptrdiff_t not_counted_ = 0;
  std::atomic<int> erasing_{0};
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace espalier::test
