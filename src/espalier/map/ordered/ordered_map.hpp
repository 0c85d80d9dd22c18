#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/ordered/hashed_tree.hpp"
#include "espalier/map/ordered/key_image.hpp"
#include "espalier/map/ordered/string_tree.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/optimistic_access.hpp"
#include "espalier/map/tree/tree.hpp"

// ordered_map: the map for programs. What it is made of depends on the keys:
//
//   integers, floating-point numbers, enumerations and   a B+tree whose leaves are hash tables (hashed_tree.hpp)
//   pointers, in increasing or decreasing order
//   std::string, in the order of their bytes,            a B+tree that is a trie in part (string_tree.hpp)
//   increasing or decreasing
//   any other key that is trivially copyable,            a B+tree (tree/tree.hpp)
//   with any comparator
//
// No comparator is called with a key that no operation was given, also beside writers (tree/node.hpp). But inner nodes keep
// copies of keys as separators, after these were erased, too.

namespace espalier {

/// Whether what keys point to outlives each map that a comparator orders. A program says so for a comparator of pointers
/// that follows them: template <> inline constexpr bool espalier::keys_outlive_map<by_name> = true;
template <class Compare>
inline constexpr bool keys_outlive_map = false;

template <class Key, class Value, class Traits = map_traits, class Compare = default_order<Key>,
          class Fanout = btree::fanout<256>>
class ordered_map;

namespace btree {

/// A search compares keys all over a node, so a node is smaller than one of a hashed_tree: 31 entries, but 2 KiB at most
/// while that leaves it four.
template <class Key>
inline constexpr unsigned sorted_most =
    std::clamp(2048U / unsigned{sizeof(optimistic_field<Key>) + sizeof(void*)}, 5U, 32U) - 1;

template <class Key, class Fanout>
using small_nodes =
    fanout<std::min(Fanout::leaf, sorted_most<Key>), std::min(Fanout::inner, sorted_most<Key>)>;

template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
class sorted_tree : public tree<Map, Key, Value, Traits, Compare,
                                sorted<Key, small_nodes<Key, Fanout>::leaf>::template leaf,
                                small_nodes<Key, Fanout>::inner, optimistic_access> {
  using base =
      tree<Map, Key, Value, Traits, Compare, sorted<Key, small_nodes<Key, Fanout>::leaf>::template leaf,
           small_nodes<Key, Fanout>::inner, optimistic_access>;

 public:
  using base::base;
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = small_nodes<Key, Fanout>::leaf;

 protected:
  ~sorted_tree() = default;
};

/// The policies and the comparator of a map, given in either order.
template <class Given>
concept policies = requires { typename Given::template with_placement<segregated>; };
template <class First, class Second>
struct choices {
  using traits = std::conditional_t<policies<First>, First, Second>;
  using order = std::conditional_t<policies<First>, Second, First>;
};
template <class First, class Key>
  requires(!policies<First>)
struct choices<First, std::less<Key>> {
  using traits = map_traits;
  using order = First;
};

/// Views of what another object owns. Copies of erased keys would read what is freed.
template <class Key>
inline constexpr bool is_view = false;
template <class Char, class Order>
inline constexpr bool is_view<std::basic_string_view<Char, Order>> = true;
template <class T, std::size_t Extent>
inline constexpr bool is_view<std::span<T, Extent>> = true;

template <class Key>
concept supported_key =
    std::is_same_v<Key, std::string> ||
    (std::is_trivially_copyable_v<Key> && std::is_default_constructible_v<Key> && !is_view<Key>);

template <class Key, class Value, class Compare>
concept supported = supported_key<Key> && map_value<Value> && orders<Compare, Key>;

/// Of keys, values and comparators that are not supported, which a static_assert reports.
struct no_map {};
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
struct ordered_map_of {
  using type = no_map;
};
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
  requires supported<Key, Value, Compare>
struct ordered_map_of<Map, Key, Value, Traits, Compare, Fanout> {
  using type = sorted_tree<Map, Key, Value, Traits, Compare, Fanout>;
};
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
  requires(supported<Key, Value, Compare> && has_image<Key, Compare>)
struct ordered_map_of<Map, Key, Value, Traits, Compare, Fanout> {
  using type = hashed_tree<Map, Key, Value, Traits, Compare, Fanout>;
};
template <class Map, class Value, class Traits, class Compare, class Fanout>
  requires supported<std::string, Value, Compare>
struct ordered_map_of<Map, std::string, Value, Traits, Compare, Fanout> {
  using type = string_tree<Map, Value, Traits, Compare, Fanout>;
};

}  // namespace btree

/// ordered_map<Key, Value>, with policies (map_traits.hpp) or a comparator as the third argument, and the other one as the
/// fourth.
template <class Key, class Value, class Traits, class Compare, class Fanout>
class ordered_map : public btree::ordered_map_of<
                        ordered_map<Key, Value, Traits, Compare, Fanout>, Key, Value,
                        completed_traits<typename btree::choices<Traits, Compare>::traits, btree_traits>,
                        typename btree::choices<Traits, Compare>::order, Fanout>::type {
  using policies = typename btree::choices<Traits, Compare>::traits;
  using order = typename btree::choices<Traits, Compare>::order;
  using base = typename btree::ordered_map_of<ordered_map, Key, Value,
                                              completed_traits<policies, btree_traits>, order, Fanout>::type;
  static_assert(
      !btree::is_view<Key>,
      "a view does not keep the text that it shows, and the map has copies of keys that were erased: "
      "take std::string as the key, which is asked by std::string_view");
  static_assert(btree::supported_key<Key>,
                "a key is a number, an enumeration, a pointer, a std::string, or another type that is "
                "trivially copyable "
                "and default-constructible, such as a struct or a std::array of those; std::pair and "
                "std::tuple are not "
                "(use a struct), nor are std::vector and strings of other characters");
  static_assert(sizeof(entry_requirements<Key, Value, order>) != 0);
  static_assert(!std::is_pointer_v<Key> || btree::has_image<Key, order> || keys_outlive_map<order>,
                "the map keeps copies of erased keys, with which a comparator may be called: where it "
                "follows pointers, "
                "what they point to must outlive the map; then say so: template <> inline constexpr bool "
                "espalier::keys_outlive_map<my_order> = true;");

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = default_order<K>, class T = policies>
  using rebind = ordered_map<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = ordered_map<Key, Value, policies, order, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "ordered_map", "Leis, Haubenschild and Neumann, Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019");

