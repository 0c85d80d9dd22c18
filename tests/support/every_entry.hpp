#pragma once

#include <type_traits>

namespace espalier::test {

/// As ./check --long: each entry of the catalogue is compiled as it ships, and unit tests have all of their types. Else
/// entries that differ in placement or layout share a type.
#ifdef ESPALIER_EVERY_ENTRY
inline constexpr bool every_entry = true;
#else
inline constexpr bool every_entry = false;
#endif

template <class Few, class More>
struct all_of;
template <template <class...> class List, class... Few, class... More>
struct all_of<List<Few...>, List<More...>> {
  using type = List<Few..., More...>;
};

/// The types of the first list, and in the long form those of the second.
template <class Few, class More>
using of_each = typename std::conditional_t<every_entry, all_of<Few, More>, std::type_identity<Few>>::type;

}  // namespace espalier::test
