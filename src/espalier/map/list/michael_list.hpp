#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/sync/backoff.hpp"

// michael_list: lock-free ordered list.
// Michael, "High Performance Dynamic Lock-Free Hash Tables and List-Based Sets", SPAA 2002, after Harris, DISC 2001.
//
// Essence. An erase marks the node's own link, which from then on does not change. A seek of an update unlinks each marked node
// that it meets, by a CAS of the link before, which fails if that link is marked or leads elsewhere.
//
// Deviations from the paper:
//  1. Readers do not unlink: they walk over marked nodes, and look at the mark of the node with their key last. Epochs keep what
//     they reach; with hazard pointers this would be wrong.
//  2. Values do not change. An assignment replaces the node: one CAS marks the old node and makes a new one with the same key its
//     successor. The thread that unlinks the old node links the new one in its place. So operations that return the value need no further word.
//  3. Memory is reclaimed by epochs (below), and not by hazard pointers.
//
// Invariants. A marked link never changes. A node is marked before it is unlinked. Behind a marked node the next one may have
// the same key; behind all others keys increase.
//
// Progress: every operation is lock-free. find, contains and scan write nothing and never retry. They are not wait-free, since
// inserts may keep extending the way ahead of them.
//
// Reclamation. The thread whose CAS unlinks a node retires it, which need not be the one that marked it. (I1) The CAS expects an
// unmarked link, so the link belonged to a linked node or to the head; no other link leads to the node but those of nodes that
// were unlinked before. (I2) One CAS unlinks it. (I3) Links are written with new nodes, and with what a marked node leads to:
// that is linked, because the marked node is when it is unlinked. An erase that has marked its node and loses the CAS seeks
// again, so that the node is unlinked when it returns; without memory for a retirement it leaves that to a later update.
//
// Linearization points
//   insert, insert_or_assign -> true     publish: its CAS
//   insert -> false, erase -> false      as find (list_map.hpp)
//   erase -> true                        mark: its CAS
//   insert_or_assign -> false            replace: its CAS
//   update                               as the insert, the assignment or the erase that it amounts to
//
// Orderings
//   (1) publish, replace, swing (release) -> read_next (acquire), read_next (acquire) in list_map.hpp: a thread that reaches a
//       node sees it constructed.
//   (2) mark (release) -> read_next (acquire): more than needed; the CAS continues the release sequence of (1).

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class michael_list : public list_map<michael_list<Key, Value, Traits, Compare>, Key, Value,
                                     completed_traits<Traits, list_traits>, Compare> {
  using base = list_map<michael_list, Key, Value, completed_traits<Traits, list_traits>, Compare>;
  friend base;
  using base::less;
  using base::store_;
  using typename base::contract;
  using typename base::holder;
  using typename base::store;
  friend contract;

  static constexpr std::uintptr_t mark = 1;

  struct node;
  using link_word = tagged_ptr<node, 1>;

  struct link {
    std::atomic<link_word> next{};
  };
  struct fields : link {
    Key key;
    std::atomic<typename holder::word> value;

    fields(const Key& k, typename holder::word v) noexcept : key(k), value(v) {}
  };
  struct alignas(compact_layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(std::atomic<link_word>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(node) == 24,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = michael_list<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "michael_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::lock_free,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Michael, High Performance Dynamic Lock-Free Hash Tables and List-Based Sets, SPAA 2002",
      .exchanges = true,
      .bidirectional = true,
      .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"next", 0, sizeof(link), search_use::all},
                                  {"key", sizeof(link), sizeof(Key), search_use::all},
                                  {"value", node_bytes - sizeof(fields::value), sizeof(fields::value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~michael_list() { base::destroy_all(base::next_of(head_)); }

 private:
  using place = typename base::template place<link, node>;
  using new_node = typename base::template new_node<node>;

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key);
      if (base::found(at, key)) return false;
      if (publish(at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key);
      if (!base::found(at, key)) {
        if (publish(at, fresh, key, value)) return true;
        continue;
      }
      guard.reserve(1);
      const link_word behind = word_of(*at.at);
      if (!behind.has(mark) && replace(guard, at, behind, fresh, key, value)) return false;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key);
      if (!base::found(at, key)) return false;
      guard.reserve(1);
      const link_word behind = word_of(*at.at);
      if (!behind.has(mark) && remove(guard, at, behind, key)) return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      const place at = seek(guard, key);
      if (!base::found(at, key)) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || publish(at, fresh, key, *value)) return std::nullopt;
        continue;
      }
      guard.reserve(1);
      const link_word behind = word_of(*at.at);
      if (behind.has(mark)) continue;
      std::optional<Value> before(base::value_of(*at.at));
      const std::optional<Value> value = f(before);
      if (value ? replace(guard, at, behind, fresh, key, *value) : remove(guard, at, behind, key))
        return before;
    }
  }

  [[nodiscard]] static const char* check(const link& l) noexcept {
    return word_of(l).has(mark) ? "a marked node is linked" : nullptr;
  }

  [[nodiscard]] static link_word word_of(const link& l) noexcept {
    return l.next.load(std::memory_order_acquire);  // order (1), (2): read_next, acquire
  }

  /// One word says both.
  [[nodiscard]] static typename base::template seen_node<node> look(const node& n) noexcept {
    const link_word word = word_of(n);
    return {word.get(), !word.has(mark)};
  }

  /// The first node that is not marked and whose key is not smaller. Unlinks the marked ones before it. Reserves retirements
  /// for these: what was reserved before may be used up. Throws std::bad_alloc.
  [[nodiscard]] place seek(guard_type& guard, const Key& key) {
    for (backoff pause;; pause.wait()) {
      place at{&head_, base::next_of(head_)};
      while (true) {
        if (at.at == nullptr) return at;
        const link_word behind = word_of(*at.at);
        if (behind.has(mark)) {
          guard.reserve(1);
          if (!unlink(guard, at, behind.get())) break;
          at.at = behind.get();
          continue;
        }
        if (!less(at.at->key, key)) return at;
        at = {at.at, behind.get()};
      }
    }
  }

  /// False if the link has changed.
  bool publish(const place& at, new_node& fresh, const Key& key, const Value& value) {
    node& made = fresh.prepare(base::near(at), key, value);
    // relaxed: published by the CAS.
    made.next.store(link_word(at.at), std::memory_order_relaxed);
    link_word expected(at.at);
    // LP: insert(true) is this CAS when it succeeds. order (1): publish, release. relaxed at a failure: the word read is not
    // used.
    if (!at.before->next.compare_exchange_strong(expected, link_word(&made), std::memory_order_release,
                                                 std::memory_order_relaxed))
      return false;
    fresh.release();
    return true;
  }

  /// Marks a node whose link was as given, with a new node of its key behind it. Needs a reserved retirement.
  bool replace(guard_type& guard, const place& at, link_word behind, new_node& fresh, const Key& key,
               const Value& value) {
    node& made = fresh.prepare(at.at, key, value);
    // relaxed: published by the CAS.
    made.next.store(behind, std::memory_order_relaxed);
    // LP: insert_or_assign(false). order (1): replace, release. relaxed at a failure: as in publish().
    if (!at.at->next.compare_exchange_strong(behind, link_word(&made, mark), std::memory_order_release,
                                             std::memory_order_relaxed))
      return false;
    fresh.release();
    unlink_own(guard, at, &made, key);
    return true;
  }

  /// Marks a node whose link was as given. Needs a reserved retirement.
  bool remove(guard_type& guard, const place& at, link_word behind, const Key& key) noexcept {
    // LP: erase(true). order (2): mark, release. relaxed at a failure: as in publish().
    if (!at.at->next.compare_exchange_strong(behind, behind.with(mark), std::memory_order_release,
                                             std::memory_order_relaxed))
      return false;
    unlink_own(guard, at, behind.get(), key);
    return true;
  }

  /// Unlinks the node that this thread has marked, unless another one does. The operation has taken effect: it cannot fail.
  void unlink_own(guard_type& guard, const place& at, node* behind, const Key& key) noexcept {
    if (unlink(guard, at, behind)) return;
    try {
      static_cast<void>(seek(guard, key));
    } catch (...) {  // without memory, or of the comparator: a later update unlinks it
    }
  }

  /// Unlinks a marked node, and retires it. Needs a reserved retirement. False if the link before it has changed.
  bool unlink(guard_type& guard, const place& at, node* behind) noexcept {
    link_word expected(at.at);
    // order (1): swing, release: what comes behind the marked node may be new. relaxed at a failure: as in publish().
    if (!at.before->next.compare_exchange_strong(expected, link_word(behind), std::memory_order_release,
                                                 std::memory_order_relaxed))
      return false;
    base::retire_node(guard, at.at);
    return true;
  }

  alignas(hw::false_sharing_bytes) mutable link head_;
};

}  // namespace espalier
