#include "apps/common/scratch_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace espalier::app {

namespace fs = std::filesystem;

scratch_folder::scratch_folder(std::string_view name) {
  std::string pattern = (fs::temp_directory_path() / fmt::format("{}.XXXXXX", name)).string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + pattern);
  path_ = pattern;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace espalier::app
