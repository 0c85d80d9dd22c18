#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/atc18/claims.hpp"
#include "apps/studies/study_output.hpp"

// The study of ATC 2018 on the machines of the paper. Counts are exact, so each map is measured once for a machine and
// a number of keys, however many figures show it.

namespace espalier::simulate {
namespace {

using app::charted_figure;
using app::atc18::figure;
using app::atc18::subject;

const std::vector<std::string> papers_machines{"abu_dhabi", "haswell"};

/// Each with as many threads as the machine has, as in the paper, or as asked for.
std::vector<study_place> places_of(const study_options& o) {
  std::vector<study_place> places = o.places;
  for (study_place& p : places) {
    if (!o.given("--threads")) p.threads = {p.machine.hardware_threads()};
    if (p.threads.size() != 1) throw app::usage_error("--study atc18 runs with one number of --threads");
  }
  return places;
}

app::operation_costs costs_of(const simulated_measurement& m) {
  return {.accesses = m.per_operation(m.total.accesses),
          .memory_lines = m.per_operation(m.total.local_dram + m.total.remote_dram),
          .page_walks = m.per_operation(m.total.page_walks)};
}

/// Why it cannot be measured there; empty if it can.
std::string obstacle(const subject& s, const study_place& p) {
  if (entry_of(s.map) == nullptr) return "not in this build";
  if (!s.prefetching && !p.machine.adjacent_line_prefetch)
    return p.machine.name + " prefetches no adjacent lines anyway";
  return {};
}

class simulated_study {
 public:
  explicit simulated_study(const study_options& o)
      : o_(o), places_(places_of(o)), figures_(app::atc18::figures()) {
    leave_chosen(figures_, o);
    if (o.given("--keys")) only_ = o.keys;
    for (const figure& f : figures_) {
      for (const std::uint64_t keys : f.keys_or(only_)) {
        add_plan(keys);
        for (const auto& group : f.groups) {
          for (const subject& s : group) {
            for (std::size_t at = 0; at < places_.size(); ++at) {
              if (obstacle(s, places_[at]).empty()) needed_.insert({at, keys, s.name()});
            }
          }
        }
      }
    }
    if (needed_.empty()) throw app::usage_error("--study atc18: this build has none of its maps");
  }

  int run() {
    app::study_files files(o_.out, app::atc18::study_name);
    for (const figure& f : figures_) {
      charted_figure shown{
          .id = f.id, .title = f.title, .summary = f.summary, .machine = places_.front().machine.name};
      shown.measured.emplace();
      for (std::size_t at = 0; at < places_.size(); ++at) show(f, shown, at);
      if (app::interruption::requested()) {
        files.keep(std::move(shown));
        break;
      }
      files.show(std::move(shown), "");
    }
    std::printf("%s\n", trust);
    files.write(document(files.figures()));
    return 0;
  }

 private:
  /// Place, keys, name of the subject.
  using measured_key = std::tuple<std::size_t, std::uint64_t, std::string>;

  void add_plan(std::uint64_t keys) {
    if (plans_.contains(keys)) return;
    workload::plan_request p;
    p.mix = app::atc18::mix;
    p.keys = keys;
    p.seed = o_.seed;
    plans_[keys] = workload::make_plan(p);
  }

  const simulated_measurement& measure(const subject& s, std::size_t at, std::uint64_t keys) {
    const measured_key key{at, keys, s.name()};
    const auto known = measured_.find(key);
    if (known != measured_.end()) return known->second;
    const study_place& p = places_[at];
    line_.step(measured_.size(), needed_.size(),
               fmt::format("simulating {}: {}, {} keys, {} threads", p.machine.name, s.name(),
                           app::grouped(keys), p.threads.front()));
    simulation_request request{.plans = {plans_.at(keys)},
                               .maps = {*entry_of(s.map)},
                               .machine = p.machine,
                               .threads = p.threads,
                               .pinning = o_.pinning,
                               .operations = o_.operations,
                               .warm_up = o_.operations,
                               .seed = o_.seed};
    if (!s.prefetching) request.machine.adjacent_line_prefetch = false;
    simulated_measurement m =
        run_simulation(request, [](std::size_t, std::size_t, const std::string&) {}).front();
    m.facts.name = s.name();
    line_.clear();
    return measured_.emplace(key, std::move(m)).first->second;
  }

