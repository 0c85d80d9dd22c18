#include "apps/common/map_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "apps/common/exit_status.hpp"
#include "espalier/memory/any_placement.hpp"

namespace espalier::app {
namespace {

using workload::subject_facts;
using workload::subject_kind;

bool ours(const subject_facts& facts) { return facts.kind == subject_kind::espalier; }

constexpr const char* all_bst = "all-bst";

std::vector<std::string> trees_of_the_study() {
  std::vector<std::string> names;
  for (const studied_tree& t : studied_trees()) {
    names.emplace_back(t.name);
    if (t.published != nullptr) names.emplace_back(t.published);
  }
  return names;
}

bool stands_for(const std::string& name, const subject_facts& facts) {
  return facts.name == name || (name == "every" && ours(facts)) ||
         (name == "all" && ours(facts) && facts.variant.empty());
}

/// Replaces all-bst by those of its names that exist.
std::vector<std::string> expanded(const std::vector<std::string>& names,
                                  const std::vector<std::string>& catalog) {
  std::vector<std::string> all;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (name != all_bst) {
      all.push_back(name);
      continue;
    }
    for (const std::string& tree : trees_of_the_study())
      (std::ranges::find(catalog, tree) != catalog.end() ? all : missing).push_back(tree);
  }
  if (all.empty() && !names.empty())
    throw usage_error("all-bst: this build has none of the trees of the ATC 2018 study");
  if (!missing.empty())
    std::fprintf(stderr, "all-bst: missing from this build: %s\n",
                 fmt::format("{}", fmt::join(missing, ", ")).c_str());
  return all;
}

std::vector<std::string> names_of(const facts_list& among, const std::vector<std::size_t>& positions) {
  std::vector<std::string> names;
  names.reserve(positions.size());
  for (const std::size_t position : positions) names.push_back(among[position]->name);
  return names;
}

}  // namespace

const std::vector<studied_tree>& studied_trees() {
  static const std::vector<studied_tree> all{
      {"occ_avl", "occ_avl/published", "occ_avl/segregated"},
      {"occ_avl_2", "occ_avl_2/published", "occ_avl_2/segregated"},
      {"edge_int_lf", "edge_int_lf/published", "edge_int_lf/segregated"},
      {"log_int", "log_int/published", "log_int"},
      {"citrus", "citrus/published", "citrus"},
      {"int_lf", "int_lf/published", "int_lf"},
      {"edge_ext_lf", nullptr, "edge_ext_lf/segregated"},
      {"edge_ext_lf_2", "edge_ext_lf_2/published", "edge_ext_lf_2/segregated"},
      {"ticket", "ticket/published", "ticket/segregated"},
      {"ext_lf", "ext_lf/published", "ext_lf/segregated"},
  };
  return all;
}

// Units register in the linker's order, the entries of a unit in the catalogue's.
std::vector<std::size_t> positions_of(const facts_list& among, subject_kind kind) {
  std::map<std::string_view, std::vector<std::size_t>> by_algorithm;
  for (std::size_t i = 0; i < among.size(); ++i) {
    if (among[i]->kind == kind) by_algorithm[among[i]->algorithm].push_back(i);
  }
  std::vector<std::size_t> all;
  for (const auto& [algorithm, entries] : by_algorithm) all.insert(all.end(), entries.begin(), entries.end());
  return all;
}

std::vector<std::size_t> positions_of(const facts_list& among, const std::vector<std::string>& names) {
  std::vector<std::size_t> order = positions_of(among, subject_kind::espalier);
  const std::vector<std::string> catalog = names_of(among, order);
  const std::vector<std::size_t> peers = positions_of(among, subject_kind::peer);
  order.insert(order.end(), peers.begin(), peers.end());

  std::set<std::string> wanted;
  for (const std::string& name : expanded(names, catalog)) {
    bool known = false;
    for (const std::size_t position : order) {
      if (!stands_for(name, *among[position])) continue;
      known = true;
      wanted.insert(among[position]->name);
    }
    if (!known) {
      throw usage_error(fmt::format("there is no map '{}'{}; the maps are {}; or all, every, or all-bst",
                                    name, did_you_mean(name, catalog), fmt::join(catalog, ", ")));
    }
  }
  std::vector<std::size_t> chosen;
  for (const std::size_t position : order) {
    if (wanted.contains(among[position]->name)) chosen.push_back(position);
  }
  return chosen;
}

