#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/measure/context.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/workload/session.hpp"

namespace espalier::workload {

/// The names of the events in results, in the order of elision_event.
inline constexpr std::array<std::string_view, elision_events> event_names{
    "commits", "conflict", "capacity", "lock_held", "other", "fallbacks", "healed", "skipped"};

/// The name of a measurement in results.
[[nodiscard]] std::string run_name(std::string_view workload, std::string_view map, unsigned threads);

/// The fields of its entries that say what is measured, as a JSON object.
[[nodiscard]] std::string subject_json(const subject_facts& map, const workload_plan& plan);

/// Results in the JSON shape of Google Benchmark, which its compare.py reads: `context`, and `benchmarks` with an entry
/// for each run and for each aggregate. In addition, `latency` with percentiles and curves. real_time is wall time, and
/// cpu_time is thread CPU time without the drawing of keys, in nanoseconds per operation of all threads. `transactions` of a run and of the medians
/// has the elision_counts of each region of the map, per operation.
[[nodiscard]] std::string to_json(const measure::run_context& context, const std::vector<measurement>& all);

/// One line per map, workload and number of threads: medians and spread. Each region of a map that counts transactions
/// adds columns.
[[nodiscard]] std::string to_csv(const std::vector<measurement>& all);

/// All kinds of operation of a measurement together; empty where latency was not measured.
[[nodiscard]] measure::histogram latency_of_all(const measurement& m);

}  // namespace espalier::workload
