#include "apps/common/simulate_options.hpp"

#include <CLI/CLI.hpp>

namespace espalier::app {

void declare(CLI::App& verb, simulate_options& o) {
  const auto machine = "Simulated machine";
  verb.add_option("--machine", o.machine,
                  "One of those that --machines lists; this is one in the shape of this machine")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(machine);
  verb.add_flag("--machines", o.list_machines, "List the machines that can be simulated, and end")
      ->group(machine);
  verb.add_option("--threads", o.threads,
                  "Numbers of threads, comma-separated; by default 1, a socket's cores, all cores, all "
                  "hardware threads")
      ->delimiter(',')
      ->type_name("N")
      ->group(machine);
  verb.add_option("--pin", o.pin,
                  "cores (one thread a core, socket by socket), compact (fill each core first) or scatter "
                  "(over sockets)")
      ->capture_default_str()
      ->type_name("POLICY")
      ->group(machine);

  declare_maps(verb, o);
  declare_load(verb, o);

  verb.add_option("--operations", o.operations,
                  "Operations counted, of all threads together; before them a fifth as many warm the caches")
      ->capture_default_str()
      ->type_name("N")
      ->group(measurement_group);
  declare_seed(verb, o);
  verb.add_option("--study", o.study,
                  "Run a study instead of the maps: atc18, malloc-tsx, objects or transactions; a wrong name "
                  "says what "
                  "they are")
      ->type_name("NAME")
      ->group(measurement_group);
  verb.add_option("--sizes", o.sizes, "Sizes of nodes in bytes, comma-separated; for --study malloc-tsx")
      ->delimiter(',')
      ->type_name("BYTES")
      ->group(measurement_group);
  verb.add_flag("--calibrate", o.calibrate,
                "Run the maps on this machine and on its simulated likeness; show how far their ratios agree")
      ->group(measurement_group);

  verb.add_option("--out", o.out, "Folder for results.json, results.csv and report.html")
      ->type_name("FOLDER")
      ->group(results_group);
  declare_results(verb, o);
  verb.add_flag("--wide", o.wide, "Show every count in the table, however wide it becomes")
      ->group(results_group);

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
