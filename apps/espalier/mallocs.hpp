#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "preloaded_program.hpp"

// The mallocs that programs can be measured under, ours and others.

namespace espalier::app {

/// A malloc, and how a program is given it.
struct preloaded_malloc {
  std::string name;
  std::vector<std::filesystem::path> libraries;  ///< none for the C library's own
  variables set;
};

struct missing_malloc {
  std::string name;
  std::string why;
};

struct malloc_choice {
  std::vector<preloaded_malloc> found;
  std::vector<missing_malloc> missing;
};

inline constexpr std::string_view system_malloc = "glibc";
inline constexpr std::string_view index_aware_malloc = "index-aware";
inline constexpr std::string_view random_malloc = "random";

/// Those of these names, or all where there are none; glibc first, then other libraries', then ours. Others are looked
/// for where the system keeps its libraries. Throws usage_error at a name that is none, and where one of ours was not
/// built.
[[nodiscard]] malloc_choice choose_mallocs(const std::vector<std::string>& names);

/// A line on standard error for each that is missing.
void tell_missing(const malloc_choice& choice);

/// What choose_mallocs() takes.
[[nodiscard]] std::vector<std::string> malloc_names();

}  // namespace espalier::app
