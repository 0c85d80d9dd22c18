#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/progress_line.hpp"
#include "apps/common/shared_options.hpp"
#include "apps/common/table.hpp"
#include "apps/common/usage_error.hpp"
#include "apps/simulate/malloc_tsx.hpp"
#include "apps/simulate/malloc_tsx_findings.hpp"
#include "apps/simulate/result.hpp"
#include "apps/simulate/study.hpp"
#include "apps/simulate/tables.hpp"
#include "espalier/hw/output_file.hpp"
#include "espalier/workload/statistics.hpp"

// "The Influence of Malloc Placement on TSX Hardware Transactional Memory", figures 1 and 2.

namespace espalier::simulate {
namespace {

constexpr std::uint64_t default_operations = 20'000;
constexpr std::uint64_t default_keys = 32'767;
constexpr unsigned papers_threads = 4;
constexpr std::size_t rings[] = {128, 512};
constexpr std::size_t largest_node_bytes = 16'384;
constexpr std::size_t text_width = 110;

/// Of the ring: multiples of 64 bytes, and 16 less, with which glibc's strides are such multiples.
std::vector<std::size_t> ring_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 64; bytes <= 4096; bytes += 64) sizes.insert(sizes.end(), {bytes - 16, bytes});
  return sizes;
}

/// Of the tree: powers of two, their neighbours, and those with which glibc's strides are round.
std::vector<std::size_t> tree_sizes() {
  return {64,   112,  128,  192,  240,  256,  320,  448,  496,  512,  576,  960,
          1008, 1024, 1088, 1520, 1984, 2032, 2048, 2112, 3056, 4032, 4080, 4096};
}

std::vector<std::size_t> chosen_sizes(const study_options& o, std::vector<std::size_t> otherwise) {
  if (o.sizes.empty()) return otherwise;
  std::vector<std::size_t> sizes;
  for (const std::int64_t bytes : o.sizes) {
    if (bytes < std::int64_t{least_node_bytes} || bytes > std::int64_t{largest_node_bytes})
      throw app::usage_error(fmt::format("--sizes {} is out of range; nodes have {} to {} bytes", bytes,
                                         least_node_bytes, largest_node_bytes));
    sizes.push_back(static_cast<std::size_t>(bytes));
  }
  return sizes;
}

