#pragma once

// What is wrong with a layout, in plain sentences, each with its figure and what to do about it. The rules are
// those by which ATC 2018 explains its anomalies (sections 3.2, 4.3 and 6); each names the section.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/analysis.hpp"

namespace espalier::inspect {

enum class finding_kind : std::uint8_t {
  unused_sets,         // a regular layout keeps a type out of sets that it could use (3.2.3, 4.3.1)
  overloaded_sets,     // some sets have many more of its lines than ways
  crossing,            // searches touch two lines of a block (3.2.2)
  foreign_neighbours,  // the lines fetched with a searched type hold what searches do not read (3.2.3, 6)
  false_sharing,       // a written type lies beside another or itself (4.3.2)
  scattered_pages,     // others lie between, so that it takes more translations than it must (4.3.3)
  tlb_reach,           // more ordinary pages than the second TLB has entries (4.3.3)
};
[[nodiscard]] std::string_view to_string(finding_kind kind) noexcept;

enum class remedy : std::uint8_t { segregate, pad, reorder_fields, use_huge_pages, leave_alone };
[[nodiscard]] std::string_view to_string(remedy r) noexcept;

struct finding {
  finding_kind kind = finding_kind::unused_sets;
  type_index type = 0;
  /// The type that most of it is due to, where one is to blame.
  std::optional<type_index> other;
  /// A share: of sets, of visits, of blocks. For scattered_pages and tlb_reach how many times as many
  /// translations as would do, or as there are.
  double figure = 0;
  remedy advice = remedy::leave_alone;
  /// Two sentences: what is, and what to do.
  std::string text;
};

/// From where on a rule speaks.
struct finding_thresholds {
  /// Unused sets beyond those that chance would leave, of a type with lines enough.
  double unused_sets = 0.10;
  double overloaded_sets = 0.05;
  /// Of visits.
  double crossing = 0.01;
  /// Of the type's blocks.
  double foreign_neighbours = 0.25;
  double false_sharing = 0.01;
  /// Translations over the fewest that would do; and they are more than the first TLB holds.
  double scattered_pages = 2;
};

/// Most important kind first, within a kind the type with the most bytes first. Empty where nothing is wrong.
[[nodiscard]] std::vector<finding> find_faults(const analysis& a, const finding_thresholds& thresholds = {});

/// What the analysis could not tell and why, a sentence each: nothing found there means nothing.
[[nodiscard]] std::vector<std::string> blind_spots(const analysis& a);

/// One sentence to stand above the findings; that there are none, where there are none.
[[nodiscard]] std::string summary_of(const analysis& a, const std::vector<finding>& found);

}  // namespace espalier::inspect
