#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "espalier/catalog/codec.hpp"
#include "espalier/hw/opaque.hpp"
#include "espalier/map/map_concept.hpp"

// One operation on a map as data, and what performs it: workloads, traces, the simulator and the suites have their operations
// in this form.

namespace espalier::catalog {

struct step {
  map_operation op = map_operation::find;
  std::uint64_t key = 0;
  /// The value to store, the amount to add, or how many entries to scan.
  std::uint64_t argument = 0;

  friend bool operator==(const step&, const step&) = default;
};

namespace detail {

template <codec Codec, class Value>
[[nodiscard, gnu::always_inline]] inline std::uint64_t number_of(const std::optional<Value>& value) {
  // A branch in the middle of the map's code would measure what no processor foresees.
  return hw::opaque(value.has_value()) ? Codec::decode_value(*value) : 0;
}

/// Performs a step of one kind, but no find. Each kind is a function of its own: inlined into the loop of a find, which may
/// be short, they would take registers from it.
template <map_operation Op, codec Codec, class Map>
[[gnu::noinline]] std::uint64_t apply_one(Map& map, const step& s) {
  using value = typename Map::mapped_type;
  const auto key = Codec::encode_key(s.key);
  if constexpr (Op == map_operation::contains) {
    return map.contains(key) ? 1 : 0;
  } else if constexpr (Op == map_operation::insert) {
    return map.insert(key, Codec::encode_value(s.argument)) ? 1 : 0;
  } else if constexpr (Op == map_operation::insert_or_assign) {
    return map.insert_or_assign(key, Codec::encode_value(s.argument)) ? 1 : 0;
  } else if constexpr (Op == map_operation::erase) {
    return map.erase(key) ? 1 : 0;
  } else if constexpr (Op == map_operation::exchange) {
    return number_of<Codec>(map.exchange(key, Codec::encode_value(s.argument)));
  } else if constexpr (Op == map_operation::extract) {
    return number_of<Codec>(map.extract(key));
  } else if constexpr (Op == map_operation::update) {
    const auto add = [&](const std::optional<value>& v) {
      return Codec::encode_value((v ? Codec::decode_value(*v) : 0) + s.argument);
    };
    if constexpr (exchanging_ordered_map<Map>)
      return number_of<Codec>(map.update(key, add).before);
    else
      return map.insert_or_assign(key, add(map.find(key))) ? 1 : 0;
  } else {
    static_assert(Op == map_operation::scan);
    std::uint64_t sum = 0;
    std::uint64_t left = s.argument;
    if (left != 0) {
      map.scan(key, [&](const auto&, const value& v) {
        sum += Codec::decode_value(v);
        return --left != 0;
      });
    }
    return sum;
  }
}

}  // namespace detail

/// Performs a step on a map, whose keys and values the codec makes. The caller sums the results, so that no operation can
/// be optimised away. An update adds the argument to the value; on a map that does not exchange, it is a find and an
/// insert_or_assign, together not atomic. Throws std::logic_error for an exchange or extract on such a map, and for a
/// reverse_scan, which no caller has.
template <codec Codec = number_codec<>, class Map>
[[gnu::always_inline]] inline std::uint64_t apply(Map& map, const step& s) {
  using enum map_operation;
  switch (s.op) {
    case find:
      return detail::number_of<Codec>(map.find(Codec::encode_key(s.key)));
    case contains:
      return detail::apply_one<contains, Codec>(map, s);
    case insert:
      return detail::apply_one<insert, Codec>(map, s);
    case insert_or_assign:
      return detail::apply_one<insert_or_assign, Codec>(map, s);
    case erase:
      return detail::apply_one<erase, Codec>(map, s);
    case exchange:
      if constexpr (exchanging_ordered_map<Map>) return detail::apply_one<exchange, Codec>(map, s);
      break;
    case extract:
      if constexpr (exchanging_ordered_map<Map>) return detail::apply_one<extract, Codec>(map, s);
      break;
    case update:
      return detail::apply_one<update, Codec>(map, s);
    case scan:
      return detail::apply_one<scan, Codec>(map, s);
    case reverse_scan:
      break;
  }
  throw std::logic_error(std::string(to_string(s.op)).append(" on a map that has none"));
}

}  // namespace espalier::catalog
