#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// Operations of a batch whose misses overlap, at most.
inline constexpr std::size_t together_most = 32;

/// As std::ranges::forward_range, whose header takes long to compile.
template <class Range>
concept forward_entries = requires(Range& all) {
  { std::ranges::begin(all) } -> std::forward_iterator;
  std::ranges::end(all);
};

/// The end of a loop over a map.
struct end_of_entries : std::default_sentinel_t {};
/// find() returns no iterator: a comparison of its result with end() does not compile.
template <class Value>
bool operator==(const std::optional<Value>&, end_of_entries) {
  static_assert(sizeof(Value) == 0,
                "find returns a std::optional with a copy of the value, and no iterator: test it as in "
                "`if (auto value = map.find(key))`, or call map.contains(key)");
  return false;
}

/// Counts the keys of a map, without a shared word.
class counted_size {
 public:
  void add(std::int64_t keys) noexcept { keys_.add(keys); }
  [[nodiscard]] std::size_t read() const noexcept {
    const std::int64_t sum = keys_.read();
    return sum < 0 ? 0 : static_cast<std::size_t>(sum);  // an erase may be counted before its insert
  }
  void swap(counted_size& other) noexcept { keys_.swap(other.keys_); }

 private:
  striped_counter keys_;
};

/// For a map that knows its size without a count, and provides do_size().
struct uncounted_size {
  void add(std::int64_t) const noexcept {}
};

/// The operations of the contract (map_concept.hpp), made from the few that an algorithm provides. A map derives from
/// it with its own type, says `friend contract;`, and provides, beside `properties` and pin():
///
///   do_find(guard, key)             a copy of the value, or nothing
///   do_visit(guard, key, visitor)   find(key, visitor), if the map can show a value without a copy
///   do_contains(guard, key)         presence
///   do_insert(guard, key, value)    true if the key was absent; the value may be one to move from, which is as it was if
///                                   the key was present
///   do_assign(guard, key, value)    insert_or_assign: true if the key was absent; value as for do_insert
///   do_erase(guard, key)            true if the key was present
///   do_scan(guard, bound, visit)    visits the entries that the scan_bound admits, in order, until visit(key, value)
///                                   returns false; where properties.bidirectional, also with a reverse_bound
///   do_find_batch(guard, keys, results)  find_batch(), if the map has a faster one than a find of each
///   do_insert_batch(guard, entries), do_erase_batch(guard, keys)  likewise insert_batch() and erase_batch()
///   do_request(guard, count, key_at)     requests what operations on key_at(0) and so on will read, of at most
///                                        together_most keys: for maps whose insert_batch and erase_batch gain by it
///   do_bulk_load(first, n, threads)      bulk_load() of n entries into an empty map, if it has a faster one than inserts; the
///                                        iterator has random access
///   do_update(guard, key, f)        where properties.exchanges: stores f(value), or erases the key if that is nothing,
///                                   at one moment at which the key has that value; returns the value. f may be called
///                                   several times, and the last call counts. If f throws, nothing has changed.
template <class Map, class Key, class Value, class Compare, class Guard, class Size = counted_size>
class map_facade {
 protected:
  using contract = map_facade;
  using bound_type = scan_bound<Key, Compare>;
  using reverse_bound_type = reverse_bound<Key, Compare>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = map_entry<Key, Value>;
  using key_compare = Compare;
  using guard_type = Guard;
  /// What an operation is given.
  using key_view = key_view_of<Key>;
  static_assert(sizeof(entry_requirements<Key, Value, Compare>) != 0);

  [[nodiscard]] const Compare& key_comp() const noexcept { return less_; }

  // Reading.

  [[nodiscard, gnu::always_inline]] std::optional<Value> find(key_view key) const {
    auto guard = self().pin();
    return self().do_find(guard, key);
  }
  [[nodiscard]] std::optional<Value> find(Guard& guard, key_view key) const {
    return self().do_find(own(guard), key);
  }
  /// A copy of the value, as find(). Throws std::out_of_range if the key is absent.
  [[nodiscard]] Value at(key_view key) const {
    auto guard = self().pin();
    return at(guard, key);
  }
  [[nodiscard]] Value at(Guard& guard, key_view key) const {
    std::optional<Value> found = self().do_find(own(guard), key);
    if (!found) throw std::out_of_range("at: the map does not have the key");
    return *std::move(found);
  }
  /// Calls visitor(value), with a const reference, if the key is present; returns whether it is. Copies no value that lies
  /// outside of the nodes: the visitor reads it where it is, under the guard. The visitor may use the map.
  template <class Visitor>
    requires(std::invocable<Visitor&, const Value&> || !std::convertible_to<Visitor, key_view>)
  bool find(key_view key, Visitor&& visitor) const {
    auto guard = self().pin();
    return find(guard, key, visitor);
  }
  template <class Visitor>
  bool find(Guard& guard, key_view key, Visitor&& visitor) const {
    constexpr bool fits = std::invocable<Visitor&, const Value&>;
    static_assert(fits, "the visitor of find takes one argument, the value, as (const auto& value) does");
    if constexpr (!fits) {
      return false;
    } else if constexpr (requires { self().do_visit(guard, key, visitor); }) {
      return self().do_visit(own(guard), key, visitor);
    } else {
      const std::optional<Value> found = self().do_find(own(guard), key);
      if (found) std::invoke(visitor, *found);
      return found.has_value();
    }
  }

