#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/terminal.hpp"
#include "apps/espalier/baseline.hpp"
#include "apps/espalier/commands.hpp"
#include "apps/studies/mallocs.hpp"
#include "apps/studies/study.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/peers_config.hpp"
#include "espalier/workload/key_space.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/session.hpp"

namespace espalier::app {

// Options -------------------------------------------------------------------------------------------------------------

namespace {

void declare(CLI::App& verb, bench_options& o) {
  option_group plain(verb);
  option_group maps(verb, maps_group);
  option_group load(verb, load_group);
  option_group measurement(verb, measurement_group);
  option_group results(verb, results_group);
  plain.add_flag("--quick", o.quick,
                 "A complete comparison in under two minutes: every map and peer, inserts, three other "
                 "workloads and one on real keys, with results in out/");

  plain.add(
      "--study", o.study, "NAME",
      "Run a study instead of maps and workloads, and compare its results with its paper; --out is the "
      "folder for its pages. atc18: the trees (--keys K for one number of keys); cache: caches by "
      "locks and by "
      "delegation; dps: what a message costs; eunomia: B+trees under contention; malloc-tsx: where "
      "mallocs place blocks, and how that "
      "affects elided locks; malloc-speed: the time and memory of mallocs; oltp: trees as the indexes of "
      "a database (--maps and --figure for some of them)");
  plain.add_list("--figure", o.figures, "ID",
                 "Of the study oltp, only these figures, comma-separated; an unknown one lists them");
  plain.add_list("--mallocs", o.mallocs, "NAME",
                 fmt::format("Mallocs of the studies malloc-tsx and malloc-speed, comma-separated: {}; by "
                             "default all that are installed",
                             fmt::join(malloc_names(), ", ")));
  plain.add_list("--sizes", o.sizes, "BYTES",
                 "Sizes of nodes of malloc-tsx in bytes, comma-separated, instead of 128 sizes up to 4096");

  declare_maps(verb, o);
  maps.add_list("--placement", o.placements, "NAMES",
                "Run the maps with these placements, comma-separated, or with all");
  maps.add_flag("--peers", o.peers, "Also run the maps of other libraries that this program was built with");

  declare_load(verb, o);
  load.add("--key-type", o.key_type, "TYPE",
           "Type of the keys of --keys-from: integer or string (each line as it is); by default that of the "
           "first key");
  load.add("--trace", o.trace, "FILE",
           "Replay a file of operations (lookup KEY, insert KEY VALUE, assign KEY VALUE, erase KEY, exchange "
           "KEY VALUE, extract KEY, add KEY AMOUNT, scan KEY COUNT; one a line) on a map that starts empty, "
           "or with --keys");
  load.add("--record", o.record, "FILE",
           "Write the operations of the first run to a file that --trace reads");

  measurement.add_list("--threads", o.threads, "N",
                       "Numbers of threads, comma-separated; by default one per core, at most 16");
  measurement.add_default("--runs", o.runs, "N", "Runs of each map; medians are reported")
      ->check(at_least(1, most_runs));
  measurement.add_default("--time", o.seconds, "S", "Seconds of each run");
  measurement.add("--operations", o.operations, "N", "Operations of each run, instead of a time")
      ->check(at_least(1));
  measurement.add_default("--pin", o.pin, "POLICY",
                          "cores (one thread a core first), scatter (over packages) or none");
  declare_seed(verb, o);
  measurement
      .add_default("--latency-every", o.latency_every, "N",
                   "Measure the latency of every N-th operation in a separate run; 0 for no such run")
      ->check(at_least(0, std::numeric_limits<unsigned>::max()));
  measurement.add_flag("--no-leak-check", o.no_leak_check,
                       "Do not walk the maps at the end to count lost blocks");

  results.add("--out", o.out, "FOLDER",
              "Folder for results.json, results.csv and report.html (out with --quick)");
  declare_results(verb, o);
  results.add("--baseline", o.baseline, "FILE",
              "Compare with the results in a file of an earlier --json or --out; the exit status is 1 if a "
              "measurement takes more CPU time");
  results.add("--baseline-command", o.baseline_command, "PROGRAM",
              "Compare with another build of this command, which measures the same in turns with this one; "
              "each run is a process of its own");
  results.add_default("--margin", o.margin, "PERCENT",
                      "How much slower a measurement may be than the baseline");
  results.add("--hgrm", o.hgrm, "FOLDER", "Folder for latency distributions in HdrHistogram's format");

  verb.footer(
      "Examples:\n"
      "  espalier bench --quick\n"
      "  espalier bench --maps ticket,edge_ext_lf --keys 10000000 --mix 50/25/25 --peers --runs 7\n"
      "  espalier bench --maps all --mix ycsb-a --mix ycsb-e --threads 1,2,4 --out results/\n"
      "  espalier bench --maps ordered_map --peers --keys-from urls.txt --mix load --mix hits\n"
      "  espalier bench --study atc18 --keys 1000000 --out atc18/\n"
      "  espalier bench --study malloc-tsx --out malloc-tsx/\n"
      "  espalier bench --study malloc-speed --mallocs glibc,mimalloc,index-aware\n"
      "  espalier bench --maps ordered_map --baseline before.json --margin 5\n"
      "  espalier bench --maps ordered_map --runs 9 --baseline-command ../before/espalier\n"
      "Other programs disturb a measurement; compare only maps of one invocation, whose runs alternate.");
}

void run_study(const bench_options& o, const CLI::App& verb) {
  const study& chosen = find_study<study>(o.study);
  std::vector<std::string> taken{"--study"};
  taken.insert(taken.end(), chosen.options.begin(), chosen.options.end());
  only_options(verb, "--study " + o.study, taken);
  const interruption interrupts;
  chosen.run(o, verb);
  if (const int status = interruption::status(); status != 0) throw CLI::RuntimeError(status);
}

// Command -------------------------------------------------------------------------------------------------------------

namespace fs = std::filesystem;
using workload::plan_request;

constexpr std::uint64_t quick_keys = 200'000;
constexpr const char* quick_real_keys = "/usr";

void apply_quick_defaults(bench_options& o, const CLI::App& verb) {
  const auto unset = [&](const char* name) { return verb.count(name) == 0; };
  if (unset("--keys")) o.keys = quick_keys;
  if (unset("--runs")) o.runs = 3;
  if (unset("--time")) o.seconds = 0.05;
  if (unset("--out")) o.out = "out";
  if (unset("--latency-every")) o.latency_every = 8;
}

std::vector<std::shared_ptr<const workload::workload_plan>> quick_plans(const bench_options& o) {
  std::vector<std::shared_ptr<const workload::workload_plan>> plans;
  const auto add = [&](const char* name, const char* mix, const char* distribution) {
    plan_request p = common_plan(o);
    p.name = name;
    p.mix = mix;
    p.distribution = measure::distribution_spec::parse(distribution);
    plans.push_back(workload::make_plan(p));
    return plans.back();
  };
  add("inserts", "load", "uniform");
  add("lookups", "100/0/0", "uniform");
  add("read-mostly", "90/5/5", "uniform");
  add("updates-skewed", "50/25/25", "scrambled-zipfian:0.99");
  plan_request real = common_plan(o);
  real.name = "file-times";
  real.mix = "90/5/5";
  real.explicit_keys = workload::file_times_under(quick_real_keys, o.keys * 2);
  if (real.explicit_keys.size() >= 2)
    plans.push_back(workload::make_plan(real));
  else
    std::fprintf(stderr, "file-times is left out: %s has too few files\n", quick_real_keys);
  return plans;
}

std::vector<std::shared_ptr<const workload::workload_plan>> plans_of(const bench_options& o,
                                                                     const CLI::App& verb) {
  plan_request p = plan_with_keys(o);
  if (!o.trace.empty()) {
    read_input(o.trace);
    p.trace = workload::read_trace(fs::path(o.trace));
    if (p.trace.empty()) throw usage_error(fmt::format("{} holds no operation", o.trace));
    p.name = fmt::format("trace {}", fs::path(o.trace).filename().string());
    if (p.explicit_strings) throw usage_error("a trace has integers as keys; leave out --keys-from");
    p.prefill = is_given(verb, "--keys") || is_given(verb, "--keys-from");
    return {workload::make_plan(p)};
  }
  return plans_of_mixes(std::move(p), o.mixes);
}

std::vector<workload::registration> chosen_peers() {
  for (const auto& missing : peers::missing) {
    std::fprintf(stderr, "peer %s is missing from this build; with the packages %s the next build has it\n",
                 std::string(missing.name).c_str(), std::string(missing.packages).c_str());
  }
  std::vector<workload::registration> built = choose_maps(workload::registry(), workload::subject_kind::peer);
  if (built.empty())
    throw usage_error(
        "--peers: this program was built without any; install libtbb-dev, libcds-dev and libabsl-dev, then "
        "build again with ESPALIER_PEERS=ON");
  return built;
}

/// Keeps the maps that take strings as keys. Throws usage_error if --maps names another one.
void keep_those_of_strings(std::vector<workload::registration>& maps, const bench_options& o) {
  const auto takes_strings = [](const workload::registration& r) { return r.facts.takes_strings; };
  for (const workload::registration& r : maps) {
    if (takes_strings(r) || std::ranges::find(o.maps, r.facts.name) == o.maps.end()) continue;
    std::vector<std::string> names;
    for (const workload::registration& other : workload::registry()) {
      if (takes_strings(other)) names.push_back(other.facts.name);
    }
    std::ranges::sort(names);
    throw usage_error(fmt::format("{} takes no strings as keys, which {} has; these maps do: {}",
                                  r.facts.name, o.keys_from, fmt::join(names, ", ")));
  }
  std::erase_if(maps, std::not_fn(takes_strings));
}

/// `left_out`: lists for which there are too many keys.
workload::session_request session_of(const bench_options& o, const CLI::App& verb,
                                     std::vector<std::string>& left_out) {
  workload::session_request s = measurement_of(o);
  s.maps = choose_placed_maps(o.map_names(), o.placements);
  if (o.peers || (o.quick && !peers::built.empty())) {
    for (workload::registration& peer : chosen_peers()) {
      const auto is_peer = [&](const workload::registration& map) {
        return map.facts.name == peer.facts.name;
      };
      if (std::ranges::none_of(s.maps, is_peer)) s.maps.push_back(std::move(peer));
    }
  }
  s.plans = o.quick ? quick_plans(o) : plans_of(o, verb);
  for (const auto& plan : s.plans)
    std::ranges::copy(
        leave_out_lists(s.maps, o.map_names(), plan->mix.into_empty ? plan->keys.size() : plan->loaded),
        std::back_inserter(left_out));
  if (s.plans.front()->keys.type() == workload::key_type::string) {
    if (!o.record.empty())
      throw usage_error("--record writes integers as keys; leave it out, or --keys-from");
    keep_those_of_strings(s.maps, o);
  }
  return s;
}

void write_hgrm(const fs::path& folder, const std::vector<workload::measurement>& all) {
  for (const workload::measurement& m : all) {
    const measure::histogram h = workload::latency_of_all(m);
    if (h.count() == 0) continue;
    std::string name = fmt::format("{}-{}-{}.hgrm", m.plan->name, m.facts.name, m.threads);
    std::replace_if(name.begin(), name.end(), [](char c) { return c == '/' || c == ' ' || c == ':'; }, '_');
    io::output_file(folder / name).commit(h.hgrm());
  }
}

using nlohmann::ordered_json;

/// The document as workload::to_json() writes it.
std::string written(const ordered_json& document) { return document.dump(1) + "\n"; }

/// What --baseline names, which has something in common with the session.
std::optional<baseline> baseline_of(const bench_options& o, const workload::session_request& session) {
  if (o.baseline.empty()) return std::nullopt;
  read_input(o.baseline);
  std::vector<subject> wanted;
  for (const auto& plan : session.plans) {
    for (const workload::registration& map : session.maps) {
      const ordered_json fields = ordered_json::parse(workload::subject_json(map.facts, *plan));
      for (const unsigned threads : session.threads)
        wanted.emplace_back(workload::run_name(plan->name, map.facts.name, threads), fields);
    }
  }
  std::optional<baseline> before(o.baseline);
  before->expect_some(wanted);
  return before;
}

/// --baseline-command.
void run_in_turns(const bench_options& o, const CLI::App& verb, result_files& files) {
  std::vector<compared_time> all;
  ordered_json results = measure_in_turns(
      o.baseline_command, arguments_of(verb, {"--baseline-command", "--margin", "--runs", "--json"}), o.runs,
      all);
  if (all.empty() && interruption::status() != 0) throw CLI::RuntimeError(interruption::status());
  const int judged = report_comparison(all, o.margin, o.baseline_command, results);
  if (files.json) files.json->commit(written(results));
  print_written({o.json});
  const int status = interruption::status() != 0 ? interruption::status() : judged;
  if (status != 0) throw CLI::RuntimeError(status);
}

void run_bench(bench_options o, const CLI::App& verb) {
  check_effects(verb, {{{"--time"}, {}, {"--operations"}}});
  if (!o.study.empty()) return run_study(o, verb);
  check_effects(verb, {{{"--sizes"}, {"--study=malloc-tsx"}, {}},
                       {{"--mallocs"}, {"--study=malloc-tsx", "--study=malloc-speed"}, {}},
                       {{"--figure"}, {"--study=oltp"}, {}},
                       {{"--mix", "--distribution"}, {}, {"--quick", "--trace"}},
                       {{"--trace", "--keys-from"}, {}, {"--quick"}},
                       {{"--keys", "--order"}, {}, {"--keys-from"}},
                       {{"--key-type"}, {"--keys-from"}, {}},
                       {{"--time", "--operations"}, {}, {"--trace"}},
                       {{"--hgrm"}, {}, {"--latency-every=0"}},
                       // From the results the page can be made again.
                       {{"--report"}, {"--json", "--out", "--quick"}, {}},
                       {{"--margin"}, {"--baseline", "--baseline-command"}, {}},
                       {{"--out", "--csv", "--report", "--hgrm", "--record", "--quick", "--latency-every",
                         "--no-leak-check", "--baseline"},
                        {},
                        {"--baseline-command"}}});
  if (!(o.margin >= 0)) throw usage_error("--margin is a percentage, at least 0");
  if (o.quick) apply_quick_defaults(o, verb);
  o.complete();

  // All invalid requests are detected before the first measurement.
  std::vector<std::string> left_out;
  workload::session_request session = session_of(o, verb, left_out);
  const std::optional<baseline> before = baseline_of(o, session);
  result_files files = open_results(o);
  make_folder(o.hgrm);
  if (!o.hgrm.empty()) const io::output_file probe{fs::path(o.hgrm) / "probe"};
  std::optional<io::output_file> record = open_output(o.record);
  std::optional<workload::trace_recorder> recorder;
  if (record) {
    recorder.emplace(*std::max_element(session.threads.begin(), session.threads.end()));
    session.recorder = &*recorder;
  }

  const interruption interrupts;
  if (!o.baseline_command.empty()) return run_in_turns(o, verb, files);
  session.interrupted = &interruption::requested();
  if (const auto& keys = session.plans.front()->keys; keys.order() == workload::key_order::explicit_list) {
    std::printf("%s: %llu keys of the type %s\n\n", o.keys_from.c_str(),
                static_cast<unsigned long long>(keys.size()), std::string(to_string(keys.type())).c_str());
  }
  progress shown;
  const std::vector<workload::measurement> all = workload::run_session(session, shown);
  say_left_out(left_out, "--keys");
  int status = interruption::status();
  if (all.empty() && status == 0)
    throw usage_error("none of the maps can run this workload; see the reasons above");
  if (!all.empty()) {
    const measure::run_context context = measure::gather_context(o.seed, o.pin, status != 0);
    std::string results = workload::to_json(context, all);
    if (before) {
      ordered_json document = ordered_json::parse(results);
      const int judged =
          report_comparison(compare(document, *before), o.margin, before->description(), document);
      if (status == 0) status = judged;
      results = written(document);
    }
    if (files.json) files.json->commit(results);
    if (files.csv) files.csv->commit(workload::to_csv(all));
    if (!o.hgrm.empty()) write_hgrm(o.hgrm, all);
    if (recorder) recorder->write(*record);
    if (files.report) write_report(results, files.json, *files.report);
    print_written({o.json, o.csv, o.hgrm, o.record, o.report});
  }
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_bench_command(CLI::App& parser) {
  const auto options = std::make_shared<bench_options>();
  CLI::App* const verb =
      parser.add_subcommand("bench", "Compare maps under a workload on this machine, interleaved run by run");
  declare(*verb, *options);
  verb->callback([options, verb] { run_bench(*options, *verb); });
}

}  // namespace espalier::app
