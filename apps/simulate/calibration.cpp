#include "apps/simulate/calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>

#include "apps/common/child.hpp"

namespace espalier::simulate {
namespace {

namespace fs = std::filesystem;

constexpr const char* native_runs = "5";
constexpr const char* native_seconds = "0.3";

/// Workload, map, threads.
using subject_key = std::tuple<std::string, std::string, unsigned>;

std::vector<std::string> native_command(const app::simulate_options& o,
                                        const std::vector<simulated_measurement>& simulated,
                                        const fs::path& results) {
  const auto program = app::find_companion("../espalier/espalier", ESPALIER_COMMAND_INSTALLED);
  if (!program)
    throw std::runtime_error(
        "--calibrate needs `espalier bench`, and the command espalier is not beside this program");
  std::vector<std::string> maps;
  std::set<std::string> seen;
  std::set<unsigned> threads;
  for (const simulated_measurement& m : simulated) {
    if (seen.insert(m.facts.name).second) maps.push_back(m.facts.name);
    threads.insert(m.threads);
  }
  std::vector<std::string> command{program->string(), "bench",
                                   "--maps",          fmt::format("{}", fmt::join(maps, ",")),
                                   "--threads",       fmt::format("{}", fmt::join(threads, ",")),
                                   "--seed",          fmt::format("{}", o.seed),
                                   "--runs",          native_runs,
                                   "--time",          native_seconds,
                                   "--latency-every", "0",
                                   "--no-leak-check", "--json",
                                   results.string()};
  for (const std::string& mix : o.mixes) command.insert(command.end(), {"--mix", mix});
  if (!o.distribution.empty()) command.insert(command.end(), {"--distribution", o.distribution});
  if (!o.keys_from.empty())
    command.insert(command.end(), {"--keys-from", o.keys_from});
  else
    command.insert(command.end(), {"--keys", fmt::format("{}", o.keys), "--order", o.order});
  return command;
}

std::map<subject_key, double> native_medians(const fs::path& results) {
  std::ifstream file(results);
  const nlohmann::json document = nlohmann::json::parse(file);
  std::map<subject_key, double> medians;
  for (const auto& entry : document.at("benchmarks")) {
    if (entry.value("aggregate_name", "") == "median")
      medians[{entry.at("workload"), entry.at("map"), entry.at("threads")}] = entry.at("items_per_second");
  }
  return medians;
}

}  // namespace

std::vector<calibrated_ratio> calibrate(const app::simulate_options& options,
                                        const std::vector<simulated_measurement>& simulated) {
  const app::scratch_folder scratch("espalier-calibration");
  const fs::path results = scratch.path() / "native.json";
  const auto status = app::run_child(native_command(options, simulated, results), app::child_output::dropped);
  if (status != 0) throw std::runtime_error("the native run of the calibration failed; see above");
  const std::map<subject_key, double> native = native_medians(results);

  const auto key = [](const simulated_measurement& m) {
    return subject_key{m.plan->name, m.facts.name, m.threads};
  };
  std::vector<calibrated_ratio> ratios;
  const simulated_measurement* reference = nullptr;
  for (const simulated_measurement& m : simulated) {
    // Measurements are grouped by plan and number of threads, each group beginning with the same map.
    if (reference == nullptr || reference->plan != m.plan || reference->threads != m.threads) reference = &m;
    ratios.push_back({m.plan->name, m.threads, m.facts.name, reference->facts.name,
                      native.at(key(m)) / native.at(key(*reference)),
                      m.operations_per_second() / reference->operations_per_second()});
  }
  return ratios;
}

}  // namespace espalier::simulate
