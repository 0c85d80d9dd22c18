#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "espalier/measure/random.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {

/// Which blocks are recorded. Each choice is independent of the program's use of the block, so that dividing by the
/// recorded share gives unbiased figures.
struct sampling {
  enum class kind : std::uint8_t {
    all,
    blocks,   ///< each block with the chance 1 / every
    bytes,    ///< a block of s bytes with the chance min(1, s / every): one for each `every` bytes
    regions,  ///< every block that begins in a chosen 64 KiB of addresses; one in `every` is chosen, so that
              ///< the neighbours of a recorded block are recorded too
  };
  static constexpr unsigned region_bits = 16;

  kind how = kind::all;
  std::uint64_t every = 1;

  /// True where frees of blocks at this address can affect the record.
  [[nodiscard]] bool may_hold(std::uintptr_t address) const noexcept {
    return how != kind::regions || scaled(measure::mix64((address >> region_bits) + 1)) == 0;
  }

  [[nodiscard]] bool needs_chance() const noexcept { return how == kind::blocks || how == kind::bytes; }

  /// `random` is uniform over all values.
  [[nodiscard]] bool takes(std::uintptr_t address, std::uint64_t bytes, std::uint64_t random) const noexcept {
    switch (how) {
      case kind::all:
        return true;
      case kind::blocks:
        return scaled(random) == 0;
      case kind::bytes:
        return scaled(random) < (bytes == 0 ? 1 : bytes);
      case kind::regions:
        return may_hold(address);
    }
    return true;
  }

 private:
  /// Uniform below `every`.
  [[nodiscard]] std::uint64_t scaled(std::uint64_t random) const noexcept {
    return static_cast<std::uint64_t>((measure::detail::uint128{random} * every) >> 64U);
  }
};

/// Which children of the program are recorded too, each with a file of its own.
enum class followed : std::uint8_t {
  none,   ///< programs that it starts get an environment without the preload
  forks,  ///< copies of the program by fork()
  all,    ///< copies, and programs that it or they start
};

/// Settings of a recording from the environment. preload/README.md lists the variables.
struct settings {
  /// The file of snapshots: an absolute path in which %p stands for the process and %n for the number of earlier
  /// snapshots.
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

/// Reads ESPALIER_INSPECT_* from an environment. Null, or a line without line end that says which variable is wrong
/// and what is valid. Allocates nothing.
[[nodiscard]] const char* read_settings(char* const* environment, settings& to) noexcept;

/// Removes ESPALIER_INSPECT_* and, from LD_PRELOAD, the library with this file name: the program passes on what it
/// would have without this library. In place; other variables keep their order.
void remove_from_environment(char** environment, const char* library) noexcept;

/// An environment for the program that this process becomes: `given` with the removed variables, and with `library`, a
/// path, before what LD_PRELOAD names. It is the only block in `memory`; null where that is refused.
[[nodiscard]] char** put_back_in_environment(char* const* given, const char* library,
                                             memory_budget& memory) noexcept;

/// Writes the name of the file for snapshot `number` of a process; false where there is no room. A pattern without %p
/// gets ".<process>" appended where `of_child`.
[[nodiscard]] bool file_name(const settings& of, long process, unsigned number, bool of_child, char* to,
                             std::size_t room) noexcept;

/// The same for the snapshot of the peak, of which a process has one: "peak" replaces the number, or ".peak" is
/// appended to the pattern. Programs that a followed one starts have the same pattern: there ".<process>" is appended
/// too.
[[nodiscard]] bool peak_file_name(const settings& of, long process, bool of_child, char* to,
                                  std::size_t room) noexcept;

}  // namespace espalier::preload
