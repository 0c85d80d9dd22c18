#pragma once

#include "espalier/hw/htm.hpp"

// The statuses with which transactions abort in tests.

namespace espalier::test::abort_statuses {

inline constexpr hw::abort_status conflict{hw::abort_status::conflict_bit | hw::abort_status::retry_bit};
inline constexpr hw::abort_status capacity{hw::abort_status::capacity_bit};
inline constexpr hw::abort_status no_reason{};
inline constexpr hw::abort_status held = hw::abort_status::asked_for(hw::abort_code::lock_held);

}  // namespace espalier::test::abort_statuses
