#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/dps/claims.hpp"
#include "apps/studies/dps/program.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"
#include "sim/simulation/simulation.hpp"

// The study of DPS on its machine.

namespace espalier::simulate::dps {
namespace {

using app::dps::load;
using app::dps::page;
using app::dps::panel;
using app::dps::work;

constexpr unsigned locality_threads = 10;
constexpr std::uint64_t usual_keys = 786'432;
constexpr std::uint64_t usual_operations = 4000;
constexpr std::uint64_t most_warm_lines = 4096;
/// Of a thread, where one takes as long as thousands of others: in an object beyond the caches.
constexpr std::uint64_t large_operations = 6;
/// Of a map or queue: some of its operations make a slab or reclaim nodes, and take as long as hundreds of others.
constexpr std::uint64_t usual_map_operations = 8000;
constexpr std::uint64_t usual_large_map_operations = 16'000;
constexpr std::uint64_t large_map_keys = 500'000;
/// Operations that bring a structure into the caches: enough for the largest, and for the L2 of each core.
constexpr std::uint64_t most_warm_operations = 500'000;
constexpr std::uint64_t warm_operations_of_thread = 300;
/// In a list each operation passes half of the nodes.
constexpr std::uint64_t warm_searches_of_thread = 4;
constexpr std::uint64_t keys_searched_at_once = 1024;
const std::vector<unsigned> usual_threads{1, 10, 20, 40, 80};

// Where threads run ----------------------------------------------------------------------------------------------------

struct placed_program {
  program_shape shape;
  /// A role for each thread of the simulation. Of a hardware thread that stays idle: no client and no server.
  std::vector<bool> used;
  unsigned clients = 0;
};

unsigned socket_of(const sim::machine_spec& machine, unsigned hardware_thread) {
  return hardware_thread / (machine.cores_per_socket * machine.threads_per_core);
}

/// Localities of 10 hardware threads, on as few sockets and cores as possible.
placed_program in_localities(const sim::machine_spec& machine, unsigned threads) {
  std::vector<unsigned> order = sim::thread_order(machine);
  order.resize(threads);
  std::vector<unsigned> by_core(threads);
  std::iota(by_core.begin(), by_core.end(), 0U);
  std::ranges::sort(by_core, {}, [&](unsigned thread) { return order[thread]; });
  placed_program placed;
  placed.shape.roles.resize(threads);
  placed.shape.partitions = 0;
  unsigned socket = machine.sockets;
  std::vector<unsigned> members;
  for (const unsigned thread : by_core) {
    if (const unsigned here = socket_of(machine, order[thread]);
        here != socket || members.back() == locality_threads) {
      socket = here;
      members.push_back(0);
    }
    placed.shape.roles[thread] = {.home = static_cast<unsigned>(members.size() - 1),
                                  .rank = members.back()++};
  }
  for (thread_role& role : placed.shape.roles) role.members = members[role.home];
  placed.shape.partitions = static_cast<unsigned>(members.size());
  placed.used.assign(threads, true);
  placed.clients = threads;
  return placed;
}

/// All threads prepare the structure, so that its pages alternate between their NUMA nodes; or the first does.
placed_program in_one(unsigned threads, bool interleaved) {
  placed_program placed;
  placed.shape.roles.resize(threads);
  const unsigned members = interleaved ? threads : 1;
  for (unsigned thread = 0; thread < members; ++thread)
    placed.shape.roles[thread] = {.rank = thread, .members = members};
  placed.used.assign(threads, true);
  placed.clients = threads;
  return placed;
}

/// Servers are among the threads, each on a socket of its own as long as there are sockets.
placed_program with_servers(const sim::machine_spec& machine, unsigned threads, unsigned servers) {
  const std::vector<unsigned> order = sim::thread_order(machine);
  placed_program placed;
  placed.shape.partitions = servers;
  placed.shape.roles.resize(order.size());
  placed.used.resize(order.size());
  for (unsigned server = 0; server < servers; ++server) {
    unsigned at = 0;
    while (placed.used[at] || socket_of(machine, order[at]) != server % machine.sockets) ++at;
    placed.used[at] = true;
    placed.shape.roles[at] = {.home = server, .rank = 0, .members = 1, .serves = true};
  }
  placed.clients = threads - servers;
  unsigned left = placed.clients;
  for (unsigned at = 0; left != 0; ++at) {
    if (placed.used[at]) continue;
    placed.used[at] = true;
    --left;
  }
  const auto last = std::ranges::find(placed.used.rbegin(), placed.used.rend(), true);
  placed.used.erase(last.base(), placed.used.end());
  placed.shape.roles.resize(placed.used.size());
  return placed;
}

// One measurement ------------------------------------------------------------------------------------------------------

/// State shared by the feeds of all threads.
struct operations_left {
  shared_operations operations;
  unsigned clients;
};

/// Keys are images of the first numbers. Those with smaller numbers are present at the start.
std::uint64_t key_of(std::uint64_t number) { return measure::mix64(number + 1); }

/// Numbers of keys, of which every second is present at the start, also among those that are drawn often.
class drawn_keys {
 public:
  drawn_keys(const load& l, const measure::distribution& from, std::uint64_t seed, unsigned thread)
      : keys_(l.keys), sampler_(from, seed, thread, thread + 1) {}
  std::uint64_t next() noexcept {
    const std::uint64_t rank = sampler_.next();
    return key_of(rank / 2 + (rank % 2 == 0 ? 0 : keys_));
  }
  static measure::distribution source(const load& l) {
    using enum measure::distribution_kind;
    return measure::distribution({l.skewed ? zipfian : uniform, {l.skewed ? 0.99 : 0.0}},
                                 std::max<std::uint64_t>(2 * l.keys, 1));
  }

