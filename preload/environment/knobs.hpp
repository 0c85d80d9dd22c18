#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace espalier::preload {

/// Reads a whole decimal number up to `most`, and nothing else. On failure `to` is unspecified.
[[nodiscard]] inline bool read_number(const char* text, std::uint64_t most, std::uint64_t& to) noexcept {
  if (*text == 0) return false;
  std::uint64_t value = 0;
  for (; *text != 0; ++text) {
    if (*text < '0' || *text > '9') return false;
    const auto digit = static_cast<std::uint64_t>(*text - '0');
    if (value > (most - digit) / 10) return false;
    value = 10 * value + digit;
  }
  to = value;
  return value <= most;
}

/// Reads 0 or 1; another value changes nothing.
[[nodiscard]] inline bool read_switch(const char* value, bool& to) noexcept {
  if ((value[0] != '0' && value[0] != '1') || value[1] != 0) return false;
  to = value[0] == '1';
  return true;
}

/// A variable of a library, named without the library's prefix.
template <class Settings>
struct knob {
  const char* name;
  /// Null, or a line without line end that says what is wrong with the value and what is valid.
  const char* (*read)(const char* value, Settings& to) noexcept;
};

/// Reads the variables with one prefix. For a wrong variable it calls wrong(line) with the reader's line, or with
/// `unknown` where no knob has its name; it continues if that returns true. Allocates nothing.
template <class Settings, std::size_t Count, class Wrong>
void read_knobs(char* const* environment, const char* prefix, const std::array<knob<Settings>, Count>& knobs,
                const char* unknown, Settings& to, Wrong&& wrong) noexcept {
  const std::size_t prefix_size = std::strlen(prefix);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, prefix, prefix_size) != 0) continue;
    const char* const name = *environment + prefix_size;
    const char* const equals = std::strchr(name, '=');
    if (equals == nullptr) continue;
    const auto size = static_cast<std::size_t>(equals - name);
    const char* line = unknown;
    for (const knob<Settings>& each : knobs) {
      if (std::strlen(each.name) == size && std::memcmp(each.name, name, size) == 0)
        line = each.read(equals + 1, to);
    }
    if (line != nullptr && !wrong(line)) return;
  }
}

/// The same up to the first wrong variable: null, or the line for it.
template <class Settings, std::size_t Count>
[[nodiscard]] const char* read_knobs(char* const* environment, const char* prefix,
                                     const std::array<knob<Settings>, Count>& knobs, const char* unknown,
                                     Settings& to) noexcept {
  const char* first = nullptr;
  read_knobs(environment, prefix, knobs, unknown, to, [&](const char* line) {
    first = line;
    return false;
  });
  return first;
}

}  // namespace espalier::preload
