#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "espalier/hw/opaque.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/ordered/hashed_leaf.hpp"
#include "espalier/map/ordered/hashed_nodes.hpp"
#include "espalier/map/ordered/key_image.hpp"
#include "espalier/map/tree/optimistic_access.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/backoff.hpp"

// What ordered_map is for keys that have images (key_image.hpp): a B+tree whose leaves are hash tables.
//
// Essence. A search in a large map waits for memory, unless it has few enough instructions: then the processor begins
// the next search before this one ends. Leaves have 256 entries, so inner nodes stay in the caches, and a search reads two
// lines of a leaf, which it knows both at once (hashed_leaf.hpp). In an inner node it compares a sample of the keys and
// then 16 of them, by the vectors of the processor. It validates nothing on its way down: a leaf knows which keys it
// covers, so a search that has come to the wrong one begins again. find_batch() lets the searches of 32 keys wait
// together. A scan goes from one leaf to the next by the keys that they cover, in the same way; what it visits it reads in a leaf
// that has an order, or in a sorted copy of a part. tree.hpp describes splits and merges: optimistic lock coupling, as in
// olc_btree.hpp. What depends on no key and no value is in hashed_nodes.hpp. A full leaf shares with a neighbour before it is split.
//
// A map with few entries has them in a first leaf of half the size, and no root. When that is full, its entries move to a
// leaf of the usual size, the root. An empty one stays, as in tree.hpp.
//
// Invariants: (B1) to (B3) of tree.hpp, (H1) to (H7) of hashed_leaf.hpp.
//   (F1) A map has a root, or a first leaf, or is empty. What the anchor and `first_` lead to changes with the lock of the
//        anchor. A first leaf that leaves the map is obsolete before that lock is released.
//
// Reclamation of the first leaf. (I1) `first_` has the only pointer to it, and loses it under the guard of the anchor. (I2) Its own
// guard is held then, and it is obsolete. (I3) The pointer is written when the leaf is created.
//
// Progress. All operations may wait: for a split or a merge of a node on their way, inserts and erases also for the lock of
// a leaf. Updates of a key that is present are lock-free but for that, where words have 8 bytes. A thread holds locks for
// the change of at most three nodes.
//
// Linearization points
//   find, contains -> present      the load of key and value in one step. Where it takes two, that of the value, or the moment
//                                  before an erase between them: such an erase has not released the lock yet, for the
//                                  find validates
//   find, contains -> absent       in an empty map the read of the root between the anchor's version and its validation; else
//                                  one of the reads of groups and marks, or a moment between two of them: if the key was
//                                  there all the time, it was in one slot (H4), on the way that its marks show (H2), and the
//                                  search has come to that. The validation shows that the leaf covered the key, and that
//                                  no entry moved
//   insert -> true                 the store of the key
//   erase -> true                  the store of another key, with the lock held; what reads the lock and began before does
//                                  not validate after the release
//   assign, update                 the exchange of key and word, or the store of the word with the lock held
//   insert -> false                the read of the key
//   erase -> false                 as find
//   a visit of a scan              as a find in two steps
//
// Orderings: those of sync/optimistic_lock.hpp and of hashed_leaf.hpp.

namespace espalier::btree {

template <class Fanout>
struct hashed {
  template <class Word>
  using leaf = hashed_leaf<Word, Fanout::leaf>;
  template <class Word>
  using nodes = hashed_nodes<Word, Fanout>;
};

template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
class hashed_tree : public tree<Map, Key, Value, Traits, Compare, hashed<Fanout>::template leaf,
                                Fanout::inner, optimistic_access, key_image<Key, Compare>, hashed<Fanout>> {
  using image = key_image<Key, Compare>;
  using base = tree<Map, Key, Value, Traits, Compare, hashed<Fanout>::template leaf, Fanout::inner,
                    optimistic_access, image, hashed<Fanout>>;
  using nodes = hashed_nodes<word_for<Value>, Fanout>;
  friend base;
  using typename base::operations;
  friend operations;

 public:
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;
  using typename base::guard_type;

  [[nodiscard]] static std::vector<node_type> node_types() {
    std::vector<node_type> all = base::node_types();
    all.push_back({memory_role::other, "first leaf", sizeof(first_leaf), first_leaf().members()});
    return all;
  }

  // Quiescent only, as in tree.hpp.

  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    if (const first_leaf* const only = first_at_rest()) base::visit_leaf(*only, memory_role::other, visitor);
    base::visit_nodes(visitor);
  }
  [[nodiscard]] const char* check_invariants() const {
    if (first_leaf* const only = first_at_rest()) {
      if (base::root_at_rest() != nullptr) return "a map has a root and a first leaf";
      if (only->lock.is_locked() || only->lock.try_read().obsolete())
        return "a first leaf is locked, or has left";
      if (const char* const wrong = only->check()) return wrong;
    }
    return base::check_invariants();
  }

