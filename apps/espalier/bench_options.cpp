#include "bench_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "apps/common/usage_error.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/hw/topology.hpp"
#include "mallocs.hpp"

namespace espalier::app {
namespace {

std::vector<unsigned> checked_threads(const std::vector<std::int64_t>& asked) {
  if (asked.empty()) {
    const std::size_t cores = std::max<std::size_t>(hw::topology::system().cores().size(), 1);
    return {static_cast<unsigned>(std::min<std::size_t>(cores, 16))};
  }
  std::vector<unsigned> threads;
  for (const std::int64_t n : asked) {
    const std::int64_t most = hw::max_thread_slots - 16;  // some belong to the program itself
    if (n < 1 || n > most)
      throw usage_error(fmt::format("--threads {} is out of range; from 1 to {} is possible", n, most));
    threads.push_back(static_cast<unsigned>(n));
  }
  return threads;
}

hw::pin_policy checked_pin(const std::string& name) {
  if (name == "cores") return hw::pin_policy::cores;
  if (name == "scatter") return hw::pin_policy::scatter;
  if (name == "none") return hw::pin_policy::none;
  throw usage_error(fmt::format("--pin {} is unknown; it is cores, scatter or none", name));
}

}  // namespace

void declare(CLI::App& verb, bench_options& o) {
  verb.add_flag(
      "--quick", o.quick,
      "The main job: every map, three workloads and one on real keys, to out/, in under two minutes");

  verb.add_option(
          "--study", o.study,
          "Run a study in place of maps and workloads, with what its paper found beside what is found here, "
          "and --out for its pages: atc18, the trees, with --keys K for one number of keys; malloc-tsx, "
          "where mallocs place blocks, and what that does to elided locks; malloc-speed, what they cost")
      ->type_name("NAME");
  verb.add_option("--mallocs", o.mallocs,
                  fmt::format("Mallocs of the studies malloc-tsx and malloc-speed, comma-separated: {}; by "
                              "default all there are",
                              fmt::join(malloc_names(), ", ")))
      ->delimiter(',')
      ->type_name("NAME");
  verb.add_option("--sizes", o.sizes,
                  "Sizes of nodes of malloc-tsx in bytes, comma-separated, in place of 128 up to 4096")
      ->delimiter(',')
      ->type_name("BYTES");

  declare_maps(verb, o);
  verb.add_flag("--peers", o.peers, "Also the maps of other libraries that this program was built with")
      ->group(maps_group);

  declare_load(verb, o);
  verb.add_option(
          "--trace", o.trace,
          "Replay a file of operations (lookup KEY, insert KEY VALUE, assign KEY VALUE, erase KEY, "
          "exchange KEY VALUE, extract KEY, add KEY AMOUNT, scan KEY COUNT; one a line) on a map that starts "
          "empty, or with --keys")
      ->type_name("FILE")
      ->group(load_group);
  verb.add_option("--record", o.record, "Write the operations of the first run to a file that --trace reads")
      ->type_name("FILE")
      ->group(load_group);

  verb.add_option("--threads", o.threads,
                  "Numbers of threads, comma-separated; by default one per core, at most 16")
      ->delimiter(',')
      ->type_name("N")
      ->group(measurement_group);
  verb.add_option("--runs", o.runs, "Runs of each map; medians are reported")
      ->capture_default_str()
      ->type_name("N")
      ->group(measurement_group);
  verb.add_option("--time", o.seconds, "Seconds of each run")
      ->capture_default_str()
      ->type_name("S")
      ->group(measurement_group);
  verb.add_option("--operations", o.operations, "Operations of each run, instead of a time")
      ->type_name("N")
      ->group(measurement_group);
  verb.add_option("--pin", o.pin, "cores (one thread a core first), scatter (over packages) or none")
      ->capture_default_str()
      ->type_name("POLICY")
      ->group(measurement_group);
  declare_seed(verb, o);
  verb.add_option("--latency-every", o.latency_every,
                  "Time every N-th operation in a run of its own; 0 for no such run")
      ->capture_default_str()
      ->type_name("N")
      ->group(measurement_group);
  verb.add_flag("--no-leak-check", o.no_leak_check, "Do not walk the maps at the end to count lost blocks")
      ->group(measurement_group);

  verb.add_option("--out", o.out, "Folder for results.json, results.csv and report.html (out with --quick)")
      ->type_name("FOLDER")
      ->group(results_group);
  declare_results(verb, o);
  verb.add_option("--hgrm", o.hgrm, "Folder for latency distributions in HdrHistogram's format")
      ->type_name("FOLDER")
      ->group(results_group);

  verb.footer(
      "Examples:\n"
      "  espalier bench --quick\n"
      "  espalier bench --maps ticket,edge_ext_lf --keys 10000000 --mix 50/25/25 --peers --runs 7\n"
      "  espalier bench --maps all --mix ycsb-a --mix ycsb-e --threads 1,2,4 --out results/\n"
      "  espalier bench --study atc18 --keys 1000000 --out atc18/\n"
      "  espalier bench --study malloc-tsx --out malloc-tsx/\n"
      "  espalier bench --study malloc-speed --mallocs glibc,mimalloc,index-aware\n"
      "Other programs disturb a measurement; compare only maps of one invocation, whose runs alternate.");
}

workload::session_request measurement_of(const bench_options& o) {
  at_least(o.runs, 1, "--runs");
  at_least(o.latency_every, 0, "--latency-every");
  at_least(o.operations, 0, "--operations");
  if (!(o.seconds > 0) || o.seconds > 86400)
    throw usage_error(
        fmt::format("--time {} is out of range; seconds above 0 and up to 86400 are possible", o.seconds));
  workload::session_request s;
  s.threads = checked_threads(o.threads);
  s.pinning = checked_pin(o.pin);
  s.runs = static_cast<unsigned>(o.runs);
  s.time = std::chrono::nanoseconds(std::llround(o.seconds * 1e9));
  if (o.operations > 0) s.operations = static_cast<std::uint64_t>(o.operations);
  s.seed = o.seed;
  s.latency_every = static_cast<unsigned>(o.latency_every);
  s.check_leaks = !o.no_leak_check;
  return s;
}

}  // namespace espalier::app
