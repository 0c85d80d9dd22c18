#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/oltp/claims.hpp"
#include "apps/studies/oltp/program.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/catalog/any_map.hpp"
#include "sim/simulation/simulation.hpp"

// The database of the ATC 2018 study on its machine.

namespace espalier::simulate::dbx {
namespace {

using app::dbx::configuration;
using app::dbx::database_reading;
using app::dbx::memory;
using app::dbx::page;
using app::dbx::work;

constexpr unsigned usual_threads = 8;
/// With all of their blocks somewhat more than a last-level cache of the paper's machine.
constexpr std::uint64_t usual_rows = 60'000;
constexpr std::uint64_t usual_transactions = 1000;
/// The paper gives no exponent: that of YCSB.
constexpr double theta = 0.99;

/// The machine with TLBs that reach as much of so many rows as its own reach of the paper's. With its own ones, all huge pages of a
/// few hundred thousand rows would have a translation.
sim::machine_spec with_scaled_tlbs(sim::machine_spec machine, std::uint64_t rows) {
  const double scale = std::min(1.0, static_cast<double>(rows) / static_cast<double>(app::dbx::papers_rows));
  const auto scaled = [scale](hw::cache_shape& of) {
    const auto entries = static_cast<unsigned>(static_cast<double>(of.sets * of.ways) * scale);
    of.ways = std::min(of.ways, std::max(entries, 1U));
    of.sets = std::max(entries / of.ways, 1U);
  };
  if (scale == 1) return machine;
  // Nearly all pages are huge ones. Those of 4 KiB have the system's stacks.
  scaled(machine.tlb.l1_huge);
  scaled(machine.tlb.l2);
  return machine;
}

/// What each block is, by its address.
class block_roles {
 public:
  explicit block_roles(const studied_database& of) {
    std::vector<std::pair<std::uint64_t, std::size_t>> locks;
    of.for_each_block(
        [](void* all, std::uint64_t address, std::size_t bytes, memory_role role) {
          if (role == espalier::oltp::lock_role)
            static_cast<decltype(locks)*>(all)->emplace_back(address, bytes);
        },
        &locks);
    if (locks.empty()) return;
    const auto [first, last] = std::ranges::minmax_element(locks);
    first_ = first->first;
    // A lock's word is at its front.
    holder_.resize((last->first - first_) / unit + 1, no_lock);
    for (const auto& [address, bytes] : locks) holder_[(address - first_) / unit] = unused;
  }

  /// The thread that has used the lock last, for a new one; null where there is no lock.
  [[nodiscard]] std::uint8_t* last_user(std::uint64_t address) noexcept {
    const std::uint64_t at = (address - first_) / unit;
    return address >= first_ && at < holder_.size() && holder_[at] != no_lock ? &holder_[at] : nullptr;
  }
  static constexpr std::uint8_t unused = 254;

 private:
  static constexpr std::uint64_t unit = 8;
  static constexpr std::uint8_t no_lock = 255;
  std::uint64_t first_ = 0;
  std::vector<std::uint8_t> holder_;
};

/// Transfers of lines with row locks. A thread that was the last to use a lock has its line, unless another thread has used another
/// lock in it. Each use writes.
class lock_transfers {
 public:
  explicit lock_transfers(const studied_database& of) : roles_(of) {}

  void see(unsigned thread, const sim::access& a, const sim::counts& c) {
    std::uint8_t* const user = roles_.last_user(a.address);
    if (user == nullptr) return;
    const std::uint64_t moved = c.local_transfers + c.remote_transfers;
    if (moved != 0) (*user == thread || *user == block_roles::unused ? falsely : truly) += moved;
    *user = static_cast<std::uint8_t>(thread);
  }

  std::uint64_t falsely = 0;
  std::uint64_t truly = 0;

 private:
  block_roles roles_;
};

class counted_transactions final : public transaction_feed {
 public:
  explicit counted_transactions(shared_operations& all) : all_(all) {}
  bool next() override {
    const sim::own_code scope;
    return all_.take(has_one_);
  }

