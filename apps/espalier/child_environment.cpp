#include "child_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {

std::vector<std::string> child_environment(variables set,
                                           const std::vector<std::filesystem::path>& libraries) {
  std::vector<std::string> words;
  if (!libraries.empty()) set.emplace_back("LD_PRELOAD", preload_list(libraries));
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view word(*one);
    const std::string_view name = word.substr(0, word.find('='));
    if (std::ranges::find(set, name, &variables::value_type::first) == set.end()) words.emplace_back(word);
  }
  for (const auto& [name, value] : set) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

}  // namespace espalier::app
