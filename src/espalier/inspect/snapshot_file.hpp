#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "espalier/hw/output_file.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// Puts the file in its place whole or not at all, in the form that snapshot_format.hpp describes. Throws
/// std::runtime_error where it cannot be written. Opening the output before the snapshot is taken tells early
/// whether it can be.
void write_snapshot(const snapshot& s, hw::output_file& to);
void write_snapshot(const snapshot& s, const std::filesystem::path& to);

/// Gives what was written, valid as require_valid() has it. Throws std::invalid_argument in one line where
/// the file is something else, cut short, damaged or of another version, and std::system_error where it
/// cannot be read. Time and memory are linear in the file's size, whatever is in it.
[[nodiscard]] snapshot read_snapshot(const std::filesystem::path& from);

/// What stands in the section with this tag; empty where there is none. For sections that read_snapshot()
/// skips. Reads and checks the whole file, and throws as read_snapshot().
[[nodiscard]] std::vector<char> read_section(const std::filesystem::path& from, std::uint32_t tag);

}  // namespace espalier::inspect
