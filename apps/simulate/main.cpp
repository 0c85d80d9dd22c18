#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <sstream>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/options.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/calibration.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "espalier/workload/session.hpp"
#include "sim/machine/presets.hpp"

namespace espalier::simulate {
namespace {

using app::simulate_options;
using app::usage_error;

/// For a map and the machine's data on its lines: no map needs more.
constexpr double most_simulated_bytes_per_key = 1024;

sim::machine_spec machine_named(const std::string& name) {
  if (name == "this") return sim::this_machine(hw::topology::system());
  std::string known;
  for (const sim::machine_spec& m : sim::presets()) {
    if (m.name == name) return m;
    known += m.name + ", ";
  }
  throw usage_error(fmt::format("--machine {} is unknown; there are {}and this", name, known));
}

/// "e7_4850", or with and without parts of the model: "e7_4850:no-window:no-links".
sim::machine_spec chosen_machine(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  std::getline(words, word, ':');
  sim::machine_spec machine = machine_named(word);
  while (std::getline(words, word, ':')) {
    std::string known;
    bool found = false;
    for (const sim::model_part& part : sim::model_parts()) {
      bool* const has = part.of(machine);
      if (has == nullptr) continue;
      const std::string change = fmt::format("{}-{}", *has ? "no" : "with", part.name);
      known += (known.empty() ? "" : ", ") + change;
      if (word != change) continue;
      found = true;
      *has = !*has;
      machine.name += ":" + word;
      machine.description +=
          fmt::format(" {}: {}.", *has ? "With this part" : "Without this part", part.what);
      break;
    }
    if (!found)
      throw usage_error(fmt::format("--machine {}: {} cannot be simulated with '{}', but with {}", text,
                                    machine.name, word, known));
  }
  return machine;
}

std::vector<unsigned> chosen_threads(const simulate_options& o, const sim::machine_spec& machine) {
  std::vector<unsigned> threads;
  if (o.threads.empty()) {
    const unsigned most = o.calibrate ? machine.cores() : machine.hardware_threads();
    std::set<unsigned> steps{1, machine.cores_per_socket, machine.cores(), most};
    threads.assign(steps.begin(), steps.upper_bound(most));
    return threads;
  }
  const std::int64_t most = o.calibrate ? machine.cores() : machine.hardware_threads();
  for (const std::int64_t n : o.threads) {
    if (n < 1 || n > most)
      throw usage_error(fmt::format("--threads {} is out of range; from 1 to {} is possible {}", n, most,
                                    o.calibrate ? "with --calibrate here" : "on " + machine.name));
    threads.push_back(static_cast<unsigned>(n));
  }
  return app::without_repeats(std::move(threads));
}

sim::pinning chosen_pinning(const std::string& name) {
  if (name == "cores") return sim::pinning::smt_last;
  if (name == "compact") return sim::pinning::compact;
  if (name == "scatter") return sim::pinning::scatter;
  throw usage_error(fmt::format("--pin {} is unknown; it is cores, compact or scatter", name));
}

/// The maps that can run the plan; reports the reason for the others.
std::vector<simulated_entry> able_maps(const std::vector<simulated_entry>& maps,
                                       const workload::workload_plan& plan, app::progress_line& line) {
  std::vector<simulated_entry> able;
  for (const simulated_entry& map : maps) {
    const std::string why = map.facts.cannot_run(plan);
    if (why.empty()) {
      able.push_back(map);
      continue;
    }
    line.clear();
    std::fprintf(stderr, "%s: %s is left out: %s\n", plan.name.c_str(), map.facts.name.c_str(), why.c_str());
  }
  return able;
}

std::vector<simulated_measurement> run_maps(const simulation_request& request, table_width width) {
  app::progress_line line;
  const bool colour = app::wants_colour(STDOUT_FILENO);
  std::vector<simulated_measurement> all;
  const std::size_t each = request.threads.size() * request.maps.size();
  for (std::size_t i = 0; i < request.plans.size() && !app::interruption::requested(); ++i) {
    simulation_request part = request;
    part.plans = {request.plans[i]};
    part.maps = able_maps(request.maps, *request.plans[i], line);
    if (part.maps.empty()) continue;
    const auto group = run_simulation(part, [&](std::size_t done, std::size_t, const std::string& what) {
      line.step(i * each + done, request.plans.size() * each, "simulating " + what);
    });
    line.clear();
    if (group.empty()) continue;
    std::printf("%s\n", measurement_table(request.machine, group, width, colour).c_str());
    std::fflush(stdout);
    all.insert(all.end(), group.begin(), group.end());
  }
  if (all.empty() && !app::interruption::requested())
    throw usage_error("none of the maps can run this workload; see the reasons above");
  return all;
}

int run_study(const simulate_options& o, const CLI::App& parser) {
  const study& chosen = app::find_study<study>(o.study);
  std::vector<std::string> taken = chosen.options;
  taken.emplace_back("--study");
  app::only_options(parser, "--study " + chosen.name, taken);
  study_options s;
  s.given = [&parser](const char* option) { return parser.count(option) != 0; };
  const bool own_machines = !chosen.machines.empty() && !s.given("--machine");
  for (const std::string& name : own_machines ? chosen.machines : std::vector<std::string>{o.machine}) {
    const sim::machine_spec machine = chosen_machine(name);
    s.places.push_back({machine, chosen_threads(o, machine)});
  }
  s.pinning = chosen_pinning(o.pin);
  s.pin = o.pin;
  s.operations = static_cast<std::uint64_t>(o.operations);
  s.keys = o.keys;
  s.sizes = o.sizes;
  s.maps = o.maps;
  s.figures = o.figures;
  if (s.given("--keys")) workload::check_room(o.keys, most_simulated_bytes_per_key);
  s.seed = o.seed;
  s.json = o.json;
  s.out = o.out;
  const app::interruption interrupts;
  const int status = chosen.run(s);
  return status != 0 ? status : app::interruption::status();
}

int run(simulate_options o, const CLI::App& parser) {
  if (o.list_machines) {
    app::only_options(parser, "--machines", {"--machines"});
    std::fputs(machine_list().c_str(), stdout);
    return app::exit_done;
  }
  // All invalid requests are detected before the first operation.
  if (!o.study.empty()) return run_study(o, parser);
  app::check_effects(parser, {{{"--sizes"}, {"--study=malloc-tsx"}, {}},
                              {{"--figure"}, {"--study"}, {}},
                              {{"--machine", "--pin"}, {}, {"--calibrate"}},
                              {{"--keys", "--order"}, {}, {"--keys-from"}},
                              {{"--report"}, {"--json", "--out"}, {}}});
  o.complete();
  simulation_request request;
  request.machine = chosen_machine(o.calibrate ? "this" : o.machine);
  request.threads = chosen_threads(o, request.machine);
  request.pinning = chosen_pinning(o.pin);
  request.operations = static_cast<std::uint64_t>(o.operations);
  request.seed = o.seed;
  request.interrupted = &app::interruption::requested();
  request.maps = app::choose_maps(simulated_catalog(), o.map_names());
  if (o.calibrate && request.maps.size() < 2)
    throw usage_error("--calibrate compares maps with the first one; name at least two");
  request.plans = app::plans_of_mixes(app::plan_with_keys(o), o.mixes);
  std::vector<std::string> left_out;
  for (const auto& plan : request.plans) {
    if (plan->mix.into_empty) throw usage_error("--mix load is not simulated; espalier bench has it");
    workload::check_room(plan->loaded, most_simulated_bytes_per_key);
    std::ranges::copy(app::leave_out_lists(request.maps, o.map_names(), plan->loaded),
                      std::back_inserter(left_out));
  }
  app::result_files files = app::open_results(o);
  app::say_left_out(left_out, "--keys");

  const app::interruption interrupts;
  const auto all = run_maps(request, o.wide ? table_width::wide : table_width::narrow);
  const int status = app::interruption::status();
  if (all.empty()) return status;
  std::vector<calibrated_ratio> ratios;
  if (o.calibrate && status == 0) {
    ratios = calibrate(o, all);
    std::printf("%s\n", calibration_table(ratios, app::wants_colour(STDOUT_FILENO)).c_str());
  }
  std::printf("%s\n", trust);
  const measure::run_context context = measure::gather_context(o.seed, o.pin, status != 0);
  const std::string results = to_json(context, request.machine, all, ratios);
  if (files.json) files.json->commit(results);
  if (files.csv) files.csv->commit(to_csv(request.machine, all));
  if (files.report) app::write_report(results, files.json, *files.report);
  app::print_written({o.json, o.csv, o.report});
  return status;
}

}  // namespace
}  // namespace espalier::simulate

int main(int argc, char** argv) {
  using namespace espalier;
  CLI::App parser(app::simulate_description, "espalier simulate");
  parser.failure_message(CLI::FailureMessage::simple);
  app::simulate_options options;
  declare(parser, options);
  int status = app::exit_done;
  parser.callback([&] { status = simulate::run(options, parser); });
  const int parsed = app::run_parser(parser, argc, argv);
  return parsed == app::exit_done ? status : parsed;
}
