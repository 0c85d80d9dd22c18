#pragma once

#include "espalier/hw/htm.hpp"
#include "espalier/hw/rtm_instructions.hpp"

namespace espalier::preload {

/// The transactions that elide a program's sections. Tests build the library with another file of this name.
using mutex_backend = hw::open_rtm;

[[nodiscard]] inline bool transactions_work() noexcept {
  return hw::look_for_rtm() == hw::rtm_support::commits;
}

}  // namespace espalier::preload
