#include "apps/common/options.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "apps/common/exit_status.hpp"
#include "apps/common/option_group.hpp"
#include "espalier/workload/key_space.hpp"

namespace espalier::app {

namespace fs = std::filesystem;

namespace {

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

/// CLI11 lets a negative number wrap.
const CLI::Validator not_negative{
    [](const std::string& typed) { return typed.starts_with('-') ? typed + " is negative" : std::string(); },
    ""};

/// Redirects standard output to standard error.
io::output_file take_standard_output() {
  static bool taken = false;
  if (taken) throw usage_error("only one of the results can go to standard output");
  taken = true;
  std::fflush(stdout);
  const int results = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (results < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw usage_error(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
  return {results, "standard output"};
}

}  // namespace

void result_options::complete() {
  if (!out.empty()) {
    const fs::path folder(out);
    if (json.empty()) json = folder / "results.json";
    if (csv.empty()) csv = folder / "results.csv";
    if (report.empty()) report = folder / "report.html";
  }
  if (!report.empty() && json.empty())
    throw usage_error("--report needs the results as well: add --json FILE, or use --out FOLDER");
  if (!report.empty() && is_standard_output(json))
    throw usage_error("--report reads the results from a file: name one in --json, or use --out FOLDER");
}

void declare_maps(CLI::App& verb, map_options& o) {
  option_group maps(verb, maps_group);
  maps.add_list("--maps", o.maps, "NAMES",
                "Maps, comma-separated: names that `espalier list` shows, all (each algorithm's "
                "default), every (each variant too), or all-bst (the trees of the ATC 2018 study, "
                "each as it ships and as published)");
}

void declare_load(CLI::App& verb, load_options& o) {
  option_group load(verb, load_group);
  load.add("--mix", o.mixes, "MIX",
           "LOOKUP/INSERT/ERASE in percent (90/5/5), or ycsb-a to ycsb-f; may be repeated");
  load.add(
      "--distribution", o.distribution, "NAME[:PARAMETERS]",
      "uniform, zipfian:0.99, scrambled-zipfian:0.99, latest:0.99, hotspot:0.2,0.8, normal:0.125, "
      "self-similar:0.2, poisson:0.5 (or poisson:0.5,215 of ranges of keys), sequential; by default what the "
      "mix prescribes, else uniform");
  load.add_default("--keys", o.keys, "N", "Keys in the map at the start; operations draw from twice as many")
      ->check(not_negative);
  load.add_default("--order", o.order, "ORDER", "scrambled (over all 64-bit numbers) or sequential keys");
  load.add("--keys-from", o.keys_from, "FILE",
           "Keys from a file: one integer a line, or little-endian 64-bit words; half of them are loaded");
}

void declare_seed(CLI::App& verb, load_options& o) {
  option_group(verb, measurement_group)
      .add_default("--seed", o.seed, "N", "Seed of all random numbers")
      ->check(not_negative);
}

void declare_results(CLI::App& verb, result_options& o) {
  option_group results(verb, results_group);
  results.add("--json", o.json, "FILE", "Results in Google Benchmark's JSON");
  results.add("--csv", o.csv, "FILE", "Results in CSV, a line for each map, workload and number of threads");
  results.add("--report", o.report, "FILE", "Results as one HTML page with plots");
}

workload::plan_request common_plan(const load_options& o) {
  workload::plan_request p;
  if (!o.distribution.empty()) p.distribution = workload::distribution_spec::parse(o.distribution);
  p.keys = o.keys;
  p.order = workload::parse_key_order(o.order);
  p.seed = o.seed;
  return p;
}

workload::plan_request plan_with_keys(const load_options& o) {
  workload::plan_request p = common_plan(o);
  if (o.keys_from.empty()) return p;
  workload::key_list list = workload::load_key_file(o.keys_from);
  if (list.duplicates != 0)
    std::fprintf(stderr, "%s: %llu repeated keys were dropped\n", o.keys_from.c_str(),
                 static_cast<unsigned long long>(list.duplicates));
  p.explicit_keys = std::move(list.keys);
  return p;
}

std::vector<std::shared_ptr<const workload::workload_plan>> plans_of_mixes(
    workload::plan_request request, const std::vector<std::string>& mixes) {
  if (mixes.empty()) return {workload::make_plan(request)};
  std::vector<std::shared_ptr<const workload::workload_plan>> plans;
  for (const std::string& mix : mixes) {
    request.mix = mix;
    plans.push_back(workload::make_plan(request));
  }
  return plans;
}

std::optional<io::output_file> open_output(const std::string& path) {
  if (path.empty()) return std::nullopt;
  outlive_closed_pipes();
  if (is_standard_output(path)) return take_standard_output();
  return std::optional<io::output_file>(std::in_place, fs::path(path));
}

void make_folder(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  fs::create_directory(folder, failed);
  std::error_code none;
  if (fs::is_directory(folder, none)) return;
  const std::error_code why = failed ? failed : std::make_error_code(std::errc::not_a_directory);
  throw usage_error(fmt::format("cannot write to the folder {}: {}; name one in a folder that exists",
                                folder.string(), why.message()));
}

result_files open_results(const result_options& o) {
  make_folder(o.out);
  if (!o.report.empty()) const io::output_file probe{fs::path(o.report)};
  return {open_output(o.json), open_output(o.csv)};
}

void print_written(std::initializer_list<std::string> files) {
  for (const std::string& file : files) {
    if (!file.empty() && !is_standard_output(file)) std::printf("wrote %s\n", file.c_str());
  }
}

bool is_given(const CLI::App& verb, const char* option) { return verb.count(option) != 0; }

void only_options(const CLI::App& verb, const std::string& mode, const std::vector<std::string>& taken) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() != 0 && std::ranges::find(taken, name) == taken.end())
      throw usage_error(
          fmt::format("{} says what is run; leave out {}, it takes {}", mode, name, fmt::join(taken, ", ")));
  }
}

