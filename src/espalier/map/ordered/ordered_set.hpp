#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/ordered/ordered_map.hpp"

namespace espalier {

/// The keys of an ordered_map, with what concerns keys of its interface: the same promises, the same kinds of keys. Of
/// numbers a node has seven in a cache line. map_facade.hpp documents what is declared by `using`.
/// A comparator and policies may be given in either order.
template <class Key, class Traits = map_traits, class Compare = default_order<Key>>
class ordered_set : ordered_map<Key, std::byte, Traits, Compare> {
  using map_type = ordered_map<Key, std::byte, Traits, Compare>;
  static constexpr std::byte present{};

 public:
  using value_type = Key;
  using typename map_type::guard_type;
  using typename map_type::key_compare;
  using typename map_type::key_type;
  using typename map_type::key_view;
  /// Of a batch.
  using key_element = std::remove_cvref_t<key_view>;

  ordered_set() = default;
  explicit ordered_set(const key_compare& less) : map_type(less) {}
  /// With these keys.
  template <std::input_iterator Iterator, std::sentinel_for<Iterator> End>
  ordered_set(Iterator first, End last, const key_compare& less = key_compare()) : map_type(less) {
    for (; first != last; ++first) insert(*first);
  }
  ordered_set(std::initializer_list<Key> keys, const key_compare& less = key_compare())
      : ordered_set(keys.begin(), keys.end(), less) {}

  // As of ordered_map.

  ordered_set(const ordered_set&) = delete;             // take s.copy(), which is exact at rest
  ordered_set& operator=(const ordered_set&) = delete;  // take a = b.copy(), which is exact at rest
  [[nodiscard]] ordered_set copy() const { return ordered_set(map_type::copy()); }
  ordered_set(ordered_set&&) = default;
  ordered_set& operator=(ordered_set&&) = default;
  ~ordered_set() = default;
  void swap(ordered_set& other) noexcept { map_type::swap(other); }
  friend void swap(ordered_set& a, ordered_set& b) noexcept { a.swap(b); }

  using map_type::key_comp;
  using map_type::pin;

  // Reading. Each operation also exists with a guard from pin() before its arguments.

  using map_type::contains;
  using map_type::count;

  /// The first key that is not smaller, that is larger, of all, and the last one of all.
  [[nodiscard]] std::optional<Key> lower_bound(key_view key) const {
    return key_of(map_type::lower_bound(key));
  }
  [[nodiscard]] std::optional<Key> lower_bound(guard_type& guard, key_view key) const {
    return key_of(map_type::lower_bound(guard, key));
  }
  [[nodiscard]] std::optional<Key> upper_bound(key_view key) const {
    return key_of(map_type::upper_bound(key));
  }
  [[nodiscard]] std::optional<Key> upper_bound(guard_type& guard, key_view key) const {
    return key_of(map_type::upper_bound(guard, key));
  }
  [[nodiscard]] std::optional<Key> first() const { return key_of(map_type::first()); }
  [[nodiscard]] std::optional<Key> first(guard_type& guard) const { return key_of(map_type::first(guard)); }
  [[nodiscard]] std::optional<Key> last() const { return key_of(map_type::last()); }
  [[nodiscard]] std::optional<Key> last(guard_type& guard) const { return key_of(map_type::last(guard)); }

