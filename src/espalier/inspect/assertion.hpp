#pragma once

// Conditions on a layout, for builds that must fail when it degrades: "unused_l2<5%,crossing<1%" for every type,
// "node.unused_l2<5%" for one.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/analysis.hpp"

namespace espalier::inspect {

enum class metric_unit : std::uint8_t { share, count, ratio };

/// A figure of an analysis, by name.
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

enum class relation : std::uint8_t { less, at_most, more, at_least };

struct assertion {
  /// As it was written.
  std::string text;
  /// Empty: every type.
  std::optional<std::string> type;
  const metric* figure = nullptr;
  relation holds_if = relation::less;
  /// A share is a fraction.
  double bound = 0;
};

/// Parses conditions separated by commas: [type.]figure, one of < <= > >=, a number. A share is written 5% or 0.05. A
/// type name with commas, or with anything else that this would misread, is written in double quotes. Throws
/// std::invalid_argument, in one line, with what was found, what was expected and the available figures.
[[nodiscard]] std::vector<assertion> parse_assertions(std::string_view text);

enum class verdict : std::uint8_t { holds, fails, unavailable };
[[nodiscard]] std::string_view to_string(verdict v) noexcept;

struct assertion_outcome {
  verdict result = verdict::unavailable;
  /// The value for the type that comes nearest to breaking the condition, or breaks it most. Types without a known
  /// value are left out. If no type has one, the outcome is unavailable.
  std::optional<double> figure;
  std::optional<type_index> type;
  /// Such as "node.unused_l2<5%: fails, 50.8 %".
  std::string text;
};

/// One outcome for each assertion. Throws std::invalid_argument if an assertion names a type that does not exist, with
/// the types that do.
[[nodiscard]] std::vector<assertion_outcome> evaluate(const std::vector<assertion>& all, const analysis& a);

}  // namespace espalier::inspect
