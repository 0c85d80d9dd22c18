#pragma once

// In place of the library's own: transactions that never come to anything, for one reason after the other. So whole
// programs take every way from an attempt to the mutex, on any processor.

#include <array>
#include <cstddef>
#include <optional>

#include "espalier/hw/htm.hpp"

namespace espalier::preload {

class aborting_transactions {
 public:
  [[nodiscard]] static std::optional<hw::abort_status> begin() noexcept {
    using hw::abort_status;
    constexpr std::array reasons{
        abort_status{abort_status::conflict_bit | abort_status::retry_bit}, abort_status{},
        abort_status{abort_status::conflict_bit | abort_status::retry_bit},
        abort_status::asked_for(hw::abort_code::lock_held), abort_status{abort_status::capacity_bit}};
    static thread_local constinit std::size_t attempts = 0;
    return reasons[attempts++ % reasons.size()];
  }
  static void end() noexcept {}
  template <hw::abort_code>
  static void abort() noexcept {}
};
static_assert(hw::open_backend<aborting_transactions>);

using mutex_backend = aborting_transactions;

[[nodiscard]] inline bool transactions_work() noexcept { return true; }

}  // namespace espalier::preload
