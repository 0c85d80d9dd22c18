#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/espalier/mallocs.hpp"

namespace espalier::app {

/// A program of the system and its work, for measurements of whole runs.
struct timed_program {
  std::string name;
  std::vector<std::string> command;  ///< the first word is the program's path
  std::string input;                 ///< its standard input
  variables set;
};

struct run_cost {
  std::uint64_t cpu_ns;    ///< of it and of its children
  std::uint64_t peak_kib;  ///< resident, of the largest of these
};

struct timed_programs {
  std::vector<timed_program> found;
  std::vector<std::string> missing;  ///< one line each
};

/// Programs that allocate much, each in a different way: a database, an interpreter, a compiler.
[[nodiscard]] timed_programs programs_that_allocate();

/// Runs it to its end under a malloc; its output is discarded. Throws std::runtime_error if it fails.
[[nodiscard]] run_cost run_under(const timed_program& program, const std::filesystem::path& input,
                                 const preloaded_malloc& malloc);

}  // namespace espalier::app
