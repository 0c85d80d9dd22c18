#pragma once

#include <string>
#include <vector>

#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "espalier/workload/session.hpp"

namespace espalier::app {

/// The arguments of `espalier bench`, as unchecked text and numbers.
struct bench_options : map_options, load_options, result_options {
  bench_options() { key_type.clear(); }

  bool quick = false;
  bool peers = false;
  std::string study;
  std::vector<std::string> mallocs;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> placements;
  std::string trace;
  std::string record;
  std::vector<std::int64_t> threads;
  std::int64_t runs = 5;
  double seconds = 1;
  std::int64_t operations = 0;
  std::string pin = "cores";
  std::int64_t latency_every = 16;
  bool no_leak_check = false;
  std::string hgrm;
};

void declare(CLI::App& verb, bench_options& options);

/// The parameters of the measurement: all of a request except its maps and plans. Throws usage_error.
[[nodiscard]] workload::session_request measurement_of(const bench_options& options);

/// Shows the progress of a session, and the table of each group of measurements as soon as it is complete.
class progress final : public workload::session_observer {
 public:
  void step(std::size_t done, std::size_t total, const std::string& what) override;
  void skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
               const std::string& why) override;
  void finished(const std::vector<workload::measurement>& group) override;

 private:
  progress_line line_;
};

/// `espalier bench --study`. Throws usage_error for an unknown study, and for options that the study does not accept.
void run_bench_study(const bench_options& options, const CLI::App& verb);

// The studies: apps/studies/<name>/native.cpp.
void run_atc18_study(const bench_options& options, const CLI::App& verb);
void run_dps_study(const bench_options& options, const CLI::App& verb);
void run_eunomia_study(const bench_options& options, const CLI::App& verb);
void run_malloc_speed_study(const bench_options& options, const CLI::App& verb);
void run_malloc_tsx_study(const bench_options& options, const CLI::App& verb);

}  // namespace espalier::app
