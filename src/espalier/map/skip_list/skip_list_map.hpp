#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/per_thread.hpp"

// The part of a skip list that is the same for all algorithms: nodes, the heights of their towers, and reading.
// Pugh, "Skip Lists: A Probabilistic Alternative to Balanced Trees", CACM 1990.
//
// A node has a tower of one to most_levels links, and lies in the lists of so many levels, each in the order of keys. The
// list of level 0 has all nodes; it decides which keys are present. The lists above are ways into it. Half of the towers
// have one level, a quarter two, and so on.

namespace espalier {

/// The policies from which skip lists make their own.
using skip_list_traits =
    basic_map_traits<segregated, unused_policy, epoch_domain, unused_policy, unused_policy>;

/// Draws the levels of new towers: l with the probability 2^-l. Each thread has a generator of its own. The same calls draw
/// the same levels in each process.
class drawn_levels {
 public:
  /// Throws std::bad_alloc at a thread's first call.
  [[nodiscard]] unsigned draw() {
    std::uint64_t& x = generators_.local().state;
    if (x == 0) x = (hw::thread_slot() + std::uint64_t{1}) * 0x9e3779b97f4a7c15U;
    // xorshift64* (Marsaglia 2003, Vigna 2016), whose high bits are good.
    x ^= x >> 12U;
    x ^= x << 25U;
    x ^= x >> 27U;
    return 1 + static_cast<unsigned>(std::countl_zero(x * 0x2545f4914f6cdd1dU));
  }

  /// Of the generators.
  [[nodiscard]] std::size_t bytes() const noexcept { return generators_.bytes(); }

 private:
  struct generator {
    std::uint64_t state = 0;
  };
  per_thread<generator> generators_;
};

/// What a search remembers of a tower that it need not validate by itself.
struct nothing_seen {};

/// The base of a skip list. The algorithm derives from it, makes it a friend, and provides
///   State   what each tower has besides links; its constructor takes the number of levels, its member `levels` keeps it
///   Marked  whether the lowest bit of a link says that its node is erased
///   linked_levels(node)  at rest: the lists in which a node lies, from level 0 on. By default all of its tower
/// and do_insert(), do_assign() and do_erase() of the contract (map_facade.hpp).
///
/// It promises what makes a walk right. (a) A node is linked at level 0 first. (b) Without marks, the links of a node are frozen
/// once it is unlinked at level 0: they never change again. With marks, each link is frozen once it has its mark. (c) Without
/// marks, a node is unlinked at level 0 last. With marks, the link of level 0 is marked last, and this mark erases the key. The
/// node is unlinked after that, at any level first.
///
/// Why a walk is right. The towers on which it stands, one after the other, were in the list of level 0, and not erased, at
/// some moment of the operation. Without marks, this is so of what a link leads to at the moment at which it is read, if
/// the tower is linked, and else at the moment at which the tower was frozen, by (a) and (c). With marks, a node may be
/// linked above level 0 after it was erased: a walk goes past such a node by its link, and stands only on nodes whose link at
/// this level had no mark. So let it stand on a at level 0, and go on to b. If a is linked then, a and b are neighbours then.
/// Else a was frozen during the operation, and they were neighbours at that moment. No key between two neighbours is present.
/// A walk that steps from erased nodes to others on level 0 passes no key either: nothing is linked after a node with a mark.
///
/// Linearization points: the read of the link to the node at level 0, or the moment at which the tower was frozen that has
/// this link; for maps with marks, if the node is found, the read of its link at level 0. For the value see node_store.hpp.
/// These are points for one key. With marks, a walk to a neighbour (first, last, the bounds) goes past nodes that are erased
/// while it runs: the entry that it returns was present, but perhaps at no moment the neighbour (map_concept.hpp).
///
/// Orderings
///   (1) publish, link, unlink (release) in map/skip_list/fraser_skip_list.hpp -> read_link (acquire): a thread that
///       reaches a node sees it constructed, with the value of its insert, and what has become of the nodes before it.
///   (2) replace_value (release) -> read_value (acquire): a thread that finds a value sees its cell, and what the writer did
///       before it stored the value; likewise after assign (release) in map/node_store.hpp.
template <class Map, class Key, class Value, class Traits, class Compare, class State, bool Marked,
          class Levels>
class skip_list_map : public stored_map<Map, Key, Value, Compare, node_store<Traits>> {
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>>;

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::less;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value>;

