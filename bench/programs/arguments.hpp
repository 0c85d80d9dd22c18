#pragma once

#include <cstdint>
#include <string_view>

namespace espalier::bench {

/// Arguments of the form name=number, as the command writes them. They use no malloc before the work does, because a
/// used heap lays blocks out differently.
class arguments {
 public:
  arguments(int count, char** words) noexcept : count_(count), words_(words) {}

  /// The number with this name, from `least` to `most`. Ends the program with status 2 and a message if it is missing,
  /// not a number, or out of range.
  [[nodiscard]] std::uint64_t number(std::string_view name, std::uint64_t least, std::uint64_t most) const;
  /// The same, but it may be missing.
  [[nodiscard]] std::uint64_t number_or(std::string_view name, std::uint64_t least, std::uint64_t most,
                                        std::uint64_t without) const;

 private:
  /// Null if there is none.
  [[nodiscard]] const char* find(std::string_view name) const noexcept;

  int count_;
  char** words_;
};

/// Prints the message and ends the program with status 2.
[[noreturn]] void refuse(const char* what, std::string_view which) noexcept;

}  // namespace espalier::bench
