#pragma once

// Real keys: from a file, or from the modification times of the files of a directory tree.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace espalier::workload {

enum class key_file_format {
  text,    // one unsigned 64-bit decimal number per line; '#' begins a comment, blank lines are allowed
  binary,  // little-endian 64-bit words, nothing else
};

struct key_list {
  std::vector<std::uint64_t> keys;  // distinct, in the order of their first occurrence
  std::uint64_t duplicates = 0;     // repeated keys, dropped
  key_file_format format = key_file_format::text;
};

/// A name that ends in .u64 or .bin means binary. Otherwise a file is text if its first 4 KiB are printable ASCII and
/// white space, and binary if its size is a multiple of 8. Throws std::invalid_argument if the file is neither, holds
/// no key, or has a line that is not a key ("file:line: found; expected"); std::system_error if it cannot be read.
/// Linear in the size of the file.
key_list load_key_file(const std::filesystem::path& file);

/// Modification times, in nanoseconds since 1970, of the regular files below `root`: at most `limit` distinct ones, in
/// the order of the sorted paths. Links are not followed; unreadable entries are skipped; times before 1970 wrap
/// around. Throws std::invalid_argument if root is not a directory.
std::vector<std::uint64_t> file_times_under(const std::filesystem::path& root, std::size_t limit);

}  // namespace espalier::workload
