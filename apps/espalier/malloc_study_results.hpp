#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/espalier/bench_command.hpp"
#include "apps/espalier/measured_turns.hpp"

// Common parts of the result files of malloc studies.

namespace espalier::app {

/// One number per round.
struct measured_times {
  std::uint64_t operations = 0;  ///< of all rounds
  std::vector<double> wall_ns;   ///< per operation
  std::vector<double> cpu_ns;    ///< per operation, of the process
};

[[nodiscard]] measured_times times_of(const measured_outcome& outcome);

/// An entry; the study adds its own counts.
[[nodiscard]] nlohmann::ordered_json malloc_study_entry(const std::string& name, unsigned threads,
                                                        const std::string& malloc,
                                                        const measured_times& times);

/// A result file without entries; its member `study` has name, title and sources.
[[nodiscard]] nlohmann::ordered_json malloc_study_document(const bench_options& options,
                                                           std::string_view name, std::string_view title,
                                                           std::string_view sources);

}  // namespace espalier::app