 private:
  const std::uint64_t keys_;
  measure::sampler sampler_;
};

class drawn_feed final : public study_feed {
 public:
  /// `in_turn`: objects one after the other, for a phase that brings all of them into the caches.
  drawn_feed(const load& l, const measure::distribution& keys, std::uint64_t seed, unsigned thread,
             bool in_turn, operations_left& shared)
      : load_(l), keys_(l, keys, seed, thread), random_(seed, thread), in_turn_(in_turn), shared_(shared) {}

  bool next(catalog::step& s) override {
    const sim::own_code scope;
    if (!shared_.operations.take(has_one_)) return false;
    s = {map_operation::contains, 0, 0};
    if (load_.keys != 0) {
      s.key = keys_.next();
      if (random_.below(100) < load_.updates)
        s.op = random_.below(2) == 0 ? map_operation::insert : map_operation::erase;
    } else if (in_turn_ && load_.objects != 0) {
      s.key = shared_.operations.left() % load_.objects;
    } else {
      s.key = random_.below(load_.objects != 0 ? load_.objects : 1U << 20U);
    }
    return true;
  }
  void ended() override {
    const sim::own_code scope;
    --shared_.clients;
  }
  bool all_ended() override {
    const sim::own_code scope;
    return shared_.clients == 0;
  }

 private:
  const load& load_;
  drawn_keys keys_;
  measure::random_generator random_;
  const bool in_turn_;
  bool has_one_ = false;
  operations_left& shared_;
};

/// A thread's share of the keys at the start.
class fill_feed final : public step_feed {
 public:
  fill_feed(const load& l, const program_shape& shape, const thread_role& role)
      : keys_(l.keys), shape_(shape), role_(role), turn_(role.rank) {}

  bool next(catalog::step& s) override {
    const sim::own_code scope;
    for (; number_ < keys_; ++number_) {
      const std::uint64_t key = key_of(number_);
      if (key % shape_.partitions != role_.home) continue;
      if (turn_++ % role_.members != 0) continue;
      ++number_;
      s = {map_operation::insert, key, key};
      return true;
    }
    return false;
  }

