#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/hw/vector_compare.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The nodes of B+trees, and the changes that concern one node or two neighbours: search, insert, erase, split, merge. Which
// of them may run at the same time, and in which order, is for the trees to decide.
//
// A B+tree has its entries in leaves. An inner node has children and, between each two, a separator: the keys below the
// left child are smaller, those below the right child are not. All leaves are at the same depth.
//
// Every field is an optimistic_field, and every function takes a witness of its access (sync/optimistic_lock.hpp): a
// read_section, a write_guard, or exclusive_access. With a read_section the result is to be believed only after the
// section has been validated; until then it may be nonsense, but no access is outside of the node: a count that a reader
// loads is one that a writer stored.
//
// A split or a merge copies the entries of both nodes into an array and assigns each node its part. It is rare, and is
// then the same for sorted and unsorted leaves and for inner nodes.

namespace espalier::btree {

/// A leaf has at most `Leaf` entries, an inner node at most `Inner` children.
template <unsigned Leaf, unsigned Inner = std::max(Leaf, 4U)>
struct fanout {
  static_assert(Leaf >= 2, "a split must leave both leaves with something");
  static_assert(Inner >= 4,
                "a split must leave both nodes with two children, or the level above is not smaller");
  static constexpr unsigned leaf = Leaf;
  static constexpr unsigned inner = Inner;
};

/// How many of the first `count` indices come before: before(i) is true for the first ones, and false for the others.
/// Compiled without a branch that depends on before(i).
template <class Before>
[[nodiscard]] constexpr unsigned count_before(unsigned count, Before before) {
  unsigned at = 0;
  while (count > 1) {
    const unsigned half = count / 2;
    at += before(at + half - 1) ? half : 0;
    count -= half;
  }
  return at + static_cast<unsigned>(count == 1 && before(at));
}

/// Whether keys are equal exactly where their values are.
template <class Compare, class Key>
inline constexpr bool ordered_by_value =
    std::integral<Key> && (std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::less<>> ||
                           std::is_same_v<Compare, std::greater<Key>>);

/// A number that equal keys have in common: of the value of the key where the order allows it, else none.
template <class Compare, class Key>
[[nodiscard]] std::uint64_t hash_of([[maybe_unused]] const Key key) noexcept {
  if constexpr (ordered_by_value<Compare, Key>) return static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15U;
  return 0;
}

template <class Compare, class Key>
[[nodiscard]] bool same_key([[maybe_unused]] const Compare& less, const Key& a, const Key& b) {
  if constexpr (ordered_by_value<Compare, Key>)
    return a == b;
  else
    return !less(a, b) && !less(b, a);
}

/// The entries of one node or of two neighbours, in order, while they are distributed anew.
template <class Key, class Slot, unsigned Most>
struct entries {
  unsigned count = 0;
  std::array<Key, Most> key;
  std::array<Slot, Most> slot;

  void add(const Key& k, Slot s) noexcept {
    key[count] = k;
    slot[count++] = s;
  }
  /// Puts the entries from `first` on in order, by insertion: they are few, or nearly in order.
  template <class Compare>
  void sort_from(unsigned first, const Compare& less) {
    for (unsigned i = first + 1; i < count; ++i) {
      const Key k = key[i];
      const Slot s = slot[i];
      unsigned at = i;
      for (; at > first && less(k, key[at - 1]); --at) {
        key[at] = key[at - 1];
        slot[at] = slot[at - 1];
      }
      key[at] = k;
      slot[at] = s;
    }
  }
};

/// What the nodes of a tree have in common.
struct node_base {
  explicit node_base(unsigned height) noexcept : level(static_cast<std::uint16_t>(height)) {}

  optimistic_lock lock;
  const std::uint16_t level;  ///< 0 in a leaf
};

template <class Key, unsigned Children>
struct inner_node : node_base {
  static constexpr unsigned capacity = Children;
  /// Fewer children are a reason to merge with a neighbour.
  static constexpr unsigned sparse = std::max(1U, Children / 4);
  using content = entries<Key, node_base*, 2 * Children>;

