#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/fraser_skip_list.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/queue/priority_queue_concept.hpp"
#include "espalier/sync/per_thread.hpp"

// shavit_lotan_queue: priority queue over a skip list.
// Shavit and Lotan, "Skiplist-Based Concurrent Priority Queues", IPDPS 2000; the lock-free one of Herlihy and Shavit, "The Art
// of Multiprocessor Programming", section 15.5, over the list of map/skip_list/fraser_skip_list.hpp.
//
// Essence. A pop walks along level 0 from the head, and claims the first node that no other pop has claimed. Then it unlinks
// the node, as an erase does. A walk may pass a place before an element is pushed there. So without more the queue is
// quiescently consistent. To be linearizable, it stamps each element once it is linked everywhere. A pop ignores elements without
// a stamp, and begins again where it meets one that was stamped after its own beginning.
//
// Deviations from the paper, and from its implementations:
//  1. The list is lock-free. A claim is the mark of the link at level 0, as in ASCYLIB, which never frees the node; the
//     paper's is a flag, set before a deletion under locks.
//  2. Stamps are numbers from a counter of the queue, which pushes increase. The paper reads a clock.
//  3. A linearizable pop that meets an element with a later stamp begins again. In the paper it passes this element. Then it may
//     return one that was the smallest at no moment: it stands at 10 when 15 is pushed, and then 10 popped, and goes on to 20.
//     An element without a stamp is not in the queue yet.
//  4. Keys may repeat: beside its key each node has a number that no other one has, from its thread's counter and the slot of
//     the thread. Equal keys lie in the order of these numbers.
//  5. A pop unlinks at the levels of its node alone, in a walk from the head: all that comes before is claimed too, or was
//     pushed meanwhile.
//
// Progress: lock-free. A pop goes on, or begins again, only where another operation has succeeded.
//
// Reclamation: as in fraser_skip_list.hpp.
//
// Linearization points, of the linearizable one
//   push                          stamp: the store of the stamp; or just before the pop of its element, if that counts earlier
//   try_pop_min -> an element     the claim; or, if smaller elements are in the queue then, just before the first of them was
//                                 stamped
//   try_pop_min -> nothing, try_find_min, empty    likewise the end of the walk, the read of the mark
// try_pop_min_up_to is try_pop_min of a queue without the keys after the limit.
// Let a pop P claim y while smaller elements are in the queue. P has met none of these with a stamp: it would have taken it, or
// begun again. Let x be the one that was stamped first, at t. P passed its place before t, so t lies in the interval of P. The
// push of y drew its stamp before P began. Let s be smaller than y, in the queue at t, and claimed by a pop Q before P came to
// it. Then s lies after x: else x was linked when Q claimed s, and P would have met it. So Q passed x too, and also counts before
// t. Of operations that count before the same t, those of smaller elements come first.
//
// Orderings
//   (1) stamp (release) -> read_stamp (acquire): a pop that meets a later stamp reads a counter that is not smaller when it begins
//       again. (No more is needed: the pop has reached the element by its link.)
//   (2) draw_stamp (acq_rel) -> begin (acquire): a pop that accepts a stamp sees what was linked before an earlier one.

namespace espalier {

/// What a tower has in a queue with stamps.
struct stamped_tower : fraser_tower {
  using fraser_tower::fraser_tower;
  std::atomic<std::uint64_t> stamp{0};  // 0: not in the queue yet
};

template <class Key, class Value, queue_order Order = queue_order::quiescently_consistent,
          class Traits = map_traits, class Compare = std::less<Key>, class Levels = drawn_levels>
class shavit_lotan_queue {
  static constexpr bool stamped = Order == queue_order::linearizable;

  struct numbered_key {
    Key key;
    std::uint64_t number;
  };
  struct numbered_order {
    [[no_unique_address]] Compare less;
    bool operator()(const numbered_key& a, const numbered_key& b) const {
      if (less(a.key, b.key)) return true;
      return a.number < b.number && !less(b.key, a.key);
    }
  };
  using tower_state = std::conditional_t<stamped, stamped_tower, fraser_tower>;
  using list_base = fraser_skip_list<numbered_key, Value, Traits, numbered_order, Levels, tower_state>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = map_entry<Key, Value>;
  using key_compare = Compare;
  using traits_type = Traits;
  using guard_type = typename list_base::guard_type;
  using reclaimer_type = typename list_base::reclaimer_type;

  static constexpr queue_properties properties{
      .name = "shavit_lotan_queue",
      .order = Order,
      .update_progress = progress::lock_free,
      .paper = "Shavit and Lotan, Skiplist-Based Concurrent Priority Queues, IPDPS 2000"};

  /// If the domain is null, the queue creates its own; a shared one must outlive the queue. The further arguments construct
  /// the placement.
  template <class... PlacementArguments>
  explicit shavit_lotan_queue(const Compare& less = Compare(), reclaimer_type* domain = nullptr,
                              PlacementArguments&&... placement)
      : list_(numbered_order{less}, domain, std::forward<PlacementArguments>(placement)...) {}

