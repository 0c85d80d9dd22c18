#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/ordered_map.hpp"

namespace espalier {

/// The keys of an ordered_map, with what concerns keys of its interface: the same promises, the same kinds of keys. Of
/// numbers a node has seven in a cache line.
template <class Key, class Traits = map_traits, class Compare = default_order<Key>>
class ordered_set {
  /// What the map has as values.
  enum class present : unsigned char { yes };
  using map_type = ordered_map<Key, present, Traits, Compare>;

 public:
  using key_type = Key;
  using value_type = Key;
  using key_compare = Compare;
  using guard_type = typename map_type::guard_type;
  using key_view = typename map_type::key_view;
  /// Of a batch.
  using key_element = std::remove_cvref_t<key_view>;

  ordered_set() = default;
  explicit ordered_set(const Compare& less) : map_(less) {}
  /// As of ordered_map.
  void swap(ordered_set& other) noexcept { map_.swap(other.map_); }
  friend void swap(ordered_set& a, ordered_set& b) noexcept { a.swap(b); }

  [[nodiscard]] const Compare& key_comp() const noexcept { return map_.key_comp(); }
  [[nodiscard]] guard_type pin() const { return map_.pin(); }

  // Reading. Each operation also exists with a guard from pin() before its arguments.

  [[nodiscard]] bool contains(key_view key) const { return map_.contains(key); }
  [[nodiscard]] bool contains(guard_type& guard, key_view key) const { return map_.contains(guard, key); }
  /// 1 if the key is present, else 0.
  [[nodiscard]] std::size_t count(key_view key) const { return map_.count(key); }
  [[nodiscard]] std::size_t count(guard_type& guard, key_view key) const { return map_.count(guard, key); }

  /// The first key that is not smaller, that is larger, of all, and the last one of all.
  [[nodiscard]] std::optional<Key> lower_bound(key_view key) const { return key_of(map_.lower_bound(key)); }
  [[nodiscard]] std::optional<Key> lower_bound(guard_type& guard, key_view key) const {
    return key_of(map_.lower_bound(guard, key));
  }
  [[nodiscard]] std::optional<Key> upper_bound(key_view key) const { return key_of(map_.upper_bound(key)); }
  [[nodiscard]] std::optional<Key> upper_bound(guard_type& guard, key_view key) const {
    return key_of(map_.upper_bound(guard, key));
  }
  [[nodiscard]] std::optional<Key> first() const { return key_of(map_.first()); }
  [[nodiscard]] std::optional<Key> first(guard_type& guard) const { return key_of(map_.first(guard)); }
  [[nodiscard]] std::optional<Key> last() const { return key_of(map_.last()); }
  [[nodiscard]] std::optional<Key> last(guard_type& guard) const { return key_of(map_.last(guard)); }

