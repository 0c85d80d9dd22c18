#pragma once

#include <utility>

#include "espalier/hw/htm.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The access (tree/optimistic_access.hpp) of B+trees under one lock that transactions elide.

namespace espalier {

/// The default policies of these.
using elided_btree_traits = btree_traits::with_lock<ttas_lock>::with_htm<hw::rtm>;

}  // namespace espalier

namespace espalier::btree {

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
  static constexpr bool repeats_steps = true;

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
