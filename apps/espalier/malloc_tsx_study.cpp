#include "apps/common/malloc_tsx_study.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/common/progress_line.hpp"
#include "apps/common/study_output.hpp"
#include "apps/common/table.hpp"
#include "apps/common/usage_error.hpp"
#include "bench_study.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/workload/statistics.hpp"
#include "malloc_study_results.hpp"
#include "measured_turns.hpp"

namespace espalier::app {
namespace {

using malloc_tsx::curve_finding;
using malloc_tsx::placed_reading;
using malloc_tsx::placed_readings;
using malloc_tsx::point;
using nlohmann::ordered_json;

constexpr std::array<std::uint64_t, 3> ring_nodes{128, 512, 640};
constexpr std::uint64_t tree_keys = 65536;
constexpr std::size_t warm_up = 2;

// Of a ring all rounds visit as many nodes; a round is some milliseconds.
constexpr std::uint64_t ring_visits = 1U << 19U;
constexpr std::uint64_t tree_operations = 10'000;
constexpr std::uint64_t fresh_operations = 2'000;
constexpr std::uint64_t fresh_size = 1008;
constexpr std::size_t ring_rounds = 41;
constexpr std::size_t tree_rounds = 7;

struct study_setting {
  malloc_choice mallocs;
  std::vector<mutex_policy> policies;
  std::vector<std::uint64_t> sizes;
  std::vector<unsigned> processors;
  std::optional<std::size_t> rounds;
  std::uint64_t seed;
  hw::cache_shape l1;
};

enum class panel_kind : unsigned char { ring, tree, fresh };

/// A ring of some nodes, a tree under some threads, or fresh blocks: what one figure shows.
struct study_panel_of_sizes {
  panel_kind kind = panel_kind::ring;
  std::string id;
  std::string title;
  std::string summary;
  unsigned threads = 1;
  std::uint64_t nodes = 0;  // of a ring
  placed_readings readings;
  ordered_json entries = ordered_json::array();
  std::vector<curve_finding> findings;
};

std::vector<study_panel_of_sizes> panels_of(unsigned threads) {
  std::vector<study_panel_of_sizes> all;
  for (const std::uint64_t nodes : ring_nodes) {
    study_panel_of_sizes& p = all.emplace_back();
    p.id = fmt::format("ring-{}", nodes);
    p.title = fmt::format("A ring of {} nodes", nodes);
    p.summary = fmt::format(
        "One thread goes round a ring of {} nodes that were allocated one by one, in random order, and "
        "writes each under "
        "a mutex. Nothing is allocated meanwhile: what differs is where the nodes lie{}.",
        nodes, nodes == 128 ? " (figure 1)" : "");
    p.nodes = nodes;
  }
  for (const unsigned t : std::set<unsigned>{1, threads}) {
    study_panel_of_sizes& p = all.emplace_back();
    p.kind = panel_kind::tree;
    p.id = fmt::format("tree-{}", t);
    p.title = t == 1 ? "An AVL tree under one mutex, one thread"
                     : fmt::format("An AVL tree under one mutex, {} threads", t);
    p.summary = fmt::format(
        "30 % of the operations insert or overwrite one of {} keys, 30 % erase one, 40 % look one up; nodes "
        "are allocated "
        "and freed under the mutex (figure 2).",
        tree_keys);
    p.threads = t;
  }
  study_panel_of_sizes& p = all.emplace_back();
  p.kind = panel_kind::fresh;
  p.id = "fresh";
  p.title = "Fresh blocks";
  p.summary =
      "Each operation allocates a block under the mutex, and keeps it. What a transaction touches first is "
      "no page yet, "
      "unless the malloc had it before.";
  return all;
}

std::vector<measured_request> requests_of(const study_setting& s, const study_panel_of_sizes& panel,
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
      // A transaction cannot have a page: so has every placement of ours, to be alike in all else.
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
    // What one thread does costs its own time; what several do at once shows in the time of all.
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
  ordered_json e = malloc_study_entry(fmt::format("{}/{}/{}/size:{}", panel.id, at.malloc, at.locks, at.size),
                                      panel.threads, at.malloc, times);
  e["locks"] = at.locks;
  e["size"] = at.size;
  e["rounds_cpu_ns"] = times.cpu_ns;
  e["rounds_wall_ns"] = times.wall_ns;
  e["largest_load"] = r.largest_load;
  e["loads"] = outcome.facts.at("loads");
  e["resident_kib"] = outcome.facts.at("resident_kib");
  if (r.committed) {
    e["elision"] = outcome.elision;
    e["committed"] = *r.committed;
    e["capacity_aborts"] = r.capacity_aborts.value_or(0);
  } else {
    e["elision"] = "unavailable";
  }
  return e;
}

void measure(const study_setting& s, study_panel_of_sizes& panel, std::uint64_t size) {
  const std::vector<measured_request> requests = requests_of(s, panel, size);
  turns_request turns;
  turns.warm_up = warm_up;
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
        reading_of(outcomes[i], requests[i].locks == mutex_policy::tle, panel.threads > 1, operations);
    panel.entries.push_back(entry_of(panel, at, outcomes[i], r));
    panel.readings.add(at, std::move(r));
  }
}

// What is shown ------------------------------------------------------------------------------------------------------

const std::string reference_malloc{index_aware_malloc};
const std::string reference_locks = "tts";

/// Curves by malloc and locks.
std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& [at, r] : readings.all()) seen.insert({at.malloc, at.locks});
  return {seen.begin(), seen.end()};
}

