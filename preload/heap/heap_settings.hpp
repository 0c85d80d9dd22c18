#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// What the environment says of the heap. preload/README.md lists the variables.
struct heap_settings {
  bool prefault = false;
  bool huge = false;
  std::size_t keep = std::size_t{32} << 20U;  ///< bytes of empty memory
  std::uint64_t decay = 1000;                 ///< milliseconds that more than these stay
  bool stats = false;
};

/// Reads ESPALIER_MALLOC_* from an environment, which may be null. What is wrong stays as it is without the variable,
/// and complain(line) is called with a line, without its end, that says what would be right. Allocates nothing.
void read_heap_settings(char* const* environment, heap_settings& to, void (*complain)(const char*)) noexcept;

}  // namespace espalier::preload
