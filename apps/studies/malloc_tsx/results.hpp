#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/simulate/session.hpp"
#include "apps/studies/malloc_tsx/claims.hpp"
#include "apps/studies/malloc_tsx/program.hpp"

// The benchmarks of program.hpp on a simulated machine: what is measured, as readings like those of programs.

namespace espalier::simulate {

// Measurements --------------------------------------------------------------------------------------------------------

enum class benchmark : std::uint8_t {
  ring,
  tree,      ///< its sections make a node before they search
  late_tree  ///< its sections make a node once they know that they need it
};

[[nodiscard]] constexpr std::string_view to_string(benchmark b) noexcept {
  constexpr std::string_view names[] = {"ring", "tree", "late tree"};
  return names[static_cast<std::size_t>(b)];
}

/// What is simulated, without its duration and its machine.
struct configuration {
  benchmark program = benchmark::ring;
  /// In the ring, or initially in the tree. The tree's keys are drawn from twice as many plus two.
  std::uint64_t nodes = 128;
  std::size_t node_bytes = 64;
  allocation from = allocation::glibc;
  section_policy policy = section_policy::tts;

  auto operator<=>(const configuration&) const = default;
};

/// Its operations are critical sections.
struct malloc_tsx_measurement : counted_phase {
  unsigned threads = 1;
  section_counts ends;
  /// The distribution of the nodes' lines: how many lie at each of the indices at which transactions keep what they
  /// write.
  std::vector<std::uint64_t> loads;

  [[nodiscard]] double committed_share() const noexcept { return per_operation(transactions.committed); }
  [[nodiscard]] std::uint64_t l1_misses() const noexcept { return total.accesses - total.l1_hits; }
  [[nodiscard]] std::uint64_t largest_load() const noexcept {
    return loads.empty() ? 0 : *std::ranges::max_element(loads);
  }
};

// Results -------------------------------------------------------------------------------------------------------------

/// All measurements of a study on one machine, in order of the configurations.
class malloc_tsx_results {
 public:
  void add(const configuration& c, malloc_tsx_measurement m) { all_.emplace(c, std::move(m)); }
  /// Null if it was not measured.
  [[nodiscard]] const malloc_tsx_measurement* find(const configuration& c) const {
    const auto found = all_.find(c);
    return found == all_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::map<configuration, malloc_tsx_measurement>& all() const noexcept { return all_; }

  /// Sections per second divided by those of another allocation or policy; nullopt if either was not measured.
  [[nodiscard]] std::optional<double> ratio(const configuration& one, const configuration& other) const;

  /// For a program with this many nodes.
  [[nodiscard]] app::malloc_tsx::placed_readings readings(benchmark program, std::uint64_t nodes) const;

 private:
  std::map<configuration, malloc_tsx_measurement> all_;
};

/// The point of a configuration's reading among the others.
[[nodiscard]] app::malloc_tsx::point point_of(const configuration& c);
/// One round. Sections under tts are not elided.
[[nodiscard]] app::malloc_tsx::placed_reading reading_of(const configuration& c,
                                                         const malloc_tsx_measurement& m);

/// L1 misses for a node of the ring, or an operation on the tree.
[[nodiscard]] double misses(const configuration& c, const malloc_tsx_measurement& m) noexcept;

/// Judges for the ring of figure 1 that the slow sizes are those with many misses under the lock.
[[nodiscard]] app::judged_claim judge_misses(const malloc_tsx_results& results);

}  // namespace espalier::simulate
