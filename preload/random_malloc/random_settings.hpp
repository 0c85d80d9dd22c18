#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// What the environment says of RAND. preload/README.md lists the variables.
struct random_settings {
  std::uint64_t seed = 0;
  std::size_t largest = 1008;
  bool stats = false;
};

/// Reads ESPALIER_RANDOM_*. Null, or a line without its end that says which variable is wrong and what would be right;
/// all settings are then as without variables. Allocates nothing.
[[nodiscard]] const char* read_random_settings(char* const* environment, random_settings& to) noexcept;

}  // namespace espalier::preload
