#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/rlu_map.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/rlu.hpp"

// rlu_list: ordered list by read-log-update.
// Matveev, Shavit, Felber and Marlier, "Read-Log-Update: A Lightweight Synchronization Mechanism for Concurrent Programming",
// SOSP 2015.
//
// Essence. map/rlu_map.hpp has all that does not depend on the structure. An insert locks the node before its key, an erase its own
// node too.
//
// Deviations from the paper:
//  1. No sentinel keys: the head is an object without a key, and the end is null.
//  2. An insert locks one node, not two. The erase of the node behind locks the same one.
//
// Invariants, where no commit is in progress: keys increase along the list.
//
// Orderings: those of reclaim/rlu.hpp. No field is atomic.

namespace espalier {

namespace rlu_list_parts {

template <class Key, class Word>
struct node;

template <class Key, class Word>
struct fields {
  node<Key, Word>* next{};
  Word value{};
};

template <class Key, class Word>
struct unaligned_node : rlu_domain<fields<Key, Word>>::object {
  Key key;
  unaligned_node(const Key& k, const fields<Key, Word>& f) noexcept
      : rlu_domain<fields<Key, Word>>::object(f), key(k) {}
};

template <class Key, class Word>
struct alignas(compact_layout::node_align(sizeof(unaligned_node<Key, Word>),
                                          alignof(unaligned_node<Key, Word>))) node
    : unaligned_node<Key, Word> {
  using unaligned_node<Key, Word>::unaligned_node;
};

}  // namespace rlu_list_parts

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class rlu_list : public rlu_map<rlu_list<Key, Value, Traits, Compare>, Key, Value,
                                completed_traits<Traits, rlu_traits>, Compare, rlu_list_parts::fields> {
  using base =
      rlu_map<rlu_list, Key, Value, completed_traits<Traits, rlu_traits>, Compare, rlu_list_parts::fields>;
  friend base;
  using base::head_;
  using base::less;
  using base::rlu_;
  using base::store_;
  using typename base::contract;
  friend contract;
  using typename base::fields;
  using typename base::holder;
  using typename base::object;
  using typename base::section;
  using typename base::store;
  using batch = entry_batch<Key, Value>;
  using node = rlu_list_parts::node<Key, typename holder::word>;

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(node) == 32,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = rlu_list<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "rlu_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Matveev, Shavit, Felber and Marlier, Read-Log-Update, SOSP 2015",
      .updates_await_reads = true,
      .exchanges = true,
      .bidirectional = true,
      .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"copy", 0, sizeof(void*), search_use::all},
                                  {"next", sizeof(void*), sizeof(node*), search_use::all},
                                  {"value", sizeof(void*) + offsetof(fields, value), sizeof(fields::value)},
                                  {"key", sizeof(object), sizeof(Key), search_use::all}});

  using base::base;
  /// No other thread may use the map any more.
  ~rlu_list() {
    if constexpr (store::template must_visit<node>() || holder::must_visit()) {
      for (node* n = head_.fields().next; n != nullptr;)
        base::destroy(store_, std::exchange(n, n->fields().next));
    }
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    for (const node* n = head_.fields().next; n != nullptr; n = n->fields().next) {
      visitor(static_cast<const void*>(n), sizeof(node), memory_role::node);
      if constexpr (!holder::in_place)
        visitor(static_cast<const void*>(n->fields().value), sizeof(Value), memory_role::value);
    }
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    const char* wrong = head_.is_locked() ? "the head is locked" : nullptr;
    const node* before = nullptr;
    for (const node* n = head_.fields().next; n != nullptr; n = n->fields().next) {
      if (n->is_locked()) wrong = "a linked node is locked";
      if (before != nullptr && !less(before->key, n->key)) wrong = "a key follows one not smaller";
      before = n;
    }
    return wrong;
  }

 private:
  struct place {
    object* before;
    node* at;  // the first node whose key is not smaller; null at the end
  };

  /// Copies up to 64 entries at a time in a section; the visitor may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    batched_scan<Key, Value>(bound, [this](batch& out, const Bound& from) { fill(out, from); }, visit);
  }
  template <class Bound>
  void fill(batch& out, const Bound& bound) const {
    const section now(rlu_);
    fill_from_list(
        out, bound, [&] { return now.read(head_).next; }, [&](const node& n) { return now.read(n).next; },
        [&](const node& n) -> typename holder::view { return holder::read(now.read(n).value); });
  }

  [[nodiscard]] place seek(const section& now, const Key& key) const {
    place at{&head_, now.read(head_).next};
    while (at.at != nullptr && less(at.at->key, key)) at = {at.at, now.read(*at.at).next};
    return at;
  }
  [[nodiscard]] bool found(const place& at, const Key& key) const {
    return at.at != nullptr && !less(key, at.at->key);
  }

  [[nodiscard]] static fields fields_at(const place& at, const Key&, typename holder::word word) noexcept {
    return {at.at, word};
  }
  [[nodiscard]] static node*& edge(fields& before, const place&) noexcept { return before.next; }

  bool unlink(guard_type& guard, section& now, const place& at) noexcept {
    fields* const before = now.try_write(*at.before);
    if (before == nullptr) return false;
    const fields* const own = now.try_write(*at.at);
    if (own == nullptr) return false;
    before->next = own->next;
    now.commit();  // LP: erase(true)
    base::retire_node(guard, at.at);
    return true;
  }
};

}  // namespace espalier
