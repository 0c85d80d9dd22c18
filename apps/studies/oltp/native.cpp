#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/oltp/run.hpp"
#include "apps/studies/oltp/claims.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/catalog/any_map.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/measure/team.hpp"

// The database of the ATC 2018 study on this machine.

namespace espalier::app::dbx {
namespace {

constexpr std::uint64_t usual_rows = 200'000;
constexpr std::uint64_t usual_transactions = 20'000;
constexpr unsigned accesses = 16;
constexpr double theta = 0.99;

espalier::oltp::database_options options_of(const configuration& c, bool inspected) {
  espalier::oltp::database_options o;
  o.map = c.index;
  o.rows_as = espalier::oltp::row_form::dbx;
  o.lock_bytes = c.lock_bytes;
  o.row_placement = "chunked_heap";
  o.index_placement = "chunked_heaps";
  o.one_placement = c.where == memory::shared;
  o.sample_every = 16;
  if (inspected) o.recording = any_placement::recording::on;
  return o;
}

struct load_of_study {
  std::uint64_t rows;
  std::uint64_t transactions;
  unsigned threads;
  unsigned rounds;
  std::uint64_t seed;
};

std::unique_ptr<db::benchmark> benchmark_of(const configuration& c, const load_of_study& l, bool inspected) {
  if (c.what == work::ycsb)
    return db::make_ycsb(
        options_of(c, inspected),
        {.letter = 't', .rows = l.rows, .theta = theta, .accesses = accesses, .reads = 90, .row_bytes = 100});
  const tpcc_size size = tpcc_of(l.rows, l.threads);
  return db::make_tpcc(options_of(c, inspected), {.warehouses = size.warehouses,
                                                  .customers = size.customers,
                                                  .items = size.items,
                                                  .as_dbx = true,
                                                  .weights = {45, 43, 0, 0, 0}});
}

/// The trees of one algorithm, which are in memory together and take turns.
using group = std::vector<configuration>;

std::vector<group> groups_of(const std::vector<page>& pages) {
  std::map<std::pair<work, std::string>, std::set<configuration>> by_tree;
  for (const page& p : pages) {
    for (const configuration& c : p.configurations())
      by_tree[{c.what, c.index.substr(0, c.index.find('/'))}].insert(c);
  }
  std::vector<group> all;
  for (const auto& [tree, some] : by_tree) all.emplace_back(some.begin(), some.end());
  return all;
}

bool is_there(const std::string& index) {
  for (const auto& names : {any_map_names(), any_map_variant_names()}) {
    if (std::ranges::find(names, index) != names.end()) return true;
  }
  return false;
}

class native_study {
 public:
  native_study(const load_of_study& l, const bench_options& o)
      : load_(l),
        options_(o),
        caches_(hw::cache_geometry_named(papers_machine)),
        pages_(pages_of({.simulated = false, .rows = l.rows, .threads = l.threads})) {
    leave_chosen(pages_, o.figures);
    leave_trees(pages_, o.maps);
  }

  void run() {
    study_files files(options_.out, study_name);
    const std::vector<group> groups = groups_of(pages_);
    for (std::size_t n = 0; n < groups.size() && !interruption::requested(); ++n) {
      line_.step(n, groups.size(), groups[n].front().name());
      measure(groups[n]);
    }
    line_.clear();
    for (const page& p : pages_) files.show(p.figure(results_, ""), "this machine");
    auto document = study_results(load_.seed, "cores", study_name, title, paper, {});
    document["study"]["reading"] = {fmt::format("{} rows instead of the paper's {}, {} threads.",
                                                grouped(load_.rows), grouped(papers_rows), load_.threads),
                                    "Trees of one algorithm were in memory together and took turns, as far "
                                    "as there was memory for them. Times are "
                                    "processor time: what else the machine does meanwhile counts less.",
                                    "One heap is a model of the study's allocator (chunked_heap). The last "
                                    "level's sets are those of its machine."};
    document["study"]["figures"] = files.figures();
    document["benchmarks"] = std::move(entries_);
    files.write(document);
  }

 private:
  void measure(group all) {
    std::erase_if(all, [this](const configuration& c) {
      if (is_there(c.index)) return false;
      results_.miss(c, "not in this build");
      return true;
    });
    if (all.empty()) return;
    if (all.front().what == work::alone) return measure_alone(all.front());
    // As many at a time as memory permits.
    while (!all.empty()) {
      const std::size_t fits = std::min(all.size(), most_together());
      measure_in_turns({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(fits)});
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(fits));
    }
  }

  /// A row with its blocks and its node takes some 900 bytes; the rows that TPC-C adds are not among them.
  [[nodiscard]] std::size_t most_together() const {
    constexpr std::uint64_t bytes_a_row = 900;
    const std::uint64_t available = hw::available_memory_bytes().value_or(std::uint64_t{8} << 30U);
    return std::max<std::size_t>(2, available / 2 / (bytes_a_row * load_.rows));
  }

