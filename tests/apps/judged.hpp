#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// For tests of claims.

namespace espalier::app {

inline constexpr auto agrees = agreement::agrees;
inline constexpr auto differs = agreement::differs;
inline constexpr auto unknown = agreement::not_measurable;
inline constexpr auto too_short = agreement::too_short;

using judged_as = std::vector<agreement>;
using texts = std::vector<std::string>;
using points = decltype(chart_curve::points);

template <class Findings>
judged_as verdicts(const Findings& findings) {
  judged_as all;
  for (const judged_claim& f : findings) all.push_back(f.ours.verdict);
  return all;
}

inline constexpr std::uint64_t million = 1'000'000;

inline reading steady(double speed) { return {speed, speed, speed, std::nullopt}; }

}  // namespace espalier::app
