#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "espalier/map/node_store.hpp"
#include "espalier/map/ordered/hashed_leaf.hpp"
#include "espalier/map/tree/optimistic_access.hpp"
#include "espalier/map/tree/tree_changes.hpp"
#include "espalier/map/tree/tree_nodes.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// What of a hashed_tree (hashed_tree.hpp, which explains it) depends neither on its keys nor on its values: they are 64-bit
// images and words here. What operations do each time is inline. What is rare is not: the library has it for maps with
// words of 8 bytes and the default policies, so that programs do not compile it.

namespace espalier::btree {

template <class Word, class Fanout>
class hashed_nodes : public tree_nodes<std::uint64_t, std::less<std::uint64_t>,
                                       hashed_leaf<Word, Fanout::leaf>, Fanout::inner, optimistic_access> {
  using base = tree_nodes<std::uint64_t, std::less<std::uint64_t>, hashed_leaf<Word, Fanout::leaf>,
                          Fanout::inner, optimistic_access>;
  template <class, class, class>
  friend class hashed_changes;

 public:
  using stored = std::uint64_t;
  using less = std::less<stored>;
  using word = Word;
  using change = entry_change<word>;
  using outcome = entry_outcome<word>;
  using effect = typename outcome::effect;
  using typename base::leaf;
  using typename base::place;
  using typename base::section;

  /// What a search comes to where it finds no root: in larger maps it costs nothing.
  using first_leaf = laid_out<hashed_leaf<word, (Fanout::leaf + 1) / 2>>;

  /// Both maps are at rest.
  void swap_with(hashed_nodes& other) noexcept {
    base::swap_with(other);
    const exclusive_access rest;
    first_leaf* const mine = first_at_rest();
    first_.set(rest, other.first_at_rest());
    other.first_.set(rest, mine);
  }
  [[nodiscard]] first_leaf* first_at_rest() const noexcept { return first_.get(exclusive_access{}); }

  /// The word of a key's value. A plain struct is returned in registers.
  struct found_word {
    word value;
    bool present;
  };
  /// False if a writer came between: then nothing is known.
  template <class Leaf>
  [[nodiscard, gnu::always_inline]] static bool try_find(const stored key, Leaf& of_key,
                                                         found_word& found) noexcept {
    if constexpr (Leaf::updates_in_place) {
      if (const hw::vector_width width = hw::vectors(); Leaf::loads_entries(width)) [[likely]] {
        const auto seen = of_key.placement.try_read();
        return find_in_section(key, of_key, seen, found, [&](word& value) __attribute__((always_inline)) {
          return of_key.find_beside_writers(key, value, width);
        });
      }
    }
    // A reference to `found` itself would keep it out of registers.
    found_word there{};
    const bool done = find_between_writers(key, of_key, there);
    found = there;
    return done;
  }
  /// Where an entry is not loaded in one step. Not inlined: with words of 8 bytes it is rare.
  template <class Leaf>
  [[nodiscard, gnu::noinline]] static bool find_between_writers(const stored key, Leaf& of_key,
                                                                found_word& found) noexcept {
    const auto seen = of_key.lock.try_read();
    return find_in_section(key, of_key, seen, found,
                           [&](word& value) { return of_key.find(seen, key, value); });
  }
  template <class Leaf, class Section, class Find>
  [[nodiscard, gnu::always_inline]] static bool find_in_section(const stored key, const Leaf& of_key,
                                                                const Section& seen, found_word& found,
                                                                const Find& find) noexcept {
    if (!seen.steady() || !of_key.covers(unvalidated{}, key)) [[unlikely]]
      return false;
    found.present = find(found.value);
    return seen.validate();
  }
  /// `of_key` is where the first attempt reads; null where the map had no root.
  [[nodiscard, gnu::always_inline]] found_word find_in(const stored key, leaf* of_key) const noexcept {
    found_word found{};
    if (of_key != nullptr && try_find(key, *of_key, found)) [[likely]]
      return found;
    return find_again(key);
  }
  /// Not inline, as make_room() of tree_changes.hpp.
  [[nodiscard]] found_word find_again(stored key) const noexcept;

  /// The image that no inner node has as a separator.
  static constexpr stored no_separator = ~stored{0};
  /// One attempt of a find as the last thing that a function does. It calls Then's functions in its own place alone, so it
  /// saves no registers: again() where it found nothing out, ended(value, present), or behind(leaf, stamp) where
  /// find_behind() is to go on.
  template <hw::vector_width Width, class Then>
  [[gnu::always_inline]] auto find_then(const stored key, const Then& then) const noexcept {
    node_base* node = this->anchor_.root.get(unvalidated{});
    if (node == nullptr || key == no_separator) [[unlikely]]
      return then.again();
    for (unsigned level = node->level; level != 0; --level)
      node = static_cast<const typename base::inner*>(node)->guess_child(key, Width);
    const leaf& of_key = *static_cast<const leaf*>(node);
    const optimistic_version::stamp seen = of_key.placement.now();
    const bool is_of_key = seen.steady() && of_key.covers(unvalidated{}, key);
    if (!is_of_key) [[unlikely]]
      return then.again();
    hw::word_pair entry;
    if (!of_key.find_at_home(key, entry, Width)) [[unlikely]]
      return then.behind(of_key, seen);
    if (!of_key.placement.validate(seen)) [[unlikely]]
      return then.again();
    return then.ended(std::bit_cast<word>(entry.second), entry.first == key);
  }
  /// Calls again() or ended().
  template <class Then>
  [[gnu::always_inline]] static auto find_behind(const stored key, const leaf& of_key,
                                                 const optimistic_version::stamp seen,
                                                 const Then& then) noexcept {
    const hw::word_pair entry = of_key.find_behind_home(key);
    return of_key.placement.validate(seen) ? then.ended(std::bit_cast<word>(entry.second), entry.first == key)
                                           : then.again();
  }

  /// Where there was no root: what f(leaf) returns for the first leaf, `empty` if the map is empty, or `again` if it has a root
  /// now.
  template <class F, class Result>
  [[gnu::always_inline]] Result in_first_leaf(const F& f, const Result& empty,
                                              const std::type_identity_t<Result>& again) const {
    // The anchor shows that it led to neither at one moment.
    const section above = this->anchor_.lock.read();
    if (first_leaf* const only = first_.get(above)) return f(*only);
    return this->anchor_.root.get(above) == nullptr && above.validate() ? empty : again;
  }

  /// `attempts` of them have failed.
  [[nodiscard, gnu::always_inline]] std::optional<outcome> try_apply(const stored key, const change& wanted,
                                                                     unsigned attempts) const {
    return try_apply_in(this->guess_leaf(key), key, wanted, attempts);
  }
  template <class Leaf>
  [[nodiscard, gnu::always_inline]] std::optional<outcome> try_apply_in(Leaf* of_key, const stored key,
                                                                        const change& wanted,
                                                                        unsigned attempts) const {
    if (of_key == nullptr) [[unlikely]]
      return outcome{.what = effect::full};
    // An update does not even read the line of the lock.
    if (wanted.insert_where_absent)
      of_key->request_room(key);
    else if (wanted.present != change::where_present::store)
      of_key->request_lock();
    const auto seen = of_key->placement.try_read();
    if (!seen.steady() || !of_key->covers(unvalidated{}, key)) return std::nullopt;
    const bool inserts = wanted.insert_where_absent && wanted.present == change::where_present::keep;
    const bool erases = wanted.present == change::where_present::erase;
    const bool locks_first = (inserts || erases) && !seen.has(changes_are_in_vain);
    if (!locks_first) {
      const auto where = of_key->seek(unvalidated{}, less{}, key);
      // Without the lock where there is nothing to do, or the step is one.
      if (where.found ? wanted.present == change::where_present::keep : !wanted.insert_where_absent)
        return seen.validate() ? std::optional(outcome{}) : std::nullopt;
      if constexpr (Leaf::updates_in_place) {
        if (where.found && wanted.present == change::where_present::store)
          return of_key->try_store(where, key, wanted);
      }
    }
    // A lock that is held is not written where threads meet: its line may stay with the holder.
    if (seen.has(threads_meet) && of_key->lock.is_locked()) return std::nullopt;
    auto held = of_key->lock.try_lock_beside_readers();
    if (!held) return std::nullopt;
    // No split or merge comes now, but another change may have come.
    if (!seen.validate()) {
      held.release_unchanged();
      return std::nullopt;
    }
    if (attempts >= attempts_where_threads_meet && !seen.has(threads_meet)) [[unlikely]]
      of_key->placement.mark(threads_meet);
    const auto where = of_key->seek(held, less{}, key);
    if (locks_first && where.found == inserts) [[unlikely]]
      of_key->placement.mark(changes_are_in_vain);
    const outcome done = of_key->apply(held, where, key, wanted);
    // A scan that has seen the key of an entry that has gone does not validate.
    if (done.what != effect::erased) held.release_unchanged();
    return done;
  }

  static constexpr unsigned attempts_where_threads_meet = 4;
  // Hints of a leaf, until its range changes.
  static constexpr auto threads_meet = optimistic_version::hint::first;
  /// An insert has found its key, or an erase has not. Until then both take the lock before they search: the processor does
  /// not go past the lock while it waits for the line of the search, so it would not begin the next operation meanwhile.
  /// Behind that they search first, and a change that is in vain writes nothing that others read.
  static constexpr auto changes_are_in_vain = optimistic_version::hint::second;

 protected:
  optimistic_field<first_leaf*> first_;  ///< changed with the anchor
};

template <class Word, class Fanout>
auto hashed_nodes<Word, Fanout>::find_again(const stored key) const noexcept -> found_word {
  for (backoff pause;; pause.wait()) {
    found_word found{};
    leaf* const of_key = this->guess_leaf(key);
    if (of_key != nullptr
            ? try_find(key, *of_key, found)
            : in_first_leaf([&](first_leaf& only) { return try_find(key, only, found); }, true, false))
      return found;
  }
}

template <class Store, class Word, class Fanout>
class hashed_changes
    : public tree_changes<hashed_changes<Store, Word, Fanout>, Store, hashed_nodes<Word, Fanout>> {
  using nodes = hashed_nodes<Word, Fanout>;
  using base = tree_changes<hashed_changes, Store, nodes>;
  friend base;
  using stored = typename nodes::stored;
  using change = typename nodes::change;
  using outcome = typename nodes::outcome;
  using effect = typename nodes::effect;
  using first_leaf = typename nodes::first_leaf;
  using typename base::leaf;
  using typename base::place;
  using typename base::section;
  using held_place = typename base::template held_place<first_leaf>;
  using base::anchor_;
  using base::nodes_;
  using base::store_;

 public:
  using typename base::guard_type;

  hashed_changes(Store& store, nodes& of_map) noexcept : base(store, of_map, {}), first_(of_map.first_) {}

  /// Where there was no root, or the leaf was full: changes the entry in the first leaf, or makes room until there is some.
  /// Merges nodes after an erase.
  [[nodiscard]] outcome apply(guard_type& guard, stored key, const change& wanted);

  /// Nothing if it has made room.
  std::optional<outcome> apply_or_make_room(guard_type& guard, const stored key, const change& wanted) {
    unsigned attempts = 0;
    const outcome full{.what = effect::full};
    const outcome done = nodes_.run([&] {
      return nodes_.in_first_leaf(
          [&](first_leaf& only) { return nodes_.try_apply_in(&only, key, wanted, attempts++); },
          std::optional(wanted.insert_where_absent ? full : outcome{}), full);
    });
    if (done.what != effect::full) return done;
    this->make_room(guard, key);
    return std::nullopt;
  }

 private:
  /// The first leaf of an empty map; or the root, with what is in the first leaf, if that is full. False if a writer came
  /// between.
  bool make_root(guard_type& guard, const stored, const place& found) {
    first_leaf* const only = first_.get(found.here);
    if (only == nullptr) {
      unpublished<Store, first_leaf> fresh(store_, memory_role::other);
      fresh.emplace(nullptr);
      const auto above = found.here.upgrade();
      if (above) first_.set(above, fresh.release());
      return static_cast<bool>(above);
    }
    guard.reserve(retirements_of_first);
    unpublished<Store, leaf> fresh(store_, memory_role::leaf);
    fresh.emplace(nullptr);
    held_place held(place_of(*only, found.here), *only);
    if (!held) return false;
    if (only->is_full(held.here.guard)) {
      only->give_all(held.here.guard, *fresh.get(), exclusive_access{});
      anchor_.root.set(held.above, fresh.release());
      first_.set(held.above, nullptr);
      held.here.release_obsolete();
      store_.template retire<first_leaf, memory_role::other>(guard, only);
    }
    return true;
  }
  /// Its own, and that of a value which the operation may retire later.
  static constexpr std::size_t retirements_of_first = 2;

  [[nodiscard]] static place place_of(first_leaf& only, const section& above) noexcept {
    return {nullptr, above, 0, &only, only.lock.read()};
  }

  optimistic_field<first_leaf*>& first_;
};

template <class Store, class Word, class Fanout>
auto hashed_changes<Store, Word, Fanout>::apply(guard_type& guard, const stored key, const change& wanted)
    -> outcome {
  while (true) {
    if (const std::optional<outcome> done = apply_or_make_room(guard, key, wanted)) return *done;
    unsigned attempts = 0;
    const outcome done = nodes_.run([&] { return nodes_.try_apply(key, wanted, attempts++); });
    if (done.what == effect::full) continue;
    if (done.what == effect::erased && nodes::leaves_little(done.left)) this->merge_sparse(guard, key, 1);
    return done;
  }
}

}  // namespace espalier::btree
