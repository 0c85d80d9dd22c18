#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"

// The parts of ordered scans that maps share: where a scan begins, how it calls its visitor, and the two ways to scan a
// map whose nodes cannot be walked while other threads change them.

namespace espalier {

/// Whether a scan can call the visitor. If not, the compiler says why.
template <class Visitor, class Key, class Value>
[[nodiscard]] constexpr bool is_visitor() {
  if constexpr (std::is_invocable_v<Visitor&, const Key&, const Value&>) {
    using result = std::remove_cvref_t<std::invoke_result_t<Visitor&, const Key&, const Value&>>;
    constexpr bool fits = std::is_void_v<result> || std::is_same_v<result, bool>;
    static_assert(
        fits,
        "the visitor of a scan returns nothing, or a bool that says whether the scan goes on; convert "
        "another result to bool, or discard it");
    return fits;
  } else if constexpr (std::is_same_v<Key, std::string>) {
    return is_visitor<Visitor, std::string_view, Value>();
  } else {
    static_assert(sizeof(Key) == 0,
                  "the visitor of a scan takes two arguments, a key and a value, as (const auto& key, const "
                  "auto& value) does");
    return false;
  }
}

/// Calls a scan's visitor; true means go on.
template <class Visitor, class Key, class Value>
[[nodiscard]] bool visit_entry(Visitor& visitor, const Key& key, const Value& value) {
  if constexpr (!is_visitor<Visitor, Key, Value>()) {
    return false;
  } else if constexpr (std::is_void_v<std::invoke_result_t<Visitor&, const Key&, const Value&>>) {
    std::invoke(visitor, key, value);
    return true;
  } else {
    return std::invoke(visitor, key, value);
  }
}

struct no_copy {};
/// Where a scan has copies of keys for a visitor that takes a std::string, if its map gives it views.
template <class Key>
using key_copy = std::conditional_t<std::is_same_v<Key, std::string>, std::string, no_copy>;

/// The same, of a key that may be a view.
template <class Visitor, class Key, class Value, class Copy>
[[nodiscard]] bool visit_entry(Visitor& visitor, const Key& key, const Value& value, Copy& copy) {
  if constexpr (std::is_same_v<Key, std::string_view> &&
                !std::is_invocable_v<Visitor&, const Key&, const Value&>) {
    copy.assign(key);
    return visit_entry(visitor, std::as_const(copy), value);
  } else {
    return visit_entry(visitor, key, value);
  }
}

/// How a part of an operation holds the map's comparator: an empty one by value, which costs nothing.
template <class Compare>
using comparator_in_use =
    std::conditional_t<std::is_empty_v<Compare>, Compare, std::reference_wrapper<const Compare>>;

enum class scan_direction : bool { forward, reverse };

/// What a part of a scan has come to: its end, the end of the part, or a writer.
enum class progress_of_scan : std::uint8_t { over, through, interrupted };

/// A key that is not copied, or none. It is a pointer, or, to a string, a view.
template <class Key>
using key_reference =
    std::conditional_t<std::is_same_v<Key, std::string>, std::optional<std::string_view>, const Key*>;

template <class Key>
[[nodiscard]] constexpr key_reference<Key> refer_to(key_view_of<Key> key) noexcept {
  if constexpr (std::is_pointer_v<key_reference<Key>>)
    return &key;
  else
    return key;
}

/// Where a scan begins, in its direction: at the end of the map, at a key, or behind one. It refers to the key and the
/// comparator.
template <class Key, class Compare, scan_direction Direction = scan_direction::forward>
class scan_bound {
  using key_view = key_view_of<Key>;

 public:
  static constexpr bool reverse = Direction == scan_direction::reverse;
  /// The side of a search tree on which the keys lie that the scan visits first, and the other side.
  static constexpr std::size_t near = reverse ? 1 : 0;
  static constexpr std::size_t far = reverse ? 0 : 1;

  [[nodiscard]] static scan_bound whole(const Compare& less) noexcept { return {less, {}, false}; }
  [[nodiscard]] static scan_bound at(const Compare& less, key_view key) noexcept {
    return {less, refer_to<Key>(key), false};
  }
  [[nodiscard]] static scan_bound behind(const Compare& less, key_view key) noexcept {
    return {less, refer_to<Key>(key), true};
  }

  /// Whether a scan in this direction visits one key before the other.
  [[nodiscard]] bool precedes(key_view a, key_view b) const { return reverse ? less_(b, a) : less_(a, b); }
  /// Whether the scan visits this key.
  [[nodiscard]] bool admits(key_view candidate) const {
    if (!key_) return true;
    return excludes_key_ ? precedes(*key_, candidate) : !precedes(candidate, *key_);
  }
  /// Whether the scan may visit keys on the near side of a router, which has smaller keys on its left.
  [[nodiscard]] bool admits_near(key_view router) const { return !key_ || less_(*key_, router) != reverse; }

