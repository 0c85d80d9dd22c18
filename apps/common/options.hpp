#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/option_checks.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/io/output_file.hpp"
#include "espalier/workload/plan.hpp"

// Options that several verbs share with the same meaning, as unchecked text and numbers.

namespace espalier::app {

struct map_options {
  std::vector<std::string> maps;

  /// The named maps; all if none is named.
  [[nodiscard]] std::vector<std::string> map_names() const {
    return maps.empty() ? std::vector<std::string>{"all"} : maps;
  }
};

struct load_options {
  std::vector<std::string> mixes;
  std::string distribution;
  std::string order = "scrambled";
  std::uint64_t keys = 1'000'000;
  std::string keys_from;
  /// Of keys_from; empty for that of its first key.
  std::string key_type = "integer";
  std::uint64_t seed = 42;
};

struct result_options {
  std::string out;
  std::string json;
  std::string csv;
  std::string report;

  /// Sets the names of the files that --out implies.
  void complete();
};

inline constexpr const char* maps_group = "Which maps";
inline constexpr const char* load_group = "Workload";
inline constexpr const char* measurement_group = "Measurement";
inline constexpr const char* results_group = "Results";

void declare_maps(CLI::App& verb, map_options& options);
void declare_keys(CLI::App& verb, load_options& options);
void declare_load(CLI::App& verb, load_options& options);
void declare_seed(CLI::App& verb, load_options& options);
void declare_results(CLI::App& verb, result_options& options);

inline constexpr std::int64_t most_runs = 1'000'000;
/// The program itself has some of the slots of threads.
inline constexpr std::int64_t most_threads = hw::max_thread_slots - 16;

/// The first of equal values: what is asked for twice is measured once.
template <class T>
[[nodiscard]] std::vector<T> without_repeats(std::vector<T> values) {
  std::vector<T> kept;
  for (T& one : values) {
    if (std::ranges::find(kept, one) == kept.end()) kept.push_back(std::move(one));
  }
  return kept;
}

/// The numbers of threads to measure with; if none is asked for, one a core, at most 16. Throws usage_error.
[[nodiscard]] std::vector<unsigned> checked_threads(const std::vector<std::int64_t>& asked);

/// Of --time. Throws usage_error.
void check_seconds(double seconds);

/// All except the mix and the keys from a file. Throws std::invalid_argument.
[[nodiscard]] workload::plan_request common_plan(const load_options& options);

/// Includes the keys from a file, if there is one; reports dropped keys on standard error.
[[nodiscard]] workload::plan_request plan_with_keys(const load_options& options);

/// A plan for each mix. Throws std::invalid_argument.
[[nodiscard]] std::vector<std::shared_ptr<const workload::workload_plan>> plans_of_mixes(
    workload::plan_request request, const std::vector<std::string>& mixes);

/// A file for results, or nothing for an empty path. "-" and /dev/stdout are standard output: normal output then goes
/// to standard error. A closed pipe no longer ends the program. Throws std::invalid_argument if the file cannot be
/// written, usage_error if an earlier call has opened it, under whatever name, or it is one to be read.
[[nodiscard]] std::optional<io::output_file> open_output(const std::string& path);

/// Names a file to be read. Throws usage_error if it is also opened for results.
void read_input(const std::string& path);

/// Creates the folder if it does not exist; its parent must exist. Does nothing for an empty path. Throws usage_error.
void make_folder(const std::filesystem::path& folder);

/// Results, table and page of a run; the files are opened before the run begins.
struct result_files {
  std::optional<io::output_file> json;
  std::optional<io::output_file> csv;
  std::optional<io::output_file> report;
};

/// Creates the folder, and opens the files that the options name.
[[nodiscard]] result_files open_results(const result_options& options);

/// Prints "wrote FILE" on standard output for each file that is named and is not standard output.
void print_written(std::initializer_list<std::string> files);

// Declared for both: `espalier`, which lists and completes them, and the simulator, which uses them.

struct simulate_options : map_options, load_options, result_options {
  simulate_options() { keys = 100'000; }

  std::string machine = "e7_4850";
  bool list_machines = false;
  std::vector<std::int64_t> threads;
  std::int64_t operations = 200'000;
  std::string pin = "cores";
  std::string study;
  std::vector<std::string> figures;
  std::vector<std::int64_t> sizes;
  bool calibrate = false;
  bool wide = false;
};

void declare(CLI::App& verb, simulate_options& options);

inline constexpr const char* simulate_description =
    "Compare maps on a simulated machine: exact counts of transfers, misses and stalls";

}  // namespace espalier::app
