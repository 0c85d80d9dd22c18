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

/// Nodes of which each thread has the memory beforehand. Threads do not insert and erase quite as much as each other.
constexpr std::size_t reserved_nodes = 256;

void check(const sim::machine_spec& machine, std::size_t nodes, std::size_t node_bytes,
           std::uint64_t operations) {
  if (!machine.transactions)
    throw std::invalid_argument("the machine " + machine.name +
                                " has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have");
  if (nodes == 0 || operations == 0) throw std::invalid_argument("nodes and operations are at least 1 each");
  if (node_bytes < least_node_bytes)
    throw std::invalid_argument("nodes of " + std::to_string(node_bytes) + " bytes are too small; " +
                                std::to_string(least_node_bytes) + " is the least");
}

/// 0 to n - 1 in any order (Fisher and Yates).
std::vector<std::uint32_t> shuffled(std::size_t n, workload::random_generator random) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// `count` is of the program's nodes, or more.
template <class Program>
index_load load_of(sim::simulation& simulated, const Program& program, std::size_t count) {
  std::vector<std::uintptr_t> lines;
  // What is allocated while the program is visited would be the program's.
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
  index_load found;
  for (const std::uint64_t load : loads) {
    found.most = std::max(found.most, load);
    ++found.indices[load];
  }
  return found;
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

}  // namespace

malloc_tsx_measurement measure_ring(const ring_request& request) {
  check(request.machine, request.nodes, request.node_bytes, request.visits);
  const std::vector<std::uint32_t> order = shuffled(request.nodes, workload::random_generator(request.seed));
  sim::simulation simulated(request.machine, 1);
  simulated.give_huge_pages(false);
  std::unique_ptr<ring_program> program;
  // On a thread, so that its are the blocks.
  simulated.without_time(
      [&](unsigned) { program = make_ring(request.from, request.policy, request.node_bytes, order); });
  malloc_tsx_measurement m =
      measured(simulated, *program, (request.visits + request.nodes - 1) / request.nodes,
               [&](std::uint64_t traversals, std::uint64_t) {
                 return simulated.run([&](unsigned) {
                   for (std::uint64_t left = traversals; left != 0; --left) program->traverse();
                 });
               });
  m.load = load_of(simulated, *program, request.nodes);
  bool right = false;
  simulated.outside_time([&] {
    right = program->written() == request.nodes;
    program.reset();
  });
  if (!right) throw std::logic_error("a traversal of the simulated ring has left nodes out");
  return m;
}

malloc_tsx_measurement measure_tree(const tree_request& request) {
  check(request.machine, request.keys, request.node_bytes, request.operations);
  if (request.keys > (1U << 30U)) throw std::invalid_argument("at most 2^30 keys are possible");
  const std::uint32_t range = 2 * (request.keys + 1);
  const std::vector<std::uint32_t> keys =
      shuffled(range, workload::random_generator(request.seed, 1U << 16U));
  sim::simulation simulated(request.machine, request.threads, request.pinning);
  simulated.give_huge_pages(false);
  std::unique_ptr<tree_program> program;
  simulated.outside_time([&] { program = make_tree(request.from, request.policy, request.node_bytes); });
  simulated.without_time([&](unsigned thread) {
    if (thread == 0) {
      for (std::uint32_t i = 0; i < request.keys; ++i) program->add(keys[i]);
    }
    program->reserve(reserved_nodes);
  });
  std::int64_t size = request.keys;
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
  m.load = load_of(simulated, *program, static_cast<std::size_t>(size));
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

}  // namespace espalier::simulate
