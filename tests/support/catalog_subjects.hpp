#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/node_layout.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/chosen_placement.hpp"
#include "support/every_entry.hpp"
#include "support/sanitizers.hpp"
#include "support/subject_of.hpp"

// The subjects of all suites: every entry of the catalogue, except those that leak from the heap, and further ones for
// each algorithm's default, since nothing else of an entry affects values and order.
//
//   every suite but fault and forks   values that own memory, with signed keys, largest first, some of them equivalent;
//                                     reverse scans, by a mirror; strings as keys, and keys larger than a word, where
//                                     the map treats them in a way of their own
//   every suite but forks             small nodes, where they have a fan-out
//   fault                             all memory from operator new, and a placement that fails, for both sizes of value
//   forks                             lock-free algorithms over every placement that is chosen by name
//
// An algorithm's default is compiled as it ships. All others are on chosen_placement, so that entries which differ in
// their placement alone are one type. Under sanitizers, where compilation is most of the time, the default is too, and
// only algorithms that ship with strings as keys have all of this: the others have their default and small nodes under
// AddressSanitizer, and nothing under ThreadSanitizer. The scheduled battery, where they are complete, finds misuse of
// memory and races too. With ESPALIER_EVERY_ENTRY every entry is as it ships, and large values come with plain keys too.

namespace espalier::test {

inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

/// Whether chosen_placement can be this one.
template <class Placement>
constexpr bool is_choice = std::ranges::any_of(
    std::to_array<std::string_view>({"shared_heap", "segregated", "clustered", "index_aware", "shifted"}),
    [](std::string_view name) { return name == Placement::name; });

template <class Map, class Codec>
using on_chosen_placement = catalog::placed<rebind_to_codec<Map, Codec>, chosen_placement>;

/// The subject in one suite alone, over another placement.
inline void add_placed(subject_type type, std::string_view suite, std::string_view placement,
                       bool from_heap) {
  type.name = std::string(type.algorithm).append("@").append(placement).append(type.codec);
  type.only_in = suite;
  type.placement = placement;
  type.from_heap = from_heap;
  add_subject(std::move(type));
}

template <class Entry>
constexpr bool has_strings = requires { typename Entry::string_map; };
template <class Entry>
constexpr bool has_all = has_strings<Entry> || !sanitized || every_entry;

template <class Entry>
concept has_fanout = requires { typename Entry::map_type::template with_fanout<3>; };
/// Whether the map takes values of this codec.
template <class Entry, class Codec>
concept takes = requires { typename rebind_to_codec<typename Entry::map_type, Codec>; };

/// Compiled for calls with a guard alone, except for an algorithm's default. Those without one are the facade's, and the
/// same for all maps with one type of guard; the scheduled battery makes them on every map.
template <class Entry, class Codec>
subject_type subject_on_chosen_placement(std::string_view variant = {}) {
  constexpr call_forms forms =
      Entry::variant.empty() && std::is_same_v<Codec, plain_codec> && !thread_sanitizer && has_all<Entry>
          ? call_forms::both
          : call_forms::guarded;
  using shipped = typename Entry::map_type::traits_type::placement_type;
  using map = on_chosen_placement<typename Entry::map_type, Codec>;
  using placement = std::conditional_t<is_choice<shipped>, shipped, segregated>;
  return describe<Entry, Codec, map, placement, forms>(Entry::name().append(variant).append(Codec::suffix));
}

template <class Entry>
void add_entry() {
  using map = typename Entry::map_type;
  using placement = typename map::traits_type::placement_type;
  if constexpr (loses_heap_memory<map>)
    return;
  else if constexpr (every_entry || !is_choice<placement> || (Entry::variant.empty() && !sanitized))
    add_subject_of<Entry, plain_codec>();
  else
    add_subject(subject_on_chosen_placement<Entry, plain_codec>());
}

/// The entry's map with nodes so small that few keys make a deep tree.
template <class Entry>
struct narrow_entry : Entry {
  using map_type = typename Entry::map_type::template with_fanout<3>;
};

template <class Entry, class Codec>
subject_type narrow_subject() {
  subject_type type = subject_on_chosen_placement<narrow_entry<Entry>, Codec>("@narrow");
  type.variant = "narrow";
  return type;
}

template <class Entry>
void add_to_default() {
  using values = std::conditional_t<takes<Entry, owned_codec>, owned_codec, wide_codec>;
  using codec = std::conditional_t<thread_sanitizer, values, folded<values>>;
  std::vector<subject_type> failing;
  const auto add = [&failing](subject_type type) {
    add_subject(type);
    failing.push_back(std::move(type));
  };
  const subject_type plain = subject_on_chosen_placement<Entry, plain_codec>();
  if (plain.properties.bidirectional) add_subject(mirrored(plain));
  if constexpr (has_fanout<Entry>)
    add(narrow_subject<Entry, plain_codec>());
  else
    failing.push_back(plain);
  if constexpr (has_all<Entry>) add(subject_on_chosen_placement<Entry, codec>());
  if constexpr (has_strings<Entry>) {
    if constexpr (has_fanout<Entry>) {
      add(subject_on_chosen_placement<narrow_entry<Entry>, large_key_codec>());
      add(narrow_subject<Entry, string_codec>());
    } else {
      add(subject_on_chosen_placement<Entry, string_codec>());
    }
    add_subject(mirrored(failing.back()));
  }
  for (const subject_type& type : failing) {
    add_placed(type, "fault", shared_heap::name, true);
    add_placed(type, "fault", chosen_placement::failing, false);
  }
  if constexpr (every_entry) {
    if constexpr (!thread_sanitizer) add_subject(subject_on_chosen_placement<Entry, wide_codec>());
    add_placed(plain, "forks", "named", false);
  }
}

template <class Entries>
bool add_catalog_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (has_all<Entry> || (Entry::variant.empty() && !thread_sanitizer)) add_entry<Entry>();
    if constexpr (Entry::variant.empty() && (has_all<Entry> || !thread_sanitizer)) add_to_default<Entry>();
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_catalog_subjects<::espalier::catalog::algorithm>();
