#pragma once

#include <array>
#include <cstdint>
#include <vector>

// Of a dedicated server (Roghanchi, Eriksson and Basu, SOSP 2017), which no other thread uses: it has no locks.

namespace espalier::simulate {

/// An external search tree: routers have two children, leaves have the keys. It is never rebalanced.
class sequential_tree {
  struct node {
    std::uint64_t key;
    std::uint64_t value;
    std::array<node*, 2> child{};
  };
  static constexpr std::uint64_t largest = ~std::uint64_t{0};

 public:
  sequential_tree() : top_(new node{largest, 0, {}}) {}
  sequential_tree(const sequential_tree&) = delete;
  sequential_tree& operator=(const sequential_tree&) = delete;
  ~sequential_tree() {
    std::vector<node*> open{top_};
    while (!open.empty()) {
      node* const n = open.back();
      open.pop_back();
      for (node* const below : n->child)
        if (below != nullptr) open.push_back(below);
      delete n;
    }
  }

  [[nodiscard]] bool contains(std::uint64_t key) const { return (*leaf_of(key).edge)->key == key; }
  bool insert(std::uint64_t key, std::uint64_t value) {
    node*& edge = *leaf_of(key).edge;
    node* const there = edge;
    if (there->key == key) return false;
    node* const added = new node{key, value, {}};
    // A router has the smallest key on its right.
    edge = key < there->key ? new node{there->key, 0, {added, there}} : new node{key, 0, {there, added}};
    return true;
  }
  bool erase(std::uint64_t key) {
    const place p = leaf_of(key);
    node* const leaf = *p.edge;
    if (leaf->key != key) return false;
    // The last leaf, which has the largest key, stays.
    node* const router = *p.above;
    *p.above = router->child[router->child[0] == leaf ? 1 : 0];
    delete leaf;
    delete router;
    return true;
  }

 private:
  struct place {
    node** above;  // the edge to the router of the leaf
    node** edge;
  };
  [[nodiscard]] place leaf_of(std::uint64_t key) const {
    place p{nullptr, const_cast<node**>(&top_)};
    for (node* n = *p.edge; n->child[0] != nullptr; n = *p.edge)
      p = {p.edge, &n->child[key < n->key ? 0 : 1]};
    return p;
  }

  node* top_;
};

}  // namespace espalier::simulate
