#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/studies/study_output.hpp"

// The mallocs under which programs can be measured, Espalier's and others.

namespace espalier::app {

/// A malloc, and how it is preloaded into a program.
struct preloaded_malloc {
  std::string name;
  std::vector<std::filesystem::path> libraries;  ///< none for the C library's own
  variables set;
};

struct malloc_choice {
  std::vector<preloaded_malloc> found;
  std::vector<missing_map> missing;
};

inline constexpr std::string_view system_malloc = "glibc";
inline constexpr std::string_view index_aware_malloc = "index-aware";
inline constexpr std::string_view random_malloc = "random";

/// The mallocs with these names, or all if there are none; glibc first, then other libraries', then Espalier's. Others
/// are searched where the system keeps its libraries. Throws usage_error for an unknown name, and if one of Espalier's
/// was not built.
[[nodiscard]] malloc_choice choose_mallocs(const std::vector<std::string>& names);

/// Prints a line on standard error for each that is missing.
void print_missing(const malloc_choice& choice);

/// The names that choose_mallocs() accepts.
[[nodiscard]] std::vector<std::string> malloc_names();

}  // namespace espalier::app
