#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
// loads is one that a writer stored. A key larger than a word may be a mixture of two, so it is validated before it is
// compared (compare()): a comparator sees only keys that an operation was given.
//
// A split or a merge copies the entries of both nodes into an array and assigns each node its part. It is rare, and is
// then the same for sorted and unsorted leaves and for inner nodes.
//
// Orderings
//   (1) set (release) in sync/optimistic_lock.hpp -> not_above (acquire): as (2) there, for keys that vectors load.

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

/// less(a, b), where the witness has given one of the keys. False without a call of the comparator where a writer came
/// between and that key may be a mixture of two: no later validation of the section succeeds then.
template <class Witness, class Compare, class Key>
[[nodiscard, gnu::always_inline]] inline bool compare(const Witness& w, const Compare& less, const Key& a,
                                                      const Key& b) {
  if constexpr (loaded_in_parts<Key> && requires { w.validate_once_free(); }) {
    if (!w.validate_once_free()) return false;
  }
  return less(a, b);
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
      if (!less(key[i], key[i - 1])) continue;
      const Key k = key[i];
      const Slot s = slot[i];
      unsigned at = i;
      do {
        key[at] = key[at - 1];
        slot[at] = slot[at - 1];
        --at;
      } while (at > first && less(k, key[at - 1]));
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

/// The keys of a node for searches in two steps: among a sample, which is the last key of each part, and then in one part.
/// Vectors compare a part at once. Slots without a key have the largest one, which no search finds below its own; they are
/// never all in use, so a search does not run over the end, even beside a writer. A key lies here as the integer with a sign
/// that is as far from the smallest one: so vectors compare.
template <unsigned Slots>
struct sampled_keys {
  using key_field = optimistic_field<std::int64_t>;
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  /// So few keys are one part, and need no sample.
  static constexpr bool has_sample = Slots > 16;
  static constexpr unsigned part = has_sample ? 1U << std::countr_zero(Slots) / 2 : Slots;
  static_assert(part == Slots || part * part == Slots, "as many samples as each part has keys");

  sampled_keys() noexcept { clear(exclusive_access{}, 0, Slots); }

  template <class Witness>
  [[nodiscard]] std::uint64_t get(const Witness& w, unsigned i) const noexcept {
    return static_cast<std::uint64_t>(all[i].get(w)) ^ sign;
  }
  template <class Witness>
  void set(const Witness& w, unsigned i, std::uint64_t k) noexcept {
    all[i].set(w, with_sign(k));
    if constexpr (has_sample) {
      if (i % part == part - 1) sample[i / part].set(w, with_sign(k));
    }
  }
  /// No keys from `first` to `last`.
  template <class Witness>
  void clear(const Witness& w, unsigned first, unsigned last) noexcept {
    for (; first < last; ++first) set(w, first, none);
  }

  /// The vectors for a search.
  [[nodiscard]] static hw::vector_width width() noexcept {
    return part == 16 ? hw::vectors() : hw::vector_width::none;
  }
  /// How many keys are not above `k`, which is not the largest one. While a writer changes keys: some number, but less
  /// than Slots.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] std::size_t not_above(const Witness& w, std::uint64_t k,
                                                          hw::vector_width width) const noexcept {
    const std::size_t first = part_of(w, k, width);
    const std::size_t count = first + below(w, &all[first], just_above(k), width);
    // order (1): not_above, acquire.
    if (width != hw::vector_width::none) std::atomic_thread_fence(std::memory_order_acquire);
    return count;
  }
  /// The first key of the part where that search ends, times Scale. A search in the part follows at once.
  template <std::size_t Scale = 1, class Witness>
  [[nodiscard, gnu::always_inline]] std::size_t part_of(const Witness& w, std::uint64_t k,
                                                        hw::vector_width width) const noexcept {
    if constexpr (has_sample)
      return below<part * Scale, false>(w, &sample[0], just_above(k), width);
    else
      return 0;
  }
  /// The same search in the first part, as a hint. It needs no fence: it leads to a child, whose address depends on the keys.
  template <std::size_t Scale>
  [[nodiscard, gnu::always_inline]] std::size_t not_above_in_part(unvalidated w, std::uint64_t k,
                                                                  hw::vector_width width) const noexcept {
    return below<Scale>(w, &all[0], just_above(k), width);
  }

  /// Requests the line that a search reads first.
  void request() const noexcept {
    if constexpr (has_sample)
      __builtin_prefetch(&sample);
    else
      __builtin_prefetch(&all);
  }

  struct no_sample {};
  alignas(hw::cache_line_bytes)
      [[no_unique_address]] std::conditional_t<has_sample, std::array<key_field, part>, no_sample> sample;
  alignas(hw::cache_line_bytes) std::array<key_field, Slots> all;

 private:
  static constexpr std::uint64_t sign = std::uint64_t{1} << 63U;
  [[nodiscard]] static std::int64_t with_sign(std::uint64_t k) noexcept {
    return static_cast<std::int64_t>(k ^ sign);
  }
  /// What the keys that are not above `k` are below.
  [[nodiscard]] static std::int64_t just_above(std::uint64_t k) noexcept { return with_sign(k) + 1; }
  template <std::size_t Scale = 1, bool Ends = true, class Witness>
  [[nodiscard, gnu::always_inline]] static std::size_t below(const Witness& w, const key_field* from,
                                                             std::int64_t k,
                                                             hw::vector_width width) noexcept {
    if (width != hw::vector_width::none) [[likely]]
      return hw::count_below<Scale, Ends>(reinterpret_cast<const std::int64_t*>(from), k, width);
    return Scale * count_before(part, [&](unsigned i) { return from[i].get(w) < k; });
  }
};

