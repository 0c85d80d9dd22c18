#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "preload/recording/sampling.hpp"

namespace espalier::preload {

/// Which children of the program are recorded too, each in a file of its own.
enum class followed : std::uint8_t {
  none,   ///< what it starts sees an environment without the preload
  forks,  ///< copies of the program by fork()
  all,    ///< these, and programs that it or they start
};

/// What the environment says of a recording. preload/README.md lists the variables.
struct settings {
  /// Where snapshots go: an absolute path in which %p stands for the process and %n for how many came before.
  std::array<char, 4096> file{};
  unsigned frames = 12;
  sampling sample;
  int signal = 0;              ///< 0: none
  std::uint64_t every_ms = 0;  ///< 0: no snapshots by time
  followed follow = followed::none;
  bool pointers = false;
  bool peak = false;  ///< a snapshot of the heap at its peak, in a file of its own
  std::size_t memory_limit = std::numeric_limits<std::size_t>::max();
  std::uint64_t seed = 0;
};

/// Reads ESPALIER_INSPECT_* from an environment. Null, or a line without its end that says which variable is
/// wrong and what would be right. Allocates nothing.
[[nodiscard]] const char* read_settings(char* const* environment, settings& to) noexcept;

/// Takes ESPALIER_INSPECT_* and, out of LD_PRELOAD, the library with this file name: what the program hands
/// on is what it would have been given without us. In place; other variables keep their order.
void remove_from_environment(char** environment, const char* library) noexcept;

/// Writes the file that snapshot `number` of a process goes to; false where there is no room. A pattern
/// without %p gets ".<process>" appended where `of_child`.
[[nodiscard]] bool file_name(const settings& of, long process, unsigned number, bool of_child, char* to,
                             std::size_t room) noexcept;

/// The same for the snapshot of the peak, of which a process has one: "peak" is in the place of the number, or
/// behind the pattern as ".peak". Programs that a followed one starts have the same pattern: there ".<process>" is
/// appended too.
[[nodiscard]] bool peak_file_name(const settings& of, long process, bool of_child, char* to,
                                  std::size_t room) noexcept;

}  // namespace espalier::preload
