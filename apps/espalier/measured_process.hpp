#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "preloaded_program.hpp"

namespace espalier::app {

/// espalier-measured-work (bench/programs), running with libraries preloaded, and waiting to be asked. What goes wrong
/// with it is a std::runtime_error with its last words.
class measured_process {
 public:
  struct round_cost {
    std::uint64_t operations;  ///< of all threads
    std::uint64_t wall_ns;
    std::uint64_t cpu_ns;  ///< of the process
  };

  /// It has made its work when this returns.
  measured_process(const std::vector<std::string>& arguments,
                   const std::vector<std::filesystem::path>& libraries, const variables& set);
  measured_process(measured_process&& other) noexcept;
  measured_process& operator=(measured_process&&) = delete;
  /// A process that was not finished is killed.
  ~measured_process();

  /// The file that malloc is in.
  [[nodiscard]] const std::string& malloc_file() const noexcept { return malloc_file_; }

  /// Each thread does so many operations.
  round_cost round(std::uint64_t operations);

  /// Where blocks lie, and what there is of memory.
  [[nodiscard]] nlohmann::json facts();

  /// Lets it end. What its libraries have to tell then is told.
  void finish();

 private:
  [[nodiscard]] nlohmann::json ask(const std::string& request);
  [[nodiscard]] nlohmann::json answer();
  [[noreturn]] void fail(const std::string& what);
  int wait() noexcept;

  pid_t process_ = 0;
  int channel_ = -1;
  std::string described_;
  std::string unread_;
  std::string malloc_file_;
};

}  // namespace espalier::app
