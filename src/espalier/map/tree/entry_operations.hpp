#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/tree/node.hpp"

namespace espalier::btree {

/// What every B+tree promises.
[[nodiscard]] constexpr map_properties properties_of(std::string_view name, std::string_view paper) noexcept {
  return {.name = name,
          .find_progress = progress::blocking,
          .update_progress = progress::blocking,
          .shape = balance::strict,
          .region_protection = true,
          .paper = paper,
          .exchanges = true,
          .bidirectional = true};
}

/// What a leaf has of a value: the value itself, or a pointer to its cell.
template <class Value>
using word_for = std::conditional_t<comparable_word<Value>, Value, const Value*>;

/// The operations of the contract but scans, made from two that a map provides:
///
///   find_word(key)               the word of the key's value, or nothing
///   apply(guard, key, change)    changes the key's entry; retires what goes with it, but not its value
///
/// An erase reserves Retirements for apply(). Copied is what nodes copy of a key.
template <class Map, class Key, class Value, class Traits, class Compare, class Copied, unsigned Retirements>
class entry_operations : public stored_map<Map, Key, Value, Compare, node_store<Traits>, Copied> {
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>, Copied>;

 public:
  using traits_type = Traits;
  using base::base;
  using typename base::guard_type;
  using typename base::key_view;

 protected:
  using operations = entry_operations;
  using typename base::contract;
  friend contract;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value, !comparable_word<Value>>;
  using word = typename holder::word;
  static_assert(std::is_same_v<word, word_for<Value>>);
  using change = entry_change<word>;
  using outcome = entry_outcome<word>;
  using effect = typename outcome::effect;

  // Words in 8 bytes, for nodes that have values of one size.

  [[nodiscard]] static std::uint64_t word_of(word value) noexcept {
    std::uint64_t w = 0;
    std::memcpy(&w, &value, sizeof(value));
    return w;
  }
  [[nodiscard]] static word value_in(std::uint64_t w) noexcept {
    word value;
    std::memcpy(static_cast<void*>(&value), &w, sizeof(value));
    return value;
  }

  ~entry_operations() = default;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, key_view key) const {
    const auto found = self().find_word(key);
    if (!found) return std::nullopt;
    return holder::read(*found);
  }

  template <class Visitor>
  bool do_visit(guard_type&, key_view key, Visitor& visitor) const {
    const auto found = self().find_word(key);
    if (!found) return false;
    const Value& value = holder::read(*found);
    std::invoke(visitor, value);
    return true;
  }

 private:
  [[nodiscard]] bool do_contains(guard_type&, key_view key) const {
    return self().find_word(key).has_value();
  }

  template <class Source>
  bool do_insert(guard_type& guard, key_view key, Source&& value) {
    typename holder::pending fresh(store_);
    if (!holder::in_place && self().find_word(key)) return false;
    const outcome done = self().apply(
        guard, key, {.insert_where_absent = true, .word = fresh.get(std::forward<Source>(value))});
    if (done.what != effect::inserted) {
      fresh.restore(value);
      return false;
    }
    fresh.release();
    return true;
  }

  template <class Source>
  bool do_assign(guard_type& guard, key_view key, Source&& value) {
    typename holder::pending fresh(store_);
    reserve<holder::retirements>(guard);
    const outcome done = self().apply(guard, key,
                                      {.present = change::where_present::store,
                                       .insert_where_absent = true,
                                       .word = fresh.get(std::forward<Source>(value))});
    fresh.release();
    if (done.what == effect::inserted) return true;
    holder::retire(store_, guard, done.before);
    return false;
  }

  bool do_erase(guard_type& guard, key_view key) {
    reserve<holder::retirements + Retirements>(guard);
    const outcome done = self().apply(guard, key, {.present = change::where_present::erase});
    if (done.what != effect::erased) return false;
    holder::retire(store_, guard, done.before);
    return true;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, key_view key, Function&& f) {
    typename holder::pending fresh(store_);
    reserve<holder::retirements + Retirements>(guard);
    for (;; fresh.reset()) {
      const auto now = self().find_word(key);
      std::optional<Value> before;
      if (now) before.emplace(holder::read(*now));
      std::optional<Value> after = f(before);
      if (!now && !after) return before;
      change wanted{
          .insert_where_absent = !now, .only_expected = now.has_value(), .expected = now.value_or(word{})};
      if (after) wanted.word = fresh.get(std::move(*after));
      if (now) wanted.present = after ? change::where_present::store : change::where_present::erase;
      const outcome done = self().apply(guard, key, wanted);
      if (done.what == effect::none) continue;
      if (after) fresh.release();
      if (now) holder::retire(store_, guard, *now);
      return before;
    }
  }

  template <unsigned Most>
  static void reserve(guard_type& guard) {
    if constexpr (Most != 0) guard.reserve(Most);
  }

 protected:
  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }
};

}  // namespace espalier::btree
