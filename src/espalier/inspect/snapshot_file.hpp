#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/io/output_file.hpp"

namespace espalier::inspect {

/// Writes the file as a whole or not at all, in the form that snapshot_format.hpp describes. Throws std::runtime_error
/// if it cannot be written. A caller that opens the output before it takes the snapshot learns early of an error.
void write_snapshot(const snapshot& s, io::output_file& to);
void write_snapshot(const snapshot& s, const std::filesystem::path& to);

/// Returns what was written; it is valid as defined by require_valid(). Throws std::invalid_argument in one line if the
/// file is something else, truncated, damaged or of another version, and std::system_error if it cannot be read. Time
/// and memory are linear in the file's size, whatever its contents.
[[nodiscard]] snapshot read_snapshot(const std::filesystem::path& from);

/// The contents of the section with this tag; empty if there is none. For sections that read_snapshot() skips. Reads
/// and checks the whole file, and throws as read_snapshot() does.
[[nodiscard]] std::vector<char> read_section(const std::filesystem::path& from, std::uint32_t tag);

}  // namespace espalier::inspect