  /// Without children. It is given them before other threads see it.
  explicit inner_node(unsigned height) noexcept : node_base(height) { hw::annotate_metadata(*this); }

  /// A new root above a former one that was split.
  void begin_with(node_base* left, const Key& separator, node_base* right) noexcept {
    const exclusive_access unpublished;
    key[0].set(unpublished, separator);
    child[0].set(unpublished, left);
    child[1].set(unpublished, right);
    children.set(unpublished, 2);
  }

  /// The child below which a key lies.
  template <class Witness, class Compare>
  [[nodiscard]] unsigned index_of(const Witness& w, const Compare& less, const Key k) const {
    if constexpr (by_vectors && std::is_same_v<Compare, std::less<Key>>) {
      if (hw::vectors() != hw::vector_width::none) {
        const std::uint64_t of_node = (std::uint64_t{1} << (children.get(w) - 1U)) - 1;
        const auto* const keys = reinterpret_cast<const std::uint64_t*>(key.data());
        return static_cast<unsigned>(std::countr_one(hw::not_above(keys, k) & of_node));
      }
    }
    return count_before(children.get(w) - 1, [&](unsigned i) { return !less(k, key[i].get(w)); });
  }
  /// The child below which the keys lie that are just smaller.
  template <class Witness, class Compare>
  [[nodiscard]] unsigned index_before(const Witness& w, const Compare& less, const Key k) const {
    return count_before(children.get(w) - 1, [&](unsigned i) { return less(key[i].get(w), k); });
  }

  template <class Witness>
  [[nodiscard]] bool is_full(const Witness& w) const noexcept {
    return children.get(w) == Children;
  }
  template <class Witness>
  [[nodiscard]] bool is_sparse(const Witness& w) const noexcept {
    return children.get(w) <= sparse;
  }

  /// Adds `right`, which was split off the child at that index. The node is not full.
  template <class Witness>
  void insert(const Witness& w, unsigned index, const Key& separator, node_base* right) noexcept {
    const unsigned n = children.get(w);
    for (unsigned i = n - 1; i > index; --i) {
      key[i].set(w, key[i - 1].get(w));
      child[i + 1].set(w, child[i].get(w));
    }
    key[index].set(w, separator);
    child[index + 1].set(w, right);
    children.set(w, static_cast<std::uint16_t>(n + 1));
  }
  /// Removes the child behind the one at that index, which has been merged with it.
  template <class Witness>
  void erase_behind(const Witness& w, unsigned index) noexcept {
    const unsigned n = children.get(w);
    for (unsigned i = index + 1; i < n - 1; ++i) {
      key[i - 1].set(w, key[i].get(w));
      child[i].set(w, child[i + 1].get(w));
    }
    children.set(w, static_cast<std::uint16_t>(n - 1));
  }

  /// Appends the children, each with the separator before it; the first with that of the parent.
  template <class Witness, class Compare>
  void copy_to(const Witness& w, const Compare&, content& all, const Key& before_first) const noexcept {
    const unsigned n = children.get(w);
    all.add(before_first, child[0].get(w));
    for (unsigned i = 1; i < n; ++i) all.add(key[i - 1].get(w), child[i].get(w));
  }
  template <class Witness>
  void assign(const Witness& w, const content& all, unsigned from, unsigned to) noexcept {
    for (unsigned i = from; i < to; ++i) child[i - from].set(w, all.slot[i]);
    for (unsigned i = from + 1; i < to; ++i) key[i - from - 1].set(w, all.key[i]);
    children.set(w, static_cast<std::uint16_t>(to - from));
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "lock", lock), member_of(*this, "level", level),
            member_of(*this, "children", children), member_of(*this, "key", key, key.size()),
            member_of(*this, "child", child, child.size())};
  }

  /// Whether a search compares all keys at once. They then have lines of their own, which one comparison may read whole.
  static constexpr bool by_vectors = std::is_same_v<Key, std::uint64_t> && Children == 64;
  static constexpr unsigned key_slots = by_vectors ? Children : Children - 1;

  optimistic_field<std::uint16_t> children;
  alignas(by_vectors ? hw::cache_line_bytes : alignof(Key)) std::array<optimistic_field<Key>, key_slots> key;
  std::array<optimistic_field<node_base*>, Children> child;
};

