#include "bench_options.hpp"

namespace espalier::app {

void declare(CLI::App& verb, bench_options& o) {
  verb.add_flag(
      "--quick", o.quick,
      "The main job: every map, three workloads and one on real keys, to out/, in under two minutes");

  declare_maps(verb, o);
  verb.add_flag("--peers", o.peers, "Also the maps of other libraries that this program was built with")
      ->group(maps_group);

  declare_load(verb, o);
  verb.add_option("--trace", o.trace,
                  "Replay a file of operations (lookup KEY, insert KEY VALUE, assign KEY VALUE, erase KEY, "
                  "scan KEY COUNT; one a line) on a map that starts empty, or with --keys")
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
      "Other programs disturb a measurement; compare only maps of one invocation, whose runs alternate.");
}

}  // namespace espalier::app
