#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

enum class elision_policy : std::uint8_t {
  tts,  ///< test and test-and-set, then the futex
  tle,  ///< the same, and sections are elided where transactions work
};

/// Settings of elision from the environment. preload/README.md lists the variables.
struct elision_settings {
  elision_policy policy = elision_policy::tle;
  bool policy_asked = false;  ///< named in the environment
  bool rtm = true;            ///< false: transactions are not used
  bool rtm_asked = false;     ///< named in the environment: the user knows that there may be none
  bool learns = true;         ///< false: sections that keep falling back are attempted all the same
  /// The destination of counts when the program ends: empty for none, "stderr", or a path in which %p stands for the
  /// process.
  std::array<char, 4096> counts{};

  [[nodiscard]] bool counting() const noexcept { return counts[0] != 0; }
};

/// Reads ESPALIER_ELIDE_* from an environment. A wrong setting keeps its default; for each the function is called
/// with a line without line end that says which variable it is and what is valid. Allocates nothing.
void read_elision_settings(char* const* environment, elision_settings& to,
                           void (*wrong)(const char* line)) noexcept;

/// Writes the name of the file for the counts of a process; false where there is no room.
[[nodiscard]] bool counts_file_name(const elision_settings& of, long process, char* to,
                                    std::size_t room) noexcept;

}  // namespace espalier::preload