template <class Word>
[[nodiscard]] bool same_bits(const Word& a, const Word& b) noexcept {
  return std::memcmp(&a, &b, sizeof(Word)) == 0;
}

/// What an operation wants of a key's entry.
template <class Word>
struct entry_change {
  enum class where_present : std::uint8_t { keep, store, erase };

  where_present present = where_present::keep;
  bool insert_where_absent = false;
  Word word{};
  /// If set, the change is of an entry with this word, and of no other.
  std::optional<Word> expected{};

  /// Whether the word of an entry that is there changes whatever it is.
  [[nodiscard]] bool overwrites() const noexcept { return present == where_present::store && !expected; }
};

/// What became of it.
template <class Word>
struct entry_outcome {
  enum class effect : std::uint8_t {
    none,  ///< the leaf has not changed
    inserted,
    stored,
    erased,
    full  ///< the leaf has no room, and has not changed
  };

  effect what = effect::none;
  Word before{};      ///< the word that was found
  unsigned left = 0;  ///< after an erase: the entries that the leaf still has
};

/// A leaf with its entries in order. Base is node_base, perhaps with fields that each operation reads: they share its line.
template <class Key, class Word, unsigned Capacity, class Base = node_base>
struct sorted_leaf : Base {
  static constexpr unsigned capacity = Capacity;
  /// No more entries are a reason to merge with a neighbour.
  static constexpr unsigned sparse = Capacity / 4;
  using content = entries<Key, Word, 2 * Capacity>;
  using change = entry_change<Word>;
  using outcome = entry_outcome<Word>;

  sorted_leaf() noexcept : Base(0) {
    // A search and a shift of entries meet at the keys: that is no conflict about a record.
    hw::annotate_metadata(this->lock);
    hw::annotate_metadata(size);
    hw::annotate_metadata(key);
  }

  /// Where the entry of a key is, or would be.
  struct spot {
    unsigned index;
    bool found;
  };
  /// Whether sections that began before such a change fail. If not with an insert, a search that found no entry is
  /// repeated with the lock.
  [[nodiscard]] static constexpr bool renews(typename outcome::effect done) noexcept {
    return done == outcome::effect::inserted || done == outcome::effect::erased;
  }

  template <class Witness, class Compare>
  [[nodiscard]] spot seek(const Witness& w, const Compare& less, const Key k) const {
    const unsigned n = size.get(w);
    const unsigned at = count_before(n, [&](unsigned i) { return less(key[i].get(w), k); });
    return {at, at != n && !less(k, key[at].get(w))};
  }

  template <class Witness, class Compare>
  [[nodiscard]] std::optional<Word> find(const Witness& w, const Compare& less, const Key k) const {
    const spot at = seek(w, less, k);
    if (!at.found) return std::nullopt;
    return word[at.index].get(w);
  }

  /// The word of an entry that seek() has found.
  [[nodiscard]] optimistic_field<Word>& word_at(const spot& where) noexcept { return word[where.index]; }

