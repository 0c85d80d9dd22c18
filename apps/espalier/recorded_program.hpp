#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::app {

/// How a program is recorded; empty members leave the choice to libespalier-inspect.so (preload/README.md).
struct recording_options {
  std::vector<std::string> command;
  std::string every;
  std::string sample;
  std::string follow;
  bool pointers = false;
};

struct recorded_program {
  /// As a shell would give it: 128 and the signal's number where one ended the program.
  int status = 0;
  /// The last one of the program itself, its types named; nothing where it left none.
  std::optional<inspect::snapshot> layout;
  /// Why there is none, or what share of it got which names.
  std::string remark;
};

/// Runs a program to its end, with its input and output untouched. Throws usage_error where it cannot be recorded,
/// before it is started.
[[nodiscard]] recorded_program run_recorded(const recording_options& how);

}  // namespace espalier::app
