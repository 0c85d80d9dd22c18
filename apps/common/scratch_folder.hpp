#pragma once

#include <filesystem>
#include <string_view>

namespace espalier::app {

/// A new folder for temporary files. The destructor removes it with its contents.
class scratch_folder {
 public:
  /// The folder's name begins with `name`. Throws std::system_error if it cannot be created.
  explicit scratch_folder(std::string_view name);
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace espalier::app
