#include "apps/studies/malloc_tsx/results.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/terminal.hpp"
#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "espalier/workload/statistics.hpp"

namespace espalier::simulate {

// Results -------------------------------------------------------------------------------------------------------------

using app::malloc_tsx::placed_reading;
using app::malloc_tsx::placed_readings;
using app::malloc_tsx::point;

std::optional<double> malloc_tsx_results::ratio(const configuration& one, const configuration& other) const {
  const auto* a = find(one);
  const auto* b = find(other);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return a->operations_per_second() / b->operations_per_second();
}

placed_readings malloc_tsx_results::readings(benchmark program, std::uint64_t nodes) const {
  placed_readings found;
  for (const auto& [c, m] : all_) {
    if (c.program == program && c.nodes == nodes) found.add(point_of(c), reading_of(c, m));
  }
  return found;
}

point point_of(const configuration& c) {
  return {std::string(to_string(c.from)), std::string(to_string(c.policy)), c.node_bytes};
}

placed_reading reading_of(const configuration& c, const malloc_tsx_measurement& m) {
  placed_reading r;
  r.rounds = {m.operations_per_second()};
  r.largest_load = m.largest_load();
  if (c.policy != section_policy::tts) {
    r.committed = m.committed_share();
    r.capacity_aborts = m.per_operation(m.transactions.of(sim::abort_reason::capacity));
  }
  return r;
}

double misses(const configuration& c, const malloc_tsx_measurement& m) noexcept {
  const double each = m.per_operation(m.l1_misses());
  return c.program == benchmark::ring ? each / static_cast<double>(c.nodes) : each;
}

app::judged_claim judge_misses(const malloc_tsx_results& results) {
  struct mean {
    double sum = 0;
    std::size_t sizes = 0;
    [[nodiscard]] double value() const { return sum / static_cast<double>(sizes); }
  };
  mean bad;
  mean good;
  for (const auto& [c, m] : results.all()) {
    if (c.program != benchmark::ring || c.nodes != app::malloc_tsx::paper_nodes ||
        c.from != allocation::glibc || c.policy != section_policy::tts)
      continue;
    mean& to = app::glibc_stride(c.node_bytes) % 512 == 0 ? bad : good;
    to.sum += misses(c, m);
    ++to.sizes;
  }
  app::judged_claim f{
      "The slow sizes are those with many L1 misses (figure 1)",
      {"too little was measured: sizes at which glibc's blocks follow each other at a multiple of 512, and "
       "others.",
       app::agreement::not_measurable}};
  if (bad.sizes == 0 || good.sizes == 0) return f;
  f.ours = {fmt::format("{:.2f} L1 misses a node with {} at multiples of 512, {:.2f} at other sizes.",
                        bad.value(), to_string(allocation::glibc), good.value()),
            bad.value() >= 0.5 && good.value() <= bad.value() / 4 ? app::agreement::agrees
                                                                  : app::agreement::differs};
  return f;
}

// Tables --------------------------------------------------------------------------------------------------------------

namespace {

const malloc_tsx_measurement& of(const malloc_tsx_shown& s, const configuration& c) {
  return *s.results.find(c);
}
double millions(const malloc_tsx_shown& s, const configuration& c) {
  return of(s, c).operations_per_second() / 1e6;
}
double ratio(const malloc_tsx_shown& s, const configuration& one, const configuration& other) {
  return s.results.ratio(one, other).value_or(0);
}

}  // namespace

std::string ring_summary(const malloc_tsx_shown& s, std::uint64_t nodes,
                         const std::vector<std::size_t>& sizes) {
  app::table t({"nodes from", "sizes", "over-\nloaded", "never\ncommit", "all\ncommit", "most at\nan index",
                "L1 misses\na node", "tts\nM/s", "tle\nM/s", "tle over\ntts", "tle-learnt\nover tts"});
  for (const allocation from : allocations) {
    std::size_t overloaded = 0;
    std::size_t never = 0;
    std::size_t all = 0;
    std::uint64_t most = 0;
    double l1_misses = 0;
    std::vector<double> tts;
    std::vector<double> tle;
    std::vector<double> learnt;
    for (const std::size_t bytes : sizes) {
      const configuration base{benchmark::ring, nodes, bytes, from, section_policy::tts};
      const configuration elided{benchmark::ring, nodes, bytes, from, section_policy::tle};
      const configuration learning{benchmark::ring, nodes, bytes, from, section_policy::tle_learnt};
      const malloc_tsx_measurement& m = of(s, elided);
      overloaded += m.largest_load() > s.write_ways ? 1 : 0;
      never += m.transactions.committed == 0 ? 1 : 0;
      all += m.transactions.committed == m.operations ? 1 : 0;
      most = std::max(most, m.largest_load());
      l1_misses += misses(base, of(s, base));
      tts.push_back(millions(s, base));
      tle.push_back(millions(s, elided));
      learnt.push_back(millions(s, learning));
    }
    const auto mean = [](const std::vector<double>& values) {
      return workload::geometric_mean(values).value_or(0);
    };
    t.add({std::string(to_string(from)), fmt::format("{}", sizes.size()), fmt::format("{}", overloaded),
           fmt::format("{}", never), fmt::format("{}", all), fmt::format("{}", most),
           fmt::format("{:.3f}", l1_misses / static_cast<double>(sizes.size())),
           fmt::format("{:.3f}", mean(tts)), fmt::format("{:.3f}", mean(tle)),
           fmt::format("{:.3f}", mean(tle) / mean(tts)), fmt::format("{:.3f}", mean(learnt) / mean(tts))});
  }
  return app::bold(fmt::format("SIMULATED on {}, figure 1: a ring of {} nodes, one thread, a lock for each "
                               "traversal",
                               s.machine.name, nodes),
                   s.colour) +
         '\n' + t.text(s.colour) +
         fmt::format(
             "Overloaded: more lines at an index than the {} that a transaction may write. Throughputs are "
             "geometric means over\nthe sizes, in traversals.\n",
             s.write_ways);
}

std::string ring_table(const malloc_tsx_shown& s, std::uint64_t nodes, const std::vector<std::size_t>& sizes,
                       const std::string& which) {
  app::table t({"bytes", "nodes from", "most at\nan index", "L1 misses\na node", "commit", "tts\nM/s",
                "tle\nM/s", "tle over\ntts", "learnt\nover tts", "over glibc's\ntts", "\ntle"},
               {1});
  for (const std::size_t bytes : sizes) {
    for (const allocation from : allocations) {
      const auto at = [&](allocation where, section_policy policy) {
        return configuration{benchmark::ring, nodes, bytes, where, policy};
      };
      const configuration tts = at(from, section_policy::tts);
      const configuration tle = at(from, section_policy::tle);
      t.add({fmt::format("{}", bytes), std::string(to_string(tts.from)),
             fmt::format("{}", of(s, tle).largest_load()), fmt::format("{:.3f}", misses(tts, of(s, tts))),
             fmt::format("{:.2f}", of(s, tle).committed_share()), fmt::format("{:.3f}", millions(s, tts)),
             fmt::format("{:.3f}", millions(s, tle)), fmt::format("{:.2f}", ratio(s, tle, tts)),
             fmt::format("{:.2f}", ratio(s, at(from, section_policy::tle_learnt), tts)),
             fmt::format("{:.2f}", ratio(s, tts, at(allocation::glibc, section_policy::tts))),
             fmt::format("{:.2f}", ratio(s, tle, at(allocation::glibc, section_policy::tle)))});
    }
  }
  return app::bold(
             fmt::format("SIMULATED on {}, figure 1: the ring of {} at {}", s.machine.name, nodes, which),
             s.colour) +
         '\n' + t.text(s.colour) +
         "Commit: traversals that did, of all. M/s are traversals, under the lock and elided.\n";
}

std::string tree_table(const malloc_tsx_shown& s, benchmark tree, std::uint64_t keys, unsigned threads,
                       const std::vector<std::size_t>& sizes) {
  app::table t({"bytes", "nodes from", "most at\nan index", "tts\nM/s", "tle\nM/s", "tle /\ntts",
                "over\nglibc", "learnt\nM/s", "true\nconfl.", "false\nconfl.", "meta-\ndata", "capac-\nity",
                "other", "by the\nlock", "L1 miss\ntts", "\ntle"},
               {1}, 1);
  for (const std::size_t bytes : sizes) {
    for (const allocation from : allocations) {
      const auto at = [&](allocation where, section_policy policy) {
        return configuration{tree, keys, bytes, where, policy};
      };
      const configuration tts = at(from, section_policy::tts);
      const configuration tle = at(from, section_policy::tle);
      const malloc_tsx_measurement& m = of(s, tle);
      const auto aborts = [&](sim::abort_reason reason) {
        return fmt::format("{:.4f}", m.per_operation(m.transactions.of(reason)));
      };
      t.add({fmt::format("{}", bytes), std::string(to_string(from)), fmt::format("{}", m.largest_load()),
             fmt::format("{:.2f}", millions(s, tts)), fmt::format("{:.2f}", millions(s, tle)),
             fmt::format("{:.2f}", ratio(s, tle, tts)),
             fmt::format("{:.2f}", ratio(s, tle, at(allocation::glibc, section_policy::tle))),
             fmt::format("{:.2f}", millions(s, at(from, section_policy::tle_learnt))),
             aborts(sim::abort_reason::true_conflict), aborts(sim::abort_reason::false_conflict),
             aborts(sim::abort_reason::metadata), aborts(sim::abort_reason::capacity),
             fmt::format("{:.4f}", m.per_operation(m.transactions.of(sim::abort_reason::explicit_abort) +
                                                   m.transactions.of(sim::abort_reason::other))),
             fmt::format("{:.4f}", m.per_operation(m.ends.under_lock)),
             fmt::format("{:.2f}", misses(tts, of(s, tts))), fmt::format("{:.2f}", misses(tle, m))});
    }
  }
  return app::bold(
             fmt::format("SIMULATED on {}, {}: an AVL tree of {} keys, {}, nodes made {} the search",
                         s.machine.name, tree == benchmark::tree ? "figure 2" : "not figure 2", keys,
                         app::number_of(threads, "thread"), tree == benchmark::tree ? "before" : "behind"),
             s.colour) +
         '\n' + t.text(s.colour) +
         "Conflicts to L1 misses are per operation: aborts of tle by their reason, operations under the "
         "lock.\n";
}

}  // namespace espalier::simulate
