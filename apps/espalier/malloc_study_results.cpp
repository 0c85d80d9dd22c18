#include "apps/espalier/malloc_study_results.hpp"

#include "apps/common/exit_status.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/statistics.hpp"

namespace espalier::app {

measured_times times_of(const measured_outcome& outcome) {
  measured_times times;
  for (const auto& round : outcome.rounds) {
    const auto operations = static_cast<double>(round.operations);
    times.operations += round.operations;
    times.wall_ns.push_back(static_cast<double>(round.wall_ns) / operations);
    times.cpu_ns.push_back(static_cast<double>(round.cpu_ns) / operations);
  }
  return times;
}

nlohmann::ordered_json malloc_study_entry(const std::string& name, unsigned threads,
                                          const std::string& malloc, const measured_times& times) {
  return {{"name", name},
          {"run_type", "iteration"},
          {"iterations", times.operations},
          {"real_time", workload::median(times.wall_ns).value_or(0)},
          {"cpu_time", workload::median(times.cpu_ns).value_or(0)},
          {"time_unit", "ns"},
          {"threads", threads},
          {"malloc", malloc}};
}

nlohmann::ordered_json malloc_study_document(const bench_options& options, std::string_view name,
                                             std::string_view title, std::string_view sources) {
  auto results = nlohmann::ordered_json::parse(
      workload::to_json(workload::gather_context(options.seed, options.pin, interruption::requested()), {}));
  results["context"]["study"] = name;
  // The command's own malloc is irrelevant: it measures nothing itself.
  results["context"].erase("malloc");
  results["study"] = {{"name", name}, {"title", title}, {"paper", sources}};
  return results;
}

}  // namespace espalier::app
