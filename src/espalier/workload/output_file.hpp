#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace espalier::workload {

/// A file that appears whole or not at all. Opening it early tells whether it can be written before hours of
/// measuring are spent; until commit() its content lies in a temporary file beside the target, which the
/// destructor removes.
class output_file {
 public:
  /// Makes missing parent folders. Throws std::invalid_argument, which names the cause and a way out, where
  /// the file cannot be written.
  explicit output_file(std::filesystem::path target);
  output_file(output_file&& other) noexcept;
  output_file& operator=(output_file&&) = delete;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Writes everything and puts the file in its place. Throws std::runtime_error; the target is then as it
  /// was.
  void commit(std::string_view content);

  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }

 private:
  std::filesystem::path target_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace espalier::workload