 private:
  shared_operations& all_;
  bool has_one_ = false;
};

struct measured_database {
  counted_phase phase;
  database_reading reading;
};

measured_database measure(const sim::machine_spec& machine, const database_shape& shape,
                          std::uint64_t transactions) {
  sim::simulation simulated(machine, shape.threads);
  std::unique_ptr<studied_database> program;
  simulated.outside_time([&] { program = make_studied_database(shape); });
  simulated.without_time([&](unsigned thread) { program->load(thread); });
  lock_transfers locks(*program);
  simulated.observe(
      [&](unsigned thread, const sim::access& a, const sim::counts& c) { locks.see(thread, a, c); });
  sim::phase_result last;
  const auto phase = [&](std::uint64_t count) {
    shared_operations shared(simulated, count);
    last = simulated.run([&](unsigned thread) {
      counted_transactions feed(shared);
      program->operate(thread, feed);
    });
    return shared.counted(last);
  };
  static_cast<void>(phase(transactions / 2 + 1));
  locks.falsely = locks.truly = 0;
  measured_database m{phase(transactions), {}};
  const sim::counts& index = last.by_part[static_cast<std::size_t>(database_part::index)];
  const counted_phase& p = m.phase;
  database_reading& r = m.reading;
  r.speed = p.operations_per_second();
  r.index_time = p.per_operation(index.cycles);
  r.rest_time = p.per_operation(p.total.cycles - index.cycles);
  r.index_stalls = p.per_operation(index.stall_cycles);
  r.stalls = p.per_operation(p.total.stall_cycles);
  r.page_walks = p.per_operation(p.total.page_walks);
  r.false_transfers = p.per_operation(locks.falsely);
  r.true_transfers = p.per_operation(locks.truly);
  r.too_short = too_short(p, shape.threads, 16);
  for (const app::db::kind_of_block& k : program->layout(machine)) {
    if (k.name != "node") continue;
    r.unused_llc = k.unused_llc;
    r.chunks = static_cast<double>(k.pages);
    r.runs = static_cast<double>(k.runs);
    r.huge_pages = static_cast<double>(k.huge_pages);
    r.first_chunks = k.first_pages;
  }
  simulated.observe({});
  std::string broken;
  simulated.outside_time([&] {
    broken = program->broken();
    program.reset();
  });
  if (!broken.empty()) throw std::logic_error(fmt::format("{}: {}", shape.index, broken));
  return m;
}

class simulated_database_study {
 public:
  explicit simulated_database_study(const study_options& o) : o_(o), pages_(app::dbx::pages_of("cycles")) {
    if (o.places.front().threads.size() != 1 && o.given("--threads"))
      throw app::usage_error("--study oltp runs with one number of --threads");
    const unsigned most = std::min(usual_threads, o.places.front().machine.hardware_threads());
    threads_ = o.given("--threads") ? o.places.front().threads.front() : most;
    rows_ = o.given("--keys") ? o.keys : usual_rows;
    if (rows_ < 1000)
      throw app::usage_error(fmt::format("--keys {} is too small; at least 1000 rows are needed", rows_));
    transactions_ = o.given("--operations") ? o.operations : usual_transactions;
    if (transactions_ == 0) throw app::usage_error("0 operations show nothing; at least 1 is needed");
    machine_ = with_scaled_tlbs(o.places.front().machine, rows_);
    for (const page& p : pages_) {
      for (const configuration& c : p.configurations()) needed_.insert(c);
    }
  }

  int run() {
    app::study_files files(o_.out, app::dbx::study_name);
    for (const page& p : pages_) {
      for (const configuration& c : p.configurations()) {
        if (app::interruption::requested()) break;
        if (results_.find(c) == nullptr && results_.why_missing(c).empty()) add(c);
      }
      if (app::interruption::requested()) break;
      files.show(p.figure(results_, machine_.name), "simulated on " + machine_.name);
    }
    std::printf("%s\n", trust);
    files.write(document(files.figures()));
    return 0;
  }

 private:
  void add(const configuration& c) {
    line_.step(begun_++, needed_.size(), "simulating " + c.name());
    if (c.what == work::alone)
      add_alone(c);
    else
      add_database(c);
    line_.clear();
  }

  void add_database(const configuration& c) {
    const auto known = {any_map_names(), any_map_variant_names()};
    if (std::ranges::none_of(
            known, [&](const auto& names) { return std::ranges::find(names, c.index) != names.end(); }))
      return results_.miss(c, "not in this build");
    database_shape shape{.index = c.index,
                         .segregated = c.where == memory::segregated,
                         .lock_bytes = c.lock_bytes,
                         .threads = threads_,
                         .rows = rows_,
                         .theta = theta,
                         .seed = o_.seed};
    if (c.what == work::tpcc) {
      const app::dbx::tpcc_size size = app::dbx::tpcc_of(rows_, threads_);
      shape.warehouses = size.warehouses;
      shape.items = size.items;
      shape.customers = size.customers;
    }
    measured_database m = measure(machine_, shape, transactions_);
    note(c, m.phase, m.reading);
    results_.add(c, std::move(m.reading));
  }