  /// Calls visitor(key) for the keys that are not smaller than `from`, and smaller than `to`, in order, until it returns
  /// false, if it returns a bool. reverse_scan is the mirror image: the keys that are not larger than `from`, and larger
  /// than `to`. Returns the number of visits.
  template <class Visitor>
  std::size_t scan(key_view from, Visitor&& visitor) const {
    return map_.scan(from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(guard_type& guard, key_view from, Visitor&& visitor) const {
    return map_.scan(guard, from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(key_view from, key_view to, Visitor&& visitor) const {
    return map_.scan(from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(guard_type& guard, key_view from, key_view to, Visitor&& visitor) const {
    return map_.scan(guard, from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(key_view from, Visitor&& visitor) const {
    return map_.reverse_scan(from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(guard_type& guard, key_view from, Visitor&& visitor) const {
    return map_.reverse_scan(guard, from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(key_view from, key_view to, Visitor&& visitor) const {
    return map_.reverse_scan(from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(guard_type& guard, key_view from, key_view to, Visitor&& visitor) const {
    return map_.reverse_scan(guard, from, to, visiting(visitor));
  }

  /// As those of map_facade.hpp, without values.
  class cursor : map_type::cursor {
    using of_map = typename map_type::cursor;

   public:
    explicit cursor(const ordered_set& set) noexcept : of_map(set.map_) {}
    using of_map::key;
    using of_map::next;
    using of_map::previous;
    using of_map::seek;
    using of_map::seek_first;
    using of_map::seek_last;
    using of_map::valid;
    using of_map::operator bool;
  };
  class iterator {
   public:
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    [[nodiscard]] const Key& operator*() const noexcept { return at_->key; }
    [[nodiscard]] const Key* operator->() const noexcept { return &at_->key; }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    void operator++(int) { ++at_; }
    friend bool operator==(const iterator& i, std::default_sentinel_t end) noexcept { return i.at_ == end; }

   private:
    friend ordered_set;
    template <class Entries>
    explicit iterator(const Entries& entries) : at_(entries.begin()) {}
    typename map_type::iterator at_;
  };
  [[nodiscard]] iterator begin() const { return iterator(map_); }
  [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

  class range_type {
   public:
    [[nodiscard]] iterator begin() const { return iterator(entries_); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

   private:
    friend ordered_set;
    explicit range_type(typename map_type::range_type entries) : entries_(std::move(entries)) {}
    typename map_type::range_type entries_;
  };
  [[nodiscard]] range_type range(key_view from) const { return range_type(map_.range(from)); }
  [[nodiscard]] range_type range(key_view from, key_view to) const {
    return range_type(map_.range(from, to));
  }

  /// The number of keys: an estimate while other threads write, exact otherwise.
  [[nodiscard]] std::size_t size() const { return map_.size(); }
  [[nodiscard]] bool empty() const { return map_.empty(); }

  // Writing. True if the set has changed.

  /// As of map_facade.hpp, from a range of keys.
  template <std::ranges::forward_range Range>
  void bulk_load(Range&& keys, unsigned threads = 1) {
    const auto entry = [](const auto& key) { return typename map_type::value_type{Key(key), present::yes}; };
    map_.bulk_load(std::views::transform(keys, entry), threads);
  }
  bool insert(key_view key) { return map_.insert(key, present::yes); }
  bool insert(guard_type& guard, key_view key) { return map_.insert(guard, key, present::yes); }
  bool erase(key_view key) { return map_.erase(key); }
  bool erase(guard_type& guard, key_view key) { return map_.erase(guard, key); }
  /// Erases the keys that are not smaller than `from` and smaller than `to`. Returns how many.
  std::size_t erase(key_view from, key_view to) { return map_.erase(from, to); }
  /// Erases the keys for which predicate(key) is true. Returns how many.
  template <class Predicate>
  std::size_t erase_if(Predicate&& predicate) {
    std::size_t erased = 0;
    for (const Key& key : *this) {
      if (std::invoke(predicate, key) && erase(key)) ++erased;
    }
    return erased;
  }
  /// Erases each key that is present throughout.
  void clear() { map_.clear(); }

  /// An insert, or an erase, of each key by itself. Return how many have changed the set.
  std::size_t insert_batch(std::span<const Key> keys) {
    std::size_t inserted = 0;
    std::array<typename map_type::value_type, together_most> entries;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      for (std::size_t i = 0; i < n; ++i) entries[i] = {keys[from + i], present::yes};
      inserted += map_.insert_batch(std::span(entries).first(n));
    }
    return inserted;
  }
  std::size_t erase_batch(std::span<const key_element> keys) { return map_.erase_batch(keys); }
  /// results[i] is contains(keys[i]). Returns how many keys are present. Throws std::invalid_argument if there are fewer
  /// results than keys.
  std::size_t contains_batch(std::span<const key_element> keys, std::span<bool> results) const {
    if (results.size() < keys.size())
      throw std::invalid_argument("contains_batch: each key needs a place for its result");
    std::size_t all = 0;
    std::array<std::optional<present>, together_most> found;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      all += map_.find_batch(keys.subspan(from, n), found);
      for (std::size_t i = 0; i < n; ++i) results[from + i] = found[i].has_value();
    }
    return all;
  }

 private:
  [[nodiscard]] static std::optional<Key> key_of(const std::optional<typename map_type::value_type>& entry) {
    return entry ? std::optional<Key>(entry->key) : std::nullopt;
  }
  template <class Visitor>
  [[nodiscard]] static auto visiting(Visitor& visitor) {
    return [&visitor](const Key& key, present) { return std::invoke(visitor, key); };
  }

  map_type map_;
};

}  // namespace espalier
