#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

enum class elision_policy : std::uint8_t {
  tts,  ///< test and test-and-set, then the futex
  tle,  ///< the same, and sections are elided where transactions work
};

/// What the environment says of elision. preload/README.md lists the variables.
struct elision_settings {
  elision_policy policy = elision_policy::tle;
  bool policy_asked = false;  ///< by the environment
  bool rtm = true;            ///< false: as if there were none
  bool rtm_asked = false;     ///< by the environment: whoever asked knows that there may be none
  bool learns = true;         ///< false: sections that keep falling back are attempted all the same
  /// Where counts go when the program ends: nothing for nowhere, "stderr", or a path in which %p stands for the
  /// process.
  std::array<char, 4096> counts{};

  [[nodiscard]] bool counting() const noexcept { return counts[0] != 0; }
};

/// Reads ESPALIER_ELIDE_* from an environment. What is wrong is left as it is by default; for each the function is
/// called with a line without its end that says which variable it is and what would be right. Allocates nothing.
void read_elision_settings(char* const* environment, elision_settings& to,
                           void (*wrong)(const char* line)) noexcept;

/// Writes the name of the file that the counts of a process go to; false where there is no room.
[[nodiscard]] bool counts_file_name(const elision_settings& of, long process, char* to,
                                    std::size_t room) noexcept;

}  // namespace espalier::preload
