#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/node_layout.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/sync/backoff.hpp"

// The nodes of Masstree: Mao, Kohler and Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012.
//
// A border node is a leaf. Its entries lie in slots in any order, and its permutation, one word, says which slots are
// in use and in which order. An insert writes a free slot and then stores the permutation; an erase only stores the
// permutation. Readers see either all of such a change or nothing. Border nodes are linked in both directions.
//
// An interior node has children and, between each two, a separator, as in node.hpp.
//
// Version is how a node is protected: node_version, or a stand-in where one lock or transaction protects all nodes
// (htm_masstree.hpp). Fields are loaded with acquire and stored with release, as node_version requires. The holder of a
// node's lock loads them with held(), in any mode of protection.
//
// Which lock protects which field:
//   all but those below     that of the node
//   parent                  that of the parent
//   prev, low               that of the left neighbour; of the leftmost border node, that of the node
//
// Orderings
//   (1) mark, unlock (release) -> now, lock (acquire): a reader that begins at a version, and a later holder of the
//       lock, see all that earlier holders stored.
//   (2) set (release) -> get, held (acquire): a reader that loads a field of a holder also sees the marks that the holder
//       set before, so that changed(), which reads the version after the load, is true. A reader of a permutation or a
//       pointer sees the slots and the node behind it; so does a holder, where a transaction stored the pointer.

namespace espalier::btree {

/// What a node is. It never changes.
enum class node_kind : std::uint8_t { border, interior, root_holder };

/// The version of a node, which is also its lock.
///
/// A reader takes a stamp, loads fields, and asks whether the version has changed. The lock alone is no change: its
/// holder marks the node before it stores what readers must not combine with what they have loaded.
///
///   inserting  a slot that was in use is used again, or children came or went. A reader starts again at this node.
///   splitting  keys moved to the node's right neighbour. A reader of a border node goes there.
///   deleted    the node has left the tree. It stays so. A reader starts again at the top.
class node_version {
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr std::uint64_t inserting_bit = 2;
  static constexpr std::uint64_t splitting_bit = 4;
  static constexpr std::uint64_t deleted_bit = 8;
  static constexpr unsigned kind_shift = 4;
  static constexpr std::uint64_t kind_mask = 3U << kind_shift;
  // A counter that overflows into the next one only makes readers start again.
  static constexpr std::uint64_t one_insert = 1U << 8U;
  static constexpr std::uint64_t one_split = std::uint64_t{1} << 32U;

 public:
  class stamp {
   public:
    [[nodiscard]] node_kind kind() const noexcept {
      return static_cast<node_kind>((word_ & kind_mask) >> kind_shift);
    }
    [[nodiscard]] bool deleted() const noexcept { return (word_ & deleted_bit) != 0; }
    /// Whether keys have left the node, or the node the tree, since the earlier stamp.
    [[nodiscard]] bool lost_keys_since(stamp earlier) const noexcept {
      return deleted() || word_ / one_split != earlier.word_ / one_split;
    }

   private:
    friend node_version;
    std::uint64_t word_ = 0;
  };

  /// The lock of a node, or nothing. At its end the node has a new version, if it was marked.
  class [[nodiscard]] guard {
   public:
    guard() = default;
    guard(guard&& other) noexcept : of_(std::exchange(other.of_, nullptr)), word_(other.word_) {}
    guard& operator=(guard&& other) noexcept {
      const guard earlier(std::move(*this));  // ends
      of_ = std::exchange(other.of_, nullptr);
      word_ = other.word_;
      return *this;
    }
    ~guard() {
      if (of_ != nullptr) unlock();
    }

    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
    /// As node_version::changed(), while the node is locked.
    [[nodiscard]] bool changed_since(stamp seen) const noexcept {
      return ((word_ ^ seen.word_) & ~locked_bit) != 0;
    }

    void mark_inserting() noexcept { mark(inserting_bit); }
    void mark_splitting() noexcept { mark(splitting_bit); }
    void mark_deleted() noexcept { mark(deleted_bit); }

    void unlock() noexcept {
      std::uint64_t next = word_ & ~(locked_bit | inserting_bit | splitting_bit);
      if ((word_ & inserting_bit) != 0) next += one_insert;
      if ((word_ & splitting_bit) != 0) next += one_split;
      // order (1): unlock, release
      std::exchange(of_, nullptr)->word_.store(next, std::memory_order_release);
    }

