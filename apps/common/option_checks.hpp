#pragma once

#include <string>
#include <vector>

#include "apps/common/exit_status.hpp"

// Which options a command line has, and whether they have an effect together.

namespace espalier::app {

/// Whether the command line has the option.
[[nodiscard]] bool is_given(const CLI::App& verb, const char* option);

/// Throws usage_error if the command line has an option that is not in the list, and so has no effect in this mode.
void only_options(const CLI::App& verb, const std::string& mode, const std::vector<std::string>& taken);

/// When options have an effect. An option is written as on the command line, as --name=value to mean one value of it;
/// a name without dashes is that of a program's words.
struct option_effect {
  std::vector<std::string> options;
  /// One of these must be given too, if there are any.
  std::vector<std::string> with;
  /// None of these may be given.
  std::vector<std::string> without;
};
/// Throws usage_error if the command line has an option that has no effect with the others.
void check_effects(const CLI::App& verb, const std::vector<option_effect>& effects);

}  // namespace espalier::app
