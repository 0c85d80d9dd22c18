#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"

// The catalogue lists the combinations that ship: each algorithm at its default, and one axis varied at a time, never
// the cross product. Each algorithm has a type list in catalog/entries/<algorithm>.hpp. Where all of them are needed (the
// command's drivers, the typed test suites), the build makes a translation unit per algorithm. So a new algorithm is a
// new file there and nothing else.
//
// All entries have 64-bit keys and values; some have a map of strings besides. The choice between them happens once per
// workload, never per operation.

namespace espalier::catalog {

using key = std::uint64_t;
using value = std::uint64_t;

/// A string as a template argument.
template <std::size_t N>
struct text {
  char characters[N]{};
  constexpr text(const char (&literal)[N]) noexcept {  // NOLINT(google-explicit-constructor)
    std::copy_n(literal, N, characters);
  }
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {characters, N - 1}; }
};

/// Whether a combination also comes with any placement that is chosen when the program runs.
enum class placing : bool { fixed, chosen };

/// Not inlined: g++ 12 takes the memory of the string for too small.
[[nodiscard, gnu::noinline]] inline std::string full_name(std::string_view algorithm,
                                                          std::string_view variant) {
  std::string full(algorithm);
  if (!variant.empty()) full.append("/").append(variant);
  return full;
}

/// One combination. The variant is empty for the algorithm's default, otherwise it names what differs.
template <class Map, text Variant = "",
          placing Placing = Variant.view().empty() ? placing::chosen : placing::fixed>
struct entry {
  using map_type = Map;
  static constexpr placing placement_is = Placing;
  static constexpr std::string_view algorithm = Map::properties.name;
  static constexpr std::string_view variant = Variant.view();

  /// "ticket", "ticket/shared_heap": as on the command line and in results.
  [[nodiscard]] static std::string name() { return full_name(algorithm, variant); }
};

/// An algorithm's default that also takes strings as keys: then it is the second map.
template <class Map, class StringMap>
struct entry_with_strings : entry<Map> {
  using string_map = StringMap;
};

/// The same map with another placement.
template <class Map, placement Placement>
using placed = typename Map::template rebind<typename Map::key_type, typename Map::mapped_type,
                                             typename Map::key_compare,
                                             typename Map::traits_type::template with_placement<Placement>>;

template <class... Entries>
struct entry_list {
  template <template <class...> class Target>
  using entries_as = Target<Entries...>;
  template <template <class...> class Target>
  using maps_as = Target<typename Entries::map_type...>;

  /// Calls `visit.template operator()<Entry>()` for each.
  template <class Visitor>
  static void for_each(Visitor&& visit) {
    (visit.template operator()<Entries>(), ...);
  }
};

}  // namespace espalier::catalog