  /// Calls visitor(key) for the keys that are not smaller than `from`, and smaller than `to`, in order, until it returns
  /// false, if it returns a bool. reverse_scan is the mirror image: the keys that are not larger than `from`, and larger
  /// than `to`. Without bounds they visit all keys. Return the number of visits.
  template <class Visitor>
  std::size_t scan(Visitor&& visitor) const {
    return map_type::scan(visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(Visitor&& visitor) const {
    return map_type::reverse_scan(visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(key_view from, Visitor&& visitor) const {
    return map_type::scan(from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(guard_type& guard, key_view from, Visitor&& visitor) const {
    return map_type::scan(guard, from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(key_view from, key_view to, Visitor&& visitor) const {
    return map_type::scan(from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t scan(guard_type& guard, key_view from, key_view to, Visitor&& visitor) const {
    return map_type::scan(guard, from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(key_view from, Visitor&& visitor) const {
    return map_type::reverse_scan(from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(guard_type& guard, key_view from, Visitor&& visitor) const {
    return map_type::reverse_scan(guard, from, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(key_view from, key_view to, Visitor&& visitor) const {
    return map_type::reverse_scan(from, to, visiting(visitor));
  }
  template <class Visitor>
  std::size_t reverse_scan(guard_type& guard, key_view from, key_view to, Visitor&& visitor) const {
    return map_type::reverse_scan(guard, from, to, visiting(visitor));
  }

  /// Of strings, as of map_facade.hpp: the keys that begin with the prefix, and the longest key that the text begins with.
  template <class Visitor>
    requires ordered_by_bytes<Key, key_compare>
  std::size_t scan_prefix(std::string_view prefix, Visitor&& visitor) const {
    return map_type::scan_prefix(prefix, visiting(visitor));
  }
  template <class Visitor>
    requires ordered_by_bytes<Key, key_compare>
  std::size_t scan_prefix(guard_type& guard, std::string_view prefix, Visitor&& visitor) const {
    return map_type::scan_prefix(guard, prefix, visiting(visitor));
  }
  template <class Visitor>
    requires ordered_by_bytes<Key, key_compare>
  std::size_t reverse_scan_prefix(std::string_view prefix, Visitor&& visitor) const {
    return map_type::reverse_scan_prefix(prefix, visiting(visitor));
  }
  template <class Visitor>
    requires ordered_by_bytes<Key, key_compare>
  std::size_t reverse_scan_prefix(guard_type& guard, std::string_view prefix, Visitor&& visitor) const {
    return map_type::reverse_scan_prefix(guard, prefix, visiting(visitor));
  }
  [[nodiscard]] std::optional<Key> longest_match(std::string_view text) const
    requires ordered_by_bytes<Key, key_compare>
  {
    return key_of(map_type::longest_match(text));
  }
  [[nodiscard]] std::optional<Key> longest_match(guard_type& guard, std::string_view text) const
    requires ordered_by_bytes<Key, key_compare>
  {
    return key_of(map_type::longest_match(guard, text));
  }

  /// As those of map_facade.hpp, without values.
  class cursor : map_type::cursor {
    using of_map = typename map_type::cursor;

   public:
    explicit cursor(const ordered_set& set) noexcept : of_map(set) {}
    using of_map::key;
    using of_map::next;
    using of_map::previous;
    using of_map::seek;
    using of_map::seek_first;
    using of_map::seek_last;
    using of_map::valid;
    using of_map::operator bool;
  };
  /// Of the keys that a loop over these entries has.
  template <class Entries>
  class key_iterator {
   public:
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    [[nodiscard]] const Key& operator*() const noexcept { return at_->key; }
    [[nodiscard]] const Key* operator->() const noexcept { return &at_->key; }
    key_iterator& operator++() {
      ++at_;
      return *this;
    }
    void operator++(int) { ++at_; }
    friend bool operator==(const key_iterator& i, std::default_sentinel_t end) noexcept {
      return i.at_ == end;
    }

   private:
    friend ordered_set;
    explicit key_iterator(const Entries& at) : at_(at) {}
    Entries at_;
  };
  using iterator = key_iterator<typename map_type::iterator>;
  using reverse_iterator = key_iterator<typename map_type::reverse_iterator>;
  [[nodiscard]] iterator begin() const { return iterator(map_type::begin()); }
  [[nodiscard]] static end_of_entries end() noexcept { return {}; }
  [[nodiscard]] reverse_iterator rbegin() const { return reverse_iterator(map_type::rbegin()); }
  [[nodiscard]] static end_of_entries rend() noexcept { return {}; }

  class range_type {
   public:
    [[nodiscard]] iterator begin() const { return iterator(entries_.begin()); }
    [[nodiscard]] static end_of_entries end() noexcept { return {}; }

   private:
    friend ordered_set;
    explicit range_type(typename map_type::range_type entries) : entries_(std::move(entries)) {}
    typename map_type::range_type entries_;
  };
  [[nodiscard]] range_type range(key_view from) const { return range_type(map_type::range(from)); }
  [[nodiscard]] range_type range(key_view from, key_view to) const {
    return range_type(map_type::range(from, to));
  }
  [[nodiscard]] range_type range_of_prefix(std::string_view prefix) const
    requires ordered_by_bytes<Key, key_compare>
  {
    return range_type(map_type::range_of_prefix(prefix));
  }

  using map_type::empty;
  using map_type::size;
  /// Whether they have the same keys, as of map_facade.hpp.
  friend bool operator==(const ordered_set& a, const ordered_set& b) {
    return static_cast<const map_type&>(a) == static_cast<const map_type&>(b);
  }

  // Writing. True if the set has changed.

  /// As of map_facade.hpp, from a range of keys.
  template <forward_entries Range>
  void bulk_load(Range&& keys, unsigned threads = 1) {
    using iterator_type = decltype(std::ranges::begin(keys));
    if constexpr (std::random_access_iterator<iterator_type>) {
      map_type::load(
          entries_of_keys<iterator_type>{std::ranges::begin(keys)},
          static_cast<std::size_t>(std::distance(std::ranges::begin(keys), std::ranges::end(keys))), threads);
    } else {
      const std::vector<Key> all(std::ranges::begin(keys), std::ranges::end(keys));
      bulk_load(all, threads);
    }
  }
  bool insert(key_view key) { return map_type::insert(key, present); }
  bool insert(guard_type& guard, key_view key) { return map_type::insert(guard, key, present); }
  using map_type::erase;
  using map_type::erase_from;
  std::size_t erase_prefix(std::string_view prefix)
    requires ordered_by_bytes<Key, key_compare>
  {
    return map_type::erase_prefix(prefix);
  }
  /// Erase the smallest key, or the greatest one, and return it, as of map_facade.hpp.
  std::optional<Key> pop_first() { return key_of(map_type::pop_first()); }
  std::optional<Key> pop_last() { return key_of(map_type::pop_last()); }
  /// Erases the keys for which predicate(key) is true. Returns how many.
  template <class Predicate>
  std::size_t erase_if(Predicate&& predicate) {
    constexpr bool fits = std::predicate<Predicate&, const Key&>;
    static_assert(fits, "the predicate of erase_if takes a key, and returns a bool");
    std::size_t erased = 0;
    if constexpr (fits) {
      for (const Key& key : *this) {
        if (std::invoke(predicate, key) && erase(key)) ++erased;
      }
    }
    return erased;
  }
  using map_type::clear;

  /// An insert, or an erase, of each key by itself. Return how many have changed the set.
  std::size_t insert_batch(std::span<const Key> keys) {
    std::size_t inserted = 0;
    std::array<typename map_type::value_type, together_most> entries;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      for (std::size_t i = 0; i < n; ++i) entries[i] = {keys[from + i], present};
      inserted += map_type::insert_batch(std::span(entries).first(n));
    }
    return inserted;
  }
  using map_type::erase_batch;
  /// results[i] is contains(keys[i]). Returns how many keys are present. Throws std::invalid_argument if there are fewer
  /// results than keys.
  std::size_t contains_batch(std::span<const key_element> keys, std::span<bool> results) const {
    if (results.size() < keys.size())
      throw std::invalid_argument("contains_batch: each key needs a place for its result");
    std::size_t all = 0;
    std::array<std::optional<std::byte>, together_most> found;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      all += map_type::find_batch(keys.subspan(from, n), found);
      for (std::size_t i = 0; i < n; ++i) results[from + i] = found[i].has_value();
    }
    return all;
  }

 private:
  explicit ordered_set(map_type&& all) : map_type(std::move(all)) {}

  template <class Iterator>
  struct entries_of_keys {
    using difference_type = std::iter_difference_t<Iterator>;
    [[nodiscard]] typename map_type::value_type operator[](difference_type i) const {
      return {Key(first[i]), present};
    }
    Iterator first;
  };
  [[nodiscard]] static std::optional<Key> key_of(const std::optional<typename map_type::value_type>& entry) {
    return entry ? std::optional<Key>(entry->key) : std::nullopt;
  }
  template <class Visitor>
  [[nodiscard]] static auto visiting(Visitor& visitor) {
    constexpr bool fits = std::is_invocable_v<Visitor&, const Key&>;
    static_assert(fits, "the visitor of a scan of an ordered_set takes one argument, a key");
    return [&visitor](const Key& key, std::byte) {
      if constexpr (fits) return std::invoke(visitor, key);
    };
  }
};

}  // namespace espalier
