#include "apps/simulate/malloc_tsx.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/simulate/draws.hpp"
#include "espalier/workload/random.hpp"
#include "sim/simulation/simulation.hpp"

namespace espalier::simulate {
namespace {

/// The number of nodes for which each thread has memory beforehand. Threads do not insert and erase equally often.
constexpr std::size_t reserved_nodes = 256;
/// Keys are 32-bit numbers, drawn from twice as many as there are nodes.
constexpr std::uint64_t most_nodes = 1U << 30U;

void check(const malloc_tsx_request& request) {
  const configuration& what = request.what;
  if (!request.machine.transactions)
    throw std::invalid_argument("the machine " + request.machine.name +
                                " has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have");
  if (what.nodes == 0 || request.operations == 0)
    throw std::invalid_argument("nodes and operations are at least 1 each");
  if (what.nodes > most_nodes) throw std::invalid_argument("at most 2^30 nodes are possible");
  if (what.node_bytes < least_node_bytes)
    throw std::invalid_argument("nodes of " + std::to_string(what.node_bytes) + " bytes are too small; " +
                                std::to_string(least_node_bytes) + " is the least");
}

/// 0 to n - 1 in random order (Fisher and Yates).
std::vector<std::uint32_t> shuffled(std::size_t n, workload::random_generator random) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// `count` is at least the number of the program's nodes.
template <class Program>
std::vector<std::uint64_t> loads_of(sim::simulation& simulated, const Program& program, std::size_t count) {
  std::vector<std::uintptr_t> lines;
  // An allocation during the visit would come from the program's heap.
  lines.reserve(count);
  simulated.outside_time([&] {
    program.visit([&](std::uintptr_t address) {
      if (lines.size() < count) lines.push_back(address / sim::line_bytes);
    });
  });
  std::ranges::sort(lines);
  const auto repeated = std::ranges::unique(lines);
  lines.erase(repeated.begin(), repeated.end());
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): check() has asked
  std::vector<std::uint64_t> loads(simulated.spec().transactions->write_sets);
  for (const std::uintptr_t line : lines) ++loads[line % loads.size()];
  return loads;
}

template <class Program>
section_counts ends_of(sim::simulation& simulated, const Program& program) {
  section_counts ends;
  simulated.outside_time([&] { ends = program.sections(); });
  return ends;
}

/// Runs the phase that warms up, then the one that counts.
template <class Program, class Phase>
malloc_tsx_measurement measured(sim::simulation& simulated, const Program& program, std::uint64_t sections,
                                Phase&& phase) {
  static_cast<void>(phase(sections / 5 + 1, 0));
  const section_counts before = ends_of(simulated, program);
  const sim::phase_result result = phase(sections, 1);
  malloc_tsx_measurement m;
  m.sections = sections;
  m.threads = simulated.threads();
  m.ends = ends_of(simulated, program) - before;
  m.transactions = result.transactions;
  m.total = result.total();
  m.cycles = result.cycles;
  return m;
}

malloc_tsx_measurement measure_ring(const malloc_tsx_request& request) {
  const configuration& what = request.what;
  const std::vector<std::uint32_t> order = shuffled(what.nodes, workload::random_generator(request.seed));
  sim::simulation simulated(request.machine, 1);
  simulated.give_huge_pages(false);
  std::unique_ptr<ring_program> program;
  // On a thread, so that the blocks belong to it.
  simulated.without_time(
      [&](unsigned) { program = make_ring(what.from, what.policy, what.node_bytes, order); });
  malloc_tsx_measurement m = measured(simulated, *program, (request.operations + what.nodes - 1) / what.nodes,
                                      [&](std::uint64_t traversals, std::uint64_t) {
                                        return simulated.run([&](unsigned) {
                                          for (std::uint64_t left = traversals; left != 0; --left)
                                            program->traverse();
                                        });
                                      });
  m.loads = loads_of(simulated, *program, what.nodes);
  bool right = false;
  simulated.outside_time([&] {
    right = program->written() == what.nodes;
    program.reset();
  });
  if (!right) throw std::logic_error("a traversal of the simulated ring has left nodes out");
  return m;
}

malloc_tsx_measurement measure_tree(const malloc_tsx_request& request) {
  const configuration& what = request.what;
  const auto range = static_cast<std::uint32_t>(2 * (what.nodes + 1));
  const std::vector<std::uint32_t> keys =
      shuffled(range, workload::random_generator(request.seed, 1U << 16U));
  sim::simulation simulated(request.machine, request.threads, request.pinning);
  simulated.give_huge_pages(false);
  std::unique_ptr<tree_program> program;
  const node_made when = what.program == benchmark::tree ? node_made::before_search : node_made::after_search;
  simulated.outside_time([&] { program = make_tree(what.from, what.policy, what.node_bytes, when); });
  simulated.without_time([&](unsigned thread) {
    if (thread == 0) {
      for (std::uint64_t i = 0; i < what.nodes; ++i) program->add(keys[i]);
    }
    program->reserve(reserved_nodes);
  });
  auto size = static_cast<std::int64_t>(what.nodes);
  malloc_tsx_measurement m =
      measured(simulated, *program, request.operations, [&](std::uint64_t operations, std::uint64_t salt) {
        std::uint64_t left = operations;
        return simulated.run([&](unsigned thread) {
          draws numbers(request.seed + salt, thread, left);
          std::int64_t grown = 0;
          for (std::uint64_t n = 0; numbers.next(n);) grown += program->operate(n, range);
          size += grown;
        });
      });
  m.loads = loads_of(simulated, *program, static_cast<std::size_t>(size));
  const char* wrong = nullptr;
  simulated.outside_time([&] {
    wrong = program->check_invariants();
    if (wrong == nullptr && static_cast<std::int64_t>(program->size()) != size)
      wrong = "the number of nodes is not that of the keys inserted and not erased";
    program.reset();
  });
  if (wrong != nullptr) throw std::logic_error(std::string("the simulated tree came out wrong: ") + wrong);
  return m;
}

}  // namespace

malloc_tsx_measurement measure(const malloc_tsx_request& request) {
  check(request);
  return request.what.program == benchmark::ring ? measure_ring(request) : measure_tree(request);
}

}  // namespace espalier::simulate
