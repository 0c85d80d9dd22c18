#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/eunomia/claims.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/workload/result.hpp"

namespace espalier::app {
namespace {

using eunomia::load;
using eunomia::page;

constexpr std::uint64_t usual_keys = 1'000'000;
constexpr double usual_seconds = 0.3;

/// One thread and all of the machine, or as asked for.
std::vector<std::int64_t> threads_of(const bench_options& o, const CLI::App& verb) {
  std::vector<std::int64_t> threads = o.threads;
  if (!is_given(verb, "--threads"))
    threads = {1, static_cast<std::int64_t>(std::max<std::size_t>(hw::topology::system().pus().size(), 1))};
  std::ranges::sort(threads);
  threads.erase(std::ranges::unique(threads).begin(), threads.end());
  return threads;
}

workload::session_request session_for_usual_time(bench_options o, const CLI::App& verb) {
  o.threads = threads_of(o, verb);
  if (!is_given(verb, "--time")) o.seconds = usual_seconds;
  return study_session(o);
}

std::string reason_not_to_judge() {
  if (!hw::rtm::available()) return "This processor has no transactions.";
  if (hw::rtm_is_emulated()) return "Transactions are emulated here.";
  return {};
}

/// Medians of the runs, per operation. Nothing where no run has counted transactions.
std::optional<eunomia::abort_counts> aborts_of(const workload::measurement& m) {
  if (m.facts.transaction_regions.empty()) return std::nullopt;
  const auto median_of = [&](auto count) -> std::optional<double> {
    std::vector<double> values;
    for (const workload::run_outcome& r : m.runs) {
      if (!r.transactions.empty() && r.operations != 0)
        values.push_back(static_cast<double>(count(r.transactions)) / static_cast<double>(r.operations));
    }
    return measure::median(values);
  };
  eunomia::abort_counts aborts;
  for (const elision_event cause :
       {elision_event::conflict, elision_event::capacity, elision_event::lock_held, elision_event::other}) {
    const auto found = median_of([&](const std::vector<elision_counts>& regions) {
      std::uint64_t sum = 0;
      for (const elision_counts& region : regions) sum += region.of(cause);
      return sum;
    });
    if (!found) return std::nullopt;
    aborts.by_cause.emplace_back(workload::event_names[static_cast<std::size_t>(cause)], *found);
  }
  for (std::size_t i = 0; i < m.facts.transaction_regions.size(); ++i) {
    const auto conflicts = median_of(
        [&](const std::vector<elision_counts>& regions) { return regions[i].of(elision_event::conflict); });
    aborts.by_region.emplace_back(m.facts.transaction_regions[i], conflicts.value_or(0));
  }
  return aborts;
}

std::optional<double> instructions_of(const workload::measurement& m) {
  std::vector<double> values;
  for (const workload::run_outcome& r : m.runs) {
    if (r.instructions && r.operations != 0)
      values.push_back(static_cast<double>(*r.instructions) / static_cast<double>(r.operations));
  }
  return measure::median(values);
}

/// The maps of all pages that run a plan, in one session.
struct plan_session {
  load first;
  workload::session_request session;
  std::size_t number;
  bool measured = false;
};

class native_eunomia {
 public:
  native_eunomia(const bench_options& o, const CLI::App& verb)
      : o_(o), where_{is_given(verb, "--keys") ? o.keys : usual_keys, {}, false, reason_not_to_judge()} {
    const workload::session_request common = session_for_usual_time(o, verb);
    where_.threads = common.threads;
    pages_ = eunomia::pages_of(where_);
    for (const page& p : pages_) add(p, common, where_.keys);
    claimed_ = where_;
    if (!is_given(verb, "--keys")) claimed_.keys = eunomia::verdict_keys;
    pages_.push_back(eunomia::verdict_page(claimed_));
    workload::session_request most = common;
    most.threads = {pages_.back().loads.front().threads};
    add(pages_.back(), most, claimed_.keys);
    if (sessions_.empty()) throw usage_error("--study eunomia: this build has none of its maps");
    for (const auto& [plan, s] : sessions_) workload::check_session(s.session);
  }

  void run() {
    study_files files(o_.out, eunomia::study_name);
    if (!where_.unjudged.empty())
      std::fprintf(stderr, "%s What the maps do without them is shown and not judged.\n",
                   where_.unjudged.c_str());
    progress shown(sessions_.size());
    for (const page& p : pages_) {
      if (interruption::requested()) break;
      const bool last = p.id == pages_.back().id;
      const eunomia::setting& where = last ? claimed_ : where_;
      eunomia::results& readings = where.keys == where_.keys ? results_ : of_claim_;
      measure(p, where.keys, readings, shown);
      charted_figure figure = figure_of(p, readings, where, "");
      for (const std::string& map : p.maps) {
        if (registered_map(map) == nullptr) figure.missing.push_back({map, "not in this build"});
      }
      if (!interruption::requested()) figure.findings = p.judge(readings);
      files.show(std::move(figure), fmt::format("{} keys", grouped(where.keys)));
    }
    auto document =
        study_results(o_.seed, o_.pin, eunomia::study_name, eunomia::title, eunomia::paper, measured_);
    document["study"]["figures"] = files.figures();
    files.write(document);
  }

 private:
  /// A plan is what its name and its number of keys say.
  using plan_key = std::pair<std::uint64_t, std::string>;

  void add(const page& p, const workload::session_request& common, std::uint64_t keys) {
    for (const load& l : p.loads) {
      const auto [at, is_new] = sessions_.try_emplace({keys, l.name()}, l, common, sessions_.size());
      workload::session_request& s = at->second.session;
      if (is_new) s.plans = {plan_of(l, keys, o_.seed)};
      for (const std::string& map : p.maps) {
        const workload::registration* const found = registered_map(map);
        const auto same = [&](const workload::registration& r) { return r.facts.name == map; };
        if (found != nullptr && std::ranges::none_of(s.maps, same)) s.maps.push_back(*found);
      }
      if (s.maps.empty()) sessions_.erase(at);
    }
  }

  void measure(const page& p, std::uint64_t keys, eunomia::results& readings, progress& shown) {
    for (const load& l : p.loads) {
      const auto found = sessions_.find({keys, l.name()});
      if (found == sessions_.end() || found->second.measured || interruption::requested()) continue;
      plan_session& s = found->second;
      for (workload::measurement& m : workload::run_session(s.session, shown)) {
        load at = l;
        at.threads = m.threads;
        readings.add(at, m.facts.name,
                     {.speed = reading_of(m, s.number),
                      .aborts = aborts_of(m),
                      .work = instructions_of(m),
                      .bytes_per_key = m.bytes_per_key});
        measured_.push_back(std::move(m));
      }
      s.measured = true;
      shown.next_session();
    }
  }

  const bench_options& o_;
  eunomia::setting where_;
  /// That of the last page, with keys of its own.
  eunomia::setting claimed_;
  std::vector<page> pages_;
  std::map<plan_key, plan_session> sessions_;
  eunomia::results results_;
  eunomia::results of_claim_;
  std::vector<workload::measurement> measured_;
};

const registered_study eunomia_study{
    {eunomia::study_name,
     eunomia::title,
     {"--keys", "--threads", "--runs", "--time", "--operations", "--pin", "--seed", "--out"},
     [](const bench_options& o, const CLI::App& verb) { native_eunomia(o, verb).run(); }}};

}  // namespace
}  // namespace espalier::app
