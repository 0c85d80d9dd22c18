#include "apps/espalier/placed_maps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "espalier/memory/any_placement.hpp"

namespace espalier::app {
namespace {

using workload::registration;

/// Names that live as long as the program.
std::vector<std::string_view> expanded(const std::vector<std::string>& placements) {
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
    for (const std::string_view placement : expanded(placements)) {
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
  return placed(map, expanded({placement.empty() ? std::string(map.facts.placement) : placement}).front(),
                any_placement::recording::on);
}

}  // namespace espalier::app
