#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier::test {

enum class operation : std::uint8_t { none, find, contains, insert, insert_or_assign, erase, scan };

[[nodiscard]] constexpr std::string_view to_string(operation o) noexcept {
  constexpr std::string_view names[] = {"nothing",          "find",  "contains", "insert",
                                        "insert_or_assign", "erase", "scan"};
  return names[static_cast<std::size_t>(o)];
}

}  // namespace espalier::test