  struct node;
  /// The bit of a marked link.
  static constexpr std::uintptr_t mark = 1;
  using link_word = std::conditional_t<Marked, tagged_ptr<node, 1>, node*>;
  using link = std::atomic<link_word>;
  static_assert(link::is_always_lock_free, "this processor has no lock-free atomics of that size");

  static constexpr unsigned most_levels = 32;

  /// What comes before the links of a node, and of the head.
  struct alignas(link) tower : State {
    using State::State;
    /// The links follow the tower in memory.
    [[nodiscard]] link& next(unsigned level) const noexcept {
      return reinterpret_cast<link*>(const_cast<tower*>(this) + 1)[level];
    }
  };

  struct entry {
    const Key key;
    std::atomic<typename holder::word> value;
  };

  // Key, links and what lies between are in one line if there are few levels: with words as keys and values, four levels
  // fill 56 of the 64 bytes that such a block has.
  struct node : entry, tower {
    node(const Key& k, typename holder::word v, unsigned count) noexcept : entry{k, v}, tower(count) {
      for (unsigned level = 0; level < count; ++level) ::new (&this->next(level)) link(link_word{});
    }
    [[nodiscard]] static constexpr std::size_t bytes_for(unsigned count) noexcept {
      return sizeof(node) + count * sizeof(link);
    }
    [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes_for(this->levels); }
    [[nodiscard]] static constexpr std::size_t align_of_block(std::size_t bytes) noexcept {
      return compact_layout::node_align(bytes, alignof(node));
    }
  };
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(State) > 8 || sizeof(node) == 24,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  /// Of a node with one level. Each further level has a link more.
  static constexpr std::size_t node_bytes = node::bytes_for(1);
  [[nodiscard]] static std::vector<node_type> node_types() {
    constexpr std::size_t state = sizeof(node) - sizeof(tower);
    return {{.role = memory_role::node,
             .name = to_string(memory_role::node),
             .bytes = node_bytes,
             .members = {{"key", offsetof(entry, key), sizeof(Key), search_use::all},
                         {"value", offsetof(entry, value), sizeof(entry::value)},
                         {Map::state_name, state, sizeof(tower)},
                         {"next", sizeof(node), sizeof(link), search_use::all}},
             .growth = sizeof(link)}};
  }

  using base::base;

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    for (const node* n = first_at(0); n != nullptr; n = next_of(*n, 0)) {
      visitor(static_cast<const void*>(n), n->node_block_bytes(), memory_role::node);
      if constexpr (!holder::in_place) {
        // order (2): read_value, acquire: more than needed at rest.
        visitor(static_cast<const void*>(n->value.load(std::memory_order_acquire)), sizeof(Value),
                memory_role::value);
      }
    }
  }

  /// What is wrong with the structure, or null: order, and which nodes lie in which lists.
  [[nodiscard]] const char* check_invariants() const {
    for (unsigned level = 0; level < most_levels; ++level) {
      const node* below = first_at(0);
      const node* last = nullptr;
      for (const node* n = first_at(level); n != nullptr; n = next_of(*n, level)) {
        // order (1): read_link, acquire: more than needed at rest.
        if (is_marked(n->next(level).load(std::memory_order_acquire)))
          return "an erased node is still linked";
        if (last != nullptr && !less(last->key, n->key)) return "keys are not in order";
        if (n->levels <= level) return "a node lies above its tower";
        for (; below != n; below = next_of(*below, 0)) {
          if (below == nullptr) return "a node above level 0 is not in the list there";
          if (Map::linked_levels(*below) > level) return "a node is missing at a level";
        }
        below = next_of(*below, 0);
        last = n;
      }
      for (; below != nullptr; below = next_of(*below, 0)) {
        if (Map::linked_levels(*below) > level) return "a node is missing at a level";
      }
    }
    return nullptr;
  }

 protected:
  // No other thread may use the map any more.
  ~skip_list_map() = default;