 private:
  const std::uint64_t keys_;
  const program_shape& shape_;
  const thread_role& role_;
  std::uint64_t turn_;
  std::uint64_t number_ = 0;
};

std::unique_ptr<studied_program> program_of(const load& l, const app::dps::approach& how,
                                            program_shape& shape) {
  if (l.what == work::objects) return make_objects(shape);
  if (l.what == work::computation) return make_computation(shape);
  const std::string& structure = how.structure.empty() ? how.technique : how.structure;
  if (structure == app::dps::served_list) return make_served_list(shape);
  if (structure == app::dps::sequential_tree)
    shape.make = make_sequential_tree;
  else if (structure == app::dps::sequential_skip_list)
    shape.make = make_sequential_skip_list;
  else if (structure == app::dps::lf_s)
    shape.make = make_shared_queue;
  else
    shape.make = entry_of(structure)->make;
  return l.what == work::queue ? make_queue(shape) : make_map(shape);
}

/// Nothing if there are too few threads for servers and a client.
std::optional<placed_program> placed_for(const sim::machine_spec& machine, const std::string& name,
                                         unsigned threads) {
  using namespace app::dps;
  const std::string how = approach_of(name).technique;
  const auto chosen = [](placed_program placed, technique t) {
    placed.shape.how = t;
    return placed;
  };
  if (how == served_1 || how == served_4) {
    const unsigned servers = how == served_1 ? 1 : 4;
    if (threads <= servers) return std::nullopt;
    return chosen(with_servers(machine, threads, servers), technique::served);
  }
  if (how == delegated) return chosen(in_localities(machine, threads), technique::delegated);
  if (how == asynchronous) return chosen(in_localities(machine, threads), technique::asynchronous);
  if (how == partitioned) return chosen(in_localities(machine, threads), technique::partitioned);
  return chosen(in_one(threads, how != mcs), technique::shared);
}

/// Operations that warm the caches, and those that follow. The first take no time of the simulated machine.
struct phase_lengths {
  std::uint64_t warming = 0;
  std::uint64_t warm_up = 0;
  std::uint64_t measured = 0;
};

/// The loads one after the other on one structure, which keeps its size. Throws std::logic_error if an operation was lost.
std::vector<counted_phase> measure(const sim::machine_spec& machine, const std::vector<load>& loads,
                                   const std::string& how, placed_program placed,
                                   const phase_lengths& lengths, std::uint64_t seed) {
  const load& first = loads.front();
  program_shape& shape = placed.shape;
  shape.length = first.length;
  shape.delay = first.delay;
  shape.objects = first.objects;
  shape.lines = first.lines;
  sim::simulation simulated(machine, static_cast<unsigned>(placed.used.size()));
  std::unique_ptr<studied_program> program;
  simulated.outside_time([&] { program = program_of(first, app::dps::approach_of(how), shape); });
  simulated.without_time([&](unsigned thread) {
    if (!placed.used[thread]) return;
    fill_feed feed(first, shape, shape.roles[thread]);
    program->settle(thread, feed);
  });
  std::vector<counted_phase> measured;
  for (const load& l : loads) {
    const measure::distribution keys = drawn_keys::source(l);
    // What is drawn often comes into the caches soon.
    if (const std::uint64_t count = lengths.warming / (l.skewed ? 5 : 1); count != 0) {
      operations_left shared{{simulated, count * program->partitions_warmed()}, placed.clients};
      simulated.warm([&](unsigned thread) {
        if (!placed.used[thread]) return;
        drawn_feed feed(l, keys, seed + 2, thread, false, shared);
        program->warm(thread, feed);
      });
    }
    const auto phase = [&](std::uint64_t count, std::uint64_t draws, bool in_turn) {
      operations_left shared{{simulated, count}, placed.clients};
      return shared.operations.counted(simulated.run([&](unsigned thread) {
        if (!placed.used[thread]) return;
        drawn_feed feed(l, keys, draws, thread, in_turn, shared);
        program->operate(thread, feed);
      }));
    };
    static_cast<void>(phase(lengths.warm_up, seed, true));
    measured.push_back(phase(lengths.measured, seed + 1, false));
  }
  std::uint64_t writes = 0;
  simulated.outside_time([&] {
    writes = program->writes();
    program.reset();
  });
  if (writes != (lengths.measured + lengths.warm_up) * first.lines)
    throw std::logic_error(fmt::format("{}, {}: {} writes instead of {}: operations were lost", how,
                                       first.name(), writes,
                                       (lengths.measured + lengths.warm_up) * first.lines));
  return measured;
}

/// The accesses that need another core for 15 empty requests: reads that fetch a line, and writes that take one. Clients send
/// them together, as the server looks rarely; for DPS one after the other to a thread that only serves.
double coherence_of(const sim::machine_spec& machine, technique how, std::uint64_t seed) {
  constexpr unsigned batch = 15;
  constexpr unsigned rounds = 8;
  placed_program placed;
  if (how == technique::served) {
    placed = with_servers(machine, batch + 1, 1);
    placed.shape.pause = 20'000;
  } else {
    placed.shape.partitions = 2;
    placed.shape.roles = {{.home = 0, .members = 1, .serves = true}, {.home = 1, .members = 1}};
    placed.shape.pause = 2000;
    placed.used = {true, true};
    placed.clients = 1;
  }
  placed.shape.how = how;
  const counted_phase m = measure(machine, {{.objects = 1}}, "", std::move(placed),
                                  {.warm_up = 4 * batch, .measured = rounds * batch}, seed)
                              .front();
  return static_cast<double>(m.total.accesses - m.total.l1_hits - m.total.l2_hits + m.total.upgrades) /
         rounds;
}

// The study ------------------------------------------------------------------------------------------------------------

app::dps::setting setting_of(const study_options& o) {
  const study_place& place = o.places.front();
  app::dps::setting where;
  where.threads = o.given("--threads") ? place.threads : usual_threads;
  std::erase_if(where.threads, [&](unsigned n) { return n > place.machine.hardware_threads(); });
  std::ranges::sort(where.threads);
  where.threads.erase(std::ranges::unique(where.threads).begin(), where.threads.end());
  where.many_keys = o.given("--keys") ? o.keys : usual_keys;
  if (where.many_keys == 0) throw app::usage_error("--keys 0 is too small; at least 1 is needed");
  return where;
}

/// Levels of an external tree that is never rebalanced, with the keys inserted in the order of their numbers: a new leaf lies
/// below the later one of its neighbours in the order of keys.
unsigned depth_of_tree(std::uint64_t keys) {
  std::map<std::uint64_t, unsigned> level;
  unsigned most = 0;
  for (std::uint64_t number = 0; number < keys; ++number) {
    const auto after = level.lower_bound(key_of(number));
    unsigned mine = after == level.end() ? 0 : after->second;
    if (after != level.begin()) mine = std::max(mine, std::prev(after)->second);
    level.emplace_hint(after, key_of(number), ++mine);
    most = std::max(most, mine);
  }
  return most;
}

class simulated_dps {
 public:
  explicit simulated_dps(const study_options& o) : o_(o), where_(setting_of(o)), pages_(pages_of(where_)) {
    leave_chosen(pages_, o);
    for (const page& p : pages_) {
      for (const panel& of : p.panels) {
        for (const std::string& how : of.techniques) {
          for (const load& l : of.loads) wanted_.insert({l, how});
        }
      }
    }
  }

