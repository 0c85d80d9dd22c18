#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// Settings of the heap from the environment. preload/README.md lists the variables.
struct heap_settings {
  bool prefault = false;
  bool huge = false;
  std::size_t keep = std::size_t{32} << 20U;  ///< bytes of empty memory that stay
  std::uint64_t decay = 1000;                 ///< milliseconds that memory beyond these stays
  bool stats = false;
};

/// Reads ESPALIER_MALLOC_* from an environment, which may be null. A setting with a wrong value keeps its default, and
/// complain(line) is called with a line, without line end, that says what is valid. Allocates nothing.
void read_heap_settings(char* const* environment, heap_settings& to, void (*complain)(const char*)) noexcept;

}  // namespace espalier::preload
