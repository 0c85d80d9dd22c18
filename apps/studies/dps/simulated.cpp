#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/dps/claims.hpp"
#include "apps/studies/dps/measuring.hpp"
#include "apps/studies/dps/program.hpp"
#include "apps/studies/placed_threads.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"
#include "sim/simulation/simulation.hpp"

// The study of DPS on its machine.

namespace espalier::simulate::dps {
namespace {

using app::dps::load;
using app::dps::page;
using app::dps::work;

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

// One measurement ------------------------------------------------------------------------------------------------------

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

class drawn_feed final : public client_feed<study_feed> {
 public:
  /// `in_turn`: objects one after the other, for a phase that brings all of them into the caches.
  drawn_feed(const load& l, const measure::distribution& keys, std::uint64_t seed, unsigned thread,
             bool in_turn, phase_state& shared)
      : client_feed(shared),
        load_(l),
        keys_(l, keys, seed, thread),
        random_(seed, thread),
        left_(shared.operations),
        in_turn_(in_turn) {}

  bool next(catalog::step& s) override {
    const sim::own_code scope;
    if (!take()) return false;
    s = {map_operation::contains, 0, 0};
    if (load_.keys != 0) {
      s.key = keys_.next();
      if (random_.below(100) < load_.updates)
        s.op = random_.below(2) == 0 ? map_operation::insert : map_operation::erase;
    } else if (in_turn_ && load_.objects != 0) {
      s.key = left_.left() % load_.objects;
    } else {
      s.key = random_.below(load_.objects != 0 ? load_.objects : 1U << 20U);
    }
    return true;
  }

