#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/atc18/claims.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/inspect/page_frames.hpp"

namespace espalier::app {
namespace {

/// One session: a group of maps with one number of keys.
struct part {
  std::size_t figure;
  std::uint64_t keys;
  std::vector<atc18::load> loads;
  /// Of the maps, where their figure's claims are about that. The session fills it.
  std::shared_ptr<std::map<std::string, node_places>> nodes;
  workload::session_request session;
};

workload::session_request session_on_all_processors(bench_options o, const CLI::App& verb) {
  if (!is_given(verb, "--threads")) {
    // As many threads as the machine runs at once, as in the paper.
    const std::size_t all = hw::topology::system().pus().size();
    o.threads = {static_cast<std::int64_t>(std::max<std::size_t>(all, 1))};
  }
  workload::session_request s = study_session(o);
  if (s.threads.size() != 1) throw usage_error("--study atc18 runs with one number of --threads");
  return s;
}

std::vector<workload::registration> maps_of(const std::vector<atc18::subject>& group, charted_figure& shown) {
  std::vector<workload::registration> maps;
  for (const atc18::subject& subject : group) {
    if (!subject.prefetching) {
      shown.miss(subject.name(), "for it needs a machine without prefetching");
      continue;
    }
    const workload::registration* const found = registered_map(subject.map);
    if (found == nullptr) {
      shown.miss(subject.map, "not in this build");
      continue;
    }
    maps.push_back(*found);
    if (const auto bytes = found->facts.node_bytes) shown.measured->node_bytes[subject.map] = *bytes;
  }
  return maps;
}

std::optional<std::uint64_t> only_keys(const bench_options& o, const CLI::App& verb) {
  return is_given(verb, "--keys") ? std::optional(o.keys) : std::nullopt;
}

node_places places_here(inspect::snapshot nodes) {
  inspect::find_frames(nodes);
  return atc18::places_of(nodes, hw::cache_geometry_of(hw::topology::system()));
}

/// Each number once, ascending.
std::vector<unsigned> threads_of(const std::vector<atc18::load>& loads, unsigned all) {
  std::set<unsigned> numbers;
  for (const atc18::load& l : loads) numbers.insert(l.threads_of(all));
  return {numbers.begin(), numbers.end()};
}

std::vector<part> parts_of(const bench_options& o, const CLI::App& verb,
                           std::vector<charted_figure>& figures) {
  const workload::session_request common = session_on_all_processors(o, verb);
  std::vector<part> parts;
  for (const atc18::figure& f : atc18::figures()) {
    charted_figure& shown =
        figures.emplace_back(charted_figure{.id = f.id, .title = f.title, .summary = f.summary});
    shown.measured.emplace();
    for (const std::uint64_t keys : f.keys_or(only_keys(o, verb))) {
      for (const auto& [mix, loads] : f.mixes()) {
        workload::plan_request p = common_plan(o);
        p.name = f.workload(keys, mix);
        p.mix = mix;
        p.keys = keys;
        const auto plan = workload::make_plan(p);
        bool measured = false;
        for (const auto& group : f.groups) {
          workload::session_request session = common;
          session.plans = {plan};
          session.threads = threads_of(loads, common.threads.front());
          session.maps = maps_of(group, shown);
          if (session.maps.empty()) continue;
          workload::check_session(session);
          const auto nodes = std::make_shared<std::map<std::string, node_places>>();
          if (f.places)
            session.at_end = [nodes](const workload::subject& s) {
              (*nodes)[s.facts().name] = places_here(s.layout());
            };
          parts.push_back({figures.size() - 1, keys, loads, nodes, std::move(session)});
          measured = true;
        }
        if (measured) shown.measured->panels.push_back({p.name, keys, common.threads.front(), ""});
      }
    }
  }
  if (parts.empty()) throw usage_error("--study atc18: this build has none of its maps");
  return parts;
}

/// By the name of each load that it stands for.
void add_readings(const workload::measurement& m, const part& of, std::size_t session, readings& measured) {
  reading r = reading_of(m, session);
  r.threads = m.threads;
  if (const auto lie = of.nodes->find(m.facts.name); lie != of.nodes->end()) r.places = lie->second;
  for (const atc18::load& l : of.loads) {
    if (l.threads_of(of.session.threads.back()) == m.threads)
      measured.add(l.name_of(m.facts.name), of.keys, r);
  }
}

void run_atc18(const bench_options& o, const CLI::App& verb) {
  std::vector<charted_figure> figures;
  const std::vector<part> parts = parts_of(o, verb, figures);
  study_files files(o.out, atc18::study_name);

  progress shown(parts.size());
  std::vector<workload::measurement> all;
  const bool colour = wants_colour(STDOUT_FILENO);
  std::size_t session = 0;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    readings measured;
    for (const part& p : parts) {
      if (p.figure != f || interruption::requested()) continue;
      std::vector<workload::measurement> group = workload::run_session(p.session, shown);
      for (const auto& m : group) add_readings(m, p, session, measured);
      std::ranges::move(group, std::back_inserter(all));
      shown.next_session();
      ++session;
    }
    if (interruption::requested()) break;
    const atc18::figure& of = atc18::figures()[f];
    figures[f].findings = judge_all(of.claims, measured, of.keys_or(only_keys(o, verb)));
    std::printf("%s\n", figure_text(figures[f], "", colour).c_str());
    std::fflush(stdout);
  }

  auto results = study_results(o.seed, o.pin, atc18::study_name, atc18::title, atc18::paper, all);
  results["study"]["figures"] = to_json(figures);
  files.write(results);
}

const registered_study atc18_study{
    {atc18::study_name,
     atc18::title,
     {"--keys", "--threads", "--runs", "--time", "--operations", "--pin", "--seed", "--out"},
     run_atc18}};

}  // namespace
}  // namespace espalier::app
