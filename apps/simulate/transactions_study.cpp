#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/study.hpp"
#include "apps/simulate/transactions.hpp"
#include "espalier/hw/output_file.hpp"

// A counter and a list under elided locks, and how much fits one transaction.

namespace espalier::simulate {
namespace {

struct row {
  const char* structure;
  unsigned threads;
  transactional_measurement measured;
};

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void print(const study_options& o, const transactional_limits& limits, const std::vector<row>& rows) {
  using app::table;
  const auto right = table::align::right;
  const bool colour = app::wants_colour(STDOUT_FILENO);
  std::printf(
      "%s\n",
      app::bold(fmt::format("SIMULATED on {}: hardware transactions", o.places.front().machine.name), colour)
          .c_str());
  std::printf(
      "fits one transaction: %llu lines written one behind the other, %llu in one set, %llu read%s\n"
      "one line more: %s; memory after the aborted ones: %s\n\n",
      static_cast<unsigned long long>(limits.written_lines),
      static_cast<unsigned long long>(limits.written_in_one_set),
      static_cast<unsigned long long>(limits.read_lines),
      limits.read_lines == limits.read_lines_tried ? " (no more were tried)" : "",
      hw::to_string(limits.beyond).c_str(), limits.leaves_no_trace ? "as before them" : "CHANGED");
  table t({"structure", "threads", "committed", "by the\nlock", "true\nconflict", "false\nconflict",
           "meta-\ndata", "capacity", "explicit", "other", "simulated\nM/s"},
          {table::align::left, right, right, right, right, right, right, right, right, right, right});
  for (const row& r : rows) {
    const transactional_measurement& m = r.measured;
    std::vector<std::string> cells{r.structure, fmt::format("{}", r.threads),
                                   fmt::format("{:.3f}", share(m.transactions.committed, m.operations)),
                                   fmt::format("{:.3f}", share(m.fallbacks, m.operations))};
    for (const sim::abort_reason reason : sim::abort_reasons)
      cells.push_back(fmt::format("{:.3f}", share(m.transactions.of(reason), m.operations)));
    cells.push_back(fmt::format("{:.2f}", static_cast<double>(m.operations) / static_cast<double>(m.cycles) *
                                              o.places.front().machine.ghz * 1e3));
    t.add(std::move(cells));
  }
  std::printf(
      "%s\nAll but the last column are per operation; the six before it are aborts by their reason.\n",
      t.text(colour).c_str());
}

std::string json_of(const study_options& o, const transactional_limits& limits,
                    const std::vector<row>& rows) {
  nlohmann::ordered_json all = study_document(o, o.places.front().machine, "transactions");
  all["limits"] = {{"written_lines", limits.written_lines}, {"written_in_one_set", limits.written_in_one_set},
                   {"read_lines", limits.read_lines},       {"beyond", hw::to_string(limits.beyond)},
                   {"beyond_word", limits.beyond.word()},   {"leaves_no_trace", limits.leaves_no_trace}};
  for (const row& r : rows) {
    const transactional_measurement& m = r.measured;
    nlohmann::ordered_json one = study_entry(fmt::format("{}/threads:{}", r.structure, r.threads), r.threads,
                                             m.operations, m.cycles, o.places.front().machine.ghz);
    one["begun"] = m.transactions.begun;
    one["committed"] = m.transactions.committed;
    one["fallbacks"] = m.fallbacks;
    for (const sim::abort_reason reason : sim::abort_reasons)
      one["aborts"][std::string(sim::to_string(reason))] = m.transactions.of(reason);
    all["benchmarks"].push_back(std::move(one));
  }
  return all.dump(1) + "\n";
}

int run(const study_options& o) {
  std::optional<hw::output_file> json = app::open_output(o.json);
  const transactional_limits limits = probe_limits(o.places.front().machine);
  std::vector<row> rows;
  for (const unsigned threads : o.places.front().threads) {
    if (app::interruption::requested()) break;
    const auto measure = [&](const char* name, transactional_structure structure) {
      rows.push_back({name, threads,
                      measure_transactions({.machine = o.places.front().machine,
                                            .threads = threads,
                                            .pinning = o.pinning,
                                            .structure = structure,
                                            .operations = o.operations,
                                            .seed = o.seed})});
    };
    measure("counter", transactional_structure::counter);
    measure("list", transactional_structure::list);
  }
  print(o, limits, rows);
  if (json) json->commit(json_of(o, limits, rows));
  return 0;
}

const registered_study transactions{{"transactions",
                                     "a counter and a list under elided locks, and what fits one transaction",
                                     {"--machine", "--threads", "--pin", "--operations", "--seed", "--json"},
                                     {},
                                     run}};

}  // namespace
}  // namespace espalier::simulate