  [[nodiscard]] static constexpr bool is_marked(const node*) noexcept { return false; }
  [[nodiscard]] static bool is_marked(tagged_ptr<node, 1> word) noexcept { return word.has(mark); }

  /// Of level 0, where it decides.
  [[nodiscard]] static bool has_mark(const node& n) noexcept {
    return is_marked(n.next(0).load(std::memory_order_acquire));  // order (1): read_link, acquire
  }
  [[nodiscard]] static typename holder::view value_of(const node& n) noexcept {
    return holder::read(n.value.load(std::memory_order_acquire));  // order (2): read_value, acquire
  }

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const node* const n = find_node(key);
    if (n == nullptr) return std::nullopt;
    return value_of(*n);
  }

  /// A cell is read where it lies: the guard keeps it.
  template <class Visitor>
  bool do_visit(guard_type&, const Key& key, Visitor& visitor) const {
    const node* const n = find_node(key);
    if (n == nullptr) return false;
    const Value& value = value_of(*n);
    std::invoke(visitor, value);
    return true;
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const { return find_node(key) != nullptr; }

  /// Along level 0, or backwards by one seek for each entry.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    if constexpr (Bound::reverse) {
      stepwise_scan(bound, [this](const auto& from) { return this->last_of(from); }, visit);
    } else {
      const node* n = seek([&](const Key& key) { return !bound.admits(key); }).after;
      while (n != nullptr) {
        const link_word next = n->next(0).load(std::memory_order_acquire);  // order (1): read_link, acquire
        if (!is_marked(next) && !visit(n->key, value_of(*n))) return;
        n = to_pointer(next);
      }
    }
  }

  /// Where an update has found its key, or its place: on each level up to the first that is empty, the last tower whose key
  /// is smaller, and the node after it. Seen is what the algorithm reads of a tower before it reads the links.
  template <class Seen = nothing_seen>
  struct place {
    unsigned levels;  ///< of the search
    std::array<tower*, most_levels> before;
    std::array<node*, most_levels> after;
    [[no_unique_address]] std::array<Seen, most_levels> seen;
  };

  /// The levels of an update's search: one of them has no nodes, if there is such a one, so that a new tower can end there.
  /// Of a thread, no search has fewer levels than one before.
  [[nodiscard]] unsigned levels_of_search() const noexcept {
    // relaxed: a hint. From lower levels a search is longer.
    return std::min(top_.load(std::memory_order_relaxed) + 2, most_levels);
  }

  /// For maps without marks: returns the node with the key, or null. look(tower) is called before its links are read.
  template <class Seen, class Look>
  [[nodiscard]] node* seek_place(const Key& key, place<Seen>& at, const Look& look) const {
    static_assert(!Marked);
    tower* before = &head_.begin;
    Seen seen = look(*before);
    at.levels = levels_of_search();
    for (unsigned level = at.levels - 1;; --level) {
      node* after = before->next(level).load(std::memory_order_acquire);  // order (1): read_link, acquire
      while (after != nullptr && less(after->key, key)) {
        before = after;
        seen = look(*before);
        after = before->next(level).load(std::memory_order_acquire);  // order (1): read_link, acquire
      }
      at.before[level] = before;
      at.after[level] = after;
      at.seen[level] = seen;
      if (level == 0) return after != nullptr && !less(key, after->key) ? after : nullptr;
    }
  }

  /// For a node that was linked at this level.
  void reached(unsigned level) noexcept {
    // relaxed: a hint.
    unsigned top = top_.load(std::memory_order_relaxed);
    while (top < level && !top_.compare_exchange_weak(top, level, std::memory_order_relaxed)) {
    }
  }

  /// A node that is not linked yet, and its value. It is created at the first attempt, and kept over retries.
  class new_node {
   public:
    explicit new_node(skip_list_map& map) noexcept
        : word(map.store_), map_(map), made_(map.store_, memory_role::node) {}

    /// The value is another one only after a reset of the word. Throws std::bad_alloc.
    template <class Place, class Source>
    node& prepare(const Key& key, Source&& value, const Place& at) {
      const auto held = word.get(std::forward<Source>(value));
      if (node* const present = made_.get()) {
        present->value.store(held, std::memory_order_relaxed);  // relaxed: published by the link at level 0
        return *present;
      }
      const unsigned levels = std::min(map_.levels_.draw(), at.levels);
      const void* const near =
          at.before[0] != &map_.head_.begin ? static_cast<const node*>(at.before[0]) : nullptr;
      return made_.emplace_sized(near, node::bytes_for(levels), key, held, levels);
    }
    /// To be called once the node is linked.
    void linked() noexcept {
      made_.release();
      word.release();
    }

    /// The value's word, to be assigned where the key turns out to be there.
    typename holder::pending word;  // NOLINT(misc-non-private-member-variables-in-classes)

   private:
    skip_list_map& map_;
    unpublished<store, node> made_;
  };

  /// Stores a value under the node's lock; returns the word before.
  static auto replace_value(node& n, typename holder::word fresh) noexcept {
    // relaxed: written under the lock only
    const auto old = n.value.load(std::memory_order_relaxed);
    // LP: insert_or_assign(false), update to a value. order (2): replace_value, release
    n.value.store(fresh, std::memory_order_release);
    return old;
  }

  [[nodiscard]] static unsigned linked_levels(const node& n) noexcept { return n.levels; }

  /// Frees all nodes; for the destructor of the algorithm.
  void destroy_all() noexcept {
    if constexpr (store::template must_visit<node>() || holder::must_visit()) {
      node* n = first_at(0);
      while (n != nullptr) destroy(store_, std::exchange(n, next_of(*n, 0)));
    }
  }

  /// For a node that no thread can reach.
  static void destroy(store& owner, node* n) noexcept {
    // relaxed: the reclaimer, or the owner of the map, has ordered this after all accesses.
    holder::discard(owner, n->value.load(std::memory_order_relaxed));
    owner.destroy(memory_role::node, n);
  }

  [[nodiscard]] node* first_at(unsigned level) const noexcept { return next_of(head_.begin, level); }
  [[nodiscard]] static node* next_of(const tower& t, unsigned level) noexcept {
    return to_pointer(t.next(level).load(std::memory_order_acquire));  // order (1): read_link, acquire
  }

  /// Has no key: it comes before all.
  struct head {
    tower begin{most_levels};
    std::array<link, most_levels> first{};
  };
  alignas(hw::false_sharing_bytes) mutable head head_;

 private:
  struct neighbours {
    const tower* before;
    const node* after;
  };

  /// The end of the keys for which before(key) is true, at level 0.
  template <class Before>
  [[nodiscard]] neighbours seek(const Before& before) const {
    const tower* at = &head_.begin;
    // relaxed: a hint. From a lower level the seek is longer.
    for (unsigned level = top_.load(std::memory_order_relaxed);; --level) {
      const link_word from =
          at->next(level).load(std::memory_order_acquire);  // order (1): read_link, acquire
      const node* after = to_pointer(from);
      while (after != nullptr && before(after->key)) {
        // order (1): read_link, acquire
        const link_word next = after->next(level).load(std::memory_order_acquire);
        if (!is_marked(next)) at = after;
        after = to_pointer(next);
      }
      if (level == 0) return {at, after};
    }
  }

  [[nodiscard]] const node* find_node(const Key& key) const {
    const node* const n = seek([&](const Key& other) { return less(other, key); }).after;
    if (n == nullptr || less(key, n->key)) return nullptr;
    if constexpr (Marked) {
      if (has_mark(*n)) return nullptr;
    }
    return n;
  }

  /// The last entry that the reverse bound admits.
  template <class Bound>
  [[nodiscard]] std::optional<map_entry<Key, Value>> last_of(const Bound& bound) const {
    const tower* const last = seek([&](const Key& key) { return bound.admits(key); }).before;
    if (last == &head_.begin) return std::nullopt;
    const node& n = *static_cast<const node*>(last);
    return map_entry<Key, Value>{n.key, value_of(n)};
  }

  [[nodiscard]] std::size_t bytes_of_threads() const noexcept {
    if constexpr (requires { levels_.bytes(); })
      return levels_.bytes();
    else
      return 0;
  }

  std::atomic<unsigned> top_{0};  // the highest level that has had a node
  [[no_unique_address]] Levels levels_;
};

}  // namespace espalier
