#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"

// The studies of a program by name, those of this machine or those of simulated ones.

namespace espalier::app {

/// What every study has; Run is how it is started.
template <class Run>
struct named_study {
  std::string name;
  std::string title;
  /// Options that the study accepts besides --study; others are rejected.
  std::vector<std::string> options;
  Run run;
};

template <class Study>
std::map<std::string, Study, std::less<>>& all_studies() {
  static std::map<std::string, Study, std::less<>> all;
  return all;
}

/// A variable of this type in a study's file adds it before main.
template <class Study>
struct registered {
  explicit registered(Study one) { all_studies<Study>().emplace(one.name, std::move(one)); }
};

/// By name. Throws usage_error with the available names.
template <class Study>
[[nodiscard]] const Study& find_study(std::string_view name) {
  const auto found = all_studies<Study>().find(name);
  if (found != all_studies<Study>().end()) return found->second;
  std::string known;
  for (const auto& [other, one] : all_studies<Study>())
    known += (known.empty() ? "" : ", ") + other + " (" + one.title + ')';
  throw usage_error("there is no study '" + std::string(name) + "'; there are " + known);
}

/// Leaves the figures that --figure names, or all if it names none. Throws usage_error with the names of all for an unknown one.
template <class Figure>
void leave_chosen(std::vector<Figure>& figures, const std::vector<std::string>& chosen) {
  for (const std::string& id : chosen) {
    if (std::ranges::find(figures, id, &Figure::id) != figures.end()) continue;
    std::string known;
    for (const Figure& f : figures) known += (known.empty() ? "" : ", ") + f.id;
    throw usage_error("--figure " + id + " is not of this study, which has " + known);
  }
  if (chosen.empty()) return;
  std::erase_if(figures, [&](const Figure& f) { return std::ranges::find(chosen, f.id) == chosen.end(); });
}

}  // namespace espalier::app
