#include "apps/common/map_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "apps/common/exit_status.hpp"

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

}  // namespace espalier::app
