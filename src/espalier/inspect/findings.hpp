#pragma once

// The faults of a layout in plain sentences, each with its figure and a remedy. The rules are those by which ATC 2018
// explains its anomalies (sections 3.2, 4.3 and 6); each names the section.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/analysis.hpp"

namespace espalier::inspect {

enum class finding_kind : std::uint8_t {
  unused_sets,         // a regular layout excludes a type from sets that it could use (3.2.3, 4.3.1)
  overloaded_sets,     // some sets hold many more of its lines than ways
  crossing,            // searches touch two lines of a block (3.2.2), or more than they must
  foreign_neighbours,  // the lines fetched with a searched type hold what searches do not read (3.2.3, 6)
  false_sharing,       // a written type lies beside another or itself (4.3.2)
  scattered_pages,     // other types lie between, so that it needs more translations than necessary (4.3.3)
  tlb_reach,           // more ordinary pages than the second TLB has entries (4.3.3)
};
[[nodiscard]] std::string_view to_string(finding_kind kind) noexcept;

enum class remedy : std::uint8_t { segregate, pad, reorder_fields, use_huge_pages, leave_alone };
[[nodiscard]] std::string_view to_string(remedy r) noexcept;

struct finding {
  finding_kind kind = finding_kind::unused_sets;
  type_index type = 0;
  /// The type that causes most of it, if there is one.
  std::optional<type_index> other;
  /// A share: of sets, of visits, of blocks. For scattered_pages: translations divided by the fewest possible. For
  /// tlb_reach: translations divided by the available ones.
  double figure = 0;
  remedy advice = remedy::leave_alone;
  /// Two sentences: the fault and the remedy.
  std::string text;
};

/// The values from which a rule reports.
struct finding_thresholds {
  /// Unused sets in excess of those expected by chance, for a type with enough lines.
  double unused_sets = 0.10;
  double overloaded_sets = 0.05;
  /// Of visits.
  double crossing = 0.01;
  /// Of the type's blocks.
  double foreign_neighbours = 0.25;
  double false_sharing = 0.01;
  /// Translations divided by the fewest possible. They must also be more than the first TLB holds.
  double scattered_pages = 2;
};

/// Most important kind first; within a kind the type with the most bytes first. Empty if there are no faults.
[[nodiscard]] std::vector<finding> find_faults(const analysis& a, const finding_thresholds& thresholds = {});

/// What the analysis could not examine and why, one sentence each. No finding there proves nothing.
[[nodiscard]] std::vector<std::string> blind_spots(const analysis& a);

/// One sentence to print above the findings. It says so if there are none.
[[nodiscard]] std::string summary_of(const analysis& a, const std::vector<finding>& found);

}  // namespace espalier::inspect
