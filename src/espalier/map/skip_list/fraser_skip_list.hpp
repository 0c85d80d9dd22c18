#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
#include "espalier/sync/backoff.hpp"

// fraser_skip_list: lock-free skip list, whose links carry the marks.
// Fraser, "Practical Lock-Freedom", PhD thesis, University of Cambridge 2004, section 4.3.3.
//
// Essence. An insert links its node at level 0 by a compare-exchange, and then at each level of its tower. An erase marks the
// links of its node from the top level down; a marked link never changes. The mark at level 0 decides. A search of an update
// unlinks each node with a mark that it meets, level by level, and starts again where a tower before it was marked.
//
// Deviations from the thesis, and from its implementations:
//  1. A node counts the levels at which it is linked or may still be: at first all of its tower. Each compare-exchange that
//     unlinks it takes off one; an insert that stops early takes off those that it has not linked. The thread that takes off
//     the last one retires the node. In the thesis whichever of insert and erase ends second seeks the node once more and
//     frees it. ASCYLIB frees after the erase's search, although an insert may link the node at a level after that.
//  2. Before each compare-exchange that links a node above level 0, the node's own link is set to the node after it, by a
//     compare-exchange that fails where the link is marked. In the thesis it does so only where that node has changed.
//  3. A node is not linked before another node with the same key. That one is erased, but the search may have met it before:
//     no search for the key would come to it any more. The insert seeks again, which unlinks it.
//  4. When all levels are linked, the insert sees whether its node was erased meanwhile. If so it seeks the key, which unlinks
//     what the erase's search may have missed. It looks by a compare-exchange of the link at level 0: it comes before the
//     erase's mark, which then sees all that the insert has linked, or after it.
//  5. A find unlinks nothing. It goes past a node with a mark by its link, and goes down from none.
//  6. An erase unlinks by what its first search has found, and seeks again only where that has changed.
//  7. Values, overwritten in place (node_store.hpp has the argument). The thesis replaces the value by null to erase a node;
//     here no value is reserved, and no operation returns the value that it erases.
//  8. Nodes are unlinked one at a time, not a run of them by one compare-exchange: each unlinked node is accounted for by the
//     thread that unlinks it.
//
// Invariants. A link with a mark never changes. Marks are set from the top level down. Of the nodes with one key at most one
// has no mark at level 0, and at most one is linked at each level. A node is linked at a level at most once.
//
// Progress: every operation is lock-free. find, contains and scan write nothing shared and never retry. A retry of an update
// means that another thread's compare-exchange succeeded.
//
// Reclamation. (I1) The count is zero when the node is unlinked at each level at which it was linked, and will be linked at
// no other. (I2) One thread takes off the last. (I3) A compare-exchange that links a node writes one that is counted. One
// that unlinks writes what the marked link leads to. That is linked at this level: it could be unlinked only at this link,
// which is frozen. The node's own link is set to a node that is linked when the node gets linked, because that
// compare-exchange expects it. A node that was not linked at a level leads no thread by its link there.
//   What cleans up after the decision of an operation may fail where there is no memory for retirements, or the comparator
// throws. The node then stays linked, with its mark, until another update passes.
//
// Linearization points
//   insert, insert_or_assign -> true     publish: the compare-exchange at level 0
//   insert -> false, assign -> false     the read of the link of the node at level 0; the store of the value
//   erase -> true                        set_mark at level 0
//   erase -> false, find, contains       as skip_list_map.hpp says; or another erase's mark at level 0
//
// Orderings
//   (1) publish, link, unlink (acq_rel) -> read_link (acquire), read_link (acquire) in map/skip_list/skip_list_map.hpp: a
//       thread that reaches a node sees it constructed.
//   (2) set_mark (acq_rel) -> read_link (acquire): a thread that sees the mark at level 0 sees those above. A thread that
//       sees a node unlinked sees that it was marked: it goes past what is linked of it elsewhere.
//   (3) is_erased (acq_rel) -> set_mark (acq_rel): the erase's search sees each level that the insert has linked.
//   (4) forget (acq_rel) -> forget (acq_rel): the thread that retires the node comes after all that unlinked it.

