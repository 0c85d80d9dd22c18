#include "child_environment.hpp"

#include <algorithm>
#include <string_view>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {

child_environment::child_environment(variables set, const std::vector<std::filesystem::path>& libraries) {
  if (!libraries.empty()) set.emplace_back("LD_PRELOAD", preload_list(libraries));
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view word(*one);
    const std::string_view name = word.substr(0, word.find('='));
    if (std::ranges::find(set, name, &variables::value_type::first) == set.end()) words_.emplace_back(word);
  }
  for (const auto& [name, value] : set) words_.push_back(name + '=' + value);
  for (std::string& word : words_) pointers_.push_back(word.data());
  pointers_.push_back(nullptr);
}

}  // namespace espalier::app