   private:
    friend node_version;
    guard(node_version& of, std::uint64_t word) noexcept : of_(&of), word_(word) {}

    void mark(std::uint64_t bit) noexcept {
      assert(of_ != nullptr && "a node is marked with its lock held");
      word_ |= bit;
      // order (1): mark, release: a reader that begins at a deleted node sees that the node above is marked.
      of_->word_.store(word_, std::memory_order_release);
    }

    node_version* of_ = nullptr;
    std::uint64_t word_ = 0;
  };

  explicit node_version(node_kind kind) noexcept : word_(static_cast<std::uint64_t>(kind) << kind_shift) {}

  /// The version at which a read begins. Waits while the node is marked as inserting or splitting.
  [[nodiscard]] stamp stable() const noexcept {
    const stamp seen = now();
    return (seen.word_ & (inserting_bit | splitting_bit)) != 0 ? stable_after_change() : seen;
  }
  /// Whether the node has been marked since. May be called again and again.
  [[nodiscard]] bool changed(stamp seen) const noexcept {
    // relaxed: the loads of fields before it are acquire, so none of them moves behind it; see (2).
    return ((word_.load(std::memory_order_relaxed) ^ seen.word_) & ~locked_bit) != 0;
  }
  /// Waits for the lock. Also deleted nodes can be locked.
  [[nodiscard]] guard lock() noexcept {
    for (backoff pause;; pause.wait()) {
      std::uint64_t seen = now().word_ & ~locked_bit;
      // order (1): lock, acquire. relaxed where it fails: the caller starts again.
      if (word_.compare_exchange_strong(seen, seen | locked_bit, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return {*this, seen | locked_bit};
    }
  }

  [[nodiscard]] node_kind kind() const noexcept { return now().kind(); }
  /// Checks at rest.
  [[nodiscard]] bool is_locked() const noexcept { return (now().word_ & locked_bit) != 0; }

 private:
  [[nodiscard]] stamp now() const noexcept {
    stamp seen;
    seen.word_ = word_.load(std::memory_order_acquire);  // order (1): now, acquire
    return seen;
  }
  // Not inlined: a seek would prepare the wait on each level.
  [[nodiscard, gnu::noinline]] stamp stable_after_change() const noexcept {
    stamp seen = now();
    for (backoff pause; (seen.word_ & (inserting_bit | splitting_bit)) != 0; seen = now()) pause.wait();
    return seen;
  }

  std::atomic<std::uint64_t> word_;
};

/// A field that threads read without its lock.
template <class T>
class node_field {
  static_assert(std::is_trivially_copyable_v<T> && std::atomic<T>::is_always_lock_free);

 public:
  /// Not to be relied on before the version has been found unchanged.
  [[nodiscard]] T get() const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): get, acquire
  }
  /// For the holder of the lock. acquire: earlier transactions may have stored it, and they release no lock.
  [[nodiscard]] T held() const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): held, acquire
  }
  void set(T value) noexcept { value_.store(value, std::memory_order_release); }  // order (2): set, release

 private:
  std::atomic<T> value_{};
};

/// Which slots of a border node are in use, and in which order: the slot of each rank, in 4 bits each, above a count of
/// 4 bits. The slots behind the count are free.
class permutation {
 public:
  static constexpr unsigned most = 15;

  /// The first `count` slots are in use, in their order.
  [[nodiscard]] static constexpr permutation of_first(unsigned count) noexcept {
    return permutation(0xedcba98765432100U | count);
  }

  [[nodiscard]] constexpr unsigned size() const noexcept { return bits_ & nibble; }
  /// Behind the count: the slot that an insert uses next, and so on.
  [[nodiscard]] constexpr unsigned slot(unsigned rank) const noexcept {
    return static_cast<unsigned>(bits_ >> shift(rank)) & nibble;
  }

  /// The first free slot is used and gets that rank.
  [[nodiscard]] constexpr permutation inserted(unsigned rank) const noexcept {
    return moved(size(), rank, 1);
  }
  /// The slot of that rank is free, as the first one.
  [[nodiscard]] constexpr permutation erased(unsigned rank) const noexcept {
    return moved(rank, size() - 1, -1);
  }
  /// The slots of higher ranks are free.
  [[nodiscard]] constexpr permutation truncated(unsigned count) const noexcept {
    return permutation((bits_ & ~nibble) | count);
  }

