#pragma once

// What the readers of a snapshot's sections share.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// A snapshot's file, open for reading.
class snapshot_input {
 public:
  explicit snapshot_input(const std::filesystem::path& file)
      : file_(file), number_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) fail();
  }
  snapshot_input(const snapshot_input&) = delete;
  snapshot_input& operator=(const snapshot_input&) = delete;
  ~snapshot_input() {
    if (number_ >= 0) close(number_);
  }

  [[noreturn]] void fail() const {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("cannot read the snapshot '{}'", file_.string()));
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw std::invalid_argument(fmt::format("'{}' {}", file_.string(), why));
  }
  [[noreturn]] void refuse_damage(std::string_view what) const {
    refuse(fmt::format("is a damaged snapshot: {}; take it again", what));
  }

  [[nodiscard]] std::uint64_t size() const {
    struct ::stat status{};
    if (fstat(number_, &status) != 0) fail();
    if (!S_ISREG(status.st_mode)) refuse("is no file; name one that a snapshot was written to");
    return static_cast<std::uint64_t>(status.st_size);
  }

  /// False if the file ends before.
  [[nodiscard]] bool read_whole(void* to, std::uint64_t bytes) const {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::read(number_, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail();
      if (got == 0) return false;
      at += got;
      bytes -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

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
