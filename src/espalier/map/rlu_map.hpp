#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/reclaim/rlu.hpp"
#include "espalier/sync/backoff.hpp"

namespace espalier {

/// The default policies of maps by read-log-update.
using rlu_traits = basic_map_traits<segregated, unused_policy, unused_policy, unused_policy, unused_policy>;

/// The part of a map by read-log-update (reclaim/rlu.hpp) that is the same for all structures. Every operation is a section, and sees
/// the map as it was at one moment. An update locks the objects that it changes, and its commit shows all changes at one moment. It
/// waits for the sections that began before. An update that comes to a locked object begins again: that is all that a conflict means
/// to a caller.
///
/// An object that an update locks has not changed since its section began: a commit in between would have waited for this section
/// before it unlocked the object. So there is nothing to validate of an object that is locked. Of others the structure says why
/// it need not lock them.
///
/// The algorithm derives from it, befriends it, and brings
///   Fields<Key, Word>  what writers change of a node and of the head: with `value`, a word of the holder
///   node               an object of these fields, constructible from (key, fields)
///   place              where a seek ended: `before`, the object with the edge; `at`, a node or null
///   seek(section, key), found(place, key)   whether `at` has the key
///   fields_at(place, key, word)   of a new node there
///   edge(fields, place)           the edge to it, in those of `before`
///   unlink(guard, section, place) erases the entry of `at`; false, with nothing changed, after a conflict
///
/// Progress. find, contains and scan never wait and never retry. Updates block one another, and wait for sections in progress: one that
/// stops for ever stops them.
///
/// Reclamation: at once. Where an erase has committed, each section that began before has ended, and later ones read the copy of what
/// led to the node. So the erase has the only pointer to the node. RLU is the reclaimer of the map: the traits' one has nothing to
/// do, and the store has `unprotected` instead. The same holds for the cell of a value that was replaced.
///
/// Linearization points: the time of the commit (rlu_domain::take_time) of an update that changes something; the begin of the section
/// of all others; a scan at the begin for each batch of 64 entries. Scans are a section for each batch, because the visitor may
/// call the map: a section in which it did would wait for itself.
///
/// Orderings: those of reclaim/rlu.hpp. No field is atomic.
template <class Map, class Key, class Value, class Traits, class Compare,
          template <class, class> class Fields>
class rlu_map : public stored_map<Map, Key, Value, Compare,
                                  node_store<typename Traits::template with_reclaimer<unprotected>>> {
  using base =
      stored_map<Map, Key, Value, Compare, node_store<typename Traits::template with_reclaimer<unprotected>>>;

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  using base::base;

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value>;
  using fields = Fields<Key, typename holder::word>;
  using domain_type = rlu_domain<fields>;
  using object = typename domain_type::object;
  using section = typename domain_type::section;

  // No other thread may use the map any more.
  ~rlu_map() = default;

  /// What a new node should lie beside; head_ is no block of the placement.
  template <class Place>
  [[nodiscard]] const void* near(const Place& at) const noexcept {
    return at.before == &head_ ? nullptr : at.before;
  }

  /// Frees a node that no thread can reach, with its cell.
  template <class Node>
  static void destroy(store& owner, Node* n) noexcept {
    holder::discard(owner, n->fields().value);
    owner.destroy(memory_role::node, n);
  }

  alignas(hw::false_sharing_bytes) mutable object head_{fields{}};
  mutable domain_type rlu_;

 private:
  [[nodiscard]] std::size_t bytes_of_threads() const noexcept { return rlu_.bytes(); }

  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }

  /// The node of an insert in progress, and the value's word.
  template <class Node>
  struct new_node_of {
    explicit new_node_of(store& s) noexcept : word(s), made(s, memory_role::node) {}
    typename holder::pending word;
    unpublished<store, Node> made;
  };

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const section now(rlu_);
    const auto at = self().seek(now, key);
    if (!self().found(at, key)) return std::nullopt;
    return holder::read(now.read(*at.at).value);
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    const section now(rlu_);
    return self().found(self().seek(now, key), key);
  }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node_of<typename Map::node> fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const auto at = self().seek(now, key);
      if (self().found(at, key)) return false;
      if (link(now, at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node_of<typename Map::node> fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const auto at = self().seek(now, key);
      const bool present = self().found(at, key);
      if (present ? assign(guard, now, at, fresh, value) : link(now, at, fresh, key, value)) return !present;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    section now(rlu_);
    for (backoff pause;; wait(now, pause)) {
      const auto at = self().seek(now, key);
      if (!self().found(at, key)) return false;
      if (self().unlink(guard, now, at)) return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node_of<typename Map::node> fresh(store_);
    section now(rlu_);
    for (backoff pause;; wait(now, pause), fresh.word.reset()) {
      const auto at = self().seek(now, key);
      std::optional<Value> before;
      if (self().found(at, key)) before.emplace(holder::read(now.read(*at.at).value));
      std::optional<Value> after = f(before);
      bool done = true;
      if (before && after)
        done = assign(guard, now, at, fresh, std::move(*after));
      else if (after)
        done = link(now, at, fresh, key, std::move(*after));
      else if (before)
        done = self().unlink(guard, now, at);
      if (done) return before;
    }
  }

  /// After a conflict. No commit waits for this thread meanwhile.
  static void wait(section& now, backoff& pause) noexcept {
    now.abort([&pause] { pause.wait(); });
  }

  // The changes. False, with nothing changed, if another update has locked a node.

  template <class Place, class NewNode, class Source>
  bool link(section& now, const Place& at, NewNode& fresh, const Key& key, Source&& value) {
    const auto word = fresh.word.get(std::forward<Source>(value));
    const fields own = Map::fields_at(at, key, word);
    if (fresh.made.get() == nullptr)
      fresh.made.emplace(near(at), key, own);
    else
      fresh.made.get()->fields() = own;
    fields* const before = now.try_write(*at.before);
    if (before == nullptr) return false;
    Map::edge(*before, at) = fresh.made.get();
    now.commit();  // LP: insert(true)
    fresh.made.release();
    fresh.word.release();
    return true;
  }

  template <class Place, class NewNode, class Source>
  bool assign(guard_type& guard, section& now, const Place& at, NewNode& fresh, Source&& value) {
    const auto word = fresh.word.get(std::forward<Source>(value));
    fields* const own = now.try_write(*at.at);
    if (own == nullptr) return false;
    const auto old = std::exchange(own->value, word);
    now.commit();  // LP: insert_or_assign(false)
    fresh.word.release();
    holder::retire(store_, guard, old);
    return true;
  }
};

}  // namespace espalier
