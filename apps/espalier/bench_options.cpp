#include "bench_options.hpp"

namespace espalier::app {

void declare(CLI::App& verb, bench_options& o) {
  verb.add_flag(
      "--quick", o.quick,
      "The main job: every map, three workloads and one on real keys, to out/, in under two minutes");

  const auto what = "Which maps";
  verb.add_option("--maps", o.maps, "Maps, comma-separated: names that `espalier list` shows, all, or every")
      ->delimiter(',')
      ->type_name("NAMES")
      ->group(what);
  verb.add_option("--placement", o.placements, "Take the maps with these placements; or all")
      ->delimiter(',')
      ->type_name("NAMES")
      ->group(what);
  verb.add_flag("--peers", o.peers, "Also the maps of other libraries that this program was built with")
      ->group(what);

  const auto load = "Workload";
  verb.add_option("--mix", o.mixes,
                  "LOOKUP/INSERT/ERASE in percent (90/5/5), or ycsb-a to ycsb-f; may be repeated")
      ->type_name("MIX")
      ->group(load);
  verb.add_option(
          "--distribution", o.distribution,
          "uniform, zipfian:0.99, scrambled-zipfian:0.99, latest:0.99, hotspot:0.2,0.8, normal:0.125, "
          "self-similar:0.2, poisson:0.5, sequential; by default what the mix prescribes, else uniform")
      ->type_name("NAME[:PARAMETERS]")
      ->group(load);
  verb.add_option("--keys", o.keys, "Keys present at the start; operations name twice as many")
      ->capture_default_str()
      ->type_name("N")
      ->group(load);
  verb.add_option("--order", o.order, "scrambled (over all 64-bit numbers) or sequential keys")
      ->capture_default_str()
      ->type_name("ORDER")
      ->group(load);
  verb.add_option(
          "--keys-from", o.keys_from,
          "Keys from a file: one integer a line, or little-endian 64-bit words; half of them are loaded")
      ->type_name("FILE")
      ->group(load);
  verb.add_option("--trace", o.trace,
                  "Replay a file of operations (lookup KEY, insert KEY VALUE, assign KEY VALUE, erase KEY, "
                  "scan KEY COUNT; one a line) on a map that starts empty, or with --keys")
      ->type_name("FILE")
      ->group(load);
  verb.add_option("--record", o.record, "Write the operations of the first run to a file that --trace reads")
      ->type_name("FILE")
      ->group(load);

  const auto measure = "Measurement";
  verb.add_option("--threads", o.threads,
                  "Numbers of threads, comma-separated; by default one per core, at most 16")
      ->delimiter(',')
      ->type_name("N")
      ->group(measure);
  verb.add_option("--runs", o.runs, "Runs of each map; medians are reported")
      ->capture_default_str()
      ->type_name("N")
      ->group(measure);
  verb.add_option("--time", o.seconds, "Seconds of each run")
      ->capture_default_str()
      ->type_name("S")
      ->group(measure);
  verb.add_option("--operations", o.operations, "Operations of each run, instead of a time")
      ->type_name("N")
      ->group(measure);
  verb.add_option("--pin", o.pin, "cores (one thread a core first), scatter (over packages) or none")
      ->capture_default_str()
      ->type_name("POLICY")
      ->group(measure);
  verb.add_option("--seed", o.seed, "Of all random numbers")
      ->capture_default_str()
      ->type_name("N")
      ->group(measure);
  verb.add_option("--latency-every", o.latency_every,
                  "Time every N-th operation in a run of its own; 0 for no such run")
      ->capture_default_str()
      ->type_name("N")
      ->group(measure);
  verb.add_flag("--no-leak-check", o.no_leak_check, "Do not walk the maps at the end to count lost blocks")
      ->group(measure);

  const auto results = "Results";
  verb.add_option("--out", o.out, "Folder for results.json, results.csv and report.html (out with --quick)")
      ->type_name("FOLDER")
      ->group(results);
  verb.add_option("--json", o.json, "Results in Google Benchmark's JSON")->type_name("FILE")->group(results);
  verb.add_option("--csv", o.csv, "Medians and spread")->type_name("FILE")->group(results);
  verb.add_option("--report", o.report, "One HTML page with plots")->type_name("FILE")->group(results);
  verb.add_option("--hgrm", o.hgrm, "Folder for latency distributions in HdrHistogram's format")
      ->type_name("FOLDER")
      ->group(results);

  verb.footer(
      "Examples:\n"
      "  espalier bench --quick\n"
      "  espalier bench --maps ticket,edge_ext_lf --keys 10000000 --mix 50/25/25 --peers --runs 7\n"
      "  espalier bench --maps all --mix ycsb-a --mix ycsb-e --threads 1,2,4 --out results/\n"
      "Other programs disturb a measurement; compare only maps of one invocation, whose runs alternate.");
}

}  // namespace espalier::app