  /// Changes the entry of the key. `where` is what seek() returned, and no entry has come or gone since.
  template <class Witness>
  outcome apply(const Witness& w, const spot& where, const Key& k, const change& wanted) noexcept {
    using effect = typename outcome::effect;
    const unsigned n = size.get(w);
    const unsigned at = where.index;
    outcome result;
    if (!where.found) {
      if (!wanted.insert_where_absent) return result;
      result.what = n == Capacity ? effect::full : effect::inserted;
      if (n != Capacity) insert(w, n, at, k, wanted.word);
      return result;
    }
    result.before = word[at].get(w);
    if (wanted.expected && !same_bits(*wanted.expected, result.before)) return result;
    if (wanted.present == change::where_present::store) {
      word[at].set(w, wanted.word);
      result.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      erase(w, n, at);
      result.what = effect::erased;
      result.left = n - 1;
    }
    return result;
  }

  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    return size.get(w);
  }
  template <class Witness>
  [[nodiscard]] bool is_full(const Witness& w) const noexcept {
    return size.get(w) == Capacity;
  }
  template <class Witness>
  [[nodiscard]] bool is_sparse(const Witness& w) const noexcept {
    return size.get(w) <= sparse;
  }

  /// Appends the entries in order. `less` is for leaves that must sort them.
  template <class Witness, class Compare, class Content>
  void copy_to(const Witness& w, const Compare&, Content& all, const Key& = {}) const noexcept {
    const unsigned n = size.get(w);
    for (unsigned i = 0; i < n; ++i) all.add(key[i].get(w), word[i].get(w));
  }
  template <class Witness, class Content>
  void assign(const Witness& w, const Content& all, unsigned from, unsigned to) noexcept {
    for (unsigned i = from; i < to; ++i) {
      key[i - from].set(w, all.key[i]);
      word[i - from].set(w, all.slot[i]);
    }
    size.set(w, static_cast<std::uint16_t>(to - from));
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "lock", this->lock), member_of(*this, "level", this->level),
            member_of(*this, "size", size), member_of(*this, "key", key, Capacity),
            member_of(*this, "value", word, Capacity)};
  }

 private:
  template <class Witness>
  void insert(const Witness& w, unsigned n, unsigned at, const Key& k, Word v) noexcept {
    for (unsigned i = n; i > at; --i) {
      key[i].set(w, key[i - 1].get(w));
      word[i].set(w, word[i - 1].get(w));
    }
    key[at].set(w, k);
    word[at].set(w, v);
    size.set(w, static_cast<std::uint16_t>(n + 1));
  }
  template <class Witness>
  void erase(const Witness& w, unsigned n, unsigned at) noexcept {
    for (unsigned i = at + 1; i < n; ++i) {
      key[i - 1].set(w, key[i].get(w));
      word[i - 1].set(w, word[i].get(w));
    }
    size.set(w, static_cast<std::uint16_t>(n - 1));
  }

  optimistic_field<std::uint16_t> size;
  std::array<optimistic_field<Key>, Capacity> key;
  std::array<optimistic_field<Word>, Capacity> word;
};

/// What a tree with such leaves is given.
template <class Key, unsigned Capacity>
struct sorted {
  template <class Word>
  using leaf = sorted_leaf<Key, Word, Capacity>;
};

/// Moves the upper half of a node into a fresh one, which is to become its right neighbour. Returns the separator.
template <class Key, class Node, class Witness, class Compare>
Key split(Node& n, const Witness& w, const Compare& less, Node& fresh) {
  typename Node::content all;
  n.copy_to(w, less, all, Key{});
  assert(all.count > 1 && "the separator is the key of an entry that goes to the right");
  const unsigned middle = (all.count + 1) / 2;
  fresh.assign(exclusive_access{}, all, middle, all.count);
  n.assign(w, all, 0, middle);
  return all.key[middle];
}

/// Moves entries between two neighbours, of which one is sparse. Returns the new separator, or nothing if the left one
/// now has everything. Neighbours become one if they fill three quarters of a node at most, so that the next insert does
/// not split it again, or if neither half would be more than sparse.
template <class Key, class Node, class LeftWitness, class RightWitness, class Compare>
[[nodiscard]] std::optional<Key> merge_or_even(Node& left, const LeftWitness& l, const Key& separator,
                                               Node& right, const RightWitness& r, const Compare& less) {
  typename Node::content all;
  left.copy_to(l, less, all, Key{});
  right.copy_to(r, less, all, separator);
  if (4 * all.count <= 3 * Node::capacity || all.count < 2 * (Node::sparse + 1)) {
    left.assign(l, all, 0, all.count);
    return std::nullopt;
  }
  const unsigned middle = (all.count + 1) / 2;
  right.assign(r, all, middle, all.count);
  left.assign(l, all, 0, middle);
  return all.key[middle];
}

}  // namespace espalier::btree
