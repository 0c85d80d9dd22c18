#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/terminal.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::app {

/// How a program is recorded. Empty members leave the choice to libespalier-inspect.so (preload/README.md).
struct recording_options {
  std::vector<std::string> command;
  std::string every;
  std::string sample;
  std::string frames;
  std::string follow;
  std::string at = "peak";  ///< or "end": the moment for which its heap is shown
  bool pointers = false;
};

struct block_use {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  ///< requested
};

/// The heap at one moment.
struct look {
  std::string moment;  ///< "interval", "signal", or how the program ended
  std::string after;   ///< time since the recording began
  block_use all;
  std::map<std::string, block_use> types;
};

struct recorded_program {
  /// As a shell would report it: 128 plus the signal's number if one ended the program.
  int status = 0;
  /// The heap of the program itself at its peak or at its end, with named types; nullopt if it left no snapshot.
  std::optional<inspect::snapshot> layout;
  /// The looks at the program itself, in order. If there are many, a selection that includes the first and the last.
  std::vector<look> looks;
  /// Why there is no layout.
  std::string remark;
};

/// Runs a program to its end, with its input and output unchanged. Throws usage_error, before the start, if it cannot
/// be recorded. Shows its progress after the program has ended.
[[nodiscard]] recorded_program run_recorded(const recording_options& how, progress_line& shown);

/// The snapshot in a file; its types are named if they are call sites. Throws as inspect::read_snapshot() does.
[[nodiscard]] inspect::snapshot read_named_snapshot(const std::filesystem::path& from, progress_line& shown);

}  // namespace espalier::app
