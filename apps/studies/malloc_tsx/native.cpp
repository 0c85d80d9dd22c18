#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/malloc_tsx/claims.hpp"
#include "apps/studies/measured_process.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/topology.hpp"

namespace espalier::app {
namespace {

using malloc_tsx::placed_reading;
using malloc_tsx::placed_readings;
using malloc_tsx::point;
using nlohmann::ordered_json;

constexpr std::array<std::uint64_t, 3> ring_nodes{128, 512, 640};
constexpr std::uint64_t tree_keys = 65536;
constexpr std::size_t warm_up_turns = 2;

// In every ring, a round visits the same number of nodes; a round takes some milliseconds.
constexpr std::uint64_t ring_visits = 1U << 19U;
constexpr std::uint64_t tree_operations = 10'000;
constexpr std::uint64_t fresh_operations = 2'000;
constexpr std::uint64_t fresh_size = 1008;
constexpr std::size_t ring_rounds = 41;
constexpr std::size_t tree_rounds = 7;

struct tsx_setting : turns_setting {
  std::vector<mutex_policy> policies;
  std::vector<std::uint64_t> sizes;
  std::uint64_t seed;
  hw::cache_shape l1;
};

enum class panel_kind : unsigned char { ring, tree, fresh };

/// What one figure shows: a ring of nodes, a tree under several threads, or bump-allocated blocks.
struct study_panel_of_sizes {
  panel_kind kind;
  charted_figure figure;
  unsigned threads = 1;
  std::uint64_t nodes = 0;  // of a ring
  placed_readings readings{};
  ordered_json entries = ordered_json::array();
};

std::vector<study_panel_of_sizes> panels_of(unsigned threads) {
  std::vector<study_panel_of_sizes> all;
  all.reserve(ring_nodes.size() + 3);
  for (const std::uint64_t nodes : ring_nodes)
    all.push_back({panel_kind::ring, malloc_tsx::ring_figure(nodes), 1, nodes});
  for (const unsigned t : std::set<unsigned>{1, threads})
    all.push_back({panel_kind::tree, malloc_tsx::tree_figure(tree_keys, t), t});
  charted_figure fresh;
  fresh.id = "fresh";
  fresh.title = "Fresh blocks";
  fresh.summary =
      "Each operation allocates a block under the mutex, and keeps it. What a transaction touches first is "
      "no page yet, unless the malloc had it before.";
  all.push_back({panel_kind::fresh, std::move(fresh)});
  return all;
}

std::vector<measured_request> requests_of(const tsx_setting& s, const study_panel_of_sizes& panel,
                                          std::uint64_t size) {
  std::vector<std::string> arguments;
  switch (panel.kind) {
    case panel_kind::ring:
      arguments = {"ring", fmt::format("nodes={}", panel.nodes)};
      break;
    case panel_kind::tree:
      arguments = {"tree", fmt::format("threads={}", panel.threads), fmt::format("keys={}", tree_keys)};
      break;
    case panel_kind::fresh:
      arguments = {"fresh"};
  }
  arguments.push_back(fmt::format("size={}", size));
  arguments.push_back(fmt::format("seed={}", s.seed));
  arguments.push_back(fmt::format("sets={}", s.l1.sets));

  std::vector<measured_request> requests;
  for (const mutex_policy policy : s.policies) {
    for (const preloaded_malloc& m : s.mallocs.found) {
      measured_request& r = requests.emplace_back(measured_request{arguments, m, policy});
      // A transaction cannot map a page. Prefaulting is set under every lock policy, so that all else is equal.
      if (m.name == index_aware_malloc) r.malloc.set.emplace_back("ESPALIER_MALLOC_PREFAULT", "1");
    }
  }
  return requests;
}

std::uint64_t sum_of(const elision_sums& sums, const char* column) {
  const auto found = sums.find(column);
  return found == sums.end() ? 0 : found->second;
}

placed_reading reading_of(const measured_outcome& outcome, bool elided, bool by_wall,
                          std::uint64_t operations) {
  placed_reading r;
  for (const auto& round : outcome.rounds) {
    // The work of one thread costs its own processor time; concurrent work shows in the wall time.
    const std::uint64_t ns = std::max<std::uint64_t>(by_wall ? round.wall_ns : round.cpu_ns, 1);
    r.rounds.push_back(static_cast<double>(round.operations) * 1e9 / static_cast<double>(ns));
  }
  for (const auto& load : outcome.facts.at("loads"))
    r.largest_load = std::max(r.largest_load, load.get<std::uint64_t>());
  if (elided) {
    const std::uint64_t commits = sum_of(outcome.elision, "commits");
    const std::uint64_t sections =
        commits + sum_of(outcome.elision, "fallbacks") + sum_of(outcome.elision, "skipped");
    if (sections > 0) r.committed = static_cast<double>(commits) / static_cast<double>(sections);
    if (operations > 0)
      r.capacity_aborts =
          static_cast<double>(sum_of(outcome.elision, "capacity")) / static_cast<double>(operations);
  }
  return r;
}

ordered_json entry_of(const study_panel_of_sizes& panel, const point& at, const measured_outcome& outcome,
                      const placed_reading& r) {
  const measured_times times = times_of(outcome);
  ordered_json e =
      malloc_study_entry(malloc_tsx::entry_name(panel.figure.id, at), panel.threads, at.malloc, times);
  e["rounds_cpu_ns"] = times.cpu_ns;
  e["rounds_wall_ns"] = times.wall_ns;
  malloc_tsx::add_reading(e, at, r, outcome.facts.at("loads").get<std::vector<std::uint64_t>>());
  e["resident_kib"] = outcome.facts.at("resident_kib");
  if (r.committed)
    e["elision"] = outcome.elision;
  else
    e["elision"] = "unavailable";
  return e;
}

void measure(const tsx_setting& s, study_panel_of_sizes& panel, std::uint64_t size) {
  const std::vector<measured_request> requests = requests_of(s, panel, size);
  turns_request turns;
  turns.warm_up = warm_up_turns;
  turns.processors = s.processors;
  const bool ring = panel.kind == panel_kind::ring;
  turns.rounds = s.rounds.value_or(ring ? ring_rounds : tree_rounds);
  turns.operations = ring                             ? std::max<std::uint64_t>(ring_visits / panel.nodes, 1)
                     : panel.kind == panel_kind::tree ? tree_operations
                                                      : fresh_operations;
  const std::vector<measured_outcome> outcomes = measure_in_turns(requests, turns);
  const std::uint64_t operations = turns.operations * panel.threads * (turns.rounds + turns.warm_up);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const point at{requests[i].malloc.name, std::string(to_string(requests[i].locks)), size};
    placed_reading r =
        reading_of(outcomes[i], requests[i].locks != mutex_policy::tts, panel.threads > 1, operations);
    panel.entries.push_back(entry_of(panel, at, outcomes[i], r));
    panel.readings.add(at, std::move(r));
  }
}

// Output -------------------------------------------------------------------------------------------------------------

std::vector<judged_claim> findings_of(const study_panel_of_sizes& panel, const malloc_tsx::setting& in) {
  switch (panel.kind) {
    case panel_kind::ring:
      return malloc_tsx::judge_ring(panel.readings, panel.nodes, in);
    case panel_kind::tree: {
      std::vector<judged_claim> found = malloc_tsx::judge_tree(panel.readings, in);
      // The claims about one thread belong to the figure with one thread.
      if (panel.threads > 1)
        for (judged_claim& f : malloc_tsx::judge_concurrent_tree(panel.readings, panel.threads, in))
          found.push_back(std::move(f));
      return found;
    }
    default:
      return {malloc_tsx::judge_fresh(panel.readings)};
  }
}

std::vector<std::uint64_t> sizes_of(const tsx_setting& s, const study_panel_of_sizes& panel) {
  return panel.kind == panel_kind::fresh ? std::vector{fresh_size} : s.sizes;
}

tsx_setting setting_of(const bench_options& o, const CLI::App& verb) {
  tsx_setting s{turns_of(o, verb, malloc_tsx::study_name),
                {mutex_policy::tts},
                malloc_tsx::node_sizes(),
                o.seed,
                hw::cache_geometry_of(hw::topology::system()).l1};
  if (hw::rtm::available()) {
    s.policies.push_back(mutex_policy::tle);
    s.policies.push_back(mutex_policy::tle_learnt);
  }
  if (!o.sizes.empty()) {
    s.sizes.clear();
    for (const std::int64_t size : o.sizes) {
      if (size < 48 || size > 1 << 20)
        throw usage_error(
            fmt::format("--sizes {} is out of range; bytes from 48 to 1048576 are possible", size));
      s.sizes.push_back(static_cast<std::uint64_t>(size));
    }
    std::ranges::sort(s.sizes);
    s.sizes.erase(std::ranges::unique(s.sizes).begin(), s.sizes.end());
  }
  return s;
}

void run_malloc_tsx(const bench_options& o, const CLI::App& verb) {
  const tsx_setting s = setting_of(o, verb);
  const unsigned threads = s.threads.value_or(
      static_cast<unsigned>(std::max<std::size_t>(hw::topology::system().pus().size(), 1)));
  study_files files(o.out, malloc_tsx::study_name);

  const bool colour = wants_colour(STDOUT_FILENO);
  print_missing(s.mallocs);
  if (s.policies.size() == 1) std::fprintf(stderr, "tle is left out: %s\n", hw::rtm::probe().reason.c_str());

  const malloc_tsx::setting in{.ways = s.l1.ways};
  std::vector<study_panel_of_sizes> panels = panels_of(threads);
  if (hw::rtm_is_emulated()) {
    std::fprintf(stderr, "%s: how fast tle is says nothing\n", hw::rtm::probe().reason.c_str());
    for (study_panel_of_sizes& panel : panels) panel.figure.title += " (transactions emulated)";
  }
  std::size_t total = 0;
  for (const study_panel_of_sizes& panel : panels) total += sizes_of(s, panel).size();
  progress_line line;
  std::size_t done = 0;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    study_panel_of_sizes& panel = panels[p];
    for (const std::uint64_t size : sizes_of(s, panel)) {
      if (interruption::requested()) break;
      line.step(done++, total, fmt::format("{}, nodes of {} bytes", panel.figure.id, size));
      measure(s, panel, size);
    }
    if (panel.entries.empty()) {  // interrupted before
      panels.erase(panels.begin() + static_cast<std::ptrdiff_t>(p), panels.end());
      break;
    }
    panel.figure.charts = malloc_tsx::charts_of(panel.readings, panel.kind == panel_kind::ring, in);
    panel.figure.findings = findings_of(panel, in);
    panel.figure.missing = s.mallocs.missing;
    line.clear();
    std::printf(
        "%s\n%s", bold(panel.figure.title, colour).c_str(),
        malloc_tsx::summary_table(panel.readings, panel.kind == panel_kind::ring, in, colour).c_str());
    for (const judged_claim& f : panel.figure.findings)
      std::printf("%s", finding_text(f.source(), f.claim, f.ours, panel.figure.id).c_str());
    std::printf("\n");
    std::fflush(stdout);
  }
  line.clear();
  if (panels.empty()) return;
  std::vector<const placed_readings*> rings;
  for (const study_panel_of_sizes& panel : panels) {
    if (panel.kind == panel_kind::ring) rings.push_back(&panel.readings);
  }
  const judged_claim law = malloc_tsx::judge_law(malloc_tsx::law_of(rings, s.l1.ways), s.l1.ways);
  std::printf(
      "%s\nThroughput is a multiple of index-aware's under tts, in turns at the same size; a load is how "
      "many nodes begin at one of the %u indices of the L1 cache, which has %u ways.\n",
      finding_text(law.source(), law.claim, law.ours, "all rings").c_str(), s.l1.sets, s.l1.ways);
  panels.front().figure.findings.push_back(law);

  ordered_json results =
      malloc_study_document(o, malloc_tsx::study_name, malloc_tsx::title, malloc_tsx::paper);
  results["study"]["figures"] = ordered_json::array();
  for (const study_panel_of_sizes& panel : panels) {
    results["study"]["figures"].push_back(to_json(panel.figure));
    for (const auto& entry : panel.entries) results["benchmarks"].push_back(entry);
  }
  files.write(results);
}

const registered_study malloc_tsx_study{
    {malloc_tsx::study_name,
     malloc_tsx::title,
     {"--sizes", "--mallocs", "--threads", "--runs", "--pin", "--seed", "--out"},
     run_malloc_tsx}};

}  // namespace
}  // namespace espalier::app