  friend constexpr bool operator==(permutation, permutation) = default;

 private:
  static constexpr std::uint64_t nibble = 15;
  constexpr explicit permutation(std::uint64_t bits) noexcept : bits_(bits) {}
  static constexpr unsigned shift(unsigned rank) noexcept { return 4 * rank + 4; }
  /// The bits of the ranks from `first`, to the last.
  static constexpr std::uint64_t from(unsigned first) noexcept {
    return first == most ? 0 : ~std::uint64_t{0} << shift(first);
  }

  /// The slot of one rank gets another rank; those between shift by one towards the gap. The count grows by `growth`.
  [[nodiscard]] constexpr permutation moved(unsigned rank, unsigned to, int growth) const noexcept {
    const bool down = to < rank;
    const std::uint64_t shifted = down ? from(to) & ~from(rank) : from(rank + 1) & ~from(to + 1);
    const std::uint64_t kept = ~(shifted | (from(rank) & ~from(rank + 1)) | (from(to) & ~from(to + 1)));
    const std::uint64_t between = down ? (bits_ & shifted) << 4U : (bits_ & shifted) >> 4U;
    return permutation(((bits_ & kept) | between | std::uint64_t{slot(rank)} << shift(to)) +
                       static_cast<std::uint64_t>(growth));
  }

  std::uint64_t bits_ = 0;

 public:
  permutation() = default;
};

/// As count_before(), with a branch for each index. Where the processor predicts the last one, it requests the child
/// before it has compared.
template <class Before>
[[nodiscard]] constexpr unsigned count_in_turn(unsigned count, Before before) {
  unsigned at = 0;
  while (at < count && before(at)) ++at;
  return at;
}

template <class Version>
struct masstree_node {
  explicit masstree_node(node_kind kind) noexcept : version(kind) {}

  Version version;
  node_field<masstree_node*> parent;
};

/// Where the entry of a key is in a border node, or would be, if it still has this permutation.
struct border_spot {
  permutation order;
  unsigned rank;
  bool found;
  [[nodiscard]] unsigned slot() const noexcept { return order.slot(rank); }
};

template <class Version, class Key, class Word, unsigned Capacity>
struct border_node : masstree_node<Version> {
  static_assert(Capacity >= 2 && Capacity <= permutation::most);
  using guard = typename Version::guard;

  border_node() noexcept : masstree_node<Version>(node_kind::border) { order.set(permutation::of_first(0)); }

  template <class Compare>
  [[nodiscard]] border_spot seek(const Compare& less, const Key& k) const {
    const permutation p = order.get();
    const unsigned n = p.size();
    const unsigned at = count_before(n, [&](unsigned rank) { return less(key[p.slot(rank)].get(), k); });
    return {p, at, at != n && !less(k, key[p.slot(at)].get())};
  }

  [[nodiscard]] bool is_full() const noexcept { return order.held().size() == Capacity; }

  /// The node is not full, and has the permutation of `where`.
  void insert(guard& held, const border_spot& where, const Key& k, Word w) noexcept {
    if (has_erased) held.mark_inserting();
    has_erased = false;
    const unsigned slot = where.order.slot(where.order.size());
    key[slot].set(k);
    word[slot].set(w);
    order.set(where.order.inserted(where.rank));
  }
  void erase(const border_spot& where) noexcept {
    has_erased = true;
    order.set(where.order.erased(where.rank));
  }

  /// Moves the entries from that rank on to a fresh node.
  void move_from(unsigned rank, border_node& fresh) noexcept {
    const permutation p = order.held();
    for (unsigned i = rank; i < p.size(); ++i) {
      fresh.key[i - rank].set(key[p.slot(i)].held());
      fresh.word[i - rank].set(word[p.slot(i)].held());
    }
    fresh.order.set(permutation::of_first(p.size() - rank));
    order.set(p.truncated(rank));
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "version", this->version), member_of(*this, "parent", this->parent),
            member_of(*this, "permutation", order),     member_of(*this, "key", key, Capacity),
            member_of(*this, "value", word, Capacity),  member_of(*this, "next", next),
            member_of(*this, "previous", prev),         member_of(*this, "low key", low),
            member_of(*this, "has erased", has_erased)};
  }

  node_field<permutation> order;
  std::array<node_field<Key>, Capacity> key;
  std::array<node_field<Word>, Capacity> word;
  node_field<border_node*> next;
  node_field<border_node*> prev;
  /// The keys of this node and of those to the right are not smaller. Without meaning in the leftmost one.
  node_field<Key> low;
  /// Whether a reader may still believe a free slot to be in use. Only for the holder of the lock.
  bool has_erased = false;
};