  [[nodiscard]] bool contains(key_view key) const {
    auto guard = self().pin();
    return self().do_contains(guard, key);
  }
  [[nodiscard]] bool contains(Guard& guard, key_view key) const {
    return self().do_contains(own(guard), key);
  }

  /// 1 if the key is present, else 0.
  [[nodiscard]] std::size_t count(key_view key) const { return contains(key) ? 1 : 0; }
  [[nodiscard]] std::size_t count(Guard& guard, key_view key) const { return contains(guard, key) ? 1 : 0; }

  /// results[i] is that of find(keys[i]); each find takes effect by itself. Returns how many keys were present. Throws
  /// std::invalid_argument if there are fewer results than keys.
  std::size_t find_batch(std::span<const std::remove_cvref_t<key_view>> keys,
                         std::span<std::optional<Value>> results) const {
    auto guard = self().pin();
    return find_batch(guard, keys, results);
  }
  std::size_t find_batch(Guard& guard, std::span<const std::remove_cvref_t<key_view>> keys,
                         std::span<std::optional<Value>> results) const {
    if (results.size() < keys.size())
      throw std::invalid_argument("find_batch: each key needs a place for its result");
    if constexpr (requires { self().do_find_batch(guard, keys, results); }) {
      return self().do_find_batch(own(guard), keys, results);
    } else {
      std::size_t present = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        results[i].reset();
        if (std::optional<Value> found = self().do_find(own(guard), keys[i])) {
          results[i].emplace(std::move(*found));
          ++present;
        }
      }
      return present;
    }
  }

  /// The first entry whose key is not smaller.
  [[nodiscard]] std::optional<value_type> lower_bound(key_view key) const {
    auto guard = self().pin();
    return lower_bound(guard, key);
  }
  [[nodiscard]] std::optional<value_type> lower_bound(Guard& guard, key_view key) const {
    return first_from(own(guard), bound_type::at(less_, key));
  }

  /// The first entry whose key is larger.
  [[nodiscard]] std::optional<value_type> upper_bound(key_view key) const {
    auto guard = self().pin();
    return upper_bound(guard, key);
  }
  [[nodiscard]] std::optional<value_type> upper_bound(Guard& guard, key_view key) const {
    return first_from(own(guard), bound_type::behind(less_, key));
  }

  /// The entry with the smallest key.
  [[nodiscard]] std::optional<value_type> first() const {
    auto guard = self().pin();
    return first(guard);
  }
  [[nodiscard]] std::optional<value_type> first(Guard& guard) const {
    return first_from(own(guard), bound_type::whole(less_));
  }
  /// The entry with the greatest key.
  template <bidirectional M = Map>
  [[nodiscard]] std::optional<value_type> last() const {
    auto guard = self().pin();
    return last(guard);
  }
  template <bidirectional M = Map>
  [[nodiscard]] std::optional<value_type> last(Guard& guard) const {
    return first_from(own(guard), reverse_bound_type::whole(less_));
  }

  /// All entries. Without a guard a scan pins again every few hundred keys, so that a long one does not delay reclamation.
  template <class Visitor>
  std::size_t scan(Visitor&& visitor) const {
    return scan_by_parts(bound_type::whole(less_), {}, visitor);
  }
  template <class Visitor>
  std::size_t scan(Guard& guard, Visitor&& visitor) const {
    return scan_under(own(guard), bound_type::whole(less_), {}, visitor);
  }

  /// The keys that are not smaller than `from`.
  template <class Visitor>
  std::size_t scan(key_view from, Visitor&& visitor) const {
    return scan_by_parts(bound_type::at(less_, from), {}, visitor);
  }
  template <class Visitor>
  std::size_t scan(Guard& guard, key_view from, Visitor&& visitor) const {
    return scan_under(own(guard), bound_type::at(less_, from), {}, visitor);
  }

  /// The keys that are not smaller than `from` and smaller than `to`.
  template <class Visitor>
  std::size_t scan(key_view from, key_view to, Visitor&& visitor) const {
    return scan_by_parts(bound_type::at(less_, from), end_at(to), visitor);
  }
  template <class Visitor>
  std::size_t scan(Guard& guard, key_view from, key_view to, Visitor&& visitor) const {
    return scan_under(own(guard), bound_type::at(less_, from), end_at(to), visitor);
  }

  /// The mirror images of scan: all entries in decreasing order, and the keys that are not larger than `from`.
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(Visitor&& visitor) const {
    return scan_by_parts(reverse_bound_type::whole(less_), {}, visitor);
  }
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(Guard& guard, Visitor&& visitor) const {
    return scan_under(own(guard), reverse_bound_type::whole(less_), {}, visitor);
  }
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(key_view from, Visitor&& visitor) const {
    return scan_by_parts(reverse_bound_type::at(less_, from), {}, visitor);
  }
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(Guard& guard, key_view from, Visitor&& visitor) const {
    return scan_under(own(guard), reverse_bound_type::at(less_, from), {}, visitor);
  }
  /// Those of them that are larger than `to`.
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(key_view from, key_view to, Visitor&& visitor) const {
    return scan_by_parts(reverse_bound_type::at(less_, from), end_at(to), visitor);
  }
  template <class Visitor, bidirectional M = Map>
  std::size_t reverse_scan(Guard& guard, key_view from, key_view to, Visitor&& visitor) const {
    return scan_under(own(guard), reverse_bound_type::at(less_, from), end_at(to), visitor);
  }

  /// Of strings: the keys that begin with the prefix.
  template <class Visitor>
    requires ordered_by_bytes<Key, Compare>
  std::size_t scan_prefix(std::string_view prefix, Visitor&& visitor) const {
    return at_prefix<bound_type>(
        prefix, [&](const auto& from, const auto& to) { return scan_by_parts(from, to, visitor); });
  }
  template <class Visitor>
    requires ordered_by_bytes<Key, Compare>
  std::size_t scan_prefix(Guard& guard, std::string_view prefix, Visitor&& visitor) const {
    return at_prefix<bound_type>(
        prefix, [&](const auto& from, const auto& to) { return scan_under(own(guard), from, to, visitor); });
  }
  template <class Visitor, bidirectional M = Map>
    requires ordered_by_bytes<Key, Compare>
  std::size_t reverse_scan_prefix(std::string_view prefix, Visitor&& visitor) const {
    return at_prefix<reverse_bound_type>(
        prefix, [&](const auto& from, const auto& to) { return scan_by_parts(from, to, visitor); });
  }
  template <class Visitor, bidirectional M = Map>
    requires ordered_by_bytes<Key, Compare>
  std::size_t reverse_scan_prefix(Guard& guard, std::string_view prefix, Visitor&& visitor) const {
    return at_prefix<reverse_bound_type>(
        prefix, [&](const auto& from, const auto& to) { return scan_under(own(guard), from, to, visitor); });
  }

  /// Of strings: the entry with the longest key that the text begins with. A key that is present throughout is not passed
  /// over for a shorter one, and the entry was there at a moment of the call. Each search either finds it or tells how much
  /// of the text it can have at most: usually there are one or two, and not more than the text has bytes, and one.
  template <bidirectional M = Map>
    requires ordered_by_bytes<Key, Compare>
  [[nodiscard]] std::optional<value_type> longest_match(std::string_view text) const {
    auto guard = self().pin();
    return longest_match(guard, text);
  }
  template <bidirectional M = Map>
    requires ordered_by_bytes<Key, Compare>
  [[nodiscard]] std::optional<value_type> longest_match(Guard& guard, std::string_view text) const {
    using downwards =
        scan_bound<Key, Compare,
                   increases_by_bytes<bound_type> ? scan_direction::reverse : scan_direction::forward>;
    std::optional<value_type> found;
    std::optional<std::size_t> most = text.size();
    while (most) {
      // The greatest key that is not above what is left of the text: longer ones than it shares with that are absent.
      const downwards from = downwards::at(less_, text.substr(0, *std::exchange(most, std::nullopt)));
      self().do_scan(
          own(guard), from, first_only([&](const std::string_view key, const Value& value) {
            const auto shared = static_cast<std::size_t>(
                std::mismatch(key.begin(), key.end(), text.begin(), text.end()).first - key.begin());
            if (shared == key.size())
              found.emplace(value_type{Key(key), value});
            else
              most = shared;
          }));
    }
    return found;
  }

  /// A position among the entries, also while they change: `map_type::cursor at(map); for (at.seek(k); at; at.next())`.
  /// It has copies of a few dozen entries, and holds no guard. From its last seek or turn on it sees what a scan sees: a
  /// key that is present throughout is not left out, none comes twice, and each entry is as it was at some moment since. A
  /// turn is a next() behind a previous(), or the reverse, and reads anew. A cursor is of one thread. After an exception it
  /// must seek.
  class cursor {
   public:
    /// At no entry.
    explicit cursor(const Map& map) noexcept : map_(&map) {}

    /// Whether it is at an entry.
    [[nodiscard]] bool valid() const noexcept { return at_ != batch_.size(); }
    [[nodiscard]] explicit operator bool() const noexcept { return valid(); }
    /// Of the entry at which it is.
    [[nodiscard]] const Key& key() const noexcept { return entry().key; }
    [[nodiscard]] const Value& value() const noexcept { return entry().value; }

    /// To the first entry whose key is not smaller, to the first one of all, and to the last one of all.
    void seek(key_view key) {
      const Key from(key);  // perhaps the cursor's own
      read(bound_type::at(map_->less_, from));
    }
    void seek_first() { read(bound_type::whole(map_->less_)); }
    template <bidirectional M = Map>
    void seek_last() {
      read(reverse_bound_type::whole(map_->less_));
    }
    /// To the entry with the next larger key, or the next smaller one; at no entry if there is none. A cursor at no entry
    /// stays there.
    void next() { step<bound_type>(); }
    template <bidirectional M = Map>
    void previous() {
      step<reverse_bound_type>();
    }

   private:
    friend map_facade;
    template <class Bound, bool IncludesEnd>
    cursor(const Map& map, const Bound& from, const scan_end<Key, IncludesEnd>& to)
        : map_(&map), includes_end_(IncludesEnd) {
      if (to.key) to_.emplace(*to.key);
      read(from);
    }

    [[nodiscard]] const map_entry<Key, Value>& entry() const noexcept { return batch_.begin()[at_]; }

    template <class Bound>
    void step() {
      if (!valid()) return;
      if (Bound::reverse == reverse_ && (++at_ != batch_.size() || !batch_.full())) return;
      const Key last = Bound::reverse == reverse_ ? (batch_.end() - 1)->key : key();
      read(Bound::behind(map_->less_, last));
    }
    template <class Bound>
    [[nodiscard]] bool is_behind_end(const Bound& from, key_view key) const {
      return includes_end_ ? scan_end<Key, true>{refer_to<Key>(*to_)}.is_before(from, key)
                           : scan_end<Key>{refer_to<Key>(*to_)}.is_before(from, key);
    }
    template <class Bound>
    void read(const Bound& from) {
      at_ = 0;
      reverse_ = Bound::reverse;
      batch_.clear();
      auto guard = map_->pin();
      map_->do_scan(guard, from, [&](const auto& key, const Value& value) {
        if (to_ && is_behind_end(from, key)) return false;
        batch_.add(key, value);
        return !batch_.full();
      });
    }

    const Map* map_;
    std::size_t at_ = 0;
    bool reverse_ = false;
    bool includes_end_ = false;
    std::optional<Key> to_;
    entry_batch<Key, Value> batch_;  ///< in the direction of the last seek or turn
  };

  /// Goes through the entries in one direction, as a cursor does.
  template <scan_direction Direction>
  class entry_iterator {
    using bound = scan_bound<Key, Compare, Direction>;

   public:
    using value_type = map_entry<Key, Value>;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    [[nodiscard]] const value_type& operator*() const noexcept { return at_.entry(); }
    [[nodiscard]] const value_type* operator->() const noexcept { return &at_.entry(); }
    entry_iterator& operator++() {
      at_.template step<bound>();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const entry_iterator& i, std::default_sentinel_t) noexcept {
      return !i.at_.valid();
    }

   private:
    friend map_facade;
    template <class End = scan_end<Key>>
    entry_iterator(const Map& map, const bound& from, const End& to = {}) : at_(map, from, to) {}
    cursor at_;
  };
  using iterator = entry_iterator<scan_direction::forward>;
  using reverse_iterator = entry_iterator<scan_direction::reverse>;

  /// A loop over the map may change it.
  [[nodiscard]] iterator begin() const { return iterator(self(), bound_type::whole(less_)); }
  [[nodiscard]] static end_of_entries end() noexcept { return {}; }
  /// The same in decreasing order.
  template <bidirectional M = Map>
  [[nodiscard]] reverse_iterator rbegin() const {
    return reverse_iterator(self(), reverse_bound_type::whole(less_));
  }
  template <bidirectional M = Map>
  [[nodiscard]] static end_of_entries rend() noexcept {
    return {};
  }

  /// A part of the map, for loops. begin() reads it.
  class range_type {
   public:
    [[nodiscard]] iterator begin() const {
      const Compare& less = map_->less_;
      const bound_type from = !from_           ? bound_type::whole(less)
                              : excludes_from_ ? bound_type::behind(less, *from_)
                                               : bound_type::at(less, *from_);
      const auto to = to_ ? refer_to<Key>(*to_) : key_reference<Key>();
      return includes_end_ ? iterator(*map_, from, scan_end<Key, true>{to})
                           : iterator(*map_, from, scan_end<Key>{to});
    }
    [[nodiscard]] static end_of_entries end() noexcept { return {}; }

   private:
    friend map_facade;
    template <bool IncludesEnd>
    range_type(const Map& map, const bound_type& from, const scan_end<Key, IncludesEnd>& to)
        : map_(&map), excludes_from_(from.excludes_key()), includes_end_(IncludesEnd) {
      if (from.key()) from_.emplace(*from.key());
      if (to.key) to_.emplace(*to.key);
    }

    const Map* map_;
    bool excludes_from_;
    bool includes_end_;
    std::optional<Key> from_;
    std::optional<Key> to_;
  };
  /// The keys that are not smaller than `from`, and smaller than `to`.
  [[nodiscard]] range_type range(key_view from) const {
    return range_type(self(), bound_type::at(less_, from), scan_end<Key>());
  }
  [[nodiscard]] range_type range(key_view from, key_view to) const {
    return range_type(self(), bound_type::at(less_, from), end_at(to));
  }
  /// Of strings: the keys that begin with the prefix.
  [[nodiscard]] range_type range_of_prefix(std::string_view prefix) const
    requires ordered_by_bytes<Key, Compare>
  {
    return at_prefix<bound_type>(
        prefix, [&](const auto& from, const auto& to) { return range_type(self(), from, to); });
  }

  /// The number of keys: an estimate while other threads write, exact otherwise. Linear in the number of threads.
  [[nodiscard]] std::size_t size() const {
    if constexpr (std::is_same_v<Size, uncounted_size>)
      return self().do_size();
    else
      return size_.read();
  }
  /// Whether there was a moment of the call without a key, as far as a search for the smallest one can tell.
  [[nodiscard]] bool empty() const {
    auto guard = self().pin();
    bool none = true;
    self().do_scan(guard, bound_type::whole(less_),
                   first_only([&](const auto&, const Value&) { none = false; }));
    return none;
  }

  /// Whether two maps have the same values under the same keys: values compare equal, and of two keys neither is smaller in
  /// the order of the first map. Exact while no other thread writes to them. Linear.
  friend bool operator==(const Map& a, const Map& b)
    requires std::equality_comparable<Value>
  {
    const map_facade& order = a;
    if (a.size() != b.size()) return false;
    auto at = b.begin();
    for (const value_type& e : a) {
      if (at == b.end() || !order.equal(e.key, at->key) || !(e.value == at->value)) return false;
      ++at;
    }
    return at == b.end();
  }

  // Writing.

  /// Moves the value, or copies it: the binary trees copy. Where the key is present the value is as it was.
  bool insert(key_view key, const Value& value) {
    auto guard = self().pin();
    return insert(guard, key, value);
  }
  bool insert(Guard& guard, key_view key, const Value& value) { return insert_from(guard, key, value); }
  bool insert(key_view key, Value&& value) {
    auto guard = self().pin();
    return insert(guard, key, std::move(value));
  }
  bool insert(Guard& guard, key_view key, Value&& value) { return insert_from(guard, key, std::move(value)); }

  /// An insert of a value made from the arguments. Where the key is present the arguments are as they were; but if it comes
  /// from another thread during the call, and they are not a Value, they may be moved from.
  template <class... Arguments>
  bool try_emplace(key_view key, Arguments&&... arguments) {
    auto guard = self().pin();
    return try_emplace(guard, key, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  bool try_emplace(Guard& guard, key_view key, Arguments&&... arguments) {
    if constexpr (sizeof...(Arguments) == 1 &&
                  (std::is_same_v<std::remove_cvref_t<Arguments>, Value> && ...)) {
      return insert_from(guard, key, std::forward<Arguments>(arguments)...);
    } else {
      return !self().do_contains(own(guard), key) &&
             insert_from(guard, key, Value(std::forward<Arguments>(arguments)...));
    }
  }

  /// The same as try_emplace.
  template <class... Arguments>
  bool emplace(key_view key, Arguments&&... arguments) {
    return try_emplace(key, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  bool emplace(Guard& guard, key_view key, Arguments&&... arguments) {
    return try_emplace(guard, key, std::forward<Arguments>(arguments)...);
  }

  /// What find_or_insert() has found or inserted.
  struct found_or_inserted {
    Value value;
    bool inserted;
  };
  /// Inserts the value where the key is absent. Returns the value that the key has, in one atomic step.
  found_or_inserted find_or_insert(key_view key, const Value& value) {
    auto guard = self().pin();
    return find_or_insert(guard, key, value);
  }
  found_or_inserted find_or_insert(Guard& guard, key_view key, const Value& value) {
    return find_or_compute(guard, key, [&]() -> const Value& { return value; });
  }
  /// The same with the value f(), which is computed where the key is absent, and at most once. f may use the map, and is
  /// called with no lock held: threads that meet may each compute a value, of which one is inserted.
  template <class Function>
  found_or_inserted find_or_compute(key_view key, Function&& f) {
    auto guard = self().pin();
    return find_or_compute(guard, key, f);
  }
  template <class Function>
  found_or_inserted find_or_compute(Guard& guard, key_view key, Function&& f) {
    constexpr bool fits = requires(std::optional<Value> computed) { computed.emplace(std::invoke(f)); };
    static_assert(fits, "the function of find_or_compute takes no argument, and returns the value to insert");
    if constexpr (fits) {
      std::optional<Value> computed;
      while (true) {
        if (std::optional<Value> found = find(guard, key)) return {std::move(*found), false};
        if (!computed) computed.emplace(std::invoke(f));
        if (insert_from(guard, key, std::as_const(*computed))) return {std::move(*computed), true};
      }
    }
  }

  /// Inserts the entries in their order; each insert takes effect by itself. Returns how many keys were absent. If it
  /// throws, those before are inserted.
  std::size_t insert_batch(std::span<const value_type> entries) {
    auto guard = self().pin();
    return insert_batch(guard, entries);
  }
  std::size_t insert_batch(Guard& guard, std::span<const value_type> entries) {
    if constexpr (requires { self().do_insert_batch(guard, entries); }) {
      const std::size_t inserted = self().do_insert_batch(own(guard), entries);
      size_.add(static_cast<std::int64_t>(inserted));
      return inserted;
    } else {
      return count_each(
          guard, entries, [](const value_type& e) -> const Key& { return e.key; },
          [&](const value_type& e) { return insert(guard, e.key, e.value); });
    }
  }

  /// Fills an empty map that no other thread uses yet. The entries are pairs of a key and a value, or value_type, and each
  /// key is larger than the one before. Maps that can build their nodes from such entries do, with so many threads; there
  /// the range has random access, and all threads read it. Throws std::invalid_argument if the map is not empty or the
  /// keys are not in order, std::bad_alloc, and std::system_error if there are no more threads. The map is then as it was;
  /// but a map that inserts one by one may have kept some entries if there is no memory for their erases either.
  template <forward_entries Range>
  void bulk_load(Range&& entries, unsigned threads = 1) {
    if constexpr (requires { self().do_bulk_load(std::ranges::begin(entries), std::size_t{}, threads); }) {
      load(std::ranges::begin(entries),
           static_cast<std::size_t>(std::distance(std::ranges::begin(entries), std::ranges::end(entries))),
           threads);
    } else {
      expect_empty();
      load_one_by_one(entries);
    }
  }

  bool insert_or_assign(key_view key, const Value& value) {
    auto guard = self().pin();
    return insert_or_assign(guard, key, value);
  }
  bool insert_or_assign(Guard& guard, key_view key, const Value& value) {
    return assign_from(guard, key, value);
  }
  /// Moves the value, or copies it: the binary trees copy. If it throws, the value may be moved from.
  bool insert_or_assign(key_view key, Value&& value) {
    auto guard = self().pin();
    return insert_or_assign(guard, key, std::move(value));
  }
  bool insert_or_assign(Guard& guard, key_view key, Value&& value) {
    return assign_from(guard, key, std::move(value));
  }

  bool erase(key_view key) {
    auto guard = self().pin();
    return erase(guard, key);
  }
  bool erase(Guard& guard, key_view key) {
    if (!self().do_erase(own(guard), key)) return false;
    size_.add(-1);
    return true;
  }

  /// Erases each of the keys by itself. Returns how many were present. If it throws, those before are erased.
  std::size_t erase_batch(std::span<const std::remove_cvref_t<key_view>> keys) {
    auto guard = self().pin();
    return erase_batch(guard, keys);
  }
  std::size_t erase_batch(Guard& guard, std::span<const std::remove_cvref_t<key_view>> keys) {
    if constexpr (requires { self().do_erase_batch(guard, keys); }) {
      const std::size_t erased = self().do_erase_batch(own(guard), keys);
      size_.add(-static_cast<std::int64_t>(erased));
      return erased;
    } else {
      return count_each(
          guard, keys, [](const auto& key) -> const auto& { return key; },
          [&](key_view key) { return erase(guard, key); });
    }
  }

  /// Erases the keys that are not smaller than `from` and smaller than `to`, each by itself: those that are present
  /// throughout. Returns how many it has erased.
  std::size_t erase(key_view from, key_view to) {
    return erase_keys(bound_type::at(less_, from), end_at(to));
  }
  /// Likewise all keys that are not smaller than `from`.
  std::size_t erase_from(key_view from) { return erase_keys(bound_type::at(less_, from)); }

  /// Of strings: likewise the keys that begin with the prefix.
  std::size_t erase_prefix(std::string_view prefix)
    requires ordered_by_bytes<Key, Compare>
  {
    return at_prefix<bound_type>(prefix,
                                 [&](const auto& from, const auto& to) { return erase_keys(from, to); });
  }

  /// Erases the entries for which predicate(key, value) is true: each of those that are there throughout, at a moment at
  /// which it is true. The predicate may be called several times for an entry. Returns how many entries it has erased.
  template <class Predicate, exchanging M = Map>
  std::size_t erase_if(Predicate&& predicate) {
    constexpr bool fits = std::predicate<Predicate&, const Key&, const Value&>;
    static_assert(fits,
                  "the predicate of erase_if takes two arguments, a key and a value, and returns a bool");
    if constexpr (fits) {
      std::size_t erased = 0;
      for (const value_type& e : *this) {
        if (!std::invoke(predicate, e.key, e.value)) continue;
        bool goes = false;
        auto guard = self().pin();
        static_cast<void>(change(guard, e.key, [&](const std::optional<Value>& now) -> std::optional<Value> {
          goes = now && std::invoke(predicate, e.key, *now);
          return goes ? std::nullopt : now;
        }));
        if (goes) ++erased;
      }
      return erased;
    }
  }

  /// Erases each key that is present throughout; while no other thread writes, all keys. As long as that many erases.
  void clear() { static_cast<void>(erase_keys(bound_type::whole(less_))); }

  /// Stores the value, and returns the one that it replaces, or nothing if the key was absent.
  template <exchanging M = Map>
  std::optional<Value> exchange(key_view key, const Value& value) {
    auto guard = self().pin();
    return exchange(guard, key, value);
  }
  template <exchanging M = Map>
  std::optional<Value> exchange(Guard& guard, key_view key, const Value& value) {
    return change(guard, key, [&](const std::optional<Value>&) { return std::optional<Value>(value); });
  }

  /// Erases the key, and returns its last value, or nothing if it was absent.
  template <exchanging M = Map>
  std::optional<Value> extract(key_view key) {
    auto guard = self().pin();
    return extract(guard, key);
  }
  template <exchanging M = Map>
  std::optional<Value> extract(Guard& guard, key_view key) {
    return change(guard, key, [](const std::optional<Value>&) { return std::optional<Value>(); });
  }

  /// Erases the first entry that a scan finds, and returns it; nothing if it finds none. No key that is present throughout is
  /// smaller: a smaller key that another thread inserts meanwhile may stay. Beside such inserts a map may seem empty that is not.
  template <exchanging M = Map>
  std::optional<value_type> pop_first() {
    return pop<bound_type>();
  }
  /// The same of the greatest key.
  template <exchanging M = Map>
    requires bidirectional<M>
  std::optional<value_type> pop_last() {
    return pop<reverse_bound_type>();
  }

  /// What an update has found, and what it has stored; nothing where the key is absent.
  struct update_result {
    std::optional<Value> before;
    std::optional<Value> after;
  };
  /// Reads, computes and writes in one atomic step: replaces the value v by f(v). Where the key is absent, v is nothing;
  /// where f returns nothing, the key is erased or stays absent. f takes a const std::optional<Value>&, of which it may not
  /// take the value where there is none. It must not use the map, nor another map of its domain, nor one whose updates
  /// await reads (map_properties). It may be called several times, of which the last counts, and under a lock. What f throws
  /// leaves the map unchanged.
  template <class Function, exchanging M = Map>
  update_result update(key_view key, Function&& f) {
    auto guard = self().pin();
    return update(guard, key, f);
  }
  template <class Function, exchanging M = Map>
  update_result update(Guard& guard, key_view key, Function&& f) {
    constexpr bool fits = std::is_invocable_r_v<std::optional<Value>, Function&, const std::optional<Value>&>;
    static_assert(
        fits,
        "the function of update takes a const std::optional<Value>&, which has no value where the "
        "key is absent, and returns the value to store, or a std::optional that is empty to erase the "
        "key; a function of the value itself is for update_present");
    if constexpr (fits) {
      std::optional<Value> after;
      std::optional<Value> before =
          change(guard, key, [&](const std::optional<Value>& now) -> std::optional<Value> {
            std::optional<Value> next = std::invoke(f, now);
            after.reset();  // values need no assignment
            if (next) after.emplace(*next);
            return next;
          });
      return {std::move(before), std::move(after)};
    }
  }
  /// The same where the key is present; an absent key stays absent. f takes the value itself.
  template <class Function, exchanging M = Map>
  update_result update_present(key_view key, Function&& f) {
    auto guard = self().pin();
    return update_present(guard, key, f);
  }
  template <class Function, exchanging M = Map>
  update_result update_present(Guard& guard, key_view key, Function&& f) {
    constexpr bool fits = std::is_invocable_r_v<std::optional<Value>, Function&, const Value&>;
    static_assert(fits,
                  "the function of update_present takes a const Value&, and returns the value to store, or a "
                  "std::optional that is empty to erase the key");
    return update(guard, key, [&](const std::optional<Value>& now) -> std::optional<Value> {
      if constexpr (fits) {
        if (now) return std::invoke(f, *now);
      }
      return std::nullopt;
    });
  }

 protected:
  map_facade() = default;
  explicit map_facade(const Compare& less) : less_(less) {}

  /// Both maps are at rest.
  void swap_with(map_facade& other) noexcept {
    // As a lambda, it may have no assignment.
    if constexpr (!std::is_empty_v<Compare>) {
      Compare taken(std::move(less_));
      replace(less_, std::move(other.less_));
      replace(other.less_, std::move(taken));
    }
    size_.swap(other.size_);
  }
  /// bulk_load() of n entries, first[0] and so on.
  template <class Entries>
  void load(const Entries& first, std::size_t n, unsigned threads) {
    expect_empty();
    self().do_bulk_load(first, n, threads);
    size_.add(static_cast<std::int64_t>(n));
  }
  [[noreturn]] static void throw_unsorted() {
    throw std::invalid_argument("bulk_load: a key is not larger than the one before");
  }

  [[nodiscard]] bool less(key_view a, key_view b) const { return less_(a, b); }
  [[nodiscard]] bool equal(key_view a, key_view b) const { return !less_(a, b) && !less_(b, a); }

 private:
  static constexpr std::size_t keys_per_pin = 512;
  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }

  /// In builds with assertions: a guard protects only in its own domain, and on its own thread.
  [[gnu::always_inline]] Guard& own(Guard& guard) const noexcept {
    if constexpr (requires { self().is_protected_by(guard); })
      assert(self().is_protected_by(guard) &&
             "the guard is of another map's domain, of another thread, or moved from");
    return guard;
  }

  /// As update(), with f called as it is. Returns what was before.
  template <class Function>
  std::optional<Value> change(Guard& guard, key_view key, const Function& f) {
    bool present = false;
    std::optional<Value> before =
        self().do_update(own(guard), key, [&](const std::optional<Value>& now) -> std::optional<Value> {
          std::optional<Value> after = f(now);
          present = after.has_value();
          return after;
        });
    if (present != before.has_value()) size_.add(present ? 1 : -1);
    return before;
  }

  template <class Source>
  bool insert_from(Guard& guard, key_view key, Source&& value) {
    if (!self().do_insert(own(guard), key, std::forward<Source>(value))) return false;
    size_.add(1);
    return true;
  }
  template <class Source>
  bool assign_from(Guard& guard, key_view key, Source&& value) {
    if (!self().do_assign(own(guard), key, std::forward<Source>(value))) return false;
    size_.add(1);
    return true;
  }

  /// Calls operation(element) for each, and returns how often it was true.
  template <class Element, class KeyOf, class Operation>
  std::size_t count_each(Guard& guard, std::span<const Element> all, const KeyOf& key_of,
                         const Operation& operation) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto key_at = [&](std::size_t n) -> decltype(auto) { return key_of(all[i + n]); };
      if constexpr (requires { self().do_request(guard, std::size_t{}, key_at); }) {
        if (i % together_most == 0) self().do_request(guard, std::min(together_most, all.size() - i), key_at);
      }
      if (operation(all[i])) ++count;
    }
    return count;
  }

  void expect_empty() const {
    if (!empty()) throw std::invalid_argument("bulk_load: the map is not empty");
  }
  template <class Range>
  void load_one_by_one(Range& entries) {
    const auto not_in_order = [this](const auto& a, const auto& b) {
      const auto& [before, value_before] = a;
      const auto& [behind, value_behind] = b;
      return !less(before, behind);  // of keys: what the range has in their place is converted first
    };
    if (std::adjacent_find(std::ranges::begin(entries), std::ranges::end(entries), not_in_order) !=
        std::ranges::end(entries))
      throw_unsorted();
    try {
      auto guard = self().pin();
      for (const auto& [key, value] : entries) insert(guard, key, value);
    } catch (...) {
      clear();
      throw;
    }
  }

  /// Erases the keys from the bound on, up to the end. Returns how many. Copies no values.
  template <class End = scan_end<Key>>
  std::size_t erase_keys(const bound_type& from, const End& to = {}) {
    struct no_value {};
    const auto fill = [&](auto& batch, const bound_type& bound) {
      auto guard = self().pin();
      self().do_scan(guard, bound, [&](const auto& key, const Value&) {
        if (to.is_before(bound, key)) return false;
        batch.add(key, no_value{});
        return !batch.full();
      });
    };
    std::size_t erased = 0;
    batched_scan<Key, no_value>(from, fill, [&](const Key& key, no_value) {
      if (erase(key)) ++erased;
      return true;
    });
    return erased;
  }

  template <class Bound>
  [[nodiscard]] std::optional<value_type> first_from(Guard& guard, const Bound& from) const {
    std::optional<value_type> found;
    self().do_scan(guard, from, first_only([&](const auto& key, const Value& value) {
                     found.emplace(value_type{Key(key), value});
                   }));
    return found;
  }

  /// Erases the first entry in the direction of the bound, and returns it.
  template <class Bound>
  std::optional<value_type> pop() {
    auto guard = self().pin();
    while (std::optional<value_type> at = first_from(guard, Bound::whole(less_))) {
      if (std::optional<Value> value = extract(guard, at->key))
        return value_type{std::move(at->key), std::move(*value)};
    }
    return std::nullopt;
  }

  [[nodiscard]] static scan_end<Key> end_at(key_view key) noexcept { return {refer_to<Key>(key)}; }

  template <class Bound>
  static constexpr bool increases_by_bytes = std::is_same_v<Compare, std::less<>> != Bound::reverse;
  /// Returns f(bound, end) of the strings that begin with the prefix, in the direction of Bound.
  template <class Bound, class F>
  static auto at_prefix(std::string_view prefix, const F& f) {
    const Compare less{};
    // The smallest string above all of them, if there is one.
    std::string above(prefix.substr(0, prefix.find_last_not_of('\xff') + 1));
    if (!above.empty()) above.back() = static_cast<char>(static_cast<unsigned char>(above.back()) + 1);
    if constexpr (increases_by_bytes<Bound>) {
      const auto to = above.empty() ? key_reference<Key>() : refer_to<Key>(above);
      return f(Bound::at(less, prefix), scan_end<Key>{to});
    } else {
      return f(above.empty() ? Bound::whole(less) : Bound::behind(less, above),
               scan_end<Key, true>{refer_to<Key>(prefix)});
    }
  }

  /// What a scan calls for each entry: it counts the visits, and ends the scan after some. One object with all that it
  /// needs: where closures refer to one another a visit takes twice as many instructions.
  template <class Bound, class End, class Visitor>
  struct counting_visitor {
    Visitor& visitor;
    const Bound& from;
    End to;
    std::size_t visits = 0;
    std::size_t end = std::numeric_limits<std::size_t>::max();
    bool ended = false;         ///< by the number of visits
    std::optional<Key> last{};  ///< then the last key
    [[no_unique_address]] key_copy<Key> copy{};

    bool operator()(const auto& key, const Value& value) {
      if (to.is_before(from, key)) return false;
      ++visits;
      if (!visit_entry(visitor, key, value, copy)) return false;
      if (visits != end) [[likely]]
        return true;
      ended = true;
      last.emplace(key);
      return false;
    }
  };
  template <class Bound, class Visitor, class End = scan_end<Key>>
  std::size_t scan_under(Guard& guard, const Bound& from, const End& to, Visitor& visitor) const {
    if constexpr (is_visitor<Visitor, Key, Value>()) {
      counting_visitor<Bound, End, Visitor> each{.visitor = visitor, .from = from, .to = to};
      self().do_scan(guard, from, each);
      return each.visits;
    }
  }
  template <class Bound, class Visitor, class End = scan_end<Key>>
  std::size_t scan_by_parts(Bound from, const End& to, Visitor& visitor) const {
    if constexpr (is_visitor<Visitor, Key, Value>()) {
      counting_visitor<Bound, End, Visitor> each{.visitor = visitor, .from = from, .to = to};
      do {
        auto guard = self().pin();
        each.ended = false;
        each.end = each.visits + keys_per_pin;
        self().do_scan(guard, from, each);
        if (each.ended) from.move_behind(*each.last);
      } while (each.ended);
      return each.visits;
    }
  }

  [[no_unique_address]] Compare less_;
  [[no_unique_address]] Size size_;
};

}  // namespace espalier