  /// The scan goes on behind this key, to which it refers from now on.
  void move_behind(key_view key) noexcept {
    key_ = refer_to<Key>(key);
    excludes_key_ = true;
  }

  /// None for the whole map.
  [[nodiscard]] key_reference<Key> key() const noexcept { return key_; }
  [[nodiscard]] bool excludes_key() const noexcept { return excludes_key_; }

 private:
  scan_bound(const Compare& less, key_reference<Key> key, bool excludes_key) noexcept
      : less_(less), key_(key), excludes_key_(excludes_key) {}

  [[no_unique_address]] comparator_in_use<Compare> less_;
  key_reference<Key> key_;
  bool excludes_key_;
};

template <class Key, class Compare>
using reverse_bound = scan_bound<Key, Compare, scan_direction::reverse>;

/// Where a scan ends, in its direction: at a key, or, if it includes that, behind it. With none, at the end of the map.
template <class Key, bool Includes = false>
struct scan_end {
  key_reference<Key> key{};

  /// Whether it ends before this key, to which it has come.
  template <class Bound>
  [[nodiscard]] bool is_before(const Bound& from, key_view_of<Key> candidate) const {
    if (!key) return false;
    return Includes ? from.precedes(*key, candidate) : !from.precedes(candidate, *key);
  }
};

/// Space for copies of a few entries. None is constructed before it is added.
template <class Key, class Value>
class entry_batch {
 public:
  using entry = map_entry<Key, Value>;

  /// 64, or fewer if they are large: a batch lies on the stack.
  static constexpr std::size_t capacity =
      std::clamp(std::size_t{16384} / sizeof(entry), std::size_t{1}, std::size_t{64});

  entry_batch() noexcept = default;
  entry_batch(const entry_batch& other) : entry_batch() { *this = other; }
  entry_batch& operator=(const entry_batch& other) {
    if (this == &other) return *this;
    clear();
    for (const entry& e : other) add(e.key, e.value);
    return *this;
  }
  ~entry_batch() { clear(); }

  template <class Source>
  void add(const Source& key, const Value& value) {
    ::new (room_ + size_ * sizeof(entry)) entry{Key(key), value};
    ++size_;
  }
  void clear() noexcept {
    std::destroy(begin(), end());
    size_ = 0;
  }

  [[nodiscard]] bool full() const noexcept { return size_ == capacity; }
  [[nodiscard]] const entry* begin() const noexcept {
    return std::launder(reinterpret_cast<const entry*>(room_));
  }
  [[nodiscard]] const entry* end() const noexcept { return begin() + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  alignas(entry) std::byte room_[capacity * sizeof(entry)];
  std::size_t size_ = 0;
};

/// A visitor that ends a scan at the first entry: a map may copy fewer for it.
template <class Visit>
struct first_only {
  explicit first_only(Visit v) : visit(std::move(v)) {}
  template <class Key, class Value>
  bool operator()(const Key& key, const Value& value) {
    visit(key, value);
    return false;
  }
  Visit visit;
};
template <class Visit>
inline constexpr bool is_first_only = false;
template <class Visit>
inline constexpr bool is_first_only<first_only<Visit>> = true;

/// For maps whose readers hold a lock. Entries are copied in batches under the lock and visited after its release, so
/// that a visitor may call the map, or run for long. fill(batch, bound) adds to the empty batch, in order, the first
/// entries that the bound admits, until the batch is full or there are no more. It returns with no lock held.
template <class Key, class Value, class Bound, class Fill, class Visit>
void batched_scan(Bound bound, Fill&& fill, Visit&& visit) {
  entry_batch<Key, Value> batch;
  std::optional<Key> last;
  do {
    batch.clear();
    fill(batch, bound);
    for (const auto& entry : batch) {
      if (!visit(entry.key, entry.value)) return;
    }
    if (batch.size() == 0) return;
    last = (batch.end() - 1)->key;
    bound.move_behind(*last);
  } while (batch.full());
}

/// A scan by a search for each entry. It is for a map with entries that move, where a walk from node to node could miss
/// some or meet one twice. first_of(bound) returns the first entry that the bound admits, in its direction, or nothing.
/// It must not miss a key that is present throughout the search. The visitor is called between searches, and may call
/// the map.
template <class Bound, class FirstOf, class Visit>
void stepwise_scan(Bound bound, FirstOf&& first_of, Visit&& visit) {
  std::optional<std::remove_cvref_t<decltype(first_of(bound)->key)>> last;
  while (const auto at = first_of(bound)) {
    if (!visit(at->key, at->value)) return;
    last = at->key;
    bound.move_behind(*last);
  }
}

}  // namespace espalier
