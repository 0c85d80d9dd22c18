#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
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

using app::dbx::access_costs;
using app::dbx::configuration;
using app::dbx::database_reading;
using app::dbx::memory;
using app::dbx::page;
using app::dbx::work;

constexpr unsigned usual_threads = 8;
/// The nodes of each thread fill a huge page, the first of its memory for them.
constexpr std::uint64_t usual_rows = 240'000;
constexpr std::uint64_t usual_transactions = 1000;
/// Transactions that warm the caches in no time, for each that is counted.
constexpr std::uint64_t warming_for_each = 8;
/// The paper gives no exponent: that of YCSB.
constexpr double theta = 0.99;

/// The machine with TLBs that reach as much of so many rows as its own reach of the paper's. With its own ones, all huge pages of a
/// few hundred thousand rows would have a translation. What is left is one set: of so few sets, pages at one stride (the first of each
/// thread's memory) would take one alone.
sim::machine_spec with_scaled_tlbs(sim::machine_spec machine, std::uint64_t rows) {
  const double scale = std::min(1.0, static_cast<double>(rows) / static_cast<double>(app::dbx::papers_rows));
  const auto scaled = [scale](hw::cache_shape& of) {
    of.ways = std::max(static_cast<unsigned>(static_cast<double>(of.sets * of.ways) * scale), 1U);
    of.sets = 1;
  };
  if (scale == 1) return machine;
  // Nearly all pages are huge ones. Those of 4 KiB have the system's stacks.
  scaled(machine.tlb.l1_huge);
  scaled(machine.tlb.l2);
  return machine;
}

/// What lies where, and which thread has used a lock last.
class block_map {
 public:
  explicit block_map(const studied_database& of) {
    std::vector<found_block> all;
    of.for_each_block(
        [](void* found, std::uint64_t address, std::size_t bytes, memory_role role) {
          static_cast<decltype(all)*>(found)->push_back({address, bytes, role});
        },
        &all);
    if (all.empty()) return;
    const auto by_address = [](const found_block& b) { return b.address; };
    first_ = std::ranges::min(all, {}, by_address).address / unit;
    const found_block last = std::ranges::max(all, {}, by_address);
    role_.resize((last.address + last.bytes - 1) / unit - first_ + 1, nothing);
    last_user_.resize(role_.size(), no_lock);
    for (const found_block& b : all) {
      const std::uint64_t begin = b.address / unit - first_;
      std::fill(role_.begin() + static_cast<std::ptrdiff_t>(begin),
                role_.begin() + static_cast<std::ptrdiff_t>((b.address + b.bytes - 1) / unit - first_ + 1),
                static_cast<std::uint8_t>(b.role));
      // A lock's word is at its front.
      if (b.role == espalier::oltp::lock_role) last_user_[begin] = unused;
    }
  }

  static constexpr std::uint8_t nothing = 255;
  [[nodiscard]] std::uint8_t role_at(std::uint64_t address) const noexcept {
    const std::uint64_t at = address / unit - first_;
    return at < role_.size() ? role_[at] : nothing;
  }

  /// The thread that has used the lock last, `unused` for none; null where there is no lock.
  [[nodiscard]] std::uint8_t* last_user(std::uint64_t address) noexcept {
    const std::uint64_t at = address / unit - first_;
    return at < last_user_.size() && last_user_[at] != no_lock ? &last_user_[at] : nullptr;
  }
  static constexpr std::uint8_t unused = 254;

 private:
  struct found_block {
    std::uint64_t address;
    std::size_t bytes;
    memory_role role;
  };
  /// Sizes of the heap's blocks are multiples of it.
  static constexpr std::uint64_t unit = 16;
  static constexpr std::uint8_t no_lock = 255;
  std::uint64_t first_ = 0;
  std::vector<std::uint8_t> role_;
  std::vector<std::uint8_t> last_user_;
};

/// What accesses to blocks of each role cost; and transfers of lines with row locks. A thread that was the last to use a lock has its
/// line, unless another thread has used another lock in it. Each use writes.
class observed_blocks {
 public:
  explicit observed_blocks(const studied_database& of) : map_(of) {}

  void see(unsigned thread, const sim::access& a, const sim::counts& c) {
    by_role_[map_.role_at(a.address)] += c;
    std::uint8_t* const user = map_.last_user(a.address);
    if (user == nullptr) return;
    const std::uint64_t moved = c.local_transfers + c.remote_transfers;
    if (moved != 0) (*user == thread || *user == block_map::unused ? falsely_ : truly_) += moved;
    *user = static_cast<std::uint8_t>(thread);
  }
  void restart() {
    by_role_ = {};
    falsely_ = truly_ = 0;
  }

