#include "apps/simulate/transactions.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "apps/simulate/draws.hpp"
#include "apps/simulate/transactions_program.hpp"
#include "sim/simulation/simulation.hpp"

namespace espalier::simulate {
namespace {

constexpr std::uint64_t list_keys = 64;
constexpr std::uint64_t most_read_lines = 1U << 16U;

void check_machine(const sim::machine_spec& machine) {
  if (!machine.transactions)
    throw std::invalid_argument("the machine " + machine.name +
                                " has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have");
}

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

}  // namespace

transactional_measurement measure_transactions(const transactional_request& request) {
  check_machine(request.machine);
  sim::simulation simulated(request.machine, request.threads, request.pinning);
  std::unique_ptr<transactional_program> program;
  simulated.outside_time([&] {
    program = request.structure == transactional_structure::counter ? make_transactional_counter()
                                                                    : make_transactional_list(list_keys);
  });
  std::uint64_t fallbacks = 0;
  std::uint64_t left = request.operations;
  const sim::phase_result measured = simulated.run([&](unsigned thread) {
    draws numbers(request.seed, thread, left);
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
  return {request.operations, fallbacks, measured.transactions, measured.cycles};
}

transactional_limits probe_limits(const sim::machine_spec& machine) {
  check_machine(machine);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the check is above
  const sim::transactional_spec& spec = *machine.transactions;
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

}  // namespace espalier::simulate
