#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

// Of a dedicated server, for lists (Roghanchi, Eriksson and Basu, SOSP 2017): clients search it, the server changes it.

namespace espalier::simulate {

/// A list that one thread changes while others search it. What it has unlinked it keeps until its end.
///
/// Orderings
///   (1) link, unlink (release) -> read_next (acquire): a thread that reaches a node sees it constructed.
///   (2) mark (release) -> is_marked (acquire): a thread that finds a node unmarked has found it before its erase ended.
class served_list {
 public:
  struct node {
    std::atomic<node*> next{nullptr};
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    std::atomic<bool> marked{false};
  };
  static_assert(sizeof(node) == 32);

  served_list() = default;
  served_list(const served_list&) = delete;
  served_list& operator=(const served_list&) = delete;
  ~served_list() {
    for (node* n = next_of(head_); n != nullptr;) {
      node* const next = next_of(*n);
      delete n;
      n = next;
    }
    for (node* const n : unlinked_) delete n;
  }

  /// The last node before the key. By any thread.
  [[nodiscard]] node* place_of(std::uint64_t key) { return seek(head_, key).before; }
  /// By any thread.
  [[nodiscard]] bool contains(std::uint64_t key) {
    const node* const n = seek(head_, key).at;
    // order (2): is_marked, acquire
    return n != nullptr && n->key == key && !n->marked.load(std::memory_order_acquire);
  }

  // By the server, with a place of the key that may be outdated.

  bool insert(node* place, std::uint64_t key, std::uint64_t value) {
    const auto [before, behind] = current(place, key);
    if (behind != nullptr && behind->key == key) return false;
    node* const added = new node;
    added->key = key;
    added->value = value;
    // relaxed: order (1) below publishes the node.
    added->next.store(behind, std::memory_order_relaxed);
    before->next.store(added, std::memory_order_release);  // order (1): link, release
    return true;
  }
  bool erase(node* place, std::uint64_t key) {
    const auto [before, n] = current(place, key);
    if (n == nullptr || n->key != key) return false;
    n->marked.store(true, std::memory_order_release);            // order (2): mark, release
    before->next.store(next_of(*n), std::memory_order_release);  // order (1): unlink, release
    unlinked_.push_back(n);
    return true;
  }

 private:
  static node* next_of(const node& n) {
    return n.next.load(std::memory_order_acquire);  // order (1): read_next, acquire
  }
  struct found {
    node* before;
    node* at;  // the first whose key is not smaller; null at the end
  };
  static found seek(node& from, std::uint64_t key) {
    found f{&from, next_of(from)};
    while (f.at != nullptr && f.at->key < key) f = {f.at, next_of(*f.at)};
    return f;
  }
  /// A place goes out of date where its node was unlinked, or another one was linked behind it.
  found current(node* place, std::uint64_t key) {
    // order (2): is_marked, acquire: more than needed, as this thread has marked.
    return seek(place->marked.load(std::memory_order_acquire) ? head_ : *place, key);
  }

  node head_;
  std::vector<node*> unlinked_;
};

}  // namespace espalier::simulate
