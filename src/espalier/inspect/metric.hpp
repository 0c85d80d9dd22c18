#pragma once

// The figures of an analysis by name, for conditions in a build and for tables.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "espalier/inspect/analysis.hpp"

namespace espalier::inspect {

enum class metric_unit : std::uint8_t { share, count, ratio };

struct metric {
  std::string_view name;
  std::string_view meaning;
  metric_unit unit;
  /// The value for a type with blocks. nullopt if the analysis does not know it, or if the type is too small to judge.
  std::optional<double> (*of)(const analysis& a, type_index type);
};

[[nodiscard]] std::span<const metric> metrics();

/// Null if there is no such name.
[[nodiscard]] const metric* metric_named(std::string_view name);

}  // namespace espalier::inspect
