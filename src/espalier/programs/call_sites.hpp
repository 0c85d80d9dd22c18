#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace espalier::programs {

/// An executable or shared library that contains frames.
struct code_module {
  std::string path;
  std::string build_id;  ///< its bytes; empty where it has none

  bool operator==(const code_module&) const = default;
};

struct code_frame {
  std::optional<std::uint32_t> module;  ///< index in the modules; nullopt for code generated at run time
  std::uint64_t address = 0;            ///< return address in the module's file, or in the process

  bool operator==(const code_frame&) const = default;
};

/// The call stacks behind the types of a snapshot of a running program.
struct call_sites {
  std::vector<code_module> modules;
  /// One per type; frames innermost first.
  std::vector<std::vector<code_frame>> sites;
};

/// Reads the call sites from a snapshot's file. There are no sites if the snapshot is not of that kind. Throws as
/// inspect::read_snapshot() does, and also if a frame names a module that does not exist.
[[nodiscard]] call_sites read_call_sites(const std::filesystem::path& from);

}  // namespace espalier::programs
