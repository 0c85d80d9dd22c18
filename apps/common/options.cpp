#include "apps/common/options.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/option_group.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/workload/key_space.hpp"

namespace espalier::app {

namespace fs = std::filesystem;

namespace {

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

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

struct named_file {
  io::file_identity identity;
  bool written;
};

/// Throws usage_error if the file is written and was named before, or was named to be written.
void keep_apart(const named_file& file, const std::string& path) {
  static std::vector<named_file> named;
  const auto other = std::ranges::find(named, file.identity, &named_file::identity);
  if (other == named.end()) {
    named.push_back(file);
  } else if (file.written && other->written) {
    throw usage_error(fmt::format("{} would get two outputs, and keep one; name a file for each", path));
  } else if (file.written || other->written) {
    throw usage_error(
        fmt::format("{} is read, and results would replace it; name another file for them", path));
  }
}

}  // namespace

void result_options::complete() {
  if (!out.empty()) {
    const fs::path folder(out);
    if (json.empty()) json = folder / "results.json";
    if (csv.empty()) csv = folder / "results.csv";
    if (report.empty()) report = folder / "report.html";
  }
}

void declare_maps(CLI::App& verb, map_options& o) {
  option_group maps(verb, maps_group);
  maps.add_list(
      "--maps", o.maps, "NAMES",
      "Maps, comma-separated: names that `espalier list` shows, all (each algorithm's default), every (each "
      "variant too), or all-bst (the trees of the ATC 2018 study, each as it ships and as published)");
}

void declare_keys(CLI::App& verb, load_options& o) {
  option_group load(verb, load_group);
  load.add_default("--keys", o.keys, "N", "Keys in the map at the start; operations draw from twice as many");
  load.add_default("--order", o.order, "ORDER", "scrambled (over all 64-bit numbers) or sequential keys");
  load.add(
      "--keys-from", o.keys_from, "FILE",
      "Keys from a file: one a line, or integers as little-endian 64-bit words; half of them are loaded");
}

void declare_load(CLI::App& verb, load_options& o) {
  option_group load(verb, load_group);
  load.add("--mix", o.mixes, "MIX",
           "LOOKUP/INSERT/ERASE in percent (90/5/5); hits: lookups of present keys; load: inserts of all "
           "keys, in random order, into an empty map; or ycsb-a to ycsb-f; may be repeated");
  load.add("--distribution", o.distribution, "NAME[:PARAMETERS]",
           "uniform, zipfian:0.99, scrambled-zipfian:0.99, latest:0.99, hotspot:0.2,0.8, normal:0.125, "
           "self-similar:0.2, poisson:0.5 (or poisson:0.5,215 of ranges of keys), sequential; by default "
           "what the mix prescribes, else uniform");
  declare_keys(verb, o);
}

void declare_seed(CLI::App& verb, load_options& o) {
  option_group(verb, measurement_group).add_default("--seed", o.seed, "N", "Seed of all random numbers");
}

void declare_results(CLI::App& verb, result_options& o) {
  option_group results(verb, results_group);
  results.add("--json", o.json, "FILE", "Results in Google Benchmark's JSON");
  results.add("--csv", o.csv, "FILE", "Results in CSV, a line for each map, workload and number of threads");
  results.add("--report", o.report, "FILE", "Results as one HTML page with plots");
}

std::vector<unsigned> checked_threads(const std::vector<std::int64_t>& asked) {
  if (asked.empty()) {
    const std::size_t cores = std::max<std::size_t>(hw::topology::system().cores().size(), 1);
    return {static_cast<unsigned>(std::min<std::size_t>(cores, 16))};
  }
  std::vector<unsigned> threads;
  for (const std::int64_t n : asked) {
    if (n < 1 || n > most_threads)
      throw usage_error(
          fmt::format("--threads {} is out of range; from 1 to {} is possible", n, most_threads));
    threads.push_back(static_cast<unsigned>(n));
  }
  return without_repeats(std::move(threads));
}

void check_seconds(double seconds) {
  constexpr double least = 1e-6;
  constexpr double most = 86'400;
  if (!(seconds >= least && seconds <= most))
    throw usage_error(
        fmt::format("--time {} is out of range; from {:f} to {} seconds are possible", seconds, least, most));
}

workload::plan_request common_plan(const load_options& o) {
  workload::plan_request p;
  if (!o.distribution.empty()) p.distribution = measure::distribution_spec::parse(o.distribution);
  p.keys = o.keys;
  p.order = workload::parse_key_order(o.order);
  p.seed = o.seed;
  return p;
}

workload::plan_request plan_with_keys(const load_options& o) {
  workload::plan_request p = common_plan(o);
  if (o.keys_from.empty()) return p;
  std::optional<workload::key_type> type;
  if (!o.key_type.empty()) type = workload::parse_key_type(o.key_type);
  read_input(o.keys_from);
  workload::key_list list = workload::load_key_file(o.keys_from, type);
  if (list.duplicates != 0)
    std::fprintf(stderr, "%s: %llu repeated keys were dropped\n", o.keys_from.c_str(),
                 static_cast<unsigned long long>(list.duplicates));
  p.explicit_keys = std::move(list.keys);
  p.explicit_strings = std::move(list.strings);
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
  io::output_file file = is_standard_output(path) ? take_standard_output() : io::output_file(fs::path(path));
  if (const auto identity = file.identity()) keep_apart({*identity, true}, path);
  return file;
}

void read_input(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode))
    keep_apart({{found.st_dev, found.st_ino, {}}, false}, path);
}

