#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier {

/// The operations of a map that a workload draws, a trace holds, a history records and a test performs.
enum class map_operation : std::uint8_t {
  find,
  contains,
  insert,
  insert_or_assign,
  erase,
  exchange,
  extract,
  update,
  scan
};

inline constexpr std::array map_operations{
    map_operation::find,  map_operation::contains, map_operation::insert,  map_operation::insert_or_assign,
    map_operation::erase, map_operation::exchange, map_operation::extract, map_operation::update,
    map_operation::scan};

[[nodiscard]] constexpr std::string_view to_string(map_operation op) noexcept {
  constexpr std::array<std::string_view, map_operations.size()> names{
      "find", "contains", "insert", "insert_or_assign", "erase", "exchange", "extract", "update", "scan"};
  return names[static_cast<std::size_t>(op)];
}

/// Whether it can change a map.
[[nodiscard]] constexpr bool is_write(map_operation op) noexcept {
  return op != map_operation::find && op != map_operation::contains && op != map_operation::scan;
}

/// Whether only an exchanging map has it (map_concept.hpp).
[[nodiscard]] constexpr bool needs_exchanging(map_operation op) noexcept {
  return op == map_operation::exchange || op == map_operation::extract || op == map_operation::update;
}

}  // namespace espalier
