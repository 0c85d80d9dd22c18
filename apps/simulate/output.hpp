#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/simulate/calibration.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "espalier/measure/context.hpp"

// What the program prints, and what it writes to files.

namespace espalier::simulate {

enum class table_width : unsigned char { narrow, wide };

/// Printed below all output.
inline constexpr const char* trust =
    "All of this is simulated. Memory is modelled, computation is guessed: rankings and counts mean\n"
    "something, absolute throughput does not. docs/simulated-machine.md says how far to trust it.";

/// One plan's measurements, map by map. The speed-up is relative to the map's first number of threads. The heading says
/// that all of it is simulated. Narrow is at most 120 columns for names of up to 30 characters; wide has every count.
[[nodiscard]] std::string measurement_table(const sim::machine_spec& machine,
                                            const std::vector<simulated_measurement>& group,
                                            table_width width, bool colour);

[[nodiscard]] std::string calibration_table(const std::vector<calibrated_ratio>& ratios, bool colour);

/// Every machine that can be simulated: a line begins with its name, then its description.
[[nodiscard]] std::string machine_list();

/// Everything that may differ between two runs, the build and the whole simulated machine. Processors, clock and caches
/// are those of that machine.
[[nodiscard]] nlohmann::ordered_json context_json(const measure::run_context& host,
                                                  const sim::machine_spec& machine);

/// Every count per operation, by name.
[[nodiscard]] nlohmann::ordered_json counts_json(const counted_phase& measured);

/// The result file of a study, without entries yet. Its member `study` has name, title and paper.
[[nodiscard]] nlohmann::ordered_json study_document(const study_options& o, const sim::machine_spec& machine,
                                                    std::string_view name, std::string_view title,
                                                    std::string_view paper);
/// An entry of it. The study adds its own counts.
[[nodiscard]] nlohmann::ordered_json study_entry(const std::string& name, unsigned threads,
                                                 const counted_phase& measured);

/// An entry for a map.
[[nodiscard]] nlohmann::ordered_json entry_json(const simulated_measurement& m, std::size_t family);

/// Results in the JSON shape of Google Benchmark: `context`, and `benchmarks` with one entry for each measurement,
/// which is the same to the last byte in every run. real_time is the simulated time, cpu_time that of all threads
/// together, in nanoseconds per operation; `counts` has every count per operation. `calibration` is present if there
/// was one.
[[nodiscard]] std::string to_json(const measure::run_context& host, const sim::machine_spec& machine,
                                  const std::vector<simulated_measurement>& all,
                                  const std::vector<calibrated_ratio>& calibration);

/// One line per map, workload and number of threads, with every count per operation.
[[nodiscard]] std::string to_csv(const sim::machine_spec& machine,
                                 const std::vector<simulated_measurement>& all);

}  // namespace espalier::simulate
