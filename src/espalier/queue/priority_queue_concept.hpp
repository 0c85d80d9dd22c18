#pragma once

#include <concepts>
#include <optional>
#include <string_view>

#include "espalier/map/map_concept.hpp"

// The contract of priority queues. An element is a key and a value; the smallest key comes first. Keys may repeat.
//
//   push(key, value)   adds an element
//   try_pop_min()      removes and returns an element with the smallest key, or nothing
//   try_pop_min_up_to(limit)
//                      the same; nothing where the smallest key comes after the limit
//   try_find_min()     a copy of such an element, or nothing
//   empty()            whether there is none
//
// Every operation exists twice: with a guard from pin(), which the caller holds over many operations, and without. What pushes
// and what pops throws std::bad_alloc, with the queue unchanged; likewise what a copy of a value or the comparator throws.
//
// queue_properties says what a pop promises beside other operations.
//   linearizable            each operation takes effect at one moment between its call and its return
//   quiescently consistent  operations that a moment without any operation separates take effect in that order. Each element
//                           is popped once. A pop takes no element while there is one with a smaller key whose push returned
//                           before the pop was called, but it may pass one that was pushed meanwhile, and take or miss
//                           another that was pushed after that one.
// Elements with equal keys come in any order. Those that one thread has pushed come in the order of their pushes where one thread
// pops them: in a linearizable queue always, in another one if no other thread pops at the same time.

namespace espalier {

enum class queue_order : bool { quiescently_consistent, linearizable };

[[nodiscard]] constexpr std::string_view to_string(queue_order o) noexcept {
  return o == queue_order::linearizable ? "linearizable" : "quiescently consistent";
}

/// What a queue promises beyond the contract, and its source.
struct queue_properties {
  std::string_view name;
  queue_order order;
  progress update_progress;
  std::string_view paper;
};

template <class Q>
concept concurrent_priority_queue =
    requires(Q& queue, const Q& read, const typename Q::key_type& key, const typename Q::mapped_type& value,
             typename Q::guard_type& guard) {
      { read.pin() } -> std::same_as<typename Q::guard_type>;
      queue.push(key, value);
      queue.push(guard, key, value);
      { queue.try_pop_min() } -> std::same_as<std::optional<typename Q::value_type>>;
      { queue.try_pop_min(guard) } -> std::same_as<std::optional<typename Q::value_type>>;
      { queue.try_pop_min_up_to(key) } -> std::same_as<std::optional<typename Q::value_type>>;
      { queue.try_pop_min_up_to(guard, key) } -> std::same_as<std::optional<typename Q::value_type>>;
      { read.try_find_min() } -> std::same_as<std::optional<typename Q::value_type>>;
      { read.try_find_min(guard) } -> std::same_as<std::optional<typename Q::value_type>>;
      { read.empty() } -> std::same_as<bool>;
      { read.empty(guard) } -> std::same_as<bool>;
      { Q::properties } -> std::convertible_to<queue_properties>;
    };

}  // namespace espalier