  int run() {
    app::study_files files(o_.out, app::dps::study_name);
    for (const page& p : pages_) {
      if (p.id == "figure-6") {
        results_.coherence_served = coherence_of(machine(), technique::served, o_.seed);
        results_.coherence_delegated = coherence_of(machine(), technique::delegated, o_.seed);
      }
      for (const std::uint64_t keys : p.depths) results_.depth[keys] = depth_of_tree(keys);
      if (!measure_all(p)) break;
      app::charted_figure figure = figure_of(p);
      figure.findings = p.judge(results_);
      files.show(std::move(figure), "simulated on " + machine().name);
    }
    std::printf("%s\n", trust);
    files.write(document(files.figures()));
    return 0;
  }

 private:
  [[nodiscard]] const sim::machine_spec& machine() const { return o_.places.front().machine; }

  /// False if an interrupt left something out.
  bool measure_all(const page& p) {
    for (const panel& of : p.panels) {
      for (const load& l : of.loads) {
        for (const std::string& how : of.techniques) {
          if (results_.find(l, how) != nullptr || is_missing(l, how)) continue;
          const auto placed = placed_for(machine(), how, l.threads);
          if (!placed) continue;
          if (app::interruption::requested()) return false;
          line_.step(begun_, wanted_.size(), fmt::format("simulating {}, {}", how, l.name()));
          measure_one(l, how, *placed);
          line_.clear();
        }
      }
    }
    return true;
  }