void make_folder(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  fs::create_directory(folder, failed);
  std::error_code none;
  if (fs::is_directory(folder, none)) return;
  const std::string why =
      fs::exists(folder, none) ? "it is a file" : io::why_nothing_is_made(folder, failed.value());
  throw usage_error(fmt::format("cannot write to the folder {}: {}; name one that exists or can be made",
                                folder.string(), why));
}

result_files open_results(const result_options& o) {
  make_folder(o.out);
  return {open_output(o.json), open_output(o.csv), open_output(o.report)};
}

void print_written(std::initializer_list<std::string> files) {
  for (const std::string& file : files) {
    if (!file.empty() && !is_standard_output(file)) std::printf("wrote %s\n", file.c_str());
  }
}

void declare(CLI::App& verb, simulate_options& o) {
  option_group machine(verb, "Simulated machine");
  option_group measurement(verb, measurement_group);
  option_group results(verb, results_group);
  machine.add_default("--machine", o.machine, "NAME",
                      "Machine to simulate: a name that --machines lists, or this for a model of this "
                      "machine; NAME:no-PART or "
                      "NAME:with-PART: without or with a part of the model");
  machine.add_flag("--machines", o.list_machines, "List the machines that can be simulated, and exit");
  machine.add_list(
      "--threads", o.threads, "N",
      "Numbers of threads, comma-separated; by default 1, a socket's cores, all cores, all hardware threads");
  machine.add_default("--pin", o.pin, "POLICY",
                      "cores (one thread a core, socket by socket), compact (fill each core first) or "
                      "scatter (over sockets)");

  declare_maps(verb, o);
  declare_load(verb, o);

  measurement
      .add_default(
          "--operations", o.operations, "N",
          "Measured operations, of all threads together; a fifth as many run before them to warm the caches")
      ->check(at_least(1));
  declare_seed(verb, o);
  measurement.add(
      "--study", o.study, "NAME",
      "Run a study instead of the maps: atc18, cache, calibration, dps, eunomia, malloc-tsx or oltp; an "
      "unknown name lists them with descriptions");
  measurement.add_list(
      "--figure", o.figures, "ID",
      "Of a study other than malloc-tsx, only these figures, comma-separated; an unknown one lists "
      "them");
  measurement.add_list("--sizes", o.sizes, "BYTES",
                       "Sizes of nodes in bytes, comma-separated; for --study malloc-tsx");
  measurement.add_flag("--calibrate", o.calibrate,
                       "Run the maps on this machine and on its model, and show how far their ratios agree; "
                       "--study calibration compares the models of other machines with what is published");

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
      "  espalier simulate --study calibration --machine e7_4850 --out calibration/\n"
      "Counts are those of a model of the machine's memory and the same in every run; what computation costs "
      "is\n"
      "guessed. Rankings and counts mean something, absolute throughput does not: "
      "docs/simulated-machine.md.");
}

}  // namespace espalier::app