 private:
  const load& load_;
  drawn_keys keys_;
  measure::random_generator random_;
  const shared_operations& left_;
  const bool in_turn_;
};

/// A thread's share of the keys at the start.
class fill_feed final : public step_feed {
 public:
  fill_feed(const load& l, const program_shape& shape, const app::thread_role& role)
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
  const app::thread_role& role_;
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

/// Threads, and how they reach the structure.
struct placed_program : placed_threads {
  technique how;
  /// As in program_shape.
  std::uint64_t pause = 0;
};

/// Nothing if there are too few threads for servers and a client.
std::optional<placed_program> placed_for(const sim::machine_spec& machine, const std::string& name,
                                         unsigned threads) {
  using namespace app::dps;
  const std::string how = approach_of(name).technique;
  const auto chosen = [](placed_threads placed, technique t) { return placed_program{std::move(placed), t}; };
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
  unsigned most_phases = 1;
};

/// The loads one after the other on one structure, which keeps its size. Throws std::logic_error if an operation was lost.
std::vector<counted_phase> measure(const sim::machine_spec& machine, const std::vector<load>& loads,
                                   const std::string& how, const placed_program& placed,
                                   const phase_lengths& lengths, std::uint64_t seed) {
  const load& first = loads.front();
  program_shape shape{.how = placed.how,
                      .roles = placed.roles,
                      .partitions = placed.partitions,
                      .length = first.length,
                      .delay = first.delay,
                      .pause = placed.pause,
                      .objects = first.objects,
                      .lines = first.lines};
  sim::simulation simulated(machine, static_cast<unsigned>(placed.used.size()));
  std::unique_ptr<studied_program> program;
  simulated.outside_time([&] { program = program_of(first, app::dps::approach_of(how), shape); });
  simulated.without_time([&](unsigned thread) {
    if (!placed.used[thread]) return;
    fill_feed feed(first, shape, shape.roles[thread]);
    program->settle(thread, feed);
  });
  std::vector<counted_phase> measured;
  std::uint64_t all = 0;
  for (const load& l : loads) {
    const measure::distribution keys = drawn_keys::source(l);
    // What is drawn often comes into the caches soon.
    if (const std::uint64_t count = lengths.warming / (l.skewed ? 5 : 1); count != 0) {
      phase_state shared(simulated, count * program->partitions_warmed(), placed.clients);
      simulated.warm([&](unsigned thread) {
        if (!placed.used[thread]) return;
        drawn_feed feed(l, keys, seed + 2, thread, false, shared);
        program->warm(thread, feed);
      });
    }
    const auto phase = [&](std::uint64_t count, std::uint64_t draws, bool in_turn) {
      all += count;
      phase_state shared(simulated, count, placed.clients);
      return shared.operations.counted(simulated.run([&](unsigned thread) {
        if (!placed.used[thread]) return;
        drawn_feed feed(l, keys, draws, thread, in_turn, shared);
        program->operate(thread, feed);
      }));
    };
    static_cast<void>(phase(lengths.warm_up, seed, true));
    measured.push_back(run_until_even(lengths.measured, lengths.most_phases,
                                      [&](std::uint64_t count) { return phase(count, seed + 1, false); }));
  }
  std::uint64_t writes = 0;
  simulated.outside_time([&] {
    writes = program->writes();
    program.reset();
  });
  if (writes != all * first.lines)
    throw std::logic_error(fmt::format("{}, {}: {} writes instead of {}: operations were lost", how,
                                       first.name(), writes, all * first.lines));
  return measured;
}

/// The accesses that need another core for 15 empty requests: reads that fetch a line, and writes that take one. Clients send
/// them together, as the server looks rarely; for DPS one after the other to a thread that only serves.
double coherence_of(const sim::machine_spec& machine, technique how, std::uint64_t seed) {
  constexpr unsigned batch = 15;
  constexpr unsigned rounds = 8;
  placed_program placed{{}, how, how == technique::served ? 20'000U : 2000U};
  if (how == technique::served)
    static_cast<placed_threads&>(placed) = with_servers(machine, batch + 1, 1);
  else
    static_cast<placed_threads&>(placed) = {{{.home = 0, .serves = true}, {.home = 1}}, 2, {true, true}, 1};
  const counted_phase m =
      measure(machine, {{.objects = 1}}, "", placed, {.warm_up = 4 * batch, .measured = rounds * batch}, seed)
          .front();
  return static_cast<double>(m.total.accesses - m.total.l1_hits - m.total.l2_hits + m.total.upgrades) /
         rounds;
}

// The study ------------------------------------------------------------------------------------------------------------

app::dps::setting setting_of(const study_options& o) {
  app::dps::setting where;
  where.threads = threads_of(o, usual_threads);
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

class simulated_dps final : public measured_pages {
 public:
  explicit simulated_dps(const study_options& o)
      : measured_pages(o, app::dps::study_name, pages_of(setting_of(o))) {}

 private:
  void before(const page& p) override {
    if (p.id == "figure-6") {
      results_.coherence_served = coherence_of(machine(), technique::served, options().seed);
      results_.coherence_delegated = coherence_of(machine(), technique::delegated, options().seed);
    }
    for (const std::uint64_t keys : p.depths) results_.depth[keys] = depth_of_tree(keys);
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
  void measure_one(const load& l, const std::string& how) override {
    const auto placed = placed_for(machine(), how, l.threads);
    if (!placed || is_missing(l, how)) return;
    std::vector<load> loads{l};
    if (const load skewed = l.with_skew(true); l.keys != 0 && !l.skewed && is_wanted(skewed, how))
      loads.push_back(skewed);
    const std::vector<counted_phase> found =
        measure(machine(), loads, how, *placed, lengths_of(l), options().seed);
    for (std::size_t i = 0; i < loads.size(); ++i)
      add(loads[i], how, reading_of(found[i], l.threads, l.lines), found[i]);
  }

  [[nodiscard]] phase_lengths lengths_of(const load& l) const {
    std::uint64_t operations = options().given("--operations") ? options().operations : usual_operations;
    if (l.lines > most_warm_lines) {
      // Beyond the caches every operation misses from the first on, and takes long.
      const std::uint64_t most = large_operations * l.threads;
      return {.warm_up = 1,
              .measured = options().given("--operations") ? std::min(operations / 25 + 1, most) : most};
    }
    phase_lengths lengths;
    if (l.linear) {
      operations = std::min(operations, std::max(operations * keys_searched_at_once / l.keys,
                                                 2 * least_operations_of_thread * l.threads));
      lengths.warming = warm_searches_of_thread * l.threads;
    } else if (l.keys != 0) {
      if (!options().given("--operations"))
        operations = l.keys < large_map_keys ? usual_map_operations : usual_large_map_operations;
      lengths.warming = std::clamp(warm_operations_of_thread * l.threads,
                                   std::min(l.keys, most_warm_operations), most_warm_operations);
    }
    // Where less is to be measured, less is warmed.
    if (operations < usual_operations && !l.linear)
      lengths.warming = lengths.warming * operations / usual_operations;
    lengths.warm_up = std::max(operations / 5 + 1, l.objects);
    lengths.measured = operations;
    lengths.most_phases = most_phases();
    return lengths;
  }

  void complete(app::charted_figure& figure) const override {
    for (const std::string& map : missing_) figure.miss(map, "not in this build");
  }
  void complete(nlohmann::ordered_json& study) const override {
    if (results_.coherence_served && results_.coherence_delegated)
      study["coherence_operations"] = {{app::dps::served_1, *results_.coherence_served},
                                       {app::dps::delegated, *results_.coherence_delegated}};
  }

  std::set<std::string> missing_;
};

const registered_study registered{
    {{app::dps::study_name,
      "delegation between localities, figure by figure as in the paper on DPS",
      {"--machine", "--threads", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_dps(o).run(app::dps::title, app::dps::paper); }},
     {app::dps::papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::dps