std::vector<std::string> lists_to_leave_out(std::vector<std::string> lists,
                                            const std::vector<std::string>& names, std::uint64_t keys,
                                            std::string_view option) {
  if (keys <= most_keys_of_a_list || lists.empty()) return {};
  for (const std::string& name : names) {
    if (std::ranges::find(lists, name) == lists.end()) continue;
    throw usage_error(
        fmt::format("{} is a list, whose operations walk half of the keys: {} of them are too many; {} is at "
                    "most {} for it",
                    name, keys, option, most_keys_of_a_list));
  }
  return lists;
}

void say_left_out(const std::vector<std::string>& lists, std::string_view option) {
  if (lists.empty()) return;
  std::fprintf(
      stderr, "%s\n",
      fmt::format("left out: {}; lists, whose operations walk half of the keys, come with {} of at most {}",
                  fmt::join(lists, ", "), option, most_keys_of_a_list)
          .c_str());
}

namespace {

using workload::registration;

/// Names that live as long as the program.
std::vector<std::string_view> placements_named(const std::vector<std::string>& placements) {
  const std::vector<std::string_view> all = placement_names();
  std::vector<std::string_view> names;
  for (const std::string& name : placements) {
    if (name == "all") {
      names.insert(names.end(), all.begin(), all.end());
      continue;
    }
    const auto found = std::ranges::find(all, name);
    if (found == all.end())
      throw usage_error(
          fmt::format("there is no placement '{}'; there is {}; or all", name, fmt::join(all, ", ")));
    names.push_back(*found);
  }
  return names;
}

registration placed(const registration& map, std::string_view placement,
                    any_placement::recording keeps = any_placement::recording::off) {
  return {workload::placed_facts(map.facts, placement),
          [make = map.make_placed, placement, keeps] { return make(placement, keeps); },
          {},
          {}};
}

/// An entry that is this default, or differs from it only in having that placement.
const registration* compiled(const registration& map, std::string_view placement) {
  if (!map.facts.variant.empty()) return nullptr;
  const auto& all = workload::registry();
  const auto found = std::ranges::find_if(all, [&](const registration& r) {
    return r.facts.kind == workload::subject_kind::espalier && r.facts.algorithm == map.facts.algorithm &&
           r.facts.placement == placement && (r.facts.variant.empty() || r.facts.variant == placement);
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<registration> choose_placed_maps(const std::vector<std::string>& names,
                                             const std::vector<std::string>& placements) {
  std::vector<registration> maps = choose_maps(workload::registry(), names);
  if (placements.empty()) return maps;
  std::vector<registration> chosen;
  for (const registration& map : maps) {
    if (!map.make_placed)
      throw usage_error(
          fmt::format("{} comes with its own placement only ({})", map.facts.name, map.facts.placement));
    for (const std::string_view placement : placements_named(placements)) {
      const registration* const entry = compiled(map, placement);
      chosen.push_back(entry != nullptr ? *entry : placed(map, placement));
    }
  }
  return chosen;
}

registration recorded_map(const std::string& name, const std::string& placement) {
  const std::vector<registration> maps = choose_maps(workload::registry(), std::vector<std::string>{name});
  if (maps.size() != 1)
    throw usage_error(fmt::format("one map is inspected at a time; '{}' are {}", name, maps.size()));
  const registration& map = maps.front();
  if (!map.make_placed) {
    std::vector<std::string_view> known;
    for (const registration& r : workload::registry()) {
      if (r.make_placed) known.push_back(r.facts.name);
    }
    throw usage_error(fmt::format("{} cannot be inspected by name, for its placement is fixed; these can: {}",
                                  name, fmt::join(known, ", ")));
  }
  return placed(map,
                placements_named({placement.empty() ? std::string(map.facts.placement) : placement}).front(),
                any_placement::recording::on);
}

}  // namespace espalier::app
