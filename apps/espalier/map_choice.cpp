#include "map_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string_view>

#include "usage_error.hpp"

namespace espalier::app {
namespace {

using workload::registration;
using workload::subject_kind;

// Units register in the linker's order, the entries of a unit in the catalogue's.
std::vector<registration> sorted(subject_kind kind) {
  std::map<std::string_view, std::vector<registration>> by_algorithm;
  for (const registration& r : workload::registry()) {
    if (r.facts.kind == kind) by_algorithm[r.facts.algorithm].push_back(r);
  }
  std::vector<registration> all;
  for (const auto& [algorithm, entries] : by_algorithm) all.insert(all.end(), entries.begin(), entries.end());
  return all;
}

bool differs_in_placement_only(const workload::subject_facts& facts) {
  return facts.variant.empty() || facts.variant == facts.placement;
}

}  // namespace

std::vector<registration> all_peers() { return sorted(subject_kind::peer); }

std::vector<std::string> map_names() {
  std::vector<std::string> names;
  for (const registration& r : sorted(subject_kind::espalier)) names.push_back(r.facts.name);
  return names;
}

std::vector<registration> choose_maps(const std::vector<std::string>& names,
                                      const std::vector<std::string>& placements) {
  const std::vector<registration> all = sorted(subject_kind::espalier);
  const std::vector<registration> peers = all_peers();
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    bool known = false;
    for (const auto& list : {all, peers}) {
      for (const registration& r : list) {
        const bool ours = r.facts.kind == subject_kind::espalier;
        const bool matches = r.facts.name == name || (name == "every" && ours) ||
                             (name == "all" && ours && r.facts.variant.empty());
        known = known || matches;
        if (matches) wanted.insert(r.facts.name);
      }
    }
    if (!known) {
      throw usage_error(fmt::format("there is no map '{}'; the maps are {}; or all, or every", name,
                                    fmt::join(map_names(), ", ")));
    }
  }
  if (!placements.empty()) {
    std::set<std::string> placed;
    for (const std::string& placement : placements) {
      const auto before = placed.size();
      std::set<std::string> known;
      for (const registration& r : all) {
        if (!differs_in_placement_only(r.facts)) continue;
        known.emplace(r.facts.placement);
        if (wanted.contains(std::string(r.facts.algorithm)) &&
            (r.facts.placement == placement || placement == "all"))
          placed.insert(r.facts.name);
      }
      if (placed.size() == before)
        throw usage_error(fmt::format("none of these maps comes with the placement '{}'; there is {}; or all",
                                      placement, fmt::join(known, ", ")));
    }
    wanted = std::move(placed);
  }
  std::vector<registration> chosen;
  for (const auto& list : {all, peers}) {
    for (const registration& r : list) {
      if (wanted.contains(r.facts.name)) chosen.push_back(r);
    }
  }
  return chosen;
}

}  // namespace espalier::app
