#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// Settings of RAND from the environment. preload/README.md lists the variables.
struct random_settings {
  std::uint64_t seed = 0;
  std::size_t largest = 1008;
  bool stats = false;
};

/// Reads ESPALIER_RANDOM_*. Null, or a line without line end that says which variable is wrong and what is valid; all
/// settings then have their defaults. Allocates nothing.
[[nodiscard]] const char* read_random_settings(char* const* environment, random_settings& to) noexcept;

}  // namespace espalier::preload
