#pragma once

#include <filesystem>
#include <string_view>

namespace espalier::app {

/// A new folder among the temporary files, which is gone with the object and so is what lies in it.
class scratch_folder {
 public:
  /// The folder's name begins with that. Throws std::system_error where it cannot be made.
  explicit scratch_folder(std::string_view name);
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace espalier::app
