#pragma once

#include <utility>

#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/locked_nodes.hpp"

namespace espalier {

struct walks_over_trees {
  template <class Node, class Visit>
  static void visit_all(const Node* top, Visit&& visit) {
    tree_at_rest::visit_all(top, std::forward<Visit>(visit));
  }
  template <class Node, class Destroy>
  static void destroy_all(Node* top, Destroy&& destroy) noexcept {
    tree_at_rest::destroy_internal(top, std::forward<Destroy>(destroy));
  }
  template <class Node>
  static void link(Node*& empty, Node* fresh) noexcept {
    empty = fresh;
  }
};

/// An internal search tree that is read and written under locks only.
template <class Map, class Key, class Value, class Traits, class Compare>
using locked_tree = locked_nodes<Map, Key, Value, Traits, Compare, walks_over_trees>;

}  // namespace espalier