  /// Records a map that this build lacks.
  bool is_missing(const load& l, const std::string& name) {
    using namespace app::dps;
    if (l.what != work::map) return false;
    const approach how = approach_of(name);
    const std::string& map = how.structure.empty() ? how.technique : how.structure;
    if (map == served_list || map == sequential_tree || map == sequential_skip_list) return false;
    if (entry_of(map) != nullptr) return false;
    missing_.insert(map);
    return true;
  }

  /// And the same load with skewed draws, if it is wanted, as filling a structure takes long.
  void measure_one(const load& l, const std::string& how, placed_program placed) {
    std::vector<load> loads{l};
    if (const load skewed = l.with_skew(true); l.keys != 0 && !l.skewed && wanted_.contains({skewed, how}))
      loads.push_back(skewed);
    const std::vector<counted_phase> found =
        measure(machine(), loads, how, std::move(placed), lengths_of(l), o_.seed);
    for (std::size_t i = 0; i < loads.size(); ++i) add(loads[i], how, found[i]);
    begun_ += loads.size();
  }

  [[nodiscard]] phase_lengths lengths_of(const load& l) const {
    std::uint64_t operations = o_.given("--operations") ? o_.operations : usual_operations;
    if (l.lines > most_warm_lines) {
      // Beyond the caches every operation misses from the first on, and takes long.
      const std::uint64_t most = large_operations * l.threads;
      return {.warm_up = 1,
              .measured = o_.given("--operations") ? std::min(operations / 25 + 1, most) : most};
    }
    phase_lengths lengths;
    if (l.linear) {
      operations = std::min(operations, std::max(operations * keys_searched_at_once / l.keys,
                                                 2 * least_operations_of_thread * l.threads));
      lengths.warming = warm_searches_of_thread * l.threads;
    } else if (l.keys != 0) {
      if (!o_.given("--operations"))
        operations = l.keys < large_map_keys ? usual_map_operations : usual_large_map_operations;
      lengths.warming = std::clamp(warm_operations_of_thread * l.threads,
                                   std::min(l.keys, most_warm_operations), most_warm_operations);
    }
    // Where less is to be measured, less is warmed.
    if (operations < usual_operations && !l.linear)
      lengths.warming = lengths.warming * operations / usual_operations;
    lengths.warm_up = std::max(operations / 5 + 1, l.objects);
    lengths.measured = operations;
    return lengths;
  }

