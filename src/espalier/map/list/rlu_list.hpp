#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/reclaim/rlu.hpp"
#include "espalier/sync/backoff.hpp"

// rlu_list: ordered list by read-log-update.
// Matveev, Shavit, Felber and Marlier, "Read-Log-Update: A Lightweight Synchronization Mechanism for Concurrent Programming",
// SOSP 2015.
//
// Essence. Every operation is a section of an rlu_domain (reclaim/rlu.hpp): it reads the list as it was at one moment. An update
// locks the node before its key, an erase its own node too, and changes copies of them. Its commit shows all of them at one moment,
// and waits for the sections that began before. An update that comes to a locked node begins again: that is all that a conflict
// means to a caller.
//
// A node that an update locks has not changed since its section began: a commit in between would have waited for this section
// before it unlocked the node. So there is nothing to validate.
//
// Deviations from the paper:
//  1. No sentinel keys: the head is an object without a key, and the end is null.
//  2. An insert locks one node, not two. The erase of the node behind locks the same one.
//  3. Scans are one section for each 64 entries: the visitor may call the map, and a section in which it did would wait for itself.
//
// Invariants, where no commit is in progress: keys increase along the list.
//
// Progress. find, contains and scan never wait and never retry. Updates block one another, and wait for sections in progress: one
// that stops for ever stops them.
//
// Reclamation: at once. Where an erase has committed, each section that began before has ended, and later ones read the copy of the
// node before. So the erase has the only pointer to the node. RLU is the reclaimer of the list: the traits' one has nothing to do,
// and the store has `unprotected` instead. The same holds for the cell of a value that was replaced.
//
// Linearization points: the time of the commit (rlu_domain::take_time) of an update that changes something; the begin of the section
// of all others; a scan at the begin for each batch of 64 entries.
//
// Orderings: those of reclaim/rlu.hpp. No field is atomic.

namespace espalier {

/// The default policies.
using rlu_list_traits =
    basic_map_traits<segregated, unused_policy, unused_policy, unused_policy, unused_policy>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class rlu_list : public stored_map<rlu_list<Key, Value, Traits, Compare>, Key, Value, Compare,
                                   node_store<typename completed_traits<
                                       Traits, rlu_list_traits>::template with_reclaimer<unprotected>>> {
  using store =
      node_store<typename completed_traits<Traits, rlu_list_traits>::template with_reclaimer<unprotected>>;
  using base = stored_map<rlu_list, Key, Value, Compare, store>;
  friend base;
  using base::less;
  using base::store_;
  using typename base::contract;
  friend contract;
  using holder = value_holder<store, Value>;
  using batch = entry_batch<Key, Value>;

  struct node;
  struct fields {
    node* next{};
    typename holder::word value{};
  };
  using domain_type = rlu_domain<fields>;
  using object = typename domain_type::object;
  using section = typename domain_type::section;
  struct node_fields : object {
    Key key;
    node_fields(const Key& k, node* next, typename holder::word v) noexcept : object({next, v}), key(k) {}
  };
  struct alignas(compact_layout::node_align(sizeof(node_fields), alignof(node_fields))) node : node_fields {
    using node_fields::node_fields;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(node) == 32,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using traits_type = completed_traits<Traits, rlu_list_traits>;
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
      for (node* n = head_.fields().next; n != nullptr;) destroy(store_, std::exchange(n, n->fields().next));
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
  [[nodiscard]] std::size_t bytes_of_threads() const noexcept { return rlu_.bytes(); }

  struct place {
    object* before;
    node* at;  // the first node whose key is not smaller; null at the end
  };

  /// The node of an insert in progress, and the value's word.
  struct new_node {
    explicit new_node(store& s) noexcept : word(s), made(s, memory_role::node) {}
    typename holder::pending word;
    unpublished<store, node> made;
  };

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const section now(rlu_);
    const place at = seek(now, key);
    if (!found(at, key)) return std::nullopt;
    return holder::read(now.read(*at.at).value);
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    const section now(rlu_);
    return found(seek(now, key), key);
  }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const place at = seek(now, key);
      if (found(at, key)) return false;
      if (link(now, at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const place at = seek(now, key);
      const bool present = found(at, key);
      if (present ? assign(guard, now, at, fresh, value) : link(now, at, fresh, key, value)) return !present;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const place at = seek(now, key);
      if (!found(at, key)) return false;
      if (unlink(guard, now, at)) return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause), fresh.word.reset()) {
      const place at = seek(now, key);
      std::optional<Value> before;
      if (found(at, key)) before.emplace(holder::read(now.read(*at.at).value));
      std::optional<Value> after = f(before);
      bool done = true;
      if (before && after)
        done = assign(guard, now, at, fresh, std::move(*after));
      else if (after)
        done = link(now, at, fresh, key, std::move(*after));
      else if (before)
        done = unlink(guard, now, at);
      if (done) return before;
    }
  }

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

  /// After a conflict. No commit waits for this thread meanwhile.
  static void wait(section& now, backoff& pause) noexcept {
    now.abort([&pause] { pause.wait(); });
  }

  [[nodiscard]] place seek(const section& now, const Key& key) const {
    place at{&head_, now.read(head_).next};
    while (at.at != nullptr && less(at.at->key, key)) at = {at.at, now.read(*at.at).next};
    return at;
  }
  [[nodiscard]] bool found(const place& at, const Key& key) const {
    return at.at != nullptr && !less(key, at.at->key);
  }

  // The changes. False, with nothing changed, if another update has locked a node.

  template <class Source>
  bool link(section& now, const place& at, new_node& fresh, const Key& key, Source&& value) {
    const auto word = fresh.word.get(std::forward<Source>(value));
    if (fresh.made.get() == nullptr)
      fresh.made.emplace(at.before == &head_ ? nullptr : at.before, key, at.at, word);
    else
      fresh.made.get()->fields() = {at.at, word};
    fields* const before = now.try_write(*at.before);
    if (before == nullptr) return false;
    before->next = fresh.made.get();
    now.commit();  // LP: insert(true)
    fresh.made.release();
    fresh.word.release();
    return true;
  }

  template <class Source>
  bool assign(guard_type& guard, section& now, const place& at, new_node& fresh, Source&& value) {
    const auto word = fresh.word.get(std::forward<Source>(value));
    fields* const own = now.try_write(*at.at);
    if (own == nullptr) return false;
    const auto old = std::exchange(own->value, word);
    now.commit();  // LP: insert_or_assign(false)
    fresh.word.release();
    holder::retire(store_, guard, old);
    return true;
  }

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

  /// Frees a node that no thread can reach, with its cell.
  static void destroy(store& owner, node* n) noexcept {
    holder::discard(owner, n->fields().value);
    owner.destroy(memory_role::node, n);
  }

  alignas(hw::false_sharing_bytes) mutable object head_{fields{}};
  mutable domain_type rlu_;
};

}  // namespace espalier