std::string cell(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "";
}

std::string panel_table(const study_panel_of_sizes& panel, unsigned ways, bool colour) {
  const auto right = table::align::right;
  table t({"malloc", "locks", "throughput\n(geometric mean)", "at its\nworst size", "largest\nload",
           "sizes above\nall ways", "committed\nat least", "capacity aborts\nan operation"},
          {table::align::left, table::align::left, right, right, right, right, right, right});
  for (const auto& [malloc, locks] : curves_of(panel.readings)) {
    std::vector<double> ratios;
    std::uint64_t largest = 0;
    std::optional<double> committed;
    std::optional<double> capacity;
    for (const std::uint64_t size : panel.readings.sizes()) {
      const placed_reading* const r = panel.readings.find({malloc, locks, size});
      if (r == nullptr) continue;
      if (const auto ratio =
              panel.readings.ratio({malloc, locks, size}, {reference_malloc, reference_locks, size}))
        ratios.push_back(*ratio);
      largest = std::max(largest, r->largest_load);
      if (r->committed) committed = std::min(committed.value_or(1), *r->committed);
      if (r->capacity_aborts) capacity = std::max(capacity.value_or(0), *r->capacity_aborts);
    }
    const std::size_t overloaded = panel.readings.overloaded(malloc, ways).size();
    t.add({malloc, locks, cell(workload::geometric_mean(ratios), "{:.2f}"),
           cell(workload::minimum(ratios), "{:.2f}"), fmt::format("{}", largest),
           panel.kind != panel_kind::ring
               ? ""
               : fmt::format("{} of {}", overloaded, panel.readings.sizes().size()),
           committed ? fmt::format("{:.1f} %", 100 * *committed) : "", cell(capacity, "{:.4f}")});
  }
  return t.text(colour);
}

/// What one malloc's bad strides cost: the requests whose blocks follow each other at such powers of two.
std::string stride_table(const study_panel_of_sizes& panel, bool colour) {
  const auto right = table::align::right;
  table t({"stride", "malloc", "request", "load", "index-aware over it\ntts", "\ntle", "committed",
           "of index-aware"},
          {right, table::align::left, right, right, right, right, right, right});
  const auto share = [&](const std::string& malloc, std::uint64_t size) -> std::string {
    const placed_reading* const r = panel.readings.find({malloc, "tle", size});
    return r != nullptr && r->committed ? fmt::format("{:.1f} %", 100 * *r->committed) : "";
  };
  bool any = false;
  for (const std::uint64_t stride : {512U, 1024U, 2048U, 4096U}) {
    for (const std::string& malloc : panel.readings.mallocs()) {
      if (malloc == reference_malloc || malloc == random_malloc) continue;
      // glibc puts 8 bytes before each block and rounds up to 16; the others have classes of these sizes.
      const std::uint64_t size = malloc == system_malloc ? stride - 16 : stride;
      const placed_reading* const r = panel.readings.find({malloc, reference_locks, size});
      if (r == nullptr) continue;
      any = true;
      t.add({fmt::format("{}", stride), malloc, fmt::format("{}", size), fmt::format("{}", r->largest_load),
             cell(panel.readings.ratio({reference_malloc, "tts", size}, {malloc, "tts", size}), "{:.2f} x"),
             cell(panel.readings.ratio({reference_malloc, "tle", size}, {malloc, "tle", size}), "{:.2f} x"),
             share(malloc, size), share(reference_malloc, size)});
    }
  }
  return any ? t.text(colour) : "";
}

