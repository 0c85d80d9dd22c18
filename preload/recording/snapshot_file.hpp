#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "espalier/inspect/snapshot_format.hpp"

namespace espalier::preload {

/// Writes the file of a snapshot section by section, with write(2) and a buffer of its own, so that a signal handler
/// may use it. One at a time in a process.
class snapshot_file {
 public:
  /// `sections` is the number of sections that the file will have.
  snapshot_file(const char* name, std::size_t sections) noexcept;
  snapshot_file(const snapshot_file&) = delete;
  snapshot_file& operator=(const snapshot_file&) = delete;
  /// Removes a file that was not committed.
  ~snapshot_file();

  /// False after a failure; later output is discarded.
  [[nodiscard]] bool good() const noexcept { return !failed_; }

  void begin(std::uint32_t tag, std::uint32_t flags = 0) noexcept;
  void begin(inspect::format::section tag) noexcept { begin(static_cast<std::uint32_t>(tag)); }
  void end() noexcept;

  void put_bytes(const void* bytes, std::size_t size) noexcept;
  void put_number(std::uint32_t number) noexcept { put_bytes(&number, sizeof number); }
  void put_text(const char* text) noexcept;

  /// Moves the file to its name; false after a failure, which leaves the target unchanged.
  bool commit() noexcept;

 private:
  static constexpr std::size_t most_sections = 16;
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16U;

  void flush() noexcept;

  const char* name_;
  int descriptor_ = -1;
  bool failed_ = false;
  std::size_t sections_;
  std::size_t begun_ = 0;
  std::uint64_t offset_;
  std::size_t buffered_ = 0;
  inspect::format::checksum sum_;

  static std::array<char, 4096> temporary_;
  static std::array<char, buffer_bytes> buffer_;
  static std::array<inspect::format::section_entry, most_sections> entries_;
};

}  // namespace espalier::preload
