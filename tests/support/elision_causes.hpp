#pragma once

#include <array>
#include <cstddef>

#include "espalier/sync/elision_policy.hpp"
#include "support/abort_statuses.hpp"

// For all users of lock elision: how often each cause is attempted before the lock is taken.

namespace espalier::test {

inline constexpr elision_budgets small_budgets{.conflict = 3, .capacity = 1, .lock_held = 2, .other = 1};

struct elision_cause {
  hw::abort_status status;
  std::size_t attempts;  ///< with small_budgets
  elision_event counted;
};

inline constexpr std::array elision_causes{
    elision_cause{abort_statuses::conflict, 4, elision_event::conflict},
    elision_cause{abort_statuses::capacity, 2, elision_event::capacity},
    elision_cause{abort_statuses::held, 3, elision_event::lock_held},
    elision_cause{hw::abort_status::asked_for(inner_lock_held), 3, elision_event::lock_held},
    elision_cause{abort_statuses::no_reason, 2, elision_event::other},
    elision_cause{hw::abort_status::asked_for(not_elidable), 1, elision_event::other}};

}  // namespace espalier::test
