#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/espalier/bench_command.hpp"
#include "apps/studies/study_claims.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/session.hpp"

// What the native studies of maps share: several sessions in a row, and their readings.

namespace espalier::app {

/// Shows a session as `progress` does, and the progress of all sessions.
class study_progress final : public workload::session_observer {
 public:
  explicit study_progress(std::size_t sessions) : sessions_(sessions) {}

  void next_session() { ++session_; }
  void step(std::size_t done, std::size_t total, const std::string& what) override {
    constexpr std::size_t fine = 1000;
    shown_.step(session_ * fine + done * fine / std::max<std::size_t>(total, 1), sessions_ * fine, what);
  }
  void skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
               const std::string& why) override {
    shown_.skipped(map, plan, why);
  }
  void finished(const std::vector<workload::measurement>& group) override { shown_.finished(group); }

 private:
  progress shown_;
  std::size_t sessions_;
  std::size_t session_ = 0;
};

[[nodiscard]] inline reading reading_of(const workload::measurement& m, std::size_t session) {
  const std::vector<double> runs = m.throughput();
  return {m.median_throughput(),
          measure::minimum(runs).value_or(0),
          measure::maximum(runs).value_or(0),
          m.facts.node_bytes,
          std::nullopt,
          runs,
          session};
}

/// The request of a study: as measurement_of() has it, but latencies and lost blocks are not looked for.
[[nodiscard]] inline workload::session_request study_session(const bench_options& o) {
  workload::session_request s = measurement_of(o);
  s.latency_every = 0;
  s.check_leaks = false;
  s.interrupted = &interruption::requested();
  return s;
}

/// A result file of what was measured; the study adds its member `study`.
[[nodiscard]] inline nlohmann::ordered_json study_results(const bench_options& o, const char* study,
                                                          const std::vector<workload::measurement>& all) {
  auto results = nlohmann::ordered_json::parse(
      workload::to_json(measure::gather_context(o.seed, o.pin, interruption::requested()), all));
  results["context"]["study"] = study;
  return results;
}

/// Null if this build lacks the map.
[[nodiscard]] inline const workload::registration* registered_map(const std::string& name) {
  const auto& all = workload::registry();
  const auto found =
      std::ranges::find(all, name, [](const workload::registration& r) { return r.facts.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace espalier::app