  void add(const load& l, const std::string& how, const counted_phase& m) {
    const sim::counts& c = m.total;
    results_.add(l, how,
                 {.speed = m.operations_per_second(),
                  .costs = {.remote_transfers = m.per_operation(c.remote_transfers),
                            .local_transfers = m.per_operation(c.local_transfers),
                            .memory_lines = m.per_operation(c.local_dram + c.remote_dram),
                            .stall_cycles = m.per_operation(c.stall_cycles),
                            .accesses = m.per_operation(c.accesses),
                            .remote_memory = m.per_operation(c.remote_dram),
                            .upgrades = m.per_operation(c.upgrades)},
                  .too_short = too_short(m, l.threads, l.lines)});
    nlohmann::ordered_json one = study_entry(fmt::format("dps/{}/{}", how, l.name()), l.threads, m);
    one["technique"] = how;
    one["items_per_second"] = m.operations_per_second();
    one["counts"] = counts_json(m);
    benchmarks_.push_back(std::move(one));
  }

  [[nodiscard]] app::charted_figure figure_of(const page& p) const {
    app::charted_figure figure{
        .id = p.id, .title = p.title, .summary = p.summary, .charts = p.charts, .machine = machine().name};
    for (const std::string& map : missing_) figure.miss(map, "not in this build");
    for (const panel& of : p.panels) {
      figure.charts.push_back(chart_of(
          of, of.title, of.x == nullptr ? "Longer is better." : "Higher is better.",
          of.x == nullptr ? "simulated kop/s" : "simulated Mop/s",
          of.x == nullptr ? [](const app::dps::load_reading& r) { return r.speed / 1e3; }
                          : [](const app::dps::load_reading& r) { return r.speed / 1e6; }));
      for (const app::dps::shown_count& also : of.also)
        figure.charts.push_back(chart_of(of, of.title + ": " + also.title, also.caption, also.y, also.of));
    }
    return figure;
  }

  [[nodiscard]] app::chart chart_of(const panel& of, const std::string& title, const std::string& caption,
                                    const std::string& y,
                                    double (*value)(const app::dps::load_reading&)) const {
    app::chart made{.title = title, .caption = caption, .y = y, .x = of.x_title};
    if (of.x == nullptr) {
      made.of = "Technique";
      made.more_is_better = caption.starts_with("Longer");
      for (const std::string& how : of.techniques) {
        if (const auto* const r = results_.find(of.loads.front(), how))
          made.bars.push_back({.name = how, .value = value(*r)});
      }
      return made;
    }
    for (const std::string& how : of.techniques) {
      app::chart_curve curve{how, {}};
      for (const load& l : of.loads) {
        if (const auto* const r = results_.find(l, how)) curve.points.emplace_back(of.x(l), value(*r));
      }
      if (!curve.points.empty()) made.curves.push_back(std::move(curve));
    }
    return made;
  }

  [[nodiscard]] nlohmann::ordered_json document(nlohmann::ordered_json figures) const {
    nlohmann::ordered_json all =
        study_document(o_, machine(), app::dps::study_name, app::dps::title, app::dps::paper);
    all["benchmarks"] = benchmarks_;
    nlohmann::ordered_json& study = all["study"];
    study["figures"] = std::move(figures);
    if (results_.coherence_served && results_.coherence_delegated)
      study["coherence_operations"] = {{app::dps::served_1, *results_.coherence_served},
                                       {app::dps::delegated, *results_.coherence_delegated}};
    study["contexts"] = nlohmann::ordered_json::array({all["context"]});
    return all;
  }

  const study_options& o_;
  app::dps::setting where_;
  std::vector<page> pages_;
  app::dps::results results_;
  std::set<std::pair<load, std::string>> wanted_;
  std::set<std::string> missing_;
  std::size_t begun_ = 0;
  nlohmann::ordered_json benchmarks_ = nlohmann::ordered_json::array();
  app::progress_line line_;
};

const registered_study registered{
    {{app::dps::study_name,
      "delegation between localities, figure by figure as in the paper on DPS",
      {"--machine", "--threads", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_dps(o).run(); }},
     {app::dps::papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::dps