  /// The find of a function that does nothing else, as those of espalier.h: it calls functions in its own place alone, so
  /// that it saves no registers. Returns what Reply::found(context, value), Reply::absent(context) or
  /// Reply::slowly(map, key, context) returns: the last one is a find as others. The values lie in the nodes.
  template <class Reply, class Context>
  [[gnu::always_inline]] auto tail_find(const Key key, const Context context) const noexcept
    requires(base::holder::in_place && base::leaf::updates_in_place &&
             sampled_keys<Fanout::inner>::part == 16 &&
             std::is_same_v<typename Traits::reclaimer_type, epoch_domain>)
  {
    const Map* const map = static_cast<const Map*>(this);
    const hw::vector_width width = hw::vectors();
    if (width != hw::vector_width::avx2 && width != hw::vector_width::avx512) [[unlikely]]
      return Reply::slowly(map, key, context);
    const epoch_domain::bare_pin pin = this->store_.domain().pin_at_hand();
    if (!pin) [[unlikely]]
      return Reply::slowly(map, key, context);
    const tail_of_find<Reply, Context> then{map, key, context, pin};
    return width == hw::vector_width::avx2
               ? this->template find_then<hw::vector_width::avx2>(image::of(key), then)
               : this->template find_then<hw::vector_width::avx512>(image::of(key), then);
  }

 protected:
  using typename base::contract;
  friend contract;
  /// No other thread may use the map any more.
  ~hashed_tree() {
    if (first_leaf* const only = first_at_rest()) destroy_first(*only);
  }

  using stored = typename image::type;
  using nodes::find_in;
  using nodes::first_;
  using nodes::first_at_rest;
  using nodes::in_first_leaf;
  using nodes::try_apply;
  using typename base::change;
  using typename base::holder;
  using typename base::leaf;
  using typename base::outcome;
  using typename base::section;
  using typename base::store;
  using typename base::word;
  using typename nodes::first_leaf;
  using typename nodes::found_word;

  /// Without a branch that depends on whether the key is present, if the word is the value: a wrong guess of the processor
  /// would end the wait together with the next searches.
  [[nodiscard, gnu::always_inline]] static std::optional<Value> value_of(const found_word& found) noexcept(
      holder::in_place) {
    if constexpr (holder::in_place) {
      std::optional<Value> value(found.value);
      if (!hw::opaque(found.present)) value.reset();
      return value;
    } else {
      return found.present ? std::optional<Value>(holder::read(found.value)) : std::nullopt;
    }
  }

  struct guesses_of_batch {
    std::array<stored, together_most> images;
    std::array<leaf*, together_most> leaves;
  };
  /// Goes to the leaves of the keys key_at(0) and so on, and requests their lines.
  template <class KeyAt>
  [[nodiscard, gnu::always_inline]] guesses_of_batch guess(std::size_t count,
                                                           const KeyAt& key_at) const noexcept {
    guesses_of_batch at;
    for (std::size_t i = 0; i < count; ++i) at.images[i] = image::of(key_at(i));
    this->guess_leaves(std::span(at.images).first(count), at.leaves);
    return at;
  }

  /// As in tree.hpp.
  [[nodiscard]] std::optional<word> find_word(const Key& key) const {
    const found_word found = find_in(image::of(key), this->guess_leaf(image::of(key)));
    return found.present ? std::optional(found.value) : std::nullopt;
  }
  /// Where a scan is. It needs no inner node but to guess the next leaf: a leaf knows which keys it covers.
  template <class Bound>
  struct position {
    static constexpr stored end_of_map = Bound::reverse ? 0 : std::numeric_limits<stored>::max();
    [[nodiscard]] static stored behind(stored key) noexcept { return Bound::reverse ? key - 1 : key + 1; }

    stored from = ~end_of_map;  ///< the next key
    leaf* next = nullptr;       ///< where it is likely to be, if the scan has been there to request it
    unsigned copies = 0;        ///< that the scan has made
  };

