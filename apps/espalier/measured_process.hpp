#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/espalier/preloaded_program.hpp"

namespace espalier::app {

/// A running espalier-measured-work (bench/programs) with libraries preloaded, which waits for requests. Errors are
/// reported as std::runtime_error with its last words.
class measured_process {
 public:
  struct round_cost {
    std::uint64_t operations;  ///< of all threads
    std::uint64_t wall_ns;
    std::uint64_t cpu_ns;  ///< of the process
  };

  /// When this returns, the process has prepared its work.
  measured_process(const std::vector<std::string>& arguments,
                   const std::vector<std::filesystem::path>& libraries, const variables& set);
  measured_process(measured_process&& other) noexcept;
  measured_process& operator=(measured_process&&) = delete;
  /// Kills a process that was not finished.
  ~measured_process();

  /// The file that contains malloc.
  [[nodiscard]] const std::string& malloc_file() const noexcept { return malloc_file_; }

  /// Each thread performs this many operations.
  round_cost round(std::uint64_t operations);

  /// The addresses of blocks, and the process's memory.
  [[nodiscard]] nlohmann::json facts();

  /// Ends the process. Its libraries then print their reports.
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
