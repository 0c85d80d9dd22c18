#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
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
  std::string frames;
  std::string follow;
  bool pointers = false;
};

struct block_use {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  ///< asked for
};

/// What the heap was at one moment.
struct look {
  std::string moment;  ///< "interval", "signal", or how the program ended
  std::string after;   ///< time since the recording began
  block_use all;
  std::map<std::string, block_use> types;
};

struct recorded_program {
  /// As a shell would give it: 128 and the signal's number where one ended the program.
  int status = 0;
  /// The last one of the program itself, its types named; nothing where it left none.
  std::optional<inspect::snapshot> layout;
  /// Of the program itself, in their order: of many some, the first and the last among them.
  std::vector<look> looks;
  /// Why there is none, or what share of it got which names.
  std::string remark;
};

/// Runs a program to its end, with its input and output untouched. Throws usage_error where it cannot be recorded,
/// before it is started.
[[nodiscard]] recorded_program run_recorded(const recording_options& how);

/// The snapshot in a file; its types are named where they are call sites. Throws as inspect::read_snapshot().
[[nodiscard]] inspect::snapshot read_named_snapshot(const std::filesystem::path& from);

}  // namespace espalier::app