  /// A figure on one machine.
  void show(const figure& f, charted_figure& shown, std::size_t at) {
    const study_place& p = places_[at];
    const std::string& machine = p.machine.name;
    const bool papers = std::ranges::find(papers_machines, machine) != papers_machines.end();
    app::readings measured(papers ? machine : "");
    for (const std::uint64_t keys : f.keys_or(only_)) {
      // A copy of the plan with the panel's name.
      const auto plan = std::make_shared<workload::workload_plan>(*plans_.at(keys));
      plan->name = f.workload(keys, machine);
      std::vector<simulated_measurement> panel;
      for (const auto& group : f.groups) {
        for (const subject& s : group) {
          if (app::interruption::requested()) break;
          if (const std::string why = obstacle(s, p); !why.empty()) {
            shown.miss(s.name(), why);
            continue;
          }
          simulated_measurement m = measure(s, at, keys);
          m.plan = plan;
          const double speed = m.operations_per_second();
          app::reading read{speed, speed, speed, m.facts.node_bytes, costs_of(m)};
          read.too_short = too_short(m, m.threads);
          measured.add(s.name(), keys, read);
          if (m.facts.node_bytes) shown.measured->node_bytes[s.name()] = *m.facts.node_bytes;
          panel.push_back(std::move(m));
        }
      }
      if (panel.empty()) continue;
      shown.measured->panels.push_back({plan->name, keys, p.threads.front(), machine});
      std::printf("%s\n", measurement_table(p.machine, panel, table_width::narrow, colour_).c_str());
      std::fflush(stdout);
      shown_.insert(shown_.end(), panel.begin(), panel.end());
    }
    if (app::interruption::requested()) return;
    for (app::judged_claim& one : app::judge_all(f.claims, measured, f.keys_or(only_))) {
      one.machine = machine;
      shown.findings.push_back(std::move(one));
    }
  }

  [[nodiscard]] nlohmann::ordered_json document_of(const sim::machine_spec& machine) const {
    return study_document(o_, machine, app::atc18::study_name, app::atc18::title, app::atc18::paper);
  }

  [[nodiscard]] nlohmann::ordered_json document(nlohmann::ordered_json figures) const {
    nlohmann::ordered_json all = document_of(places_.front().machine);
    for (const simulated_measurement& m : shown_)
      all["benchmarks"].push_back(entry_json(m, all["benchmarks"].size()));
    all["study"]["figures"] = std::move(figures);
    // The contexts of all machines: the one above is that of the first.
    all["study"]["contexts"] = nlohmann::ordered_json::array();
    for (const study_place& p : places_)
      all["study"]["contexts"].push_back(document_of(p.machine)["context"]);
    return all;
  }

  const study_options& o_;
  std::vector<study_place> places_;
  std::vector<figure> figures_;
  std::optional<std::uint64_t> only_;
  std::map<std::uint64_t, std::shared_ptr<const workload::workload_plan>> plans_;
  std::set<measured_key> needed_;
  std::map<measured_key, simulated_measurement> measured_;
  std::vector<simulated_measurement> shown_;
  app::progress_line line_;
  bool colour_ = app::wants_colour(STDOUT_FILENO);
};

const registered_study atc18{
    {{app::atc18::study_name,
      "ten search trees on the machines of the ATC 2018 study, figure by figure",
      {"--machine", "--threads", "--pin", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_study(o).run(); }},
     papers_machines}};

}  // namespace
}  // namespace espalier::simulate
