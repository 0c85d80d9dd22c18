#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/malloc_tsx/claims.hpp"
#include "apps/studies/malloc_tsx/results.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/io/output_file.hpp"
#include "espalier/measure/random.hpp"
#include "sim/runtime/world.hpp"
#include "sim/simulation/simulation.hpp"

// "The Influence of Malloc Placement on TSX Hardware Transactional Memory", figures 1 and 2.

namespace espalier::simulate {
namespace {

/// A thread's random numbers, drawn outside the program: one for each operation. All threads share one budget of
/// operations.
class draws {
 public:
  draws(std::uint64_t seed, unsigned thread, std::uint64_t& left) : random_(seed, thread), left_(left) {}

  /// False if the budget is exhausted.
  bool next(std::uint64_t& number) {
    const sim::own_code scope;
    if (left_ == 0) return false;
    --left_;
    number = random_.next();
    return true;
  }

 private:
  measure::random_generator random_;
  std::uint64_t& left_;
};

// One measurement -----------------------------------------------------------------------------------------------------

struct malloc_tsx_request {
  sim::machine_spec machine;
  configuration what;
  /// For the trees; the ring has one.
  unsigned threads = 4;
  sim::pinning pinning = sim::pinning::smt_last;
  /// Minimum of visited nodes of the ring, in whole traversals; operations on the tree, of all threads. A fifth as many
  /// before them warm up the caches and the lock.
  std::uint64_t operations = 20'000;
  std::uint64_t seed = 42;
};

/// The number of nodes for which each thread has memory beforehand. Threads do not insert and erase equally often.
constexpr std::size_t reserved_nodes = 256;

/// 0 to n - 1 in random order (Fisher and Yates).
std::vector<std::uint32_t> shuffled(std::size_t n, measure::random_generator random) {
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
  std::vector<std::uint64_t> loads(transactions_of(simulated.spec()).write_sets);
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
  return {{sections, result.total(), result.transactions, result.cycles, simulated.spec().ghz},
          simulated.threads(),
          ends_of(simulated, program) - before,
          {}};
}

malloc_tsx_measurement measure_ring(const malloc_tsx_request& request) {
  const configuration& what = request.what;
  const std::vector<std::uint32_t> order = shuffled(what.nodes, measure::random_generator(request.seed));
  sim::simulation simulated(request.machine, 1);
  simulated.set_huge_pages(false);
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
  const std::vector<std::uint32_t> keys = shuffled(range, measure::random_generator(request.seed, 1U << 16U));
  sim::simulation simulated(request.machine, request.threads, request.pinning);
  simulated.set_huge_pages(false);
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

/// All memory is in pages of 4 KiB, as in the paper. The first thread fills the tree, and each has some spare memory.
/// The study has checked the request. Throws std::logic_error if the ring or the tree is wrong at the end.
malloc_tsx_measurement measure(const malloc_tsx_request& request) {
  return request.what.program == benchmark::ring ? measure_ring(request) : measure_tree(request);
}

// The study -----------------------------------------------------------------------------------------------------------

using app::malloc_tsx::placed_readings;
using nlohmann::ordered_json;

constexpr std::uint64_t default_operations = 20'000;
constexpr std::uint64_t default_keys = 32'767;
/// Keys are 32-bit numbers, drawn from twice as many as there are nodes.
constexpr std::uint64_t most_keys = 1U << 30U;
constexpr unsigned papers_threads = 4;
constexpr std::uint64_t rings[] = {app::malloc_tsx::paper_nodes, 512};
constexpr benchmark trees[] = {benchmark::tree, benchmark::late_tree};
constexpr std::size_t largest_node_bytes = 16'384;

/// Sizes of the trees: powers of two, their neighbours, and those with which glibc's strides are round.
std::vector<std::uint64_t> tree_sizes() {
  return {64,   112,  128,  192,  240,  256,  320,  448,  496,  512,  576,  960,
          1008, 1024, 1088, 1520, 1984, 2032, 2048, 2112, 3056, 4032, 4080, 4096};
}

std::vector<std::uint64_t> chosen_sizes(const study_options& o, std::vector<std::uint64_t> otherwise) {
  if (o.sizes.empty()) return otherwise;
  std::vector<std::uint64_t> sizes;
  for (const std::int64_t bytes : o.sizes) {
    if (bytes < std::int64_t{least_node_bytes} || bytes > std::int64_t{largest_node_bytes})
      throw app::usage_error(fmt::format("--sizes {} is out of range; nodes have {} to {} bytes", bytes,
                                         least_node_bytes, largest_node_bytes));
    sizes.push_back(static_cast<std::uint64_t>(bytes));
  }
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

unsigned chosen_threads(const study_options& o) {
  const study_place& place = o.places.front();
  if (!o.given("--threads")) return std::min(papers_threads, place.machine.cores());
  if (place.threads.size() != 1)
    throw app::usage_error("--study malloc-tsx runs the tree with one number of --threads");
  return place.threads.front();
}

/// The differences between figures in what is measured.
struct shown_figure {
  benchmark program;
  std::uint64_t nodes;
  app::charted_figure figure;
};

/// Names what is a model and not the original, for readers of the figures.
ordered_json models_json() {
  return {
      {to_string(allocation::glibc),
       "a model of where glibc's malloc puts blocks: end to end behind headers, reused by size and thread"},
      {to_string(allocation::size_classes),
       "a model of where jemalloc, tcmalloc and mimalloc put blocks: four size classes to a doubling, end to "
       "end in slabs"},
      {to_string(allocation::random), "this library's RAND over glibc-model"}};
}

class malloc_tsx_study {
 public:
  explicit malloc_tsx_study(const study_options& o)
      : o_(o),
        machine_(o.places.front().machine),
        threads_(chosen_threads(o)),
        operations_(o.given("--operations") ? o.operations : default_operations),
        keys_(o.given("--keys") ? o.keys : default_keys),
        ring_sizes_(chosen_sizes(o, app::malloc_tsx::node_sizes())),
        tree_sizes_(chosen_sizes(o, tree_sizes())) {
    in_ = {.ways = transactions_of(machine_).write_ways,
           .glibc = std::string(to_string(allocation::glibc)),
           .simulated = true};
    if (keys_ < 1 || keys_ > most_keys)
      throw app::usage_error(
          fmt::format("--keys {} is out of range; from 1 to {} is possible", keys_, most_keys));
  }

  int run() {
    std::optional<io::output_file> json = app::open_output(o_.json);
    app::study_files files(o_.out, app::malloc_tsx::study_name);
    measure();
    std::vector<shown_figure> figures = begun_figures();
    app::malloc_tsx::capacity_law law;
    // The tables of an interrupted study would be incomplete.
    if (!app::interruption::requested()) {
      law = law_of_rings();
      judge(figures, law);
      for (const shown_figure& f : figures) print(f);
    }
    std::printf("%s\n", trust);
    const ordered_json all = document(figures, law);
    if (json) json->commit(all.dump(1) + "\n");
    app::print_written({o_.json});
    files.write(all);
    return 0;
  }

 private:
  void measure() {
    app::progress_line line;
    const std::size_t total =
        (std::size(rings) * ring_sizes_.size() + std::size(trees) * tree_sizes_.size()) * allocations.size() *
        section_policies.size();
    std::size_t done = 0;
    const auto add_all = [&](benchmark program, std::uint64_t nodes, std::size_t bytes) {
      if (app::interruption::requested()) return;
      for (const allocation from : allocations) {
        for (const section_policy policy : section_policies) {
          const configuration c{program, nodes, bytes, from, policy};
          line.step(done++, total,
                    fmt::format("simulating {}: {} of {} nodes of {} bytes, {}, {}", machine_.name,
                                to_string(program), nodes, bytes, to_string(c.from), to_string(c.policy)));
          results_.add(c, simulate::measure({.machine = machine_,
                                             .what = c,
                                             .threads = threads_,
                                             .pinning = o_.pinning,
                                             .operations = operations_,
                                             .seed = o_.seed}));
        }
      }
    };
    for (const std::uint64_t nodes : rings) {
      for (const std::size_t bytes : ring_sizes_) add_all(benchmark::ring, nodes, bytes);
    }
    for (const benchmark tree : trees) {
      for (const std::size_t bytes : tree_sizes_) add_all(tree, keys_, bytes);
    }
    line.clear();
  }

  [[nodiscard]] app::malloc_tsx::capacity_law law_of_rings() const {
    std::vector<placed_readings> measured;
    measured.reserve(std::size(rings));
    for (const std::uint64_t nodes : rings) measured.push_back(results_.readings(benchmark::ring, nodes));
    std::vector<const placed_readings*> all;
    all.reserve(measured.size());
    for (const placed_readings& one : measured) all.push_back(&one);
    return app::malloc_tsx::law_of(all, in_.ways);
  }

  /// The figures of which something was measured.
  [[nodiscard]] std::vector<shown_figure> begun_figures() const {
    namespace common = app::malloc_tsx;
    std::vector<shown_figure> figures;
    for (const std::uint64_t nodes : rings)
      figures.push_back({benchmark::ring, nodes, common::ring_figure(nodes)});
    const std::uint64_t drawn_from = 2 * (keys_ + 1);
    figures.push_back({benchmark::tree, keys_, common::tree_figure(drawn_from, threads_)});
    figures.push_back({benchmark::late_tree, keys_, common::late_tree_figure(drawn_from, threads_)});
    std::erase_if(figures, [&](const shown_figure& f) {
      return std::ranges::none_of(results_.all(), [&](const auto& measured) {
        return measured.first.program == f.program && measured.first.nodes == f.nodes;
      });
    });
    for (shown_figure& f : figures) f.figure.machine = machine_.name;
    return figures;
  }

  void judge(std::vector<shown_figure>& figures, const app::malloc_tsx::capacity_law& law) const {
    namespace common = app::malloc_tsx;
    for (shown_figure& f : figures) {
      const bool ring = f.program == benchmark::ring;
      const placed_readings measured = results_.readings(f.program, f.nodes);
      f.figure.charts = common::charts_of(measured, ring, in_);
      f.figure.charts.push_back(misses_chart(f));
      std::vector<app::judged_claim>& found = f.figure.findings;
      switch (f.program) {
        case benchmark::ring:
          found = common::judge_ring(measured, f.nodes, in_);
          break;
        case benchmark::tree:
          found = common::judge_tree(measured, in_);
          for (app::judged_claim& one : common::judge_concurrent_tree(measured, threads_, in_))
            found.push_back(std::move(one));
          break;
        case benchmark::late_tree:
          found = {common::judge_late_tree(measured, results_.readings(benchmark::tree, f.nodes), in_)};
      }
    }
    figures.front().figure.findings.push_back(judge_misses(results_));
    figures.front().figure.findings.push_back(common::judge_law(law, in_.ways));
  }

  [[nodiscard]] app::chart misses_chart(const shown_figure& f) const {
    const bool ring = f.program == benchmark::ring;
    app::chart c;
    c.title = "L1 misses";
    c.caption = fmt::format("Accesses under tts that the L1 cache did not serve, for {}. Lower is better.",
                            ring ? "a node visited" : "an operation");
    c.x = "Bytes of a node";
    c.y = ring ? "misses a node" : "misses an operation";
    for (const allocation from : allocations) {
      app::chart_curve curve{std::string(to_string(from)), {}};
      for (const auto& [at, m] : results_.all()) {
        if (at.program == f.program && at.nodes == f.nodes && at.from == from &&
            at.policy == section_policy::tts)
          curve.points.emplace_back(at.node_bytes, misses(at, m));
      }
      c.curves.push_back(std::move(curve));
    }
    return c;
  }

  void print(const shown_figure& f) const {
    const placed_readings measured = results_.readings(f.program, f.nodes);
    std::printf("%s\n%s",
                app::bold(fmt::format("SIMULATED on {}: {}", machine_.name, f.figure.title), colour_).c_str(),
                summary_table(measured, f.program == benchmark::ring, in_, colour_).c_str());
    for (const app::judged_claim& one : f.figure.findings)
      std::printf("%s", app::finding_text(one.source(), one.claim, one.ours,
                                          fmt::format("{}, simulated on {}", f.figure.id, machine_.name))
                            .c_str());
    std::printf("\n");
  }

  [[nodiscard]] ordered_json entry(const shown_figure& f, const configuration& c,
                                   const malloc_tsx_measurement& m) const {
    const app::malloc_tsx::point at = point_of(c);
    ordered_json one = study_entry(app::malloc_tsx::entry_name(f.figure.id, at), m.threads, m);
    one["items_per_second"] = m.operations_per_second();
    one["malloc"] = at.malloc;
    add_reading(one, at, reading_of(c, m), m.loads);
    one["nodes"] = c.nodes;
    configuration glibc = c;
    glibc.from = allocation::glibc;
    one["over_glibc_model"] = results_.ratio(c, glibc).value_or(0);
    ordered_json& transactions = one["transactions"];
    transactions = {{"begun", m.transactions.begun}, {"committed", m.transactions.committed}};
    for (const sim::abort_reason reason : sim::abort_reasons)
      transactions["aborts"][std::string(sim::to_string(reason))] = m.transactions.of(reason);
    one["under_lock"] = c.policy == section_policy::tts ? m.operations : m.ends.under_lock;
    one["passed_over"] = m.ends.passed_over;
    one["l1_misses_per_operation"] = m.per_operation(m.l1_misses());
    one["counts"] = counts_json(m);
    return one;
  }

  [[nodiscard]] ordered_json document(const std::vector<shown_figure>& figures,
                                      const app::malloc_tsx::capacity_law& law) const {
    ordered_json all = study_document(o_, machine_, app::malloc_tsx::study_name, app::malloc_tsx::title,
                                      app::malloc_tsx::paper);
    ordered_json& study = all["study"];
    study["models"] = models_json();
    study["figures"] = ordered_json::array();
    for (const shown_figure& f : figures) {
      study["figures"].push_back(to_json(f.figure));
      for (const auto& [c, m] : results_.all()) {
        if (c.program == f.program && c.nodes == f.nodes) all["benchmarks"].push_back(entry(f, c, m));
      }
    }
    study["law"] = {{"write_ways", in_.ways},
                    {"configurations", law.configurations()},
                    {"holds", law.holds()},
                    {"overloaded", law.overloaded},
                    {"overloaded_hold", law.overloaded_hold},
                    {"roomy", law.roomy},
                    {"roomy_hold", law.roomy_hold},
                    {"full", law.full},
                    {"full_commit", law.full_commit}};
    return all;
  }

  const study_options& o_;
  const sim::machine_spec& machine_;
  unsigned threads_;
  std::uint64_t operations_;
  std::uint64_t keys_;
  std::vector<std::uint64_t> ring_sizes_;
  std::vector<std::uint64_t> tree_sizes_;
  malloc_tsx_results results_;
  app::malloc_tsx::setting in_;
  bool colour_ = app::wants_colour(STDOUT_FILENO);
};

const registered_study malloc_tsx{
    {{app::malloc_tsx::study_name,
      "a ring and an AVL tree under an elided lock, over allocators that place nodes differently (Dice et "
      "al., 2015)",
      {"--machine", "--threads", "--pin", "--keys", "--sizes", "--operations", "--seed", "--json", "--out"},
      [](const study_options& o) { return malloc_tsx_study(o).run(); }},
     {"i7_4770"}}};

}  // namespace
}  // namespace espalier::simulate
