#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/options.hpp"
#include "apps/common/study_registry.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/study_claims.hpp"
#include "espalier/workload/session.hpp"

// The studies of `espalier bench --study`. Each is a folder, apps/studies/<name>, whose native.cpp has a variable of the
// type `registered_study`.

namespace espalier::app {

/// The arguments of `espalier bench`, as unchecked text and numbers.
struct bench_options : map_options, load_options, result_options {
  bench_options() { key_type.clear(); }

  bool quick = false;
  bool peers = false;
  std::string study;
  std::vector<std::string> figures;
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
  std::string baseline;
  std::string baseline_command;
  double margin = 10;
};

/// The parameters of the measurement: all of a request except its maps and plans. Throws usage_error.
[[nodiscard]] workload::session_request measurement_of(const bench_options& options);

using study = named_study<void (*)(const bench_options&, const CLI::App&)>;
using registered_study = registered<study>;

// Sessions of maps on this machine: their progress, readings and result files.

/// Shows the progress of sessions in a row, and the table of each group of measurements as soon as it is complete.
class progress final : public workload::session_observer {
 public:
  explicit progress(std::size_t sessions = 1) : sessions_(sessions) {}

  void next_session() { ++session_; }
  void step(std::size_t done, std::size_t total, const std::string& what) override;
  void skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
               const std::string& why) override;
  void finished(const std::vector<workload::measurement>& group) override;

 private:
  progress_line line_;
  std::size_t sessions_;
  std::size_t session_ = 0;
};

[[nodiscard]] reading reading_of(const workload::measurement& m, std::size_t session);

/// The request of a study: as measurement_of() has it, but latencies and lost blocks are not looked for.
[[nodiscard]] workload::session_request study_session(const bench_options& o);

/// A result file of what was measured with this seed and --pin. Its member `study` has name, title and paper.
[[nodiscard]] nlohmann::ordered_json study_results(std::uint64_t seed, const std::string& pin,
                                                   std::string_view name, std::string_view title,
                                                   std::string_view paper,
                                                   const std::vector<workload::measurement>& all);

/// Null if this build lacks the map.
[[nodiscard]] const workload::registration* registered_map(const std::string& name);

}  // namespace espalier::app
