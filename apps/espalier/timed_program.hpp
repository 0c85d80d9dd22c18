#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mallocs.hpp"

namespace espalier::app {

/// A program of the system's and what it does, for measurements of whole runs.
struct timed_program {
  std::string name;
  std::vector<std::string> command;  ///< the first word is where the program is
  std::string input;                 ///< what it reads
  variables set;
};

struct run_cost {
  std::uint64_t cpu_ns;    ///< of it and of what it started
  std::uint64_t peak_kib;  ///< resident, of the largest of these
};

struct timed_programs {
  std::vector<timed_program> found;
  std::vector<std::string> missing;  ///< a line each
};

/// Programs that allocate much, each in another manner: a database, an interpreter, a compiler.
[[nodiscard]] timed_programs programs_that_allocate();

/// Runs it to its end under a malloc; its output is dropped. Throws std::runtime_error where it does not end well.
[[nodiscard]] run_cost run_under(const timed_program& program, const std::filesystem::path& input,
                                 const preloaded_malloc& malloc);

}  // namespace espalier::app
