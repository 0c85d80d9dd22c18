#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/workload/subject.hpp"

// Which maps a user means. A program's list of maps may have any element type with a member `facts`.

namespace espalier::app {

/// The ten trees of the ATC 2018 study, in the order of its table 1.
struct studied_tree {
  const char* name;
  /// The entry with the node as published; null if the published node is the compact one.
  const char* published;
  /// The entry with the compact node in the placement of the published one.
  const char* compact;
};
[[nodiscard]] const std::vector<studied_tree>& studied_trees();

using facts_list = std::vector<const workload::subject_facts*>;

/// Positions of the maps that a list of names denotes, in the order of the catalogue, each once. A name is an entry
/// ("ticket", "ticket/shared_heap"), "all" (every algorithm at its default), "every" (every entry except the peers) or
/// "all-bst" (the ten trees of the ATC 2018 study, each at its default and with its published node; standard error
/// reports those that this build lacks). Throws usage_error that lists the choices.
[[nodiscard]] std::vector<std::size_t> positions_of(const facts_list& among,
                                                    const std::vector<std::string>& names);

/// Positions of all maps of a kind, in the order of the catalogue.
[[nodiscard]] std::vector<std::size_t> positions_of(const facts_list& among, workload::subject_kind kind);

template <class Entry, class... Choice>
[[nodiscard]] std::vector<Entry> choose_maps(const std::vector<Entry>& among, const Choice&... choice) {
  facts_list facts;
  facts.reserve(among.size());
  for (const Entry& entry : among) facts.push_back(&entry.facts);
  std::vector<Entry> chosen;
  for (const std::size_t position : positions_of(facts, choice...)) chosen.push_back(among[position]);
  return chosen;
}

/// So many keys are the most for a map whose operations walk half of its keys (map_properties::linear).
inline constexpr std::uint64_t most_keys_of_a_list = 20'000;

/// Of these lists, those that are left out because there are so many keys: all, or none. Throws usage_error if a name denotes one
/// of them alone. `option`: how a user chooses the number of keys.
[[nodiscard]] std::vector<std::string> lists_to_leave_out(std::vector<std::string> lists,
                                                          const std::vector<std::string>& names,
                                                          std::uint64_t keys, std::string_view option);

/// Says on standard error which lists are left out, if any are.
void say_left_out(const std::vector<std::string>& lists, std::string_view option);

/// Leaves out the maps that are lists, if there are too many keys for them. Returns their names.
template <class Entry>
std::vector<std::string> leave_out_lists(std::vector<Entry>& maps, const std::vector<std::string>& names,
                                         std::uint64_t keys) {
  std::vector<std::string> lists;
  for (const Entry& entry : maps) {
    if (entry.facts.properties.linear) lists.push_back(entry.facts.name);
  }
  lists = lists_to_leave_out(std::move(lists), names, keys, "--keys");
  std::erase_if(
      maps, [&](const Entry& entry) { return std::ranges::find(lists, entry.facts.name) != lists.end(); });
  return lists;
}

/// The maps that names and placements denote, in the order of the catalogue and then of the placements: an entry of the
/// catalogue if there is one with that placement, else the map with a placement chosen at run time. Without placements,
/// the result of choose_maps(). "all" means every placement. Throws usage_error that lists the choices.
[[nodiscard]] std::vector<workload::registration> choose_placed_maps(
    const std::vector<std::string>& names, const std::vector<std::string>& placements);

/// One map with a placement that records its blocks. Throws usage_error likewise, and if the map cannot be inspected.
[[nodiscard]] workload::registration recorded_map(const std::string& name, const std::string& placement);

}  // namespace espalier::app
