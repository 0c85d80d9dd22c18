#pragma once

#include <cstdint>
#include <string_view>

namespace espalier::bench {

/// Arguments of the form name=number, as the command writes them. No malloc before the work's own: a heap that was used
/// before lays blocks out otherwise.
class arguments {
 public:
  arguments(int count, char** words) noexcept : count_(count), words_(words) {}

  /// The number of that name, from `least` to `most`. Ends the program with status 2 and a line where it is missing,
  /// no number, or out of range.
  [[nodiscard]] std::uint64_t number(std::string_view name, std::uint64_t least, std::uint64_t most) const;
  /// The same where it may be missing.
  [[nodiscard]] std::uint64_t number_or(std::string_view name, std::uint64_t least, std::uint64_t most,
                                        std::uint64_t without) const;

 private:
  /// Null where there is none.
  [[nodiscard]] const char* find(std::string_view name) const noexcept;

  int count_;
  char** words_;
};

/// Says so and ends the program with status 2.
[[noreturn]] void refuse(const char* what, std::string_view which) noexcept;

}  // namespace espalier::bench