namespace espalier {

struct fraser_tower {
  explicit fraser_tower(unsigned count) noexcept : linked(count), levels(static_cast<std::uint8_t>(count)) {}
  std::atomic<std::uint32_t> linked;  // levels that have to be accounted for
  const std::uint8_t levels;
};

/// Tower is what it has in each tower: a fraser_tower, or one with more for a class that derives from the list.
template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Levels = drawn_levels, std::derived_from<fraser_tower> Tower = fraser_tower>
class fraser_skip_list
    : public skip_list_map<fraser_skip_list<Key, Value, Traits, Compare, Levels, Tower>, Key, Value,
                           completed_traits<Traits, skip_list_traits>, Compare, Tower, true, Levels> {
  using base = skip_list_map<fraser_skip_list, Key, Value, completed_traits<Traits, skip_list_traits>,
                             Compare, Tower, true, Levels>;
  friend base;
  using base::head_;
  using base::is_marked;
  using base::less;
  using base::store_;
  using typename base::contract;
  friend contract;
  using typename base::holder;
  using typename base::link;
  using typename base::link_word;
  using typename base::new_node;
  using typename base::tower;
  using place = typename base::template place<>;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = fraser_skip_list<K, V, T, C, Levels, Tower>;

  static constexpr map_properties properties{
      .name = "fraser_skip_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::lock_free,
      .shape = balance::relaxed,
      .region_protection = true,
      .paper = "Fraser, Practical Lock-Freedom, PhD thesis, University of Cambridge 2004",
      .bidirectional = true};
  static constexpr std::string_view state_name = "linked, levels";

  using base::base;
  /// No other thread may use the map any more.
  ~fraser_skip_list() {
    if constexpr (base::store::template must_visit<node>() || holder::must_visit()) {
      unlink_erased();
      base::destroy_all();
    }
  }

 private:
  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    return add(guard, key, value, [](node&, new_node&) {}) != nullptr;
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    const auto assign = [&](node& n, new_node& fresh) {
      const auto word = fresh.word.get(value);
      guard.reserve(holder::retirements);
      holder::assign(store_, guard, n.value, word);
      fresh.word.release();
    };
    return add(guard, key, value, assign) != nullptr;
  }