/// The keys of any other node.
template <class Key, unsigned Slots>
struct plain_keys {
  template <class Witness>
  [[nodiscard]] Key get(const Witness& w, unsigned i) const noexcept {
    return all[i].get(w);
  }
  template <class Witness>
  void set(const Witness& w, unsigned i, const Key& k) noexcept {
    all[i].set(w, k);
  }
  template <class Witness>
  void clear(const Witness&, unsigned, unsigned) noexcept {}

  std::array<optimistic_field<Key>, Slots> all;
};

// A search may read an inner node without a section, as a hint where to go (tree.hpp, guess_leaf()). So a child is stored
// before a key or the count leads to it, and what it leads to is, or was after the search has pinned, a child of the node.
//
// Base is node_base, perhaps with fields that share the line of the lock.
template <class Key, unsigned Children, bool Sampled, class Base = node_base>
struct inner_node : Base {
  static constexpr unsigned capacity = Children;
  /// Fewer children are a reason to merge with a neighbour.
  static constexpr unsigned sparse = std::max(1U, Children / 4);
  /// A neighbour that has no more of them gets half of what a full node has more, in trees that ask for it.
  static constexpr unsigned few_for_a_neighbour = std::min(Children * 9 / 10, Children - 2);
  /// What a split leaves in a node.
  static constexpr unsigned fewest = 2;
  using content = entries<Key, node_base*, 2 * Children>;

  /// Without children. It is given them before other threads see it.
  template <class... Fields>
  explicit inner_node(unsigned height, Fields... fields) noexcept : Base(height, fields...) {
    hw::annotate_metadata(*this);
  }

  /// A new root above a former one that was split.
  void begin_with(node_base* left, const Key& separator, node_base* right) noexcept {
    const exclusive_access unpublished;
    key.set(unpublished, 0, separator);
    child[0].set(unpublished, left);
    child[1].set(unpublished, right);
    children.set(unpublished, 2);
  }