  [[nodiscard]] std::uint64_t falsely() const noexcept { return falsely_; }
  [[nodiscard]] std::uint64_t truly() const noexcept { return truly_; }
  /// By the names of blocks; "other" is what is none of the database's.
  [[nodiscard]] std::map<std::string, sim::counts> by_block(const studied_database& of) const {
    std::map<std::string, sim::counts> all;
    for (std::size_t role = 0; role < by_role_.size(); ++role) {
      if (by_role_[role].accesses == 0) continue;
      all[role == block_map::nothing ? "other" : std::string(of.name_of(static_cast<memory_role>(role)))] +=
          by_role_[role];
    }
    return all;
  }

 private:
  block_map map_;
  std::array<sim::counts, block_map::nothing + 1> by_role_{};
  std::uint64_t falsely_ = 0;
  std::uint64_t truly_ = 0;
};

access_costs costs_of(const counted_phase& p, const sim::counts& c) {
  return {p.per_operation(c.accesses), p.per_operation(c.page_walks),
          p.per_operation(c.local_dram + c.remote_dram), p.per_operation(c.stall_cycles)};
}

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
                          std::uint64_t transactions, unsigned most_phases) {
  sim::simulation simulated(machine, shape.threads);
  std::unique_ptr<studied_database> program;
  simulated.outside_time([&] { program = make_studied_database(shape); });
  simulated.without_time([&](unsigned thread) { program->load(thread); });
  sim::phase_result last;
  const auto phase = [&](std::uint64_t count) {
    shared_operations shared(simulated, count);
    last = simulated.run([&](unsigned thread) {
      counted_transactions feed(shared);
      program->operate(thread, feed);
    });
    return shared.counted(last);
  };
  // From the warming on: a lock's last user may be of then.
  observed_blocks blocks(*program);
  simulated.observe(
      [&](unsigned thread, const sim::access& a, const sim::counts& c) { blocks.see(thread, a, c); });
  {
    shared_operations shared(simulated, warming_for_each * transactions);
    simulated.warm([&](unsigned thread) {
      counted_transactions feed(shared);
      program->operate(thread, feed);
    });
  }
  static_cast<void>(phase(transactions / 2 + 1));
  measured_database m{run_until_even(transactions, most_phases,
                                     [&](std::uint64_t count) {
                                       blocks.restart();
                                       return phase(count);
                                     }),
                      {}};
  const sim::counts& index = last.by_part[static_cast<std::size_t>(database_part::index)];
  const counted_phase& p = m.phase;
  database_reading& r = m.reading;
  r.speed = p.operations_per_second();
  r.index_time = p.per_operation(index.cycles);
  r.rest_time = p.per_operation(p.total.cycles - index.cycles);
  r.all = costs_of(p, p.total);
  r.in_index = costs_of(p, index);
  for (const auto& [name, counted] : blocks.by_block(*program)) r.by_block[name] = costs_of(p, counted);
  r.false_transfers = p.per_operation(blocks.falsely());
  r.true_transfers = p.per_operation(blocks.truly());
  r.too_short = too_short(p, shape.threads, 16);
  // Of TPC-C no layout is shown, and it would take a third of the time.
  if (shape.warehouses == 0) app::dbx::note_nodes(r, program->layout(machine));
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
  explicit simulated_database_study(const study_options& o) : o_(o) {
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
    pages_ = app::dbx::pages_of({.simulated = true, .rows = rows_, .threads = threads_});
    leave_chosen(pages_, o);
    app::dbx::leave_trees(pages_, o.maps);
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
    measured_database m = measure(machine_, shape, transactions_, o_.given("--operations") ? 1 : 2);
    note(c, m.phase, m.reading);
    results_.add(c, std::move(m.reading));
  }

  void note(const configuration& c, const counted_phase& p, const database_reading& r) {
    nlohmann::ordered_json one = study_entry("oltp/" + c.name(), threads_, p);
    one["technique"] = c.name();
    one["index"] = c.index;
    one["items_per_second"] = p.operations_per_second();
    one["index_cycles"] = r.index_time.value_or(0);
    if (r.in_index) one["index_stall_cycles"] = r.in_index->stalls;
    one["false_lock_transfers"] = r.false_transfers.value_or(0);
    one["true_lock_transfers"] = r.true_transfers.value_or(0);
    if (r.unused_llc) one["unused_llc_sets_of_nodes"] = *r.unused_llc;
    one["counts"] = counts_json(p);
    for (const auto& [name, costs] : r.by_block)
      one["blocks"][name] = {{"accesses", costs.accesses},
                             {"page_walks", costs.page_walks},
                             {"memory_lines", costs.memory_lines},
                             {"stall_cycles", costs.stalls}};
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
    database_reading r{.speed = m.operations_per_second(), .in_index = costs_of(m, m.total)};
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
      {"--machine", "--threads", "--maps", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_database_study(o).run(); }},
     {app::dbx::papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::dbx
