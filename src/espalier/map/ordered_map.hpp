#pragma once

#include <functional>
#include <string>
#include <type_traits>

#include "espalier/map/btree/access.hpp"
#include "espalier/map/btree/hashed_tree.hpp"
#include "espalier/map/btree/key_image.hpp"
#include "espalier/map/btree/masstree_strings.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/map/btree/tree.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"

// ordered_map: the map for programs. What it is made of depends on the keys:
//
//   integers, floating-point numbers, enumerations and   a B+tree whose leaves are hash tables (btree/hashed_tree.hpp)
//   pointers, in increasing or decreasing order
//   std::string, in the order of their bytes             a trie of B+trees (btree/masstree_strings.hpp)
//   any other key that fits an atomic machine word,      a B+tree (btree/tree.hpp)
//   with any comparator

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = default_order<Key>,
          class Fanout = btree::fanout<256>>
class ordered_map;

namespace btree {

template <class Map, class Value, class Traits, class Compare>
class string_tree : public masstree_of_strings<Map, Value, Traits, Compare, fanout<15, 16>> {
  using base = masstree_of_strings<Map, Value, Traits, Compare, fanout<15, 16>>;
  friend base;

 public:
  using base::base;

 protected:
  ~string_tree() = default;

  /// Scans go from node to node.
  static constexpr bool steps = true;
  template <class Section>
  static auto run(Section section) noexcept {
    return section();
  }
};

template <class Key, class Fanout>
using small_leaves = sorted<Key, std::min(Fanout::leaf, 31U)>;

template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
class sorted_tree : public tree<Map, Key, Value, Traits, Compare, small_leaves<Key, Fanout>::template leaf,
                                std::min(Fanout::inner, 31U), optimistic_access> {
  using base = tree<Map, Key, Value, Traits, Compare, small_leaves<Key, Fanout>::template leaf,
                    std::min(Fanout::inner, 31U), optimistic_access>;

 public:
  using base::base;
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = std::min(Fanout::leaf, 31U);

 protected:
  ~sorted_tree() = default;
};

template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
struct ordered_map_of {
  using type = sorted_tree<Map, Key, Value, Traits, Compare, Fanout>;
};
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
  requires has_image<Key, Compare>
struct ordered_map_of<Map, Key, Value, Traits, Compare, Fanout> {
  using type = hashed_tree<Map, Key, Value, Traits, Compare, Fanout>;
};
template <class Map, class Value, class Traits, class Compare, class Fanout>
struct ordered_map_of<Map, std::string, Value, Traits, Compare, Fanout> {
  using type = string_tree<Map, Value, Traits, Compare>;
};

}  // namespace btree

template <class Key, class Value, class Traits, class Compare, class Fanout>
class ordered_map
    : public btree::ordered_map_of<ordered_map<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                   completed_traits<Traits, btree_traits>, Compare, Fanout>::type {
  using base = typename btree::ordered_map_of<ordered_map, Key, Value, completed_traits<Traits, btree_traits>,
                                              Compare, Fanout>::type;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = default_order<K>, class T = Traits>
  using rebind = ordered_map<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = ordered_map<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "ordered_map", "Leis, Haubenschild and Neumann, Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019");

  using base::base;
  /// No other thread may use the map any more.
  ~ordered_map() = default;
};

}  // namespace espalier