  bool do_erase(guard_type& guard, const Key& key) {
    place at;
    node* const n = search(guard, key, at);
    if (n == nullptr) return false;
    guard.reserve(own_retirements);
    if (!set_marks(*n)) return false;  // LP: erase(false): by another thread, since this one found it
    // Without a further search, if all is as it was found.
    bool all = n->levels <= at.levels;
    for (unsigned level = all ? n->levels : 0; level-- != 0;) {
      if (at.after[level] != n || !unlink(guard, *at.before[level], *n, level)) all = false;
    }
    if (!all) clean_up(guard, key);
    return true;
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const { return base::check_invariants(); }

 protected:
  // What a queue is made of (queue/shavit_lotan_queue.hpp).

  using typename base::node;

  /// What a search needs reserved at each unlinking, of which it uses one: the other one is for the caller's own node.
  static constexpr unsigned own_retirements = 2;

  /// Marks all links of a node. True if it was this call that set the mark at level 0.
  static bool set_marks(node& n) noexcept {
    for (unsigned level = n.levels; --level != 0;) static_cast<void>(set_mark(n.next(level)));
    return set_mark(n.next(0));  // LP: erase(true)
  }

  /// Inserts a new node and returns it, or calls present(node, fresh) and returns null.
  template <class Present>
  node* add(guard_type& guard, const Key& key, const Value& value, const Present& present) {
    new_node fresh(*this);
    for (backoff pause;; pause.wait()) {
      place at;
      if (node* const n = search(guard, key, at)) {
        present(*n, fresh);
        return nullptr;
      }
      node& n = fresh.prepare(key, value, at);
      for (unsigned level = 0; level < n.levels; ++level)
        n.next(level).store(link_word(at.after[level]),
                            std::memory_order_relaxed);  // relaxed: published below
      guard.reserve(own_retirements);
      link_word expected(at.after[0]);
      // LP: insert(true) is this compare-exchange when it succeeds. order (1): publish, acq_rel. relaxed at a failure: the
      // word read is not used.
      if (!at.before[0]->next(0).compare_exchange_strong(expected, link_word(&n), std::memory_order_acq_rel,
                                                         std::memory_order_relaxed))
        continue;
      fresh.linked();
      if (n.levels != 1) link_upper_levels(guard, n, at);
      return &n;
    }
  }

  /// Unlinks erased nodes with this key, after the decision of an operation, which may no longer fail; only at so many
  /// levels.
  void clean_up(guard_type& guard, const Key& key, unsigned levels = base::most_levels) noexcept {
    try {
      place at;
      static_cast<void>(search(guard, key, at, levels));
    } catch (...) {  // another update does it
    }
  }

 private:
  /// Finds the place of a key, and unlinks what has marks there. Returns the node with the key, or null. Throws
  /// std::bad_alloc.
  node* search(guard_type& guard, const Key& key, place& at, unsigned levels = base::most_levels) {
    at.levels = std::min(base::levels_of_search(), levels);
    while (true) {
      if (node* n = nullptr; try_search(guard, key, at, n)) return n;
    }
  }
  /// False where another thread has changed something in the way.
  bool try_search(guard_type& guard, const Key& key, place& at, node*& found) {
    tower* before = &head_.begin;
    for (unsigned level = at.levels; level-- != 0;) {
      // order (1), (2): read_link, acquire
      const link_word from = before->next(level).load(std::memory_order_acquire);
      if (is_marked(from)) return false;
      node* after = from.get();
      while (after != nullptr) {
        // order (1), (2): read_link, acquire
        const link_word next = after->next(level).load(std::memory_order_acquire);
        if (is_marked(next)) {
          guard.reserve(own_retirements);
          if (!unlink(guard, *before, *after, level)) return false;
          after = next.get();
          continue;
        }
        if (!less(after->key, key)) break;
        before = after;
        after = next.get();
      }
      at.before[level] = before;
      at.after[level] = after;
    }
    node* const n = at.after[0];
    found = n != nullptr && !less(key, n->key) ? n : nullptr;
    return true;
  }

  static bool set_mark(link& from) noexcept {
    // order (1), (2): read_link, acquire
    link_word word = from.load(std::memory_order_acquire);
    // order (2), (3): set_mark, acq_rel
    while (!is_marked(word) &&
           !from.compare_exchange_weak(word, word.with(base::mark), std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
    }
    return !is_marked(word);
  }

  /// Unlinks a node with a mark at this level. Needs one reserved retirement.
  bool unlink(guard_type& guard, tower& before, node& n, unsigned level) noexcept {
    // order (1), (2): read_link, acquire: frozen.
    node* const next = n.next(level).load(std::memory_order_acquire).get();
    link_word expected(&n);
    // order (1): unlink, acq_rel. relaxed at a failure: the word read is not used.
    if (!before.next(level).compare_exchange_strong(expected, link_word(next), std::memory_order_acq_rel,
                                                    std::memory_order_relaxed))
      return false;
    forget(guard, n, 1);
    return true;
  }

  /// So many levels of a node are accounted for. Needs one reserved retirement.
  void forget(guard_type& guard, node& n, unsigned levels) noexcept {
    // order (4): forget, acq_rel
    if (n.linked.fetch_sub(levels, std::memory_order_acq_rel) == levels) base::retire_node(guard, &n);
  }

  /// Links a node that is linked at level 0. Needs one reserved retirement.
  void link_upper_levels(guard_type& guard, node& n, place& at) noexcept {
    unsigned linked = 1;
    try {
      while (linked != n.levels && link_at(n, at, linked)) {
        if (at.after[linked] == &n) {
          base::reached(linked++);
        } else if (search(guard, n.key, at) != &n) {
          break;
        }
      }
    } catch (...) {  // the comparator, or no memory: the tower stays lower
    }
    if (linked == n.levels && !is_erased(n)) return;
    if (linked != n.levels) forget(guard, n, n.levels - linked);
    clean_up(guard, n.key);
  }

  /// Tries to link a node at one level. False if it has a mark there. If it is linked, at.after[level] is the node.
  bool link_at(node& n, place& at, unsigned level) {
    node* const after = at.after[level];
    if (after != nullptr && !less(n.key, after->key)) return true;  // an erased node with the same key
    // order (1), (2): read_link, acquire, of both
    link_word own = n.next(level).load(std::memory_order_acquire);
    if (is_marked(own)) return false;
    // order (1): link, acq_rel: it publishes nothing.
    if (own.get() != after &&
        !n.next(level).compare_exchange_strong(own, link_word(after), std::memory_order_acq_rel,
                                               std::memory_order_acquire))
      return false;  // only a mark changes it
    link_word expected(after);
    // order (1): link, acq_rel. relaxed at a failure: the word read is not used.
    if (at.before[level]->next(level).compare_exchange_strong(
            expected, link_word(&n), std::memory_order_acq_rel, std::memory_order_relaxed))
      at.after[level] = &n;
    return true;
  }

  /// Whether a node is erased; if not, its erase will see what this thread has linked.
  static bool is_erased(node& n) noexcept {
    // order (1), (2): read_link, acquire
    link_word word = n.next(0).load(std::memory_order_acquire);
    // order (3): is_erased, acq_rel
    while (!is_marked(word) && !n.next(0).compare_exchange_weak(word, word, std::memory_order_acq_rel,
                                                                std::memory_order_acquire)) {
    }
    return is_marked(word);
  }

  [[nodiscard]] static unsigned linked_levels(const node& n) noexcept {
    return n.linked.load(std::memory_order_relaxed);  // relaxed: the map is at rest
  }

  /// What updates have left that could not clean up. No other thread uses the map any more.
  // relaxed throughout: as said.
  void unlink_erased() noexcept {
    for (unsigned level = base::most_levels; level-- != 0;) {
      tower* before = &head_.begin;
      while (node* const n = before->next(level).load(std::memory_order_relaxed).get()) {
        if (!is_marked(n->next(0).load(std::memory_order_relaxed))) {
          before = n;
          continue;
        }
        before->next(level).store(link_word(n->next(level).load(std::memory_order_relaxed).get()),
                                  std::memory_order_relaxed);
        if (n->linked.fetch_sub(1, std::memory_order_relaxed) == 1) base::destroy(store_, n);
      }
    }
  }
};

}  // namespace espalier