void at_least(std::int64_t value, std::int64_t least, const char* option) {
  if (value < least)
    throw usage_error(fmt::format("{} {} is too small; at least {} is needed", option, value, least));
}

void declare(CLI::App& verb, simulate_options& o) {
  option_group machine(verb, "Simulated machine");
  option_group measurement(verb, measurement_group);
  option_group results(verb, results_group);
  machine.add_default("--machine", o.machine, "NAME",
                      "Machine to simulate: a name that --machines lists, or this for a model of this "
                      "machine");
  machine.add_flag("--machines", o.list_machines, "List the machines that can be simulated, and exit");
  machine.add_list("--threads", o.threads, "N",
                   "Numbers of threads, comma-separated; by default 1, a socket's cores, all cores, all "
                   "hardware threads");
  machine.add_default(
      "--pin", o.pin, "POLICY",
      "cores (one thread a core, socket by socket), compact (fill each core first) or scatter "
      "(over sockets)");

  declare_maps(verb, o);
  declare_load(verb, o);

  measurement.add_default("--operations", o.operations, "N",
                          "Measured operations, of all threads together; a fifth as many run before them to "
                          "warm the caches");
  declare_seed(verb, o);
  measurement.add(
      "--study", o.study, "NAME",
      "Run a study instead of the maps: atc18, eunomia, malloc-tsx, objects or transactions; an unknown "
      "name lists them with descriptions");
  measurement.add_list("--sizes", o.sizes, "BYTES",
                       "Sizes of nodes in bytes, comma-separated; for --study malloc-tsx");
  measurement.add_flag("--calibrate", o.calibrate,
                       "Run the maps on this machine and on its model, and show how far their ratios agree");

  results.add("--out", o.out, "FOLDER", "Folder for results.json, results.csv and report.html");
  declare_results(verb, o);
  results.add_flag("--wide", o.wide, "Show every count in the table, however wide it becomes");

  verb.footer(
      "Examples:\n"
      "  espalier simulate --maps ticket,edge_ext_lf --threads 1,10,40\n"
      "  espalier simulate --machine haswell --maps all --mix ycsb-a --out simulated/\n"
      "  espalier simulate --study atc18 --machine abu_dhabi --keys 1000000 --out atc18/\n"
      "  espalier simulate --study malloc-tsx --sizes 496,512 --keys 2000 --out malloc-tsx/\n"
      "  espalier simulate --calibrate --maps all --mix 50/25/25\n"
      "Counts are those of a model of the machine's memory and the same in every run; what computation costs "
      "is\n"
      "guessed. Rankings and counts mean something, absolute throughput does not: "
      "docs/simulated-machine.md.");
}

}  // namespace espalier::app
