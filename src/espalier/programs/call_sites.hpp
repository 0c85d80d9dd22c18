#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace espalier::programs {

/// An executable or shared library that frames lie in.
struct code_module {
  std::string path;
  std::string build_id;  ///< its bytes; empty where it has none

  bool operator==(const code_module&) const = default;
};

struct code_frame {
  std::optional<std::uint32_t> module;  ///< index in the modules; nullopt for code made at run time
  std::uint64_t address = 0;            ///< return address in the module's file, or in the process

  bool operator==(const code_frame&) const = default;
};

/// The call stacks behind the types of a snapshot that was taken of a running program.
struct call_sites {
  std::vector<code_module> modules;
  /// One a type; frames innermost first.
  std::vector<std::vector<code_frame>> sites;
};

/// Of the file of a snapshot; without sites where it is no snapshot of that kind. Throws as
/// inspect::read_snapshot(), also where a frame names a module that there is not.
[[nodiscard]] call_sites read_call_sites(const std::filesystem::path& from);

}  // namespace espalier::programs
