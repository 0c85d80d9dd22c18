#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/common/interruption.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/usage_error.hpp"
#include "bench_options.hpp"
#include "bench_study.hpp"
#include "commands.hpp"
#include "espalier/peers_config.hpp"
#include "espalier/workload/key_file.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/session.hpp"
#include "placed_maps.hpp"
#include "progress.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;
using workload::plan_request;

constexpr std::uint64_t quick_keys = 200'000;
constexpr const char* quick_real_keys = "/usr";

void apply_quick_defaults(bench_options& o, const CLI::App& verb) {
  const auto unset = [&](const char* name) { return verb.count(name) == 0; };
  if (unset("--keys")) o.keys = quick_keys;
  if (unset("--runs")) o.runs = 3;
  if (unset("--time")) o.seconds = 0.2;
  if (unset("--out")) o.out = "out";
  if (unset("--latency-every")) o.latency_every = 8;
}

std::vector<std::shared_ptr<const workload::workload_plan>> quick_plans(const bench_options& o) {
  std::vector<std::shared_ptr<const workload::workload_plan>> plans;
  const auto add = [&](const char* name, const char* mix, const char* distribution) {
    plan_request p = common_plan(o);
    p.name = name;
    p.mix = mix;
    p.distribution = workload::distribution_spec::parse(distribution);
    plans.push_back(workload::make_plan(p));
    return plans.back();
  };
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
    p.trace = workload::read_trace(fs::path(o.trace));
    if (p.trace.empty()) throw usage_error(fmt::format("{} holds no operation", o.trace));
    p.name = fmt::format("trace {}", fs::path(o.trace).filename().string());
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

workload::session_request session_of(const bench_options& o, const CLI::App& verb) {
  workload::session_request s = measurement_of(o);
  s.maps = choose_placed_maps(o.map_names(), o.placements);
  if (o.peers) {
    const auto peers = chosen_peers();
    s.maps.insert(s.maps.end(), peers.begin(), peers.end());
  }
  s.plans = o.quick ? quick_plans(o) : plans_of(o, verb);
  return s;
}

void write_hgrm(const fs::path& folder, const std::vector<workload::measurement>& all) {
  for (const workload::measurement& m : all) {
    const workload::histogram h = workload::latency_of_all(m);
    if (h.count() == 0) continue;
    std::string name = fmt::format("{}-{}-{}.hgrm", m.plan->name, m.facts.name, m.threads);
    std::replace_if(name.begin(), name.end(), [](char c) { return c == '/' || c == ' ' || c == ':'; }, '_');
    hw::output_file(folder / name).commit(h.hgrm());
  }
}

void run_bench(bench_options o, const CLI::App& verb) {
  if (!o.study.empty()) return run_bench_study(o, verb);
  if (o.quick) apply_quick_defaults(o, verb);
  o.complete();

  // All invalid requests are detected before the first measurement.
  workload::session_request session = session_of(o, verb);
  result_files files = open_results(o);
  make_folder(o.hgrm);
  if (!o.hgrm.empty()) const hw::output_file probe{fs::path(o.hgrm) / "probe"};
  std::optional<hw::output_file> record = open_output(o.record);
  std::optional<workload::trace_recorder> recorder;
  if (record) {
    recorder.emplace(*std::max_element(session.threads.begin(), session.threads.end()));
    session.recorder = &*recorder;
  }

  const interruption interrupts;
  session.interrupted = &interruption::requested();
  progress shown;
  const std::vector<workload::measurement> all = workload::run_session(session, shown);
  const int status = interruption::status();
  if (all.empty() && status == 0)
    throw usage_error("none of the maps can run this workload; see the reasons above");
  if (!all.empty()) {
    const workload::run_context context = workload::gather_context(o.seed, o.pin, status != 0);
    if (files.json) files.json->commit(workload::to_json(context, all));
    if (files.csv) files.csv->commit(workload::to_csv(all));
    if (!o.hgrm.empty()) write_hgrm(o.hgrm, all);
    if (recorder) recorder->write(*record);
    if (!o.report.empty()) write_report({o.json}, o.report);
    tell_written({o.json, o.csv, o.hgrm, o.record, o.report});
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
