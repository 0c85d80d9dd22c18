#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/draws.hpp"
#include "apps/studies/transactions/program.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/io/output_file.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/simulation/simulation.hpp"
#include "sim/transactions/transaction_counts.hpp"

// A counter and a list under elided locks, and how much fits one transaction.

namespace espalier::simulate {
namespace {

// One measurement -----------------------------------------------------------------------------------------------------

struct transactional_measurement : counted_phase {
  std::uint64_t fallbacks;
};

/// How much fits one transaction, found by trials, and the abort status if it does not fit.
struct transactional_limits {
  std::uint64_t written_lines;  // consecutive
  std::uint64_t written_in_one_set;
  std::uint64_t read_lines;  // up to the number tried
  std::uint64_t read_lines_tried;
  hw::abort_status beyond;  // of the smallest write set that does not fit
  bool leaves_no_trace;     // true of all that aborted
};

constexpr std::uint64_t list_keys = 64;
constexpr std::uint64_t most_read_lines = 1U << 16U;

/// The largest n in [1, most] for which fits(n) holds. fits(1) must hold, and fits must be monotonic.
template <class Fits>
std::uint64_t largest(std::uint64_t most, Fits&& fits) {
  std::uint64_t low = 1;
  std::uint64_t high = most + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Throws std::logic_error if the structure is wrong at the end.
transactional_measurement measure_transactions(const study_options& o, unsigned threads,
                                               std::unique_ptr<transactional_program> (*make)()) {
  sim::simulation simulated(o.places.front().machine, threads, o.pinning);
  std::unique_ptr<transactional_program> program;
  simulated.outside_time([&] { program = make(); });
  std::uint64_t fallbacks = 0;
  std::uint64_t left = o.operations;
  const sim::phase_result measured = simulated.run([&](unsigned thread) {
    draws numbers(o.seed, thread, left);
    for (std::uint64_t n = 0; numbers.next(n);) {
      if (program->operate(n)) ++fallbacks;
    }
  });
  bool right = false;
  simulated.outside_time([&] {
    right = program->found() == program->expected();
    program.reset();
  });
  if (!right) throw std::logic_error("a simulated transactional structure came out wrong");
  return {counted(measured, o.operations, o.places.front().machine.ghz), fallbacks};
}

transactional_limits probe_limits(const sim::machine_spec& machine) {
  const sim::transactional_spec& spec = transactions_of(machine);
  sim::simulation simulated(machine, 1);
  const std::uint64_t lines_of_writes = std::uint64_t{spec.write_sets} * spec.write_ways;
  const std::uint64_t most_lines =
      std::max(most_read_lines, std::uint64_t{spec.write_sets} * (spec.write_ways + 2));
  std::unique_ptr<transactional_lines> memory;
  simulated.outside_time([&] { memory = make_transactional_lines(most_lines); });

  transactional_limits found{};
  found.leaves_no_trace = true;
  static_cast<void>(simulated.run([&](unsigned) {
    const auto note = [&](const hw::transaction_outcome& outcome) {
      if (!outcome.committed) {
        found.beyond = outcome.status;
        found.leaves_no_trace = found.leaves_no_trace && memory->is_untouched();
      }
      return outcome.committed;
    };
    found.read_lines_tried = most_lines;
    found.read_lines = largest(most_lines, [&](std::uint64_t n) { return note(memory->read(n)); });
    found.written_in_one_set = largest(
        spec.write_ways + 1, [&](std::uint64_t n) { return note(memory->write(n, spec.write_sets)); });
    found.written_lines = largest(std::min(2 * lines_of_writes, most_lines - 1),
                                  [&](std::uint64_t n) { return note(memory->write(n, 1)); });
    static_cast<void>(note(memory->write(found.written_lines + 1, 1)));
  }));
  simulated.outside_time([&] { memory.reset(); });
  return found;
}

// The study -----------------------------------------------------------------------------------------------------------

struct row {
  const char* structure;
  unsigned threads;
  transactional_measurement measured;
};

void print(const study_options& o, const transactional_limits& limits, const std::vector<row>& rows) {
  using app::table;
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
           "meta-\ndata", "capacity", "explicit", "other", "simulated\nM/s"});
  for (const row& r : rows) {
    const transactional_measurement& m = r.measured;
    std::vector<std::string> cells{r.structure, fmt::format("{}", r.threads),
                                   fmt::format("{:.3f}", m.per_operation(m.transactions.committed)),
                                   fmt::format("{:.3f}", m.per_operation(m.fallbacks))};
    for (const sim::abort_reason reason : sim::abort_reasons)
      cells.push_back(fmt::format("{:.3f}", m.per_operation(m.transactions.of(reason))));
    cells.push_back(fmt::format("{:.2f}", m.operations_per_second() / 1e6));
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
    nlohmann::ordered_json one =
        study_entry(fmt::format("{}/threads:{}", r.structure, r.threads), r.threads, m);
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
  std::optional<io::output_file> json = app::open_output(o.json);
  const transactional_limits limits = probe_limits(o.places.front().machine);
  std::vector<row> rows;
  for (const unsigned threads : o.places.front().threads) {
    if (app::interruption::requested()) break;
    rows.push_back({"counter", threads, measure_transactions(o, threads, make_transactional_counter)});
    rows.push_back({"list", threads,
                    measure_transactions(o, threads, [] { return make_transactional_list(list_keys); })});
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
