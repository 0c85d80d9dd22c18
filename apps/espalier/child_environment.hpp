#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "preloaded_program.hpp"

namespace espalier::app {

/// This process's environment, with some variables as given and libraries preloaded, for a program that it starts.
class child_environment {
 public:
  child_environment(variables set, const std::vector<std::filesystem::path>& libraries);
  child_environment(const child_environment&) = delete;
  child_environment& operator=(const child_environment&) = delete;

  [[nodiscard]] char* const* data() const noexcept { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace espalier::app