  using base::base;
  /// With these entries, which are pairs of a key and a value, or value_type. Of equal keys the first one counts. Throws what
  /// an insert throws.
  template <std::input_iterator Iterator, std::sentinel_for<Iterator> End>
  ordered_map(Iterator first, End last, const order& less = order()) : base(less) {
    for (; first != last; ++first) {
      const auto& [key, value] = *first;
      base::insert(key, value);
    }
  }
  ordered_map(std::initializer_list<map_entry<Key, Value>> entries, const order& less = order())
      : ordered_map(entries.begin(), entries.end(), less) {}

  ordered_map(const ordered_map&) = delete;             // take m.copy(), which is exact at rest
  ordered_map& operator=(const ordered_map&) = delete;  // take a = b.copy(), which is exact at rest
  /// A map with the entries that a scan sees, in an order like this one, with a domain and a placement of its own. Exact while
  /// no other thread writes. Linear; memory has the entries once more meanwhile. Throws what bulk_load() throws.
  [[nodiscard]] ordered_map copy() const {
    std::vector<map_entry<Key, Value>> entries;
    entries.reserve(base::size());
    base::scan([&](const auto& key, const Value& value) { entries.push_back({Key(key), value}); });
    ordered_map same(base::key_comp());
    same.bulk_load(entries);
    return same;
  }

  /// What moves or exchanges whole maps: constant time, and no allocation. No other thread may use one of them, nor may
  /// guards or cursors of them exist. A map that was moved away is empty, and can be used again, unless its placement has no
  /// default constructor. A map moves with its domain: if that is shared, it must outlive the map that has it now. Maps that
  /// were moved away share one.
  ordered_map(ordered_map&& other) noexcept(std::is_nothrow_copy_constructible_v<order>)
      : base(moved_away{}, other.key_comp()) {
    base::swap_with(other);
  }
  ordered_map& operator=(ordered_map&& other) noexcept(std::is_nothrow_copy_constructible_v<order>) {
    ordered_map taken(std::move(other));
    base::swap_with(taken);
    return *this;
  }
  void swap(ordered_map& other) noexcept { base::swap_with(other); }
  friend void swap(ordered_map& a, ordered_map& b) noexcept { a.swap(b); }
  /// No other thread may use the map any more.
  ~ordered_map() = default;
};

}  // namespace espalier