  template <class Bound, class Visit>
  void scan_stored(const Bound& bound, Visit& visit) const {
    position<Bound> at;
    if (bound.key()) at.from = *bound.key();
    if (bound.excludes_key()) {
      if (at.from == at.end_of_map) return;
      at.from = at.behind(at.from);
    }
    leaf* here = this->guess_leaf(at.from);
    if (is_first_only<Visit> && bound.key()) {
      const found_word there = find_in(at.from, here);
      if (there.present) return static_cast<void>(visit(image::key(at.from), holder::read(there.value)));
    }
    if (here != nullptr) here->request_order();
    for (backoff pause;;) {
      const progress_of_scan done = here != nullptr ? scan_leaf(*here, at, visit) : scan_again(at, visit);
      if (done == progress_of_scan::over) return;
      if (done == progress_of_scan::interrupted) pause.wait();
      here = done == progress_of_scan::through && at.next != nullptr ? at.next : this->guess_leaf(at.from);
    }
  }
  /// Where there was no root.
  template <class Bound, class Visit>
  [[nodiscard, gnu::noinline]] progress_of_scan scan_again(position<Bound>& at, Visit& visit) const {
    return in_first_leaf([&](first_leaf& only) { return scan_leaf(only, at, visit); }, progress_of_scan::over,
                         progress_of_scan::interrupted);
  }
  template <class Leaf, class Bound, class Visit>
  [[nodiscard, gnu::always_inline]] progress_of_scan scan_leaf(Leaf& here, position<Bound>& at,
                                                               Visit& visit) const {
    const auto seen = here.lock.try_read();
    if (!seen.steady() || !here.covers(seen, at.from)) return progress_of_scan::interrupted;
    at.next = nullptr;
    // Once: inserts go on.
    const entry_counts now = here.counts.get(seen);
    if (now.is_ordered()) return scan_in_order(here, seen, now, at, visit);
    Leaf::request_all(&here);
    if (is_worth_an_order<Visit>(at.from) && here.want_order(seen)) {
      if constexpr (std::is_same_v<Leaf, leaf>) at.next = &here;
      return progress_of_scan::through;
    }
    return scan_copies(here, seen, at, visit);
  }
  /// A look for one entry costs a twentieth of an order, which the next insert throws away: one key in sixteen asks for it.
  template <class Visit>
  [[nodiscard]] static constexpr bool is_worth_an_order(stored from) noexcept {
    return !is_first_only<Visit> || static_cast<std::uint64_t>(from) * 0x9E37'79B9'7F4A'7C15U >> 60U == 0;
  }
  /// Visits entries where they lie.
  template <class Leaf, class Bound, class Visit>
  [[nodiscard, gnu::always_inline]] progress_of_scan scan_in_order(const Leaf& here, const section& seen,
                                                                   const entry_counts now,
                                                                   position<Bound>& at, Visit& visit) const {
    const stored end = Bound::reverse ? here.first_covered(seen) : here.last_covered(seen);
    const auto next_requested = [&] {
      if (end == at.end_of_map || at.next != nullptr) return;
      at.next = this->guess_leaf(at.behind(end));
      if (at.next != nullptr) at.next->request_order();
    };
    bool ends = false;
    std::optional<stored> last;
    const auto visit_one = [&](stored key, word v) {
      last = key;
      ends = !visit(image::key(key), holder::read(v));
      return !ends;
    };
    const bool valid =
        here.template visit_in_order<Bound::reverse>(seen, now, at.from, next_requested, visit_one);
    if (valid) last = end;
    if (ends || last == at.end_of_map) return progress_of_scan::over;
    if (last) at.from = at.behind(*last);
    return valid ? progress_of_scan::through : progress_of_scan::interrupted;
  }
  /// Visits copies of a part of the entries.
  template <class Leaf, class Bound, class Visit>
  [[nodiscard, gnu::noinline]] progress_of_scan scan_copies(Leaf& here, const section& seen,
                                                            position<Bound>& at, Visit& visit) const {
    constexpr bool first_alone = is_first_only<Visit>;
    constexpr unsigned small = first_alone ? small_piece_for_one : small_piece;
    typename Leaf::content found;
    const auto end = here.try_copy(seen, at.from, Bound::reverse,
                                   at.copies++ < small_pieces ? small : Leaf::capacity, found);
    if (!end) return progress_of_scan::interrupted;
    const bool goes_on = *end != at.end_of_map;
    const unsigned next_requested_at = found.count - std::min(found.count, leaf_requested_ahead);
    for (unsigned i = 0; i < found.count; ++i) {
      if (!first_alone && i == next_requested_at && goes_on) {
        at.next = this->guess_leaf(at.behind(*end));
        if (at.next != nullptr) leaf::request_all(at.next);
      }
      const unsigned e = Bound::reverse ? found.count - 1 - i : i;
      if (!visit(image::key(found.key[e]), holder::read(found.slot[e]))) return progress_of_scan::over;
    }
    if (!goes_on) return progress_of_scan::over;
    at.from = at.behind(*end);
    return progress_of_scan::through;
  }
  /// So many entries before they are visited.
  static constexpr unsigned leaf_requested_ahead = 32;
  /// A scan sorts what it copies, and may end soon: its first pieces have about so many entries, the others are the leaves.
  static constexpr unsigned small_piece = 112;
  static constexpr unsigned small_piece_for_one = 8;
  static constexpr unsigned small_pieces = 2;

