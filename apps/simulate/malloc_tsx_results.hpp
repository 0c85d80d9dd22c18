#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "apps/common/malloc_tsx_study.hpp"
#include "apps/common/study_claims.hpp"
#include "apps/simulate/malloc_tsx.hpp"

// The simulated results of the paper on malloc placement and TSX, as readings like those of programs, and L1 misses,
// which only a simulation counts.

namespace espalier::simulate {

/// All measurements of a study on one machine, in order of the configurations.
class malloc_tsx_results {
 public:
  explicit malloc_tsx_results(double ghz) : ghz_(ghz) {}

  void add(const configuration& c, malloc_tsx_measurement m) { all_.emplace(c, std::move(m)); }
  /// Null if it was not measured.
  [[nodiscard]] const malloc_tsx_measurement* find(const configuration& c) const {
    const auto found = all_.find(c);
    return found == all_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::map<configuration, malloc_tsx_measurement>& all() const noexcept { return all_; }

  [[nodiscard]] double per_second(const malloc_tsx_measurement& m) const noexcept {
    return m.sections_per_second(ghz_);
  }
  /// Sections per second divided by those of another allocation or policy; nullopt if either was not measured.
  [[nodiscard]] std::optional<double> ratio(const configuration& one, const configuration& other) const;

  /// For a program with this many nodes.
  [[nodiscard]] app::malloc_tsx::placed_readings readings(benchmark program, std::uint64_t nodes) const;

 private:
  double ghz_;
  std::map<configuration, malloc_tsx_measurement> all_;
};

/// The point of a configuration's reading among the others.
[[nodiscard]] app::malloc_tsx::point point_of(const configuration& c);
/// One round. Sections under tts are not elided.
[[nodiscard]] app::malloc_tsx::placed_reading reading_of(const configuration& c,
                                                         const malloc_tsx_measurement& m, double ghz);

/// L1 misses for a node of the ring, or an operation on the tree.
[[nodiscard]] double misses(const configuration& c, const malloc_tsx_measurement& m) noexcept;

/// Judges for the ring of figure 1 that the slow sizes are those with many misses under the lock.
[[nodiscard]] app::judged_claim judge_misses(const malloc_tsx_results& results);

}  // namespace espalier::simulate