  [[nodiscard]] guard_type pin() const { return list_.pin(); }
  [[nodiscard]] const Compare& key_comp() const noexcept { return list_.key_comp().less; }

  /// Logarithmic in the number of elements, as expected.
  void push(const Key& key, const Value& value) {
    auto guard = pin();
    push(guard, key, value);
  }
  void push(guard_type& guard, const Key& key, const Value& value) {
    auto& n = list_.push(guard, {key, next_number()}, value);
    if constexpr (stamped) {
      // order (2): draw_stamp, acq_rel
      const std::uint64_t now = clock_.fetch_add(1, std::memory_order_acq_rel) + 1;
      // LP: push. order (1): stamp, release
      n.stamp.store(now, std::memory_order_release);
    }
  }

  /// Linear in the number of pops that are under way.
  std::optional<value_type> try_pop_min() {
    auto guard = pin();
    return try_pop_min(guard);
  }
  std::optional<value_type> try_pop_min(guard_type& guard) {
    return first(any_key, [&](auto& n) { return list_.claim(guard, n); });
  }

  std::optional<value_type> try_pop_min_up_to(const Key& limit) {
    auto guard = pin();
    return try_pop_min_up_to(guard, limit);
  }
  std::optional<value_type> try_pop_min_up_to(guard_type& guard, const Key& limit) {
    const auto is_within = [this, &limit](const Key& key) { return !key_comp()(limit, key); };
    return first(is_within, [&](auto& n) { return list_.claim(guard, n); });
  }

  [[nodiscard]] std::optional<value_type> try_find_min() const {
    auto guard = pin();
    return try_find_min(guard);
  }
  [[nodiscard]] std::optional<value_type> try_find_min(guard_type&) const {
    return first(any_key, [](auto& n) { return list::copy_of(n); });
  }

  [[nodiscard]] bool empty() const {
    auto guard = pin();
    return empty(guard);
  }
  [[nodiscard]] bool empty(guard_type&) const {
    return !first(any_key, [](auto&) { return std::optional<bool>(true); });
  }

  /// As that of maps.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = list_.usage();
    sum.bytes_reserved += sizeof(*this) - sizeof(list_) + counts_.bytes();
    return sum;
  }
  [[nodiscard]] reclaimer_type& domain() noexcept { return list_.domain(); }

  // Quiescent only, for tests.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const { return list_.check_invariants(); }

 private:
  /// The list, with what a queue does at its head.
  struct list : list_base {
    using list_base::first_at;
    using list_base::has_mark;
    using list_base::list_base;
    using list_base::next_of;
    using typename list_base::node;

    node& push(guard_type& guard, const numbered_key& key, const Value& value) {
      return *this->add(guard, key, value, [](auto&, auto&) {});  // no other node has the number
    }

    [[nodiscard]] static std::optional<value_type> copy_of(const node& n) {
      return value_type{n.key.key, list_base::value_of(n)};
    }

    /// Takes the element out, unless another thread has. Copies it first, because a copy may throw.
    std::optional<value_type> claim(guard_type& guard, node& n) {
      std::optional<value_type> copy = copy_of(n);
      guard.reserve(list_base::own_retirements);
      if (!list_base::set_marks(n)) return std::nullopt;
      this->clean_up(guard, n.key, n.levels);
      return copy;
    }
  };

  static constexpr auto any_key = [](const Key&) { return true; };

  /// The first result of try_one(node) that is not nothing, of the nodes in order that are in the queue, up to the first key
  /// that is not within the limit.
  template <class IsWithin, class TryOne>
  auto first(const IsWithin& is_within, const TryOne& try_one) const
      -> decltype(try_one(std::declval<typename list::node&>())) {
    while (true) {
      [[maybe_unused]] std::uint64_t begin = 0;
      // order (2): begin, acquire
      if constexpr (stamped) begin = clock_.load(std::memory_order_acquire);
      bool late = false;
      for (auto* n = list_.first_at(0); n != nullptr && is_within(n->key.key); n = list::next_of(*n, 0)) {
        if (list::has_mark(*n)) continue;
        if constexpr (stamped) {
          const std::uint64_t stamp =
              n->stamp.load(std::memory_order_acquire);  // order (1): read_stamp, acquire
          if (stamp == 0) continue;
          late = stamp > begin;
          if (late) break;
        }
        if (auto result = try_one(*n)) return result;
      }
      if (!late) return std::nullopt;
    }
  }

  [[nodiscard]] std::uint64_t next_number() {
    std::uint64_t& count = counts_.local().pushes;
    return count++ * hw::max_thread_slots + hw::thread_slot();
  }

  struct counter {
    std::uint64_t pushes = 0;
  };
  struct no_clock {};

  list list_;
  per_thread<counter> counts_;
  alignas(stamped ? hw::false_sharing_bytes : 1)
      [[no_unique_address]] std::conditional_t<stamped, std::atomic<std::uint64_t>, no_clock> clock_{};
};

}  // namespace espalier