  void note(const configuration& c, const counted_phase& p, const database_reading& r) {
    nlohmann::ordered_json one = study_entry("oltp/" + c.name(), threads_, p);
    one["technique"] = c.name();
    one["index"] = c.index;
    one["items_per_second"] = p.operations_per_second();
    one["index_cycles"] = r.index_time.value_or(0);
    one["index_stall_cycles"] = r.index_stalls.value_or(0);
    one["false_lock_transfers"] = r.false_transfers.value_or(0);
    one["true_lock_transfers"] = r.true_transfers.value_or(0);
    if (r.unused_llc) one["unused_llc_sets_of_nodes"] = *r.unused_llc;
    one["counts"] = counts_json(p);
    benchmarks_.push_back(std::move(one));
  }

  /// The tree alone: look-ups of present keys, with the compact node in memory of its own.
  void add_alone(const configuration& c) {
    const auto& trees = app::studied_trees();
    const auto tree = std::ranges::find(trees, c.index, &app::studied_tree::name);
    const simulated_entry* const entry = tree == trees.end() ? nullptr : entry_of(tree->compact);
    if (entry == nullptr) return results_.miss(c, "not in this build");
    if (plan_ == nullptr) {
      workload::plan_request p;
      p.mix = "100/0/0";
      p.keys = rows_;
      p.seed = o_.seed;
      plan_ = workload::make_plan(p);
    }
    const std::uint64_t look_ups = 16 * transactions_;
    const simulated_measurement m = run_simulation({.plans = {plan_},
                                                    .maps = {*entry},
                                                    .machine = machine_,
                                                    .threads = {threads_},
                                                    .operations = look_ups,
                                                    .warm_up = look_ups,
                                                    .seed = o_.seed},
                                                   [](std::size_t, std::size_t, const std::string&) {})
                                        .front();
    database_reading r{.speed = m.operations_per_second()};
    r.too_short = too_short(m, threads_);
    benchmarks_.push_back(study_entry("oltp/" + c.name(), threads_, m));
    benchmarks_.back()["technique"] = c.name();
    benchmarks_.back()["items_per_second"] = r.speed;
    benchmarks_.back()["counts"] = counts_json(m);
    results_.add(c, std::move(r));
  }

  [[nodiscard]] nlohmann::ordered_json document(nlohmann::ordered_json figures) const {
    nlohmann::ordered_json all =
        study_document(o_, machine_, app::dbx::study_name, app::dbx::title, app::dbx::paper);
    all["benchmarks"] = benchmarks_;
    all["study"]["figures"] = std::move(figures);
    all["study"]["contexts"] = nlohmann::ordered_json::array({all["context"]});
    all["study"]["reading"] = {
        fmt::format(
            "{} rows instead of the paper's {}; the machine's TLBs for huge pages are smaller by the same "
            "factor, so that they reach as much of the database.",
            app::grouped(rows_), app::grouped(app::dbx::papers_rows)),
        "Cycles in the index are those of operations of its map. All attempts of a transaction count.",
        "A transfer of a row lock is false if the thread was the last that had used this lock: another one "
        "has used "
        "another lock in its line."};
    return all;
  }

  const study_options& o_;
  std::vector<page> pages_;
  unsigned threads_ = 1;
  std::uint64_t rows_ = 0;
  std::uint64_t transactions_ = 0;
  sim::machine_spec machine_;
  std::set<configuration> needed_;
  std::size_t begun_ = 0;
  app::dbx::results results_;
  std::shared_ptr<const workload::workload_plan> plan_;
  nlohmann::ordered_json benchmarks_ = nlohmann::ordered_json::array();
  app::progress_line line_;
};

const registered_study registered{
    {{app::dbx::study_name,
      "ten trees as the indexes of the ATC 2018 study's database: YCSB and TPC-C, figure by figure",
      {"--machine", "--threads", "--keys", "--operations", "--seed", "--out"},
      [](const study_options& o) { return simulated_database_study(o).run(); }},
     {app::dbx::papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::dbx
