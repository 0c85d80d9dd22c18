#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>

namespace espalier {

/// Calls a scan's visitor; true means go on.
template <class Visitor, class Key, class Value>
[[nodiscard]] bool visit_entry(Visitor& visitor, const Key& key, const Value& value) {
  if constexpr (std::is_same_v<std::invoke_result_t<Visitor&, const Key&, const Value&>, bool>) {
    return std::invoke(visitor, key, value);
  } else {
    std::invoke(visitor, key, value);
    return true;
  }
}

/// How a part of an operation holds the map's comparator: an empty one by value, which costs nothing.
template <class Compare>
using comparator_in_use =
    std::conditional_t<std::is_empty_v<Compare>, Compare, std::reference_wrapper<const Compare>>;

/// The map's comparator, and the overloads that pin for the caller, made from those that take a guard. A map derives
/// from it with its own type and brings the names into scope: `using facade::find;` and so on.
template <class Map, class Key, class Value, class Compare>
class map_facade {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using key_compare = Compare;

  [[nodiscard]] const Compare& key_comp() const noexcept { return less_; }

  [[nodiscard]] std::optional<Value> find(const Key& key) const {
    auto guard = self().pin();
    return self().find(guard, key);
  }

  [[nodiscard]] bool contains(const Key& key) const {
    auto guard = self().pin();
    return self().contains(guard, key);
  }

  bool insert(const Key& key, const Value& value) {
    auto guard = self().pin();
    return self().insert(guard, key, value);
  }

  bool insert_or_assign(const Key& key, const Value& value) {
    auto guard = self().pin();
    return self().insert_or_assign(guard, key, value);
  }

  bool erase(const Key& key) {
    auto guard = self().pin();
    return self().erase(guard, key);
  }

  /// Pins again every few hundred keys, so that a long scan does not delay reclamation; resumes by key.
  template <class Visitor>
  std::size_t scan(const Key& from, Visitor&& visitor) const {
    std::size_t visits = 0;
    std::optional<Key> last;
    bool more = true;
    while (more) {
      auto guard = self().pin();
      std::size_t in_this_pin = 0;
      more = false;
      self().scan(guard, last ? *last : from, [&](const Key& key, const Value& value) {
        if (last && !less_(*last, key)) return true;
        last = key;
        ++visits;
        if (!visit_entry(visitor, key, value)) return false;
        more = ++in_this_pin == keys_per_pin;
        return !more;
      });
    }
    return visits;
  }

 protected:
  map_facade() = default;
  explicit map_facade(const Compare& less) : less_(less) {}

  [[nodiscard]] bool less(const Key& a, const Key& b) const { return less_(a, b); }
  [[nodiscard]] bool equal(const Key& a, const Key& b) const { return !less_(a, b) && !less_(b, a); }

 private:
  static constexpr std::size_t keys_per_pin = 512;
  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }

  [[no_unique_address]] Compare less_;
};

}  // namespace espalier
