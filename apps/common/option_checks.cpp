#include "apps/common/option_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>

namespace espalier::app {

bool is_given(const CLI::App& verb, const char* option) { return verb.count(option) != 0; }

void only_options(const CLI::App& verb, const std::string& mode, const std::vector<std::string>& taken) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() != 0 && std::ranges::find(taken, name) == taken.end())
      throw usage_error(
          fmt::format("{} has no effect with {}, which takes {}", name, mode, fmt::join(taken, ", ")));
  }
}

void check_effects(const CLI::App& verb, const std::vector<option_effect>& effects) {
  const auto given = [&](const std::string& name) {
    const std::size_t equals = name.find('=');
    const CLI::Option* const option = verb.get_option(name.substr(0, equals));
    return option->count() != 0 &&
           (equals == std::string::npos || option->results().back() == name.substr(equals + 1));
  };
  const auto shown = [&](const std::string& name) {
    const bool words = !name.starts_with('-') && verb.get_option(name)->get_expected_max() > 1;
    return (words ? "-- " : "") + name;
  };
  for (const option_effect& effect : effects) {
    for (const std::string& option : effect.options) {
      if (!given(option)) continue;
      if (!effect.with.empty() && std::ranges::none_of(effect.with, given)) {
        std::vector<std::string> names;
        std::ranges::transform(effect.with, std::back_inserter(names), shown);
        throw usage_error(fmt::format("{} has no effect without {}; add {}, or leave it out", shown(option),
                                      fmt::join(names, " or "), names.size() == 1 ? "that" : "one of them"));
      }
      for (const std::string& other : effect.without) {
        if (given(other))
          throw usage_error(
              fmt::format("{} has no effect with {}; leave out one of them", shown(option), other));
      }
    }
  }
}

}  // namespace espalier::app
