#pragma once

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

}  // namespace espalier::app