  void measure_in_turns(const group& some) {
    struct one {
      std::unique_ptr<db::benchmark> runs;
      std::unique_ptr<db::run_session> session;
    };
    std::vector<one> all;
    for (const configuration& c : some) {
      db::run_plan plan;
      plan.threads = load_.threads;
      plan.runs = load_.rounds;
      plan.each = load_.transactions;
      plan.seed = load_.seed;
      plan.interrupted = &interruption::requested();
      plan.progress = [](double, const std::string&) {};
      one& fresh = all.emplace_back(one{benchmark_of(c, load_, false), nullptr});
      fresh.session = std::make_unique<db::run_session>(*fresh.runs, plan);
      if (interruption::requested()) return;
    }
    // One more, which warms up, is not counted apart: it is a part of each alike.
    for (unsigned round = 0; round <= load_.rounds; ++round) {
      for (const one& each : all) {
        if (!interruption::requested() && !each.session->ends_early()) each.session->run();
      }
    }
    if (interruption::requested()) return;
    ++sessions_;
    for (std::size_t n = 0; n < some.size(); ++n) {
      const db::measured m = all[n].session->finish();
      for (const db::condition& c : m.conditions) {
        if (!c.holds) throw std::runtime_error(fmt::format("{}: {}: {}", some[n].name(), c.name, c.detail));
      }
      add(some[n], m);
    }
  }

  void add(const configuration& c, const db::measured& m) {
    database_reading r;
    r.session = sessions_;
    for (std::size_t n = 1; n < m.cpu_us.size(); ++n) r.rounds.push_back(m.cpu_us[n] * 1000);
    const double each = measure::median(r.rounds).value_or(0);
    if (each == 0) return results_.miss(c, "no run was complete");
    r.speed = 1e9 / each;
    if (const auto shares = m.shares_of_time()) {
      r.index_time = each * shares->index;
      r.wait_time = each * shares->waits;
      r.rest_time = each * shares->rest;
    }
    if (c.what == work::ycsb) look(c, r);
    nlohmann::ordered_json entry{{"name", fmt::format("oltp/{}", c.name())},
                                 {"run_type", "iteration"},
                                 {"real_time", each},
                                 {"cpu_time", each},
                                 {"time_unit", "ns"},
                                 {"rounds", r.rounds}};
    if (r.index_time) entry["index_ns"] = *r.index_time;
    if (r.rest_time) entry["rest_ns"] = *r.rest_time;
    if (r.unused_llc) entry["unused_llc_sets_of_nodes"] = *r.unused_llc;
    entries_.push_back(std::move(entry));
    results_.add(c, std::move(r));
  }

  /// Where the nodes lie: of another database, which one thread loads and which records its blocks.
  void look(const configuration& c, database_reading& r) const {
    load_of_study few = load_;
    few.rows = std::min(load_.rows, usual_rows);
    const auto recorded = benchmark_of(c, few, true);
    for (std::size_t part = 0; part < recorded->load_parts(); ++part) recorded->load(part);
    note_nodes(r, db::layout_of(recorded->database(), caches_));
  }

  /// Look-ups of present keys.
  void measure_alone(const configuration& c) {
    any_map map(c.index, {any_placement("segregated"), nullptr});
    for (std::uint64_t n = 0; n < load_.rows; ++n) map.insert(measure::mix64(n), n);
    const std::uint64_t look_ups = load_.transactions * accesses;
    const std::vector<unsigned> pus = hw::pin_order(hw::topology::system(), hw::pin_policy::cores);
    database_reading r;
    for (unsigned round = 0; round <= load_.rounds && !interruption::requested(); ++round) {
      std::vector<double> ns(load_.threads);
      static_cast<void>(measure::run_team(
          load_.threads, pus,
          [&](unsigned thread, const std::function<void()>& ready) {
            measure::random_generator random(load_.seed, thread);
            ready();
            const std::uint64_t begin = hw::thread_cpu_ns();
            std::uint64_t found = 0;
            for (std::uint64_t n = 0; n < look_ups; ++n)
              found += map.contains(measure::mix64(random.below(load_.rows))) ? 1 : 0;
            if (found != look_ups) throw std::logic_error(c.index + ": a key is missing");
            ns[thread] = static_cast<double>(hw::thread_cpu_ns() - begin);
          },
          [] {}));
      double sum = 0;
      for (const double one : ns) sum += one;
      if (round != 0) r.rounds.push_back(sum / static_cast<double>(look_ups * load_.threads));
    }
    const double each = measure::median(r.rounds).value_or(0);
    if (each == 0) return results_.miss(c, "no run was complete");
    r.speed = 1e9 / each;
    entries_.push_back({{"name", fmt::format("oltp/{}", c.name())},
                        {"run_type", "iteration"},
                        {"real_time", each},
                        {"cpu_time", each},
                        {"time_unit", "ns"},
                        {"rounds", r.rounds}});
    results_.add(c, std::move(r));
  }

  load_of_study load_;
  const bench_options& options_;
  const hw::cache_geometry& caches_;
  std::vector<page> pages_;
  results results_;
  std::size_t sessions_ = 0;
  nlohmann::ordered_json entries_ = nlohmann::ordered_json::array();
  progress_line line_;
};

void run(const bench_options& o, const CLI::App& verb) {
  load_of_study l{.rows = is_given(verb, "--keys") ? o.keys : usual_rows,
                  .transactions = is_given(verb, "--operations") ? static_cast<std::uint64_t>(o.operations)
                                                                 : usual_transactions,
                  .threads = 0,
                  .rounds = static_cast<unsigned>(o.runs),
                  .seed = o.seed};
  if (l.rows < accesses)
    throw usage_error(fmt::format("--keys {} is too small; at least {} rows are needed", l.rows, accesses));
  const std::vector<unsigned> threads = checked_threads(o.threads);
  if (is_given(verb, "--threads") && threads.size() != 1)
    throw usage_error("--study oltp runs with one number of --threads");
  l.threads = threads.back();
  native_study(l, o).run();
}

const registered_study oltp_study{
    {study_name,
     title,
     {"--maps", "--keys", "--threads", "--runs", "--operations", "--seed", "--figure", "--out"},
     run}};

}  // namespace
}  // namespace espalier::app::dbx