ordered_json chart(const std::string& title, const std::string& caption, const std::string& y,
                   ordered_json series) {
  return {{"title", title},
          {"caption", caption},
          {"x", "Bytes of a node"},
          {"y", y},
          {"series", std::move(series)}};
}

/// Points from a value that a reading may have: value(point, reading) gives a number, or null for none.
template <class Value>
ordered_json series_of(const placed_readings& readings, const std::set<std::string>& locks, bool name_locks,
                       Value&& value) {
  ordered_json all = ordered_json::array();
  for (const auto& [malloc, lock] : curves_of(readings)) {
    if (!locks.contains(lock)) continue;
    ordered_json points = ordered_json::array();
    for (const std::uint64_t size : readings.sizes()) {
      const placed_reading* const r = readings.find({malloc, lock, size});
      if (r == nullptr) continue;
      if (const std::optional<double> v = value(point{malloc, lock, size}, *r)) points.push_back({size, *v});
    }
    if (points.empty()) continue;
    all.push_back(
        {{"name", name_locks ? fmt::format("{}, {}", malloc, lock) : malloc}, {"points", std::move(points)}});
  }
  return all;
}

ordered_json charts_of(const study_panel_of_sizes& panel, unsigned ways) {
  ordered_json charts = ordered_json::array();
  const placed_readings& readings = panel.readings;
  charts.push_back(chart(
      "Throughput",
      "Times that of index-aware under tts at the same size, round by round; the median. Higher is better.",
      "x index-aware under tts",
      series_of(readings, {"tts", "tle"}, true, [&](const point& at, const placed_reading&) {
        return readings.ratio(at, {reference_malloc, reference_locks, at.size});
      })));
  if (panel.nodes != 0) {
    charts.push_back(
        chart("Nodes at the fullest index",
              "How many nodes begin at the L1 index at which most do. Above the ways of the cache no "
              "transaction can write them all. Lower is better.",
              "nodes", series_of(readings, {"tts"}, false, [](const point&, const placed_reading& r) {
                return std::optional(static_cast<double>(r.largest_load));
              })));
    charts.back()["limit"] = {{"y", ways}, {"name", "ways of the L1 cache"}};
  }
  if (auto shares = series_of(readings, {"tle"}, false,
                              [](const point&, const placed_reading& r) { return r.committed; });
      !shares.empty())
    charts.push_back(
        chart("Sections that were elided",
              "Of all critical sections under tle, those that committed as a transaction. Higher is better.",
              "share of sections", std::move(shares)));
  if (auto aborts = series_of(readings, {"tle"}, false,
                              [](const point&, const placed_reading& r) { return r.capacity_aborts; });
      !aborts.empty())
    charts.push_back(chart("Aborts for capacity",
                           "Attempts that did not fit, for an operation. Lower is better.",
                           "aborts an operation", std::move(aborts)));
  return charts;
}

ordered_json panel_json(const study_panel_of_sizes& panel, const malloc_choice& mallocs, unsigned ways) {
  ordered_json j{{"id", panel.id},
                 {"title", panel.title},
                 {"summary", panel.summary},
                 {"charts", charts_of(panel, ways)}};
  j["missing"] = ordered_json::array();
  for (const missing_malloc& m : mallocs.missing) j["missing"].push_back({{"map", m.name}, {"why", m.why}});
  j["findings"] = ordered_json::array();
  for (const curve_finding& f : panel.findings)
    j["findings"].push_back({{"paper", f.claim},
                             {"of_paper", f.of_paper},
                             {"ours", f.ours.sentence},
                             {"verdict", to_string(f.ours.verdict)}});
  return j;
}

