#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/site_names.hpp"

namespace espalier::test {

struct outcome {
  int status = 0;      ///< as waitpid() gives it
  std::string output;  ///< both streams

  [[nodiscard]] std::optional<int> exit_status() const {
    return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  }
};

/// What callgrind counted: as "==1== I   refs:      27,928,113" has them; 0 where there is no such line.
[[nodiscard]] std::uint64_t instructions(const std::string& output);

struct blocks_of_function {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  bool operator==(const blocks_of_function&) const = default;
};

/// A snapshot whose types are named, by the functions that wanted the memory.
struct recording {
  inspect::snapshot snapshot;
  programs::naming named;
  std::map<std::string, blocks_of_function> functions;

  /// Blocks and bytes; none of both where the function has none.
  [[nodiscard]] blocks_of_function of(const std::string& function) const;
  [[nodiscard]] std::string fact(const std::string& name) const;
  [[nodiscard]] std::uint64_t number(const std::string& name) const { return std::stoull(fact(name)); }
};

/// Programs run in a folder of their own, which goes with this object, and leave their snapshots there.
class recorded_programs {
 public:
  recorded_programs();
  ~recorded_programs();
  recorded_programs(const recorded_programs&) = delete;
  recorded_programs& operator=(const recorded_programs&) = delete;

  using variables = std::vector<std::pair<std::string, std::string>>;

  /// Under the preload. Variables are without ESPALIER_INSPECT_; FILE is "snapshot" unless it is given. BEHIND is
  /// a library to be preloaded behind ours.
  outcome run(const std::vector<std::string>& command, const variables& settings = {}) const;
  /// By itself.
  outcome run_plainly(const std::vector<std::string>& command) const;
  /// With variables of any name.
  outcome start(const std::vector<std::string>& command, const variables& environment) const;

  [[nodiscard]] std::filesystem::path folder() const { return folder_; }
  /// Names of the files there.
  [[nodiscard]] std::vector<std::string> files() const;
  [[nodiscard]] recording read(const std::string& file = "snapshot") const;

 private:
  std::filesystem::path folder_;
};

struct preload_program : ::testing::Test {
  void SetUp() override {
    if (!programs::code_names::available()) GTEST_SKIP() << "functions have no names without libdw";
  }

  /// Runs a program under the preload and by itself, and demands the same of both.
  recording recorded(const std::vector<std::string>& command, int status,
                     const recorded_programs::variables& settings = {}) {
    const outcome plain = runs.run_plainly(command);
    EXPECT_EQ(plain.exit_status(), status) << plain.output;
    const outcome ended = runs.run(command, settings);
    EXPECT_EQ(ended.exit_status(), status) << ended.output;
    EXPECT_EQ(ended.output, plain.output);
    return runs.read();
  }

  recorded_programs runs;
};

/// Path of a program of tests/preload/programs.
[[nodiscard]] std::string program(const std::string& name);

/// True in `./check --long`.
[[nodiscard]] bool at_length();

}  // namespace espalier::test
