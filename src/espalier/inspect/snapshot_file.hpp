#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
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

// What the readers of a snapshot's sections share.

/// A snapshot's file, open for reading.
class snapshot_input {
 public:
  explicit snapshot_input(const std::filesystem::path& file);
  snapshot_input(const snapshot_input&) = delete;
  snapshot_input& operator=(const snapshot_input&) = delete;
  ~snapshot_input();

  [[noreturn]] void fail() const;
  [[noreturn]] void refuse(std::string_view why) const;
  [[noreturn]] void refuse_damage(std::string_view what) const;

  [[nodiscard]] std::uint64_t size() const;

  /// False if the file ends before.
  [[nodiscard]] bool read_whole(void* to, std::uint64_t bytes) const;

 private:
  const std::filesystem::path& file_;
  int number_;
};

/// Reads numbers and texts from the front of a section. A section that ends too early is damaged.
class section_reader {
 public:
  section_reader(const snapshot_input& file, std::string_view rest) : file_(file), rest_(rest) {}

  std::uint32_t number() {
    std::uint32_t n = 0;
    std::memcpy(&n, take(sizeof n).data(), sizeof n);
    return n;
  }
  std::uint64_t wide_number() {
    std::uint64_t n = 0;
    std::memcpy(&n, take(sizeof n).data(), sizeof n);
    return n;
  }
  std::string text() { return std::string(take(number())); }
  std::vector<byte_range> ranges() {
    std::vector<byte_range> all;
    for (std::uint32_t left = number(); left > 0; --left) {
      const std::uint32_t first = number();
      all.push_back({first, number()});
    }
    return all;
  }
  void end() const {
    if (!rest_.empty()) file_.refuse_damage("a section is longer than what it holds");
  }

 private:
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) file_.refuse_damage("a section is shorter than what it holds");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  const snapshot_input& file_;
  std::string_view rest_;
};

}  // namespace espalier::inspect
