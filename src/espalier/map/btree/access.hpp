#pragma once

#include <utility>

#include "espalier/hw/htm.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// How the threads of a B+tree stay out of each other's way. A tree (tree.hpp) makes each of its steps a function: it goes
// from the root to a node, and reads or changes one node or two neighbours. An access runs such a function, and gives
// it the witnesses of the nodes that it comes to:
//
//   section, guard   what read() of a node's lock returns, and what its upgrade() returns
//   once(step)       one attempt. The result of a step is empty, or false, where another thread came between
//   steps_connect    whether the sections of a step are still good in the next one

namespace espalier::btree {

/// Optimistic lock coupling: each node has a version, and a step may fail.
struct optimistic_access {
  using section = optimistic_lock::read_section;
  using guard = optimistic_lock::write_guard;
  static constexpr bool steps_connect = true;
  /// Whether a step follows the rules for bodies of transactions: it may run several times, and throws nothing.
  static constexpr bool elides = false;

  [[nodiscard]] static section read(optimistic_lock& of_node) noexcept { return of_node.read(); }

  template <class Step>
  [[nodiscard, gnu::always_inline]] static decltype(auto) once(Step&& step) {
    return step();
  }
};

/// How often DBX attempts a region, as far as its authors' later source shows: at once after each conflict.
inline constexpr elision_budgets dbx_budgets{
    .conflict = 128, .capacity = 16, .lock_held = 128, .other = 3, .pauses = false};

/// One lock for the whole tree, elided: each step is a transaction, or runs with the lock held. The locks of the nodes
/// are not used.
template <elidable Lock, hw::transactional_backend Htm>
class elided_access {
 public:
  using section = exclusive_access;
  using guard = exclusive_access;
  static constexpr bool steps_connect = false;
  static constexpr bool elides = true;

  [[nodiscard]] static section read(optimistic_lock&) noexcept { return {}; }

  template <class Step>
  [[nodiscard]] auto once(Step&& step) {
    return lock_.elide(std::forward<Step>(step));
  }

  [[nodiscard]] elision_counts counts() const noexcept { return lock_.counts(); }

 private:
  elided<Lock, Htm, elision_counts_by_thread> lock_{dbx_budgets};
};
template <class Traits>
using elided_tree = elided_access<typename Traits::lock_type, typename Traits::htm_type>;

}  // namespace espalier::btree
