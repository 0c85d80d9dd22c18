#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "espalier/delegation/partitioned_structure.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/queue/priority_queue_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

// partitioned_queue<Queue>: a priority queue in partitions, one or more for each locality. Its operations move to the data
// (delegation/runtime.hpp; Ren and Parmer, Middleware 2019, sections 3.4 and 4.4):
//
//     espalier::delegation::runtime threads(espalier::delegation::localities::numa_nodes());
//     espalier::partitioned_queue<espalier::shavit_lotan_queue<std::uint64_t, std::uint64_t>> queue(threads);
//
// A push goes to the partition of its key. A pop asks all partitions for their smallest key at the same time, and then pops in the
// partition that has the smallest of these.
//
// Deviation from the paper: that pop has a limit, the smallest key of the other partitions. Let one partition have 10 and 30, and
// another one 20. Two pops find 10. The second one comes when 10 is gone, and would take 30 and pass 20. With the limit it takes
// nothing, and learns the smallest key of the partition, as it is now. Then it pops in the partition whose key is the smallest
// of those that it knows.
//
// What it promises, whatever the queue of the partitions does: quiescent consistency (priority_queue_concept.hpp). It is not
// linearizable, because a pop sees the partitions at different moments.
//   order         The pop has the smallest key of each partition from a moment after its call. So where an element with a smaller
//                 key was pushed before the call, another pop takes it. Likewise try_find_min.
//   conservation  An element is in one partition, which gives it to one pop. What throws leaves all partitions as they are.
//   emptiness     A pop returns nothing, and empty() is true, where each partition was empty at a moment of its own since the
//                 call. What was in the queue before the call was popped then; what is pushed meanwhile may be there.
//   equal keys    They are in one partition, and come as from its queue.
// A thread sees its own pushes, because it waits for them.
//
// Where code runs: copies of elements and comparisons run in a thread of the partition too, which may be any thread that waits in
// the runtime. Guards protect nothing and cost nothing: each operation pins in its partition.
//
// Keys are divided by their hash where the comparator is the usual one, as in partitioned<Map>. With few different keys few
// partitions have elements: give a route that divides those.
//
// Progress: blocking. A thread waits for the one that runs its operation. Apart from that a pop tries again only where another
// one has taken an element.

namespace espalier {

template <class Queue, class Route = detail::usual_route<Queue>>
class partitioned_queue : public detail::partitioned_structure<Queue, Route> {
  using structure = detail::partitioned_structure<Queue, Route>;
  using typename structure::part;
  using Key = typename Queue::key_type;
  using Value = typename Queue::mapped_type;
  using Compare = typename Queue::key_compare;
  using carried = detail::carried_key<Key>;

 public:
  using queue_type = Queue;
  using key_type = Key;
  using mapped_type = Value;
  using value_type = typename Queue::value_type;
  using key_compare = Compare;
  using guard_type = no_guard;
  using structure::parts;
  using typename structure::parts_type;

  static constexpr queue_properties properties{
      .name = "partitioned_queue",
      .order = queue_order::quiescently_consistent,
      .update_progress = progress::blocking,
      .paper =
          "Ren and Parmer, Scalable Data-structures with Hierarchical, Distributed Delegation, "
          "Middleware 2019"};

  /// In the localities of a runtime, which outlives the queue; `partitions` is their number in all, 0 one for each locality.
  /// Throws std::bad_alloc.
  explicit partitioned_queue(delegation::runtime& threads, unsigned partitions = 0, Route route = {},
                             const Compare& less = Compare())
      : structure(threads, partitions, std::move(route), less), less_(less) {}
  /// With a runtime of its own that has two localities, to which threads come in turn.
  explicit partitioned_queue(const Compare& less = Compare()) : structure(less), less_(less) {}
  /// No other thread may use the queue any more.
  ~partitioned_queue() = default;

  [[nodiscard]] guard_type pin() const noexcept { return {}; }
  [[nodiscard]] const Compare& key_comp() const noexcept { return less_; }

  // All operations throw nesting_error too (partitions::call), with the queue unchanged.

  /// One message.
  void push(const Key& key, const Value& value) {
    parts().call(key, [k = carried(key), &value](part& q) { q.push(*k, value); });
  }
  void push(guard_type&, const Key& key, const Value& value) { push(key, value); }

  /// A message to each partition, and one more; another one for each time that another pop was faster.
  std::optional<value_type> try_pop_min() { return pop(nullptr); }
  std::optional<value_type> try_pop_min(guard_type&) { return pop(nullptr); }
  std::optional<value_type> try_pop_min_up_to(const Key& limit) { return pop(&limit); }
  std::optional<value_type> try_pop_min_up_to(guard_type&, const Key& limit) { return pop(&limit); }

  /// A message to each partition.
  [[nodiscard]] std::optional<value_type> try_find_min() const {
    using found = std::optional<value_type>;
    return parts().broadcast(
        found(), [](part& q) { return q.try_find_min(); },
        [this](found least, found next) {
          return least && (!next || !less_(next->key, least->key)) ? std::move(least) : std::move(next);
        });
  }
  [[nodiscard]] std::optional<value_type> try_find_min(guard_type&) const { return try_find_min(); }

  [[nodiscard]] bool empty() const {
    return parts().broadcast(true, [](part& q) { return q.empty(); }, std::logical_and<bool>());
  }
  [[nodiscard]] bool empty(guard_type&) const { return empty(); }

 private:
  using some_key = std::optional<Key>;

  static constexpr auto least_key = [](part& q) {
    std::optional<value_type> e = q.try_find_min();
    return e ? some_key(std::move(e->key)) : some_key();
  };

  /// What a pop has done in a partition: it has popped, or it knows the smallest key.
  struct answer {
    std::optional<value_type> popped;
    some_key least;
  };
  [[nodiscard]] answer pop_at(unsigned index, const Key* limit) {
    const auto carried_limit = limit != nullptr ? std::optional(carried(*limit)) : std::nullopt;
    return parts().call_at(index, [carried_limit](part& q) {
      answer a{carried_limit ? q.try_pop_min_up_to(**carried_limit) : q.try_pop_min(), {}};
      if (!a.popped) a.least = least_key(q);
      return a;
    });
  }

  [[nodiscard]] std::optional<value_type> pop(const Key* limit) {
    detail::one_for_each<some_key> least(parts().count());
    parts().broadcast(0U, least_key, [&](unsigned i, some_key key) {
      least[i] = std::move(key);
      return i + 1;
    });
    while (true) {
      // The smallest key that is known, and the next one or the limit.
      const some_key* best = nullptr;
      const Key* bound = limit;
      for (const some_key& one : least) {
        if (!one) continue;
        if (best == nullptr || less_(*one, **best)) {
          if (best != nullptr && (bound == nullptr || less_(**best, *bound))) bound = &**best;
          best = &one;
        } else if (bound == nullptr || less_(*one, *bound)) {
          bound = &*one;
        }
      }
      if (best == nullptr || (limit != nullptr && less_(*limit, **best))) return std::nullopt;
      const auto its = static_cast<unsigned>(best - least.begin());
      answer a = pop_at(its, bound);
      if (a.popped) return std::move(a.popped);
      least[its] = std::move(a.least);
    }
  }

  [[no_unique_address]] Compare less_;
};

}  // namespace espalier
