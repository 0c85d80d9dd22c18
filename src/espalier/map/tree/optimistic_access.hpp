#pragma once

#include "espalier/sync/optimistic_lock.hpp"

// How the threads of a B+tree stay out of each other's way. A tree (tree.hpp) makes each of its steps a function: it goes
// from the root to a node, and reads or changes one node or two neighbours. An access runs such a function, and gives
// it the witnesses of the nodes that it comes to:
//
//   section, guard   what read() of a node's lock returns, and what its upgrade() returns
//   once(step)       one attempt. The result of a step is empty, or false, where another thread came between
//   steps_connect    whether the sections of a step are still good in the next one
//   repeats_steps    whether a step may run several times in one attempt: then it throws nothing
//
// Here is the access that reads beside writers; studied/elided_access.hpp has another one.

namespace espalier::btree {

/// Optimistic lock coupling: each node has a version, and a step may fail.
struct optimistic_access {
  using section = optimistic_lock::read_section;
  using guard = optimistic_lock::write_guard;
  static constexpr bool steps_connect = true;
  static constexpr bool repeats_steps = false;

  [[nodiscard]] static section read(optimistic_lock& of_node) noexcept { return of_node.read(); }

  template <class Step>
  [[nodiscard, gnu::always_inline]] static decltype(auto) once(Step&& step) {
    return step();
  }
};

}  // namespace espalier::btree
