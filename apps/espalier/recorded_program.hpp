#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/progress_line.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::app {

/// How a program is recorded; empty members leave the choice to libespalier-inspect.so (preload/README.md).
struct recording_options {
  std::vector<std::string> command;
  std::string every;
  std::string sample;
  std::string frames;
  std::string follow;
  std::string at = "peak";  ///< or "end": when its heap is shown
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
  /// The heap of the program itself at its peak or at its end, its types named; nothing where it left no snapshot.
  std::optional<inspect::snapshot> layout;
  /// Of the program itself, in their order: of many some, the first and the last among them.
  std::vector<look> looks;
  /// Why there is none.
  std::string remark;
};

/// Runs a program to its end, with its input and output untouched. Throws usage_error where it cannot be recorded,
/// before it is started. Says how far it is when the program has ended.
[[nodiscard]] recorded_program run_recorded(const recording_options& how, progress_line& shown);

/// The snapshot in a file; its types are named where they are call sites. Throws as inspect::read_snapshot().
[[nodiscard]] inspect::snapshot read_named_snapshot(const std::filesystem::path& from, progress_line& shown);

}  // namespace espalier::app
