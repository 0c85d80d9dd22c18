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
  const std::uint64_t from_memory = m.total.local_dram + m.total.remote_dram;
  const std::uint64_t elsewhere = from_memory + m.total.remote_transfers;
  return {.accesses = m.per_operation(m.total.accesses),
          .memory_lines = m.per_operation(from_memory),
          .page_walks = m.per_operation(m.total.page_walks),
          .l2_misses = m.per_operation(elsewhere + m.total.llc_hits + m.total.local_transfers),
          .llc_misses = m.per_operation(elsewhere)};
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
        for (const auto& group : f.groups) {
          for (const subject& s : group) {
            for (std::size_t at = 0; at < places_.size(); ++at) {
              if (!obstacle(s, places_[at]).empty()) continue;
              for (const app::atc18::load& l : f.loads) needed_.insert(key_of(s, l, at, keys));
              if (f.places) with_places_.insert(s.name());
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
  /// Place, keys, mix, threads, name of the subject.
  using measured_key = std::tuple<std::size_t, std::uint64_t, std::string, unsigned, std::string>;
  struct measured_one {
    simulated_measurement counts;
    std::optional<app::node_places> nodes;
  };

  [[nodiscard]] measured_key key_of(const subject& s, const app::atc18::load& l, std::size_t at,
                                    std::uint64_t keys) const {
    return {at, keys, l.mix, l.threads_of(places_[at].threads.front()), s.name()};
  }

  const std::shared_ptr<const workload::workload_plan>& plan_of(std::uint64_t keys, const std::string& mix) {
    auto& plan = plans_[{keys, mix}];
    if (plan != nullptr) return plan;
    workload::plan_request p;
    p.mix = mix;
    p.keys = keys;
    p.seed = o_.seed;
    return plan = workload::make_plan(p);
  }

  const measured_one& measure(const subject& s, const app::atc18::load& l, std::size_t at,
                              std::uint64_t keys) {
    const measured_key key = key_of(s, l, at, keys);
    const auto known = measured_.find(key);
    if (known != measured_.end()) return known->second;
    const study_place& p = places_[at];
    const unsigned threads = l.threads_of(p.threads.front());
    line_.step(measured_.size(), needed_.size(),
               fmt::format("simulating {}: {}, {}, {} keys, {}", p.machine.name, s.name(), l.mix,
                           app::grouped(keys), app::number_of(threads, "thread")));
    std::optional<app::node_places> nodes;
    simulation_request request{.plans = {plan_of(keys, l.mix)},
                               .maps = {*entry_of(s.map)},
                               .machine = p.machine,
                               .threads = {threads},
                               .pinning = o_.pinning,
                               .operations = o_.operations,
                               .warm_up = o_.operations,
                               .seed = o_.seed};
    if (!s.prefetching) request.machine.adjacent_line_prefetch = false;
    if (with_places_.contains(s.name()))
      request.nodes = [&](const inspect::snapshot& found) {
        nodes = app::atc18::places_of(found, p.machine);
      };
    simulated_measurement m =
        run_simulation(request, [](std::size_t, std::size_t, const std::string&) {}).front();
    m.facts.name = s.name();
    line_.clear();
    return measured_.emplace(key, measured_one{std::move(m), nodes}).first->second;
  }

  /// A figure on one machine.
  void show(const figure& f, charted_figure& shown, std::size_t at) {
    const study_place& p = places_[at];
    const std::string& machine = p.machine.name;
    const bool papers = std::ranges::find(papers_machines, machine) != papers_machines.end();
    app::readings measured(papers ? machine : "");
    for (const std::uint64_t keys : f.keys_or(only_)) {
      for (const auto& [mix, loads] : f.mixes()) show(f, keys, mix, loads, shown, at, measured);
    }
    if (app::interruption::requested()) return;
    for (app::judged_claim& one : app::judge_all(f.claims, measured, f.keys_or(only_))) {
      one.machine = machine;
      shown.findings.push_back(std::move(one));
    }
  }

  /// Its maps under one mix.
  void show(const figure& f, std::uint64_t keys, const std::string& mix,
            const std::vector<app::atc18::load>& loads, charted_figure& shown, std::size_t at,
            app::readings& measured) {
    const study_place& p = places_[at];
    // A copy of the plan with the panel's name.
    const auto plan = std::make_shared<workload::workload_plan>(*plan_of(keys, mix));
    plan->name = f.workload(keys, mix, p.machine.name);
    std::vector<simulated_measurement> panel;
    std::set<measured_key> in_panel;
    for (const auto& group : f.groups) {
      for (const subject& s : group) {
        if (const std::string why = obstacle(s, p); !why.empty()) {
          shown.miss(s.name(), why);
          continue;
        }
        for (const app::atc18::load& l : loads) {
          if (app::interruption::requested()) return;
          const measured_one& one = measure(s, l, at, keys);
          simulated_measurement m = one.counts;
          const double speed = m.operations_per_second();
          app::reading read{speed, speed, speed, m.facts.node_bytes, costs_of(m)};
          read.too_short = too_short(m, m.threads);
          read.threads = m.threads;
          read.places = one.nodes;
          measured.add(l.name_of(s.name()), keys, read);
          if (m.facts.node_bytes) shown.measured->node_bytes[s.name()] = *m.facts.node_bytes;
          if (!in_panel.insert(key_of(s, l, at, keys)).second) continue;
          m.plan = plan;
          panel.push_back(std::move(m));
        }
      }
    }
    if (panel.empty()) return;
    shown.measured->panels.push_back({plan->name, keys, p.threads.front(), p.machine.name});
    std::printf("%s\n", measurement_table(p.machine, panel, table_width::narrow, colour_).c_str());
    std::fflush(stdout);
    shown_.insert(shown_.end(), panel.begin(), panel.end());
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
  /// By keys and mix.
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<const workload::workload_plan>> plans_;
  std::set<measured_key> needed_;
  /// Maps of which it is asked where their nodes lie.
  std::set<std::string> with_places_;
  std::map<measured_key, measured_one> measured_;
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
