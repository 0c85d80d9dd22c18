#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

// Of a dedicated server (Roghanchi, Eriksson and Basu, SOSP 2017), which no other thread uses: it has no locks.

namespace espalier::simulate {

/// Levels are geometric with 1/2.
class sequential_skip_list {
  static constexpr unsigned most_levels = 24;
  struct node {
    std::uint64_t key;
    std::uint64_t value;
    unsigned levels;
    // As many links follow as it has levels.
    [[nodiscard]] node*& next(unsigned level) { return reinterpret_cast<node**>(this + 1)[level]; }
  };

 public:
  sequential_skip_list() : head_(made(0, 0, most_levels)) {}
  sequential_skip_list(const sequential_skip_list&) = delete;
  sequential_skip_list& operator=(const sequential_skip_list&) = delete;
  ~sequential_skip_list() {
    for (node* n = head_; n != nullptr;) {
      node* const next = n->next(0);
      ::operator delete(n);
      n = next;
    }
  }

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const node* const n = place_of(key)[0]->next(0);
    return n != nullptr && n->key == key;
  }
  bool insert(std::uint64_t key, std::uint64_t value) {
    const auto before = place_of(key);
    if (const node* const n = before[0]->next(0); n != nullptr && n->key == key) return false;
    drawn_ = drawn_ * 6364136223846793005U + 1442695040888963407U;
    node* const added =
        made(key, value, static_cast<unsigned>(std::countl_zero(drawn_ | 1ULL << (64 - most_levels))) + 1);
    for (unsigned level = 0; level < added->levels; ++level) {
      added->next(level) = before[level]->next(level);
      before[level]->next(level) = added;
    }
    return true;
  }
  bool erase(std::uint64_t key) {
    const auto before = place_of(key);
    node* const n = before[0]->next(0);
    if (n == nullptr || n->key != key) return false;
    for (unsigned level = 0; level < n->levels; ++level) before[level]->next(level) = n->next(level);
    ::operator delete(n);
    return true;
  }

 private:
  static node* made(std::uint64_t key, std::uint64_t value, unsigned levels) {
    node* const n = static_cast<node*>(::operator new(sizeof(node) + levels * sizeof(node*)));
    *n = {key, value, levels};
    for (unsigned level = 0; level < levels; ++level) n->next(level) = nullptr;
    return n;
  }
  [[nodiscard]] std::array<node*, most_levels> place_of(std::uint64_t key) const {
    std::array<node*, most_levels> before;
    node* at = head_;
    for (unsigned level = most_levels; level-- != 0;) {
      for (node* n = at->next(level); n != nullptr && n->key < key; n = at->next(level)) at = n;
      before[level] = at;
    }
    return before;
  }

  node* head_;
  std::uint64_t drawn_ = 1;
};

}  // namespace espalier::simulate