  /// The child below which a key lies.
  template <class Witness, class Compare>
  [[nodiscard]] unsigned index_of(const Witness& w, const Compare& less, const Key k) const {
    if constexpr (Sampled) return static_cast<unsigned>(index_of(w, k, key_width()));
    return count_before(children.get(w) - 1, [&](unsigned i) { return !compare(w, less, k, key.get(w, i)); });
  }
  [[nodiscard]] static hw::vector_width key_width() noexcept
    requires Sampled
  {
    return sampled_keys<Children>::width();
  }
  /// The same. `width` is key_width().
  template <class Witness>
  [[nodiscard, gnu::always_inline]] std::size_t index_of(const Witness& w, const std::uint64_t k,
                                                         hw::vector_width width) const noexcept
    requires Sampled
  {
    if (k == key.none) [[unlikely]]
      return children.get(w) - 1U;
    return key.not_above(w, k, width);
  }
  /// The child below which a key lies that is not the largest one, as a hint.
  [[nodiscard, gnu::always_inline]] node_base* guess_child(std::uint64_t k,
                                                           hw::vector_width width) const noexcept
    requires Sampled
  {
    // A part's keys are as far from those of the first part as its children are from the first children: one address
    // leads to both.
    static_assert(sizeof(child[0]) == sizeof(key.all[0]));
    constexpr std::size_t each = sizeof(key.all[0]);
    const auto* const in_part = reinterpret_cast<const inner_node*>(
        reinterpret_cast<const char*>(this) + key.template part_of<each>(unvalidated{}, k, width));
    const auto* const first = reinterpret_cast<const char*>(&in_part->child[0]);
    // So the lines of the children come while the search waits for those of the keys.
    for (std::size_t at = 0; at < each * key.part; at += hw::cache_line_bytes) __builtin_prefetch(first + at);
    const std::size_t before = in_part->key.template not_above_in_part<each>(unvalidated{}, k, width);
    return reinterpret_cast<decltype(&child[0])>(first + before)->get(unvalidated{});
  }
  /// The child below which the keys lie that are just smaller.
  template <class Witness, class Compare>
  [[nodiscard]] unsigned index_before(const Witness& w, const Compare& less, const Key k) const {
    return count_before(children.get(w) - 1, [&](unsigned i) { return compare(w, less, key.get(w, i), k); });
  }

  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    return children.get(w);
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
      child[i + 1].set(w, child[i].get(w));
      key.set(w, i, key.get(w, i - 1));
    }
    child[index + 1].set(w, right);
    key.set(w, index, separator);
    children.set(w, static_cast<std::uint16_t>(n + 1));
  }
  /// Removes the child behind the one at that index, which has been merged with it.
  template <class Witness>
  void erase_behind(const Witness& w, unsigned index) noexcept {
    const unsigned n = children.get(w);
    for (unsigned i = index + 1; i < n - 1; ++i) {
      key.set(w, i - 1, key.get(w, i));
      child[i].set(w, child[i + 1].get(w));
    }
    key.clear(w, n - 2, n - 1);
    children.set(w, static_cast<std::uint16_t>(n - 1));
  }

  /// Appends the children, each with the separator before it; the first with that of the parent.
  template <class Witness, class Compare>
  void copy_to(const Witness& w, const Compare&, content& all, const Key& before_first) const noexcept {
    const unsigned n = children.get(w);
    all.add(before_first, child[0].get(w));
    for (unsigned i = 1; i < n; ++i) all.add(key.get(w, i - 1), child[i].get(w));
  }
  template <class Witness, class Content>
  void assign(const Witness& w, const Content& all, unsigned from, unsigned to) noexcept {
    for (unsigned i = from; i < to; ++i) child[i - from].set(w, all.slot[i]);
    for (unsigned i = from + 1; i < to; ++i) key.set(w, i - from - 1, all.key[i]);
    key.clear(w, to - from - 1, children.get(w));
    children.set(w, static_cast<std::uint16_t>(to - from));
  }

  /// Requests the line that a search reads first.
  void request() const noexcept {
    if constexpr (Sampled)
      key.request();
    else
      __builtin_prefetch(this);
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    std::vector<node_member> all{member_of(*this, "lock", this->lock), member_of(*this, "level", this->level),
                                 member_of(*this, "children", children)};
    if constexpr (requires { key.sample.size(); })
      all.push_back(member_of(*this, "sample", key.sample, key.sample.size()));
    all.push_back(member_of(*this, "key", key.all, key.all.size()));
    all.push_back(member_of(*this, "child", child, child.size()));
    return all;
  }

  optimistic_field<std::uint16_t> children;
  std::conditional_t<Sampled, sampled_keys<Children>, plain_keys<Key, Children - 1>> key;
  std::array<optimistic_field<node_base*>, Children> child;
};

template <class Word>
[[nodiscard]] bool same_bits(const Word& a, const Word& b) noexcept {
  // With memcmp() g++ does not see that an update is of any value.
  if constexpr (sizeof(Word) == sizeof(std::uint64_t))
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  else
    return std::memcmp(&a, &b, sizeof(Word)) == 0;
}

/// What an operation wants of a key's entry.
template <class Word>
struct entry_change {
  enum class where_present : std::uint8_t { keep, store, erase };

  where_present present = where_present::keep;
  bool insert_where_absent = false;
  /// Whether the change is of an entry with the word `expected` and of no other. (An optional word makes GCC warn in
  /// callers that it may be read uninitialized.)
  bool only_expected = false;
  Word word{};
  Word expected{};