  // As in entry_operations.hpp.

  [[nodiscard, gnu::always_inline]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    return value_of(find_in(image::of(key), this->guess_leaf(image::of(key))));
  }
  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    return find_in(image::of(key), this->guess_leaf(image::of(key))).present;
  }

  // As in map_facade.hpp.

  template <class KeyAt>
  void do_request(guard_type&, std::size_t count, const KeyAt& key_at) const noexcept {
    const guesses_of_batch at = guess(count, key_at);
    for (std::size_t i = 0; i < count && at.leaves[i] != nullptr; ++i)
      at.leaves[i]->request_room(at.images[i]);
  }
  std::size_t do_find_batch(guard_type&, std::span<const Key> keys,
                            std::span<std::optional<Value>> results) const {
    std::size_t present = 0;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      const guesses_of_batch at = guess(n, [&](std::size_t i) { return keys[from + i]; });
      for (std::size_t i = 0; i < n; ++i) {
        const found_word found = find_in(at.images[i], at.leaves[i]);
        if constexpr (holder::in_place) {
          results[from + i] = value_of(found);
        } else {
          results[from + i].reset();  // values need no assignment
          if (found.present) results[from + i].emplace(holder::read(found.value));
        }
        if (found.present) ++present;
      }
    }
    return present;
  }

  template <class Reply, class Context>
  struct tail_of_find {
    const Map* map;
    Key key;
    Context context;
    epoch_domain::bare_pin pin;

    [[gnu::always_inline]] auto again() const noexcept {
      pin.end();
      return Reply::slowly(map, key, context);
    }
    [[gnu::always_inline]] auto ended(const word value, bool present) const noexcept {
      pin.end();
      return present ? Reply::found(context, holder::read(value)) : Reply::absent(context);
    }
    [[gnu::always_inline]] auto behind(const leaf& of_key, optimistic_version::stamp seen) const noexcept {
      return go_on(map, key, context, pin, &of_key, seen);
    }
    // As many arguments as registers hold.
    [[gnu::noinline]] static auto go_on(const Map* map, const Key key, Context context,
                                        epoch_domain::bare_pin pin, const leaf* of_key,
                                        optimistic_version::stamp seen) noexcept {
      return nodes::find_behind(image::of(key), *of_key, seen, tail_of_find{map, key, context, pin});
    }
  };

  // As in tree.hpp.

  [[nodiscard]] auto changes() noexcept { return hashed_changes<store, word, Fanout>(this->store_, *this); }
  [[nodiscard]] outcome apply_with_room(guard_type& guard, const stored key, const change& wanted) {
    return changes().apply(guard, key, wanted);
  }
  template <indexed_entries Iterator>
  void do_bulk_load(Iterator from, std::size_t n, unsigned threads) {
    base::do_bulk_load(from, n, threads);
    first_leaf* const only = first_at_rest();
    if (n == 0 || only == nullptr) return;
    first_.set(exclusive_access{}, nullptr);
    destroy_first(*only);
  }

 private:
  void destroy_first(first_leaf& only) noexcept {
    if constexpr (store::template must_visit<first_leaf>() || holder::must_visit()) {
      base::discard_values(only);
      this->store_.destroy(memory_role::other, &only);
    }
  }
};

// What the library has (hashed_tree.cpp).
extern template struct hashed_leaf<std::uint64_t, 128>;
extern template struct hashed_leaf<std::uint64_t, 256>;
extern template class hashed_nodes<std::uint64_t, fanout<256>>;
extern template class tree_changes<hashed_changes<node_store<btree_traits>, std::uint64_t, fanout<256>>,
                                   node_store<btree_traits>, hashed_nodes<std::uint64_t, fanout<256>>>;
extern template class hashed_changes<node_store<btree_traits>, std::uint64_t, fanout<256>>;

}  // namespace espalier::btree