unsigned chosen_threads(const study_options& o) {
  const study_place& place = o.places.front();
  if (!o.given("--threads")) return std::min(papers_threads, place.machine.cores());
  if (place.threads.size() != 1)
    throw app::usage_error("--study malloc-tsx runs the tree with one number of --threads");
  return place.threads.front();
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

class malloc_tsx_study {
 public:
  explicit malloc_tsx_study(const study_options& o)
      : o_(o),
        machine_(o.places.front().machine),
        threads_(chosen_threads(o)),
        operations_(o.given("--operations") ? o.operations : default_operations),
        keys_(o.given("--keys") ? o.keys : default_keys),
        ring_sizes_(chosen_sizes(o, ring_sizes())),
        tree_sizes_(chosen_sizes(o, tree_sizes())),
        results_(machine_.transactions ? machine_.transactions->write_ways : 0, machine_.ghz) {
    if (!machine_.transactions)
      throw app::usage_error(fmt::format(
          "the machine {} has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have",
          machine_.name));
    if (keys_ < 1 || keys_ > most_keys)
      throw app::usage_error(
          fmt::format("--keys {} is out of range; from 1 to {} is possible", keys_, most_keys));
  }

  int run() {
    std::optional<hw::output_file> json = app::open_output(o_.json);
    measure();
    for (const std::size_t nodes : rings) {
      std::printf("%s\n%s\n", ring_summary(nodes).c_str(), ring_table(nodes).c_str());
    }
    std::printf("%s\n", tree_table().c_str());
    const auto findings = findings_of(results_);
    std::printf("%s\n%s\n", findings_text(findings).c_str(), trust);
    if (json) {
      json->commit(document(findings));
      std::printf("wrote %s\n", o_.json.c_str());
    }
    return 0;
  }

 private:
  /// Two keys for each are drawn from, in 32 bits.
  static constexpr std::uint64_t most_keys = 1U << 30U;
  using align = app::table::align;

  template <class Visit>
  static void for_each_variant(Visit&& visit) {
    for (std::size_t a = 0; a < allocations; ++a) {
      for (std::size_t p = 0; p < section_policies; ++p)
        visit(static_cast<allocation>(a), static_cast<section_policy>(p));
    }
  }

  void measure() {
    app::progress_line line;
    const std::size_t total =
        (std::size(rings) * ring_sizes_.size() + tree_sizes_.size()) * allocations * section_policies;
    const auto add = [&](const configuration& c, auto&& measured) {
      line.step(
          done_++, total,
          fmt::format("simulating {}: {} of {} nodes of {} bytes, {}, {}", machine_.name,
                      to_string(c.program), c.nodes, c.node_bytes, to_string(c.from), to_string(c.policy)));
      results_.add(c, measured());
    };
    for (const std::size_t nodes : rings) {
      for (const std::size_t bytes : ring_sizes_) {
        for_each_variant([&](allocation from, section_policy policy) {
          add({benchmark::ring, nodes, bytes, from, policy}, [&] {
            return measure_ring({.machine = machine_,
                                 .nodes = nodes,
                                 .node_bytes = bytes,
                                 .from = from,
                                 .policy = policy,
                                 .visits = operations_,
                                 .seed = o_.seed});
          });
        });
      }
    }
    for (const std::size_t bytes : tree_sizes_) {
      for_each_variant([&](allocation from, section_policy policy) {
        add({benchmark::tree, keys_, bytes, from, policy}, [&] {
          return measure_tree({.machine = machine_,
                               .threads = threads_,
                               .pinning = o_.pinning,
                               .keys = static_cast<std::uint32_t>(keys_),
                               .node_bytes = bytes,
                               .from = from,
                               .policy = policy,
                               .operations = operations_,
                               .seed = o_.seed});
        });
      });
    }
    line.clear();
  }

  [[nodiscard]] const malloc_tsx_measurement& of(const configuration& c) const { return *results_.find(c); }
  [[nodiscard]] double millions(const configuration& c) const { return results_.per_second(of(c)) / 1e6; }
  [[nodiscard]] double ratio(const configuration& one, const configuration& other) const {
    return results_.ratio(one, other).value_or(0);
  }

  /// What became of all sizes, allocation by allocation.
  [[nodiscard]] std::string ring_summary(std::size_t nodes) const {
    app::table t({"nodes from", "sizes", "over-\nloaded", "never\ncommit", "all\ncommit", "most at\nan index",
                  "L1 misses\na node", "tts\nM/s", "tle\nM/s", "tle over\ntts", "tle-learnt\nover tts"},
                 {align::left, align::right, align::right, align::right, align::right, align::right,
                  align::right, align::right, align::right, align::right, align::right});
    for (std::size_t a = 0; a < allocations; ++a) {
      const auto from = static_cast<allocation>(a);
      std::size_t overloaded = 0;
      std::size_t never = 0;
      std::size_t all = 0;
      std::uint64_t most = 0;
      double misses = 0;
      std::vector<double> tts;
      std::vector<double> tle;
      std::vector<double> learnt;
      for (const std::size_t bytes : ring_sizes_) {
        const configuration base{benchmark::ring, nodes, bytes, from, section_policy::tts};
        const configuration elided{benchmark::ring, nodes, bytes, from, section_policy::tle};
        const configuration learning{benchmark::ring, nodes, bytes, from, section_policy::tle_learnt};
        const malloc_tsx_measurement& m = of(elided);
        overloaded += m.load.most > results_.write_ways() ? 1 : 0;
        never += m.transactions.committed == 0 ? 1 : 0;
        all += m.transactions.committed == m.sections ? 1 : 0;
        most = std::max(most, m.load.most);
        misses += of(base).per_section(of(base).l1_misses()) / static_cast<double>(nodes);
        tts.push_back(millions(base));
        tle.push_back(millions(elided));
        learnt.push_back(millions(learning));
      }
      const auto mean = [](const std::vector<double>& values) {
        return workload::geometric_mean(values).value_or(0);
      };
      t.add({std::string(to_string(from)), fmt::format("{}", ring_sizes_.size()),
             fmt::format("{}", overloaded), fmt::format("{}", never), fmt::format("{}", all),
             fmt::format("{}", most), fmt::format("{:.3f}", misses / static_cast<double>(ring_sizes_.size())),
             fmt::format("{:.3f}", mean(tts)), fmt::format("{:.3f}", mean(tle)),
             fmt::format("{:.3f}", mean(tle) / mean(tts)), fmt::format("{:.3f}", mean(learnt) / mean(tts))});
    }
    return app::bold(fmt::format("SIMULATED on {}, figure 1: a ring of {} nodes, one thread, a lock for each "
                                 "traversal",
                                 machine_.name, nodes),
                     colour_) +
           '\n' + t.text(colour_) +
           fmt::format(
               "Overloaded: more lines at an index than the {} that a transaction may write. Throughputs are "
               "geometric means over\nthe sizes, in traversals.\n",
               results_.write_ways());
  }

  /// Those of the command line; else those at which glibc's nodes overload an index in the paper's ring.
  [[nodiscard]] std::vector<std::size_t> shown_ring_sizes() const {
    if (o_.given("--sizes")) return ring_sizes_;
    std::vector<std::size_t> shown;
    for (const std::size_t bytes : ring_sizes_) {
      if (of({benchmark::ring, rings[0], bytes, allocation::glibc, section_policy::tle}).load.most >
          results_.write_ways())
        shown.push_back(bytes);
    }
    return shown;
  }

  [[nodiscard]] std::string ring_table(std::size_t nodes) const {
    app::table t({"bytes", "nodes from", "most at\nan index", "L1 misses\na node", "commit", "tts\nM/s",
                  "tle\nM/s", "tle over\ntts", "learnt\nover tts", "over glibc's\ntts", "\ntle"},
                 {align::right, align::left, align::right, align::right, align::right, align::right,
                  align::right, align::right, align::right, align::right, align::right});
    for (const std::size_t bytes : shown_ring_sizes()) {
      for (std::size_t a = 0; a < allocations; ++a) {
        const auto at = [&](std::size_t from, section_policy policy) {
          return configuration{benchmark::ring, nodes, bytes, static_cast<allocation>(from), policy};
        };
        const configuration tts = at(a, section_policy::tts);
        const configuration tle = at(a, section_policy::tle);
        t.add({fmt::format("{}", bytes), std::string(to_string(tts.from)),
               fmt::format("{}", of(tle).load.most),
               fmt::format("{:.3f}", of(tts).per_section(of(tts).l1_misses()) / static_cast<double>(nodes)),
               fmt::format("{:.2f}", committed_share(of(tle))), fmt::format("{:.3f}", millions(tts)),
               fmt::format("{:.3f}", millions(tle)), fmt::format("{:.2f}", ratio(tle, tts)),
               fmt::format("{:.2f}", ratio(at(a, section_policy::tle_learnt), tts)),
               fmt::format("{:.2f}", ratio(tts, at(0, section_policy::tts))),
               fmt::format("{:.2f}", ratio(tle, at(0, section_policy::tle)))});
      }
    }
    return app::bold(fmt::format("SIMULATED on {}, figure 1: the ring of {} at {}", machine_.name, nodes,
                                 o_.given("--sizes") ? "the sizes asked for"
                                                     : "the sizes that are bad for glibc's model"),
                     colour_) +
           '\n' + t.text(colour_) +
           "Commit: traversals that did, of all. M/s are traversals, under the lock and elided.\n";
  }

  [[nodiscard]] std::string tree_table() const {
    app::table t({"bytes", "nodes from", "most at\nan index", "tts\nM/s", "tle\nM/s", "tle /\ntts",
                  "over\nglibc", "learnt\nM/s", "true\nconfl.", "false\nconfl.", "meta-\ndata", "capac-\nity",
                  "other", "by the\nlock", "L1 miss\ntts", "\ntle"},
                 {align::right, align::left, align::right, align::right, align::right, align::right,
                  align::right, align::right, align::right, align::right, align::right, align::right,
                  align::right, align::right, align::right, align::right},
                 1);
    for (const std::size_t bytes : tree_sizes_) {
      for (std::size_t a = 0; a < allocations; ++a) {
        const auto from = static_cast<allocation>(a);
        const auto at = [&](allocation where, section_policy policy) {
          return configuration{benchmark::tree, keys_, bytes, where, policy};
        };
        const configuration tts = at(from, section_policy::tts);
        const configuration tle = at(from, section_policy::tle);
        const malloc_tsx_measurement& m = of(tle);
        const auto aborts = [&](sim::abort_reason reason) {
          return fmt::format("{:.4f}", m.per_section(m.transactions.of(reason)));
        };
        t.add({fmt::format("{}", bytes), std::string(to_string(from)), fmt::format("{}", m.load.most),
               fmt::format("{:.2f}", millions(tts)), fmt::format("{:.2f}", millions(tle)),
               fmt::format("{:.2f}", ratio(tle, tts)),
               fmt::format("{:.2f}", ratio(tle, at(allocation::glibc, section_policy::tle))),
               fmt::format("{:.2f}", millions(at(from, section_policy::tle_learnt))),
               aborts(sim::abort_reason::true_conflict), aborts(sim::abort_reason::false_conflict),
               aborts(sim::abort_reason::metadata), aborts(sim::abort_reason::capacity),
               fmt::format("{:.4f}", m.per_section(m.transactions.of(sim::abort_reason::explicit_abort) +
                                                   m.transactions.of(sim::abort_reason::other))),
               fmt::format("{:.4f}", m.per_section(m.ends.under_lock)),
               fmt::format("{:.2f}", of(tts).per_section(of(tts).l1_misses())),
               fmt::format("{:.2f}", m.per_section(m.l1_misses()))});
      }
    }
    return app::bold(fmt::format(
                         "SIMULATED on {}, figure 2: an AVL tree of {} keys, {} thread{}, allocation in the "
                         "critical section",
                         machine_.name, keys_, threads_, threads_ == 1 ? "" : "s"),
                     colour_) +
           '\n' + t.text(colour_) +
           "Conflicts to L1 misses are per operation: aborts of tle by their reason, operations under the "
           "lock.\n";
  }

  [[nodiscard]] std::string findings_text(const std::vector<malloc_tsx_finding>& findings) const {
    const capacity_law law = law_of(results_);
    std::string text =
        app::bold(fmt::format("SIMULATED on {}: what the paper finds, and what is so here", machine_.name),
                  colour_) +
        '\n';
    text += app::wrapped(
        fmt::format("The law of capacity: a ring commits where no index has as many of its lines as a "
                    "transaction may "
                    "write there ({}), and never where one has more. It holds for {} of {} rings ({:.1f} %): "
                    "{} of {} "
                    "with more, {} of {} with fewer. Of {} rings with just as many at an index {} commit.",
                    results_.write_ways(), law.holds(), law.configurations(),
                    100 * share(law.holds(), law.configurations()), law.overloaded_hold, law.overloaded,
                    law.roomy_hold, law.roomy, law.full, law.full_commit),
        "  ", text_width);
    for (const malloc_tsx_finding& f : findings) {
      text += app::wrapped(fmt::format("The paper: {} ({}); here: {}.", f.paper, f.figure, f.ours.sentence),
                           "  ", text_width);
      text += fmt::format("    [{}]\n", to_string(f.ours.verdict));
    }
    return text;
  }

  [[nodiscard]] nlohmann::ordered_json entry(const configuration& c, const malloc_tsx_measurement& m) const {
    nlohmann::ordered_json one =
        study_entry(fmt::format("{}/nodes:{}/bytes:{}/{}/{}/threads:{}", to_string(c.program), c.nodes,
                                c.node_bytes, to_string(c.from), to_string(c.policy), m.threads),
                    m.threads, m.sections, m.cycles, machine_.ghz);
    one["items_per_second"] = results_.per_second(m);
    one["benchmark"] = to_string(c.program);
    one["nodes"] = c.nodes;
    one["node_bytes"] = c.node_bytes;
    one["allocation"] = to_string(c.from);
    one["policy"] = to_string(c.policy);
    configuration glibc = c;
    glibc.from = allocation::glibc;
    one["over_glibc_model"] = ratio(c, glibc);
    one["begun"] = m.transactions.begun;
    one["committed"] = m.transactions.committed;
    one["under_lock"] = c.policy == section_policy::tts ? m.sections : m.ends.under_lock;
    one["passed_over"] = m.ends.passed_over;
    for (const sim::abort_reason reason : sim::abort_reasons)
      one["aborts"][std::string(sim::to_string(reason))] = m.transactions.of(reason);
    one["l1_misses_per_operation"] = m.per_section(m.l1_misses());
    one["most_lines_at_an_index"] = m.load.most;
    for (const auto& [load, indices] : m.load.indices)
      one["indices_by_lines"][fmt::format("{}", load)] = indices;
    one["counts"] = counts_json(m.total, m.sections);
    return one;
  }

  [[nodiscard]] std::string document(const std::vector<malloc_tsx_finding>& findings) const {
    nlohmann::ordered_json all = study_document(o_, machine_, "malloc-tsx");
    for (const auto& [c, m] : results_.all()) all["benchmarks"].push_back(entry(c, m));
    const capacity_law law = law_of(results_);
    all["law"] = {{"write_ways", results_.write_ways()},
                  {"configurations", law.configurations()},
                  {"holds", law.holds()},
                  {"overloaded", law.overloaded},
                  {"overloaded_hold", law.overloaded_hold},
                  {"roomy", law.roomy},
                  {"roomy_hold", law.roomy_hold},
                  {"full", law.full},
                  {"full_commit", law.full_commit}};
    all["findings"] = nlohmann::ordered_json::array();
    for (const malloc_tsx_finding& f : findings)
      all["findings"].push_back({{"figure", f.figure},
                                 {"paper", f.paper},
                                 {"here", f.ours.sentence},
                                 {"verdict", to_string(f.ours.verdict)}});
    return all.dump(1) + "\n";
  }

  const study_options& o_;
  const sim::machine_spec& machine_;
  unsigned threads_;
  std::uint64_t operations_;
  std::uint64_t keys_;
  std::vector<std::size_t> ring_sizes_;
  std::vector<std::size_t> tree_sizes_;
  malloc_tsx_results results_;
  std::size_t done_ = 0;
  bool colour_ = app::wants_colour(STDOUT_FILENO);
};

const registered_study malloc_tsx{
    {"malloc-tsx",
     "a ring and an AVL tree under an elided lock, over allocators that place nodes differently (Dice et "
     "al., 2015)",
     {"--machine", "--threads", "--pin", "--keys", "--sizes", "--operations", "--seed", "--json"},
     {"i7_4770"},
     [](const study_options& o) { return malloc_tsx_study(o).run(); }}};

}  // namespace
}  // namespace espalier::simulate