  [[nodiscard]] bool is_of(const Word& present_word) const noexcept {
    return !only_expected || same_bits(expected, present_word);
  }
  /// Whether the word of an entry that is there changes whatever it is.
  [[nodiscard]] bool overwrites() const noexcept { return present == where_present::store && !only_expected; }
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
  /// What a split leaves in a leaf.
  static constexpr unsigned fewest = 1;
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
  /// Whether sections that began before such a change fail.
  [[nodiscard]] static constexpr bool renews(typename outcome::effect done) noexcept {
    return done == outcome::effect::inserted || done == outcome::effect::erased;
  }

  template <class Witness, class Compare>
  [[nodiscard]] spot seek(const Witness& w, const Compare& less, const Key k) const {
    const unsigned n = size.get(w);
    const unsigned at = count_before(n, [&](unsigned i) { return compare(w, less, key[i].get(w), k); });
    return {at, at != n && !compare(w, less, k, key[at].get(w))};
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
    if (!wanted.is_of(result.before)) return result;
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

/// Whether a leaf knows the range of keys between the separators beside it.
template <class Node>
inline constexpr bool covers_a_range =
    requires(Node& n, const exclusive_access& w) { n.cover(w, n.first_covered(w), n.last_covered(w)); };

/// Whether searches in a node validate another version than that of its lock.
template <class Node>
inline constexpr bool has_placement = requires(Node& n) { n.placement; };

/// Moves the upper half of a node into a fresh one, which is to become its right neighbour. Returns the separator. Where
/// the key for which there is to be room lies before or behind all entries, the other node keeps nearly all of them: keys
/// that come in order fill their nodes.
template <class Key, class Node, class Witness, class Compare>
Key split(Node& n, const Witness& w, const Compare& less, Node& fresh, const Key& coming) {
  typename Node::content all;
  n.copy_to(w, less, all, Key{});
  assert(all.count > 1 && "the separator is the key of an entry that goes to the right");
  unsigned middle = (all.count + 1) / 2;
  if (all.count > 1 && all.count <= Node::capacity) {  // more of them may not fit the other form of a leaf
    if (less(all.key[all.count - 1], coming))
      middle = all.count - Node::fewest;
    else if (less(coming, all.key[Node::fewest - 1]))
      middle = Node::fewest;
  }
  fresh.assign(w, all, middle, all.count);
  n.assign(w, all, 0, middle);
  return all.key[middle];
}
/// The same of a leaf that moves no other entries.
template <class Key, class Node, class Witness, class Compare>
  requires covers_a_range<Node>
Key split(Node& n, const Witness& w, const Compare&, Node& fresh, const Key& coming) noexcept {
  const Key separator = n.give_half(w, fresh, coming);
  fresh.cover(w, separator, n.last_covered(w));
  n.cover(w, n.first_covered(w), separator - 1);
  return separator;
}

/// Neighbours of which one is sparse become one if they fill three quarters of a node at most, so that the next insert does not
/// split it again, or if neither half would be more than sparse.
template <class Node>
[[nodiscard]] constexpr bool fit_one(unsigned count) noexcept {
  return 4 * count <= 3 * Node::capacity || count < 2 * (Node::sparse + 1);
}
/// Moves entries between two neighbours. Returns the separator, or nothing if the left one now has everything.
template <class Key, class Node, class LeftWitness, class RightWitness, class Compare>
[[nodiscard]] std::optional<Key> merge_or_even(Node& left, const LeftWitness& l, const Key& separator,
                                               Node& right, const RightWitness& r, const Compare& less) {
  typename Node::content all;
  left.copy_to(l, less, all, Key{});
  right.copy_to(r, less, all, separator);
  if (fit_one<Node>(all.count)) {
    left.assign(l, all, 0, all.count);
    return std::nullopt;
  }
  const unsigned middle = (all.count + 1) / 2;
  right.assign(r, all, middle, all.count);
  left.assign(l, all, 0, middle);
  return all.key[middle];
}
template <class Key, class Node, class LeftWitness, class RightWitness, class Compare>
  requires covers_a_range<Node>
[[nodiscard]] std::optional<Key> merge_or_even(Node& left, const LeftWitness& l, const Key&, Node& right,
                                               const RightWitness& r, const Compare&) noexcept {
  if (fit_one<Node>(left.count(l) + right.count(r))) {
    right.give_all(r, left, l);
    left.cover(l, left.first_covered(l), right.last_covered(r));
    return std::nullopt;
  }
  const std::optional<Key> separator = left.share(l, right, r);
  if (!separator) return right.first_covered(r);
  right.cover(r, *separator, right.last_covered(r));
  left.cover(l, left.first_covered(l), *separator - 1);
  return separator;
}

}  // namespace espalier::btree
