#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/eunomia/claims.hpp"
#include "apps/studies/study_output.hpp"

// The study of Eunomia on its machine. Counts are exact, so each map is measured once under a load, however many pages
// show it.

namespace espalier::simulate {
namespace {

using app::charted_figure;
using app::eunomia::load;
using app::eunomia::page;

constexpr std::uint64_t usual_keys = 100'000;
constexpr std::uint64_t usual_operations = 30'000;
const std::vector<unsigned> papers_steps{1, 4, 8, 16, 20};

std::uint64_t operations_of(const study_options& o) {
  return o.given("--operations") ? o.operations : usual_operations;
}

app::eunomia::setting setting_of(const study_options& o) {
  const study_place& place = o.places.front();
  static_cast<void>(transactions_of(place.machine));
  app::eunomia::setting where;
  where.keys = o.given("--keys") ? o.keys : usual_keys;
  if (where.keys == 0) throw app::usage_error("--keys 0 is too small; at least 1 is needed");
  where.simulated = true;
  where.threads = o.given("--threads") ? place.threads : papers_steps;
  std::erase_if(where.threads, [&](unsigned n) { return n > place.machine.hardware_threads(); });
  std::ranges::sort(where.threads);
  where.threads.erase(std::ranges::unique(where.threads).begin(), where.threads.end());
  return where;
}

app::eunomia::map_reading reading_of(const simulated_measurement& m) {
  const double speed = m.operations_per_second();
  const double accesses = m.per_operation(m.total.accesses);
  app::eunomia::map_reading r{.speed = {speed, speed, speed, m.facts.node_bytes}};
  r.speed.costs = {.accesses = accesses,
                   .memory_lines = m.per_operation(m.total.local_dram + m.total.remote_dram),
                   .page_walks = m.per_operation(m.total.page_walks)};
  r.speed.too_short = too_short(m, m.threads);
  r.work = accesses;
  r.bytes_per_key = m.bytes_per_key;
  if (m.transactions.begun == 0) return r;
  app::eunomia::abort_counts& aborts = r.aborts.emplace();
  for (const sim::abort_reason reason : sim::abort_reasons)
    aborts.by_cause.emplace_back(sim::to_string(reason), m.per_operation(m.transactions.of(reason)));
  for (std::size_t i = 0; i < m.regions.size(); ++i)
    aborts.by_region.emplace_back(m.facts.transaction_regions[i],
                                  m.per_operation(m.regions[i].of(elision_event::conflict)));
  return r;
}

class simulated_eunomia {
 public:
  explicit simulated_eunomia(const study_options& o)
      : o_(o), where_(setting_of(o)), pages_(app::eunomia::pages_of(where_)) {
    leave_chosen(pages_, o);
    for (const page& p : pages_) {
      for (const std::string& map : p.maps) {
        if (entry_of(map) == nullptr) continue;
        for (const load& l : p.loads) needed_.insert({l, map});
      }
    }
    if (needed_.empty()) throw app::usage_error("--study eunomia: this build has none of its maps");
  }

  int run() {
    app::study_files files(o_.out, app::eunomia::study_name);
    const sim::machine_spec& machine = o_.places.front().machine;
    for (const page& p : pages_) {
      if (app::interruption::requested()) break;
      const bool whole = measure(p);
      charted_figure figure = figure_of(p, results_, where_, machine.name);
      for (const std::string& map : p.maps) {
        if (entry_of(map) == nullptr) figure.missing.push_back({map, "not in this build"});
      }
      if (whole) figure.findings = p.judge(results_);
      const std::string place =
          fmt::format("{} keys, simulated on {}", app::grouped(where_.keys), machine.name);
      files.show(std::move(figure), place);
    }
    std::printf("%s\n", trust);
    files.write(document(files.figures()));
    return 0;
  }

 private:
  using measured_key = std::pair<load, std::string>;

  /// False if an interrupt left something out.
  bool measure(const page& p) {
    for (const load& l : p.loads) {
      for (const std::string& map : p.maps) {
        if (!needed_.contains({l, map}) || results_.find(l, map) != nullptr) continue;
        if (app::interruption::requested()) return false;
        line_.step(measured_.size(), needed_.size(),
                   fmt::format("simulating {}, {}, {} threads", map, l.name(), l.threads));
        measure(l, map);
        line_.clear();
      }
    }
    return true;
  }

  void measure(const load& l, const std::string& map) {
    // As many operations again come before, in which leaves learn that they are contended.
    const simulation_request request{.plans = {plan_of(l, where_.keys, o_.seed)},
                                     .maps = {*entry_of(map)},
                                     .machine = o_.places.front().machine,
                                     .threads = {l.threads},
                                     .pinning = pinning(),
                                     .operations = operations_of(o_),
                                     .warm_up = operations_of(o_),
                                     .seed = o_.seed};
    measured_.push_back(run_simulation(request, [](std::size_t, std::size_t, const std::string&) {}).front());
    results_.add(l, map, reading_of(measured_.back()));
  }

  /// The paper distributes its threads equally over the sockets.
  [[nodiscard]] sim::pinning pinning() const {
    return o_.given("--pin") ? o_.pinning : sim::pinning::scatter;
  }

  [[nodiscard]] nlohmann::ordered_json document(nlohmann::ordered_json figures) const {
    nlohmann::ordered_json all = study_document(o_, o_.places.front().machine, app::eunomia::study_name,
                                                app::eunomia::title, app::eunomia::paper);
    if (!o_.given("--pin")) all["context"]["pinning"] = "scatter";
    for (const simulated_measurement& m : measured_)
      all["benchmarks"].push_back(entry_json(m, all["benchmarks"].size()));
    all["study"]["figures"] = std::move(figures);
    all["study"]["contexts"] = nlohmann::ordered_json::array({all["context"]});
    return all;
  }

  const study_options& o_;
  app::eunomia::setting where_;
  std::vector<page> pages_;
  std::set<measured_key> needed_;
  std::vector<simulated_measurement> measured_;
  app::eunomia::results results_;
  app::progress_line line_;
};

const registered_study eunomia{
    {{app::eunomia::study_name,
      "B+trees under contention, page by page as in the paper on Eunomia",
      {"--machine", "--threads", "--pin", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_eunomia(o).run(); }},
     {app::eunomia::papers_machine}}};

}  // namespace
}  // namespace espalier::simulate