std::vector<curve_finding> findings_of(const study_panel_of_sizes& panel, const placed_readings& ring,
                                       unsigned ways) {
  switch (panel.kind) {
    case panel_kind::ring:
      return malloc_tsx::judge_ring(panel.readings, panel.nodes, ways);
    case panel_kind::tree:
      return malloc_tsx::judge_tree(panel.readings, ring, panel.threads, ways);
    default:
      return {malloc_tsx::judge_fresh(panel.readings)};
  }
}

std::vector<std::uint64_t> sizes_of(const study_setting& s, const study_panel_of_sizes& panel) {
  return panel.kind == panel_kind::fresh ? std::vector{fresh_size} : s.sizes;
}

study_setting setting_of(const bench_options& o, const CLI::App& verb) {
  study_setting s;
  s.mallocs = choose_mallocs(o.mallocs);
  s.policies = {mutex_policy::tts};
  if (hw::rtm::available()) s.policies.push_back(mutex_policy::tle);
  s.sizes = malloc_tsx::node_sizes();
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
  s.seed = o.seed;
  s.l1 = hw::cache_geometry_of(hw::topology::system()).l1;
  if (verb.count("--runs") != 0) s.rounds = static_cast<std::size_t>(o.runs);
  return s;
}

}  // namespace

void run_malloc_tsx_study(const bench_options& o, const CLI::App& verb) {
  only_options(verb, "--study malloc-tsx",
               {"--study", "--sizes", "--mallocs", "--threads", "--runs", "--pin", "--seed", "--out"});
  const workload::session_request measurement = measurement_of(o);
  if (measurement.threads.size() != 1)
    throw usage_error("--study malloc-tsx runs with one number of --threads");
  const unsigned threads =
      verb.count("--threads") != 0
          ? measurement.threads.front()
          : static_cast<unsigned>(std::max<std::size_t>(hw::topology::system().pus().size(), 1));
  study_setting s = setting_of(o, verb);
  s.processors = measured_processors(measurement.pinning);
  study_files files(o.out, malloc_tsx::study_name);

  const bool colour = wants_colour(STDOUT_FILENO);
  tell_missing(s.mallocs);
  if (s.policies.size() == 1) std::fprintf(stderr, "tle is left out: %s\n", hw::rtm::probe().reason.c_str());

  std::vector<study_panel_of_sizes> panels = panels_of(threads);
  std::size_t total = 0;
  for (const study_panel_of_sizes& panel : panels) total += sizes_of(s, panel).size();
  progress_line line;
  std::size_t done = 0;
  for (study_panel_of_sizes& panel : panels) {
    for (const std::uint64_t size : sizes_of(s, panel)) {
      line.step(done++, total, fmt::format("{}, nodes of {} bytes", panel.id, size));
      measure(s, panel, size);
    }
    panel.findings = findings_of(panel, panels.front().readings, s.l1.ways);
    line.clear();
    std::printf("%s\n%s", bold(panel.title, colour).c_str(), panel_table(panel, s.l1.ways, colour).c_str());
    if (panel.kind == panel_kind::ring) std::printf("\n%s", stride_table(panel, colour).c_str());
    for (const curve_finding& f : panel.findings)
      std::printf("%s", finding_text(f.source(), f.claim, f.ours, panel.id).c_str());
    std::printf("\n");
    std::fflush(stdout);
  }
  std::vector<const placed_readings*> rings;
  for (const study_panel_of_sizes& panel : panels) {
    if (panel.kind == panel_kind::ring) rings.push_back(&panel.readings);
  }
  const curve_finding law = malloc_tsx::judge_law(rings, s.l1.ways);
  std::printf(
      "%s\nThroughput is a multiple of index-aware's under tts, in turns at the same size; a load is how "
      "many nodes "
      "begin at one of the %u indices of the L1 cache, which has %u ways.\n",
      finding_text(law.source(), law.claim, law.ours, "all rings").c_str(), s.l1.sets, s.l1.ways);
  panels.front().findings.push_back(law);

  ordered_json results =
      malloc_study_document(o, malloc_tsx::study_name, malloc_tsx::title, malloc_tsx::paper);
  results["study"]["figures"] = ordered_json::array();
  for (const study_panel_of_sizes& panel : panels) {
    results["study"]["figures"].push_back(panel_json(panel, s.mallocs, s.l1.ways));
    for (const auto& entry : panel.entries) results["benchmarks"].push_back(entry);
  }
  files.write(results);
}

}  // namespace espalier::app
