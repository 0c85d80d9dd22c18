#include "apps/studies/mallocs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "apps/common/exit_status.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

enum class kept : unsigned char { by_the_system, here };

struct known_malloc {
  std::string_view name;
  /// The first that is here counts. Of Espalier's mallocs, the part between libespalier- and .so.
  std::array<std::string_view, 2> libraries;
  kept where;
  std::string_view package;
};

constexpr std::array known{
    known_malloc{system_malloc, {}, kept::by_the_system, ""},
    known_malloc{"jemalloc", {"libjemalloc.so.2"}, kept::by_the_system, "libjemalloc2"},
    known_malloc{"mimalloc",
                 {"libmimalloc.so.2", "libmimalloc.so.3"},
                 kept::by_the_system,
                 "libmimalloc2.0 or libmimalloc3"},
    known_malloc{"tcmalloc", {"libtcmalloc_minimal.so.4"}, kept::by_the_system, "libtcmalloc-minimal4"},
    known_malloc{random_malloc, {"random"}, kept::here, ""},
    known_malloc{index_aware_malloc, {"malloc"}, kept::here, ""},
};

std::optional<fs::path> find_system_library(const known_malloc& of) {
  std::error_code none;
  for (const std::string_view file : of.libraries) {
    if (file.empty()) break;
    for (const char* const folder : {"/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib",
                                     "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
      if (fs::path found = fs::path(folder) / file; fs::exists(found, none)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> malloc_names() {
  std::vector<std::string> names;
  for (const known_malloc& m : known) names.emplace_back(m.name);
  return names;
}

malloc_choice choose_mallocs(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name, &known_malloc::name) == known.end())
      throw usage_error(
          fmt::format("there is no malloc '{}'; there are {}", name, fmt::join(malloc_names(), ", ")));
  }
  malloc_choice choice;
  for (const known_malloc& m : known) {
    if (!names.empty() && std::ranges::find(names, m.name) == names.end()) continue;
    preloaded_malloc one{std::string(m.name), {}, {}};
    if (m.where == kept::here) {
      one.libraries.push_back(find_preload_library(m.libraries[0]));
    } else if (!m.libraries[0].empty()) {
      const auto found = find_system_library(m);
      if (!found) {
        choice.missing.push_back(
            {one.name, fmt::format("{} is not here; Debian's {} has it", m.libraries[0], m.package)});
        continue;
      }
      one.libraries.push_back(*found);
    }
    choice.found.push_back(std::move(one));
  }
  return choice;
}

void print_missing(const malloc_choice& choice) {
  for (const missing_map& m : choice.missing)
    std::fprintf(stderr, "%s is left out: %s\n", m.map.c_str(), m.why.c_str());
}

}  // namespace espalier::app