template <class Version, class Key, unsigned Children>
struct interior_node : masstree_node<Version> {
  using node = masstree_node<Version>;

  interior_node() noexcept : node(node_kind::interior) {}

  /// A new root above a former one that was split.
  void begin_with(node* left, const Key& separator, node* right) noexcept {
    key[0].set(separator);
    child[0].set(left);
    child[1].set(right);
    children.set(2);
  }

  /// The child below which a key lies.
  template <class Compare>
  [[nodiscard]] unsigned index_of(const Compare& less, const Key& k) const {
    return count_in_turn(children.get() - 1U, [&](unsigned i) { return !less(k, key[i].get()); });
  }
  /// The child below which the keys lie that are just smaller.
  template <class Compare>
  [[nodiscard]] unsigned index_before(const Compare& less, const Key& k) const {
    return count_in_turn(children.get() - 1U, [&](unsigned i) { return less(key[i].get(), k); });
  }
  [[nodiscard]] unsigned index_of_child(const node* c) const noexcept {
    unsigned i = 0;
    while (child[i].held() != c) ++i;
    return i;
  }

  [[nodiscard]] bool is_full() const noexcept { return children.held() == Children; }

  // A reader may use any child below the count that it has loaded, also one that is about to be moved. So the count
  // grows after the children have been stored, and what lies below it is never a child that left the tree earlier.

  /// Adds `right`, which was split off the child at that index. The node is not full.
  void insert(unsigned index, const Key& separator, node* right) noexcept {
    const unsigned n = children.held();
    for (unsigned i = n - 1; i > index; --i) {
      key[i].set(key[i - 1].held());
      child[i + 1].set(child[i].held());
    }
    key[index].set(separator);
    child[index + 1].set(right);
    right->parent.set(this);
    children.set(n + 1);
  }

  /// The range of the first child falls to the second one, that of any other to the one before.
  void erase(unsigned index) noexcept {
    const unsigned n = children.held();
    for (unsigned i = index; i + 1 < n; ++i) child[i].set(child[i + 1].held());
    for (unsigned i = index == 0 ? 1 : index; i + 1 < n; ++i) key[i - 1].set(key[i].held());
    children.set(n - 1);
  }

  /// The same as insert() where the node is full: moves the upper half to a fresh node. Returns the separator between
  /// the two.
  Key split(unsigned index, const Key& separator, node* right, interior_node& fresh) noexcept {
    entries<Key, node*, Children + 1> all;
    all.add(Key{}, child[0].held());
    for (unsigned i = 1; i < Children; ++i) all.add(key[i - 1].held(), child[i].held());
    for (unsigned i = Children; i > index + 1; --i) {
      all.key[i] = all.key[i - 1];
      all.slot[i] = all.slot[i - 1];
    }
    all.key[index + 1] = separator;
    all.slot[index + 1] = right;
    constexpr unsigned middle = (Children + 2) / 2;
    fresh.assign(all, middle, Children + 1);
    for (unsigned i = middle; i <= Children; ++i) all.slot[i]->parent.set(&fresh);
    if (index + 1 < middle) right->parent.set(this);
    assign(all, 0, middle);
    return all.key[middle];
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "version", this->version), member_of(*this, "parent", this->parent),
            member_of(*this, "children", children), member_of(*this, "key", key, Children - 1),
            member_of(*this, "child", child, Children)};
  }

  node_field<unsigned> children;
  std::array<node_field<Key>, Children - 1> key;
  std::array<node_field<node*>, Children> child;

 private:
  template <class Entries>
  void assign(const Entries& all, unsigned from, unsigned to) noexcept {
    for (unsigned i = from; i < to; ++i) {
      if (i != from) key[i - from - 1].set(all.key[i]);
      child[i - from].set(all.slot[i]);
    }
    children.set(to - from);
  }
};

}  // namespace espalier::btree
