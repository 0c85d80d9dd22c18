#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/cache/claims.hpp"
#include "apps/studies/cache/engines.hpp"
#include "apps/studies/cache/values.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/histogram.hpp"
#include "sim/simulation/simulation.hpp"

// The study of caches on its paper's machine.

namespace espalier::simulate::caches {
namespace {

using namespace app::caches;

constexpr unsigned locality_threads = 10;
constexpr std::uint64_t usual_items = 65'536;
constexpr std::uint64_t usual_operations = 4000;
const std::vector<unsigned> usual_threads{1, 20, 40, 80};

// Where threads run ----------------------------------------------------------------------------------------------------

/// Localities of 10 hardware threads, each within one socket and on as few cores as possible.
void place_in_localities(const sim::machine_spec& machine, cache_shape& shape) {
  std::vector<unsigned> order = sim::thread_order(machine);
  order.resize(shape.roles.size());
  const unsigned in_socket = machine.cores_per_socket * machine.threads_per_core;
  std::vector<unsigned> members;
  for (unsigned socket = 0; socket < machine.sockets; ++socket) {
    std::vector<std::pair<unsigned, unsigned>> here;  // hardware thread, thread
    for (unsigned thread = 0; thread < order.size(); ++thread)
      if (order[thread] / in_socket == socket) here.emplace_back(order[thread], thread);
    std::ranges::sort(here);
    for (unsigned i = 0; i < here.size(); ++i) {
      if (i % locality_threads == 0) members.push_back(0);
      shape.roles[here[i].second] = {.home = static_cast<unsigned>(members.size() - 1),
                                     .rank = members.back()++};
    }
  }
  for (thread_role& role : shape.roles) role.members = members[role.home];
  shape.partitions = static_cast<unsigned>(members.size());
}

/// Nothing if there are too few threads for a server and a client.
std::optional<cache_shape> shape_of(const sim::machine_spec& machine, engine how, const load& l,
                                    std::uint64_t items) {
  cache_shape shape{.how = how, .roles = {}, .partitions = 1, .items = items, .value_bytes = l.value_bytes};
  shape.roles.resize(l.threads);
  switch (how) {
    case engine::stock:
    case engine::parsec:
      for (unsigned i = 0; i < l.threads; ++i) shape.roles[i] = {.rank = i, .members = l.threads};
      return shape;
    case engine::ffwd:
      if (l.threads == 1) return std::nullopt;
      shape.roles.front().serves = true;
      return shape;
    case engine::dps:
    case engine::dps_parsec:
    case engine::dps_parsec_fenced:
      place_in_localities(machine, shape);
      return shape;
  }
  return std::nullopt;
}

// One measurement ------------------------------------------------------------------------------------------------------

/// State shared by the feeds of all threads in a phase.
struct phase_state {
  phase_state(const sim::simulation& s, std::uint64_t count, unsigned threads)
      : in(s), operations(s, count), clients(threads) {}

  const sim::simulation& in;
  shared_operations operations;
  unsigned clients;
  measure::histogram cycles{3};
  std::uint64_t gets = 0;
  std::uint64_t misses = 0;
  std::uint64_t overwritten = 0;
  std::uint64_t wrong = 0;
};

class drawn_feed final : public request_feed {
 public:
  drawn_feed(const load& l, const measure::distribution& keys, std::uint64_t seed, unsigned thread,
             own_values& mine, phase_state& shared)
      : sets_(l.sets),
        keys_(keys, seed, thread, l.threads),
        random_(seed, thread),
        mine_(mine),
        shared_(shared) {}

  bool next(request& r) override {
    const sim::own_code scope;
    const std::uint64_t now = shared_.in.clock();
    if (has_one_) shared_.cycles.record(now - began_);
    began_ = now;
    if (!shared_.operations.take(has_one_)) return false;
    r = {keys_.next(), random_.below(100) < sets_};
    return true;
  }
  void make_value(std::uint64_t number, std::byte* value) override {
    const sim::own_code scope;
    mine_.make_next(number, value);
  }
  void got(std::uint64_t number, const std::byte* value) override {
    const sim::own_code scope;
    ++shared_.gets;
    if (value == nullptr) {
      ++shared_.misses;
      return;
    }
    const own_values::finding found = mine_.judge(number, value);
    shared_.overwritten += found == own_values::finding::overwritten ? 1 : 0;
    shared_.wrong += found == own_values::finding::wrong ? 1 : 0;
  }
  void was_set(std::uint64_t /*number*/, bool stored) override {
    const sim::own_code scope;
    shared_.wrong += stored ? 0 : 1;
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
  unsigned sets_;
  measure::sampler keys_;
  measure::random_generator random_;
  own_values& mine_;
  phase_state& shared_;
  bool has_one_ = false;
  std::uint64_t began_ = 0;
};

/// Items as they are at the start.
class first_feed final : public request_feed {
 public:
  explicit first_feed(std::size_t value_bytes) : value_bytes_(value_bytes) {}

  bool next(request& /*r*/) override { return false; }
  void make_value(std::uint64_t number, std::byte* value) override {
    const sim::own_code scope;
    own_values::make_first(number, value, value_bytes_);
  }
  void got(std::uint64_t /*number*/, const std::byte* /*value*/) override {}
  void was_set(std::uint64_t /*number*/, bool stored) override {
    if (!stored) throw std::logic_error("an item does not fit at the start");
  }
  void ended() override {}
  bool all_ended() override { return true; }

 private:
  std::size_t value_bytes_;
};

struct measured_load {
  load_reading reading;
  counted_phase phase;
};

/// Throws std::logic_error if a get returned a wrong value, or a set was lost.
measured_load measure(const sim::machine_spec& machine, const load& l, engine how, const cache_shape& shape,
                      std::uint64_t operations, std::uint64_t seed) {
  sim::simulation simulated(machine, l.threads);
  std::unique_ptr<studied_cache> cache;
  simulated.outside_time([&] { cache = make_cache(shape); });
  simulated.without_time([&](unsigned thread) {
    first_feed feed(l.value_bytes);
    cache->settle(thread, feed);
  });
  const measure::distribution keys({measure::distribution_kind::scrambled_zipfian, {zipf_exponent}},
                                   shape.items, seed);
  std::vector<own_values> values;
  for (unsigned i = 0; i < l.threads; ++i) values.emplace_back(i, shape.items, l.value_bytes);
  const unsigned clients = l.threads - (how == engine::ffwd ? 1 : 0);
  const auto run = [&](phase_state& shared, std::uint64_t with) {
    return shared.operations.counted(simulated.run([&](unsigned thread) {
      drawn_feed feed(l, keys, with, thread, values[thread], shared);
      cache->operate(thread, feed);
    }));
  };
  phase_state warm(simulated, operations, clients);
  static_cast<void>(run(warm, seed + 1));
  phase_state shared(simulated, operations, clients);
  measured_load m{{}, run(shared, seed + 2)};
  std::uint64_t lost = 0;
  simulated.outside_time([&] {
    std::vector<std::byte> value(l.value_bytes);
    for (std::uint64_t number = 0; number < shape.items; ++number) {
      if (cache->find(number, value.data()) && !own_values::is_last(number, value.data(), values)) ++lost;
    }
    cache.reset();
  });
  const bool may_be_late = how == engine::dps_parsec;
  const std::uint64_t wrong =
      warm.wrong + shared.wrong + (may_be_late ? 0 : warm.overwritten + shared.overwritten);
  check_contents(how, l, wrong, lost);
  const sim::counts& c = m.phase.total;
  const auto at = [&](double fraction) {
    return static_cast<double>(shared.cycles.value_at(fraction).value_or(0));
  };
  const double gets = static_cast<double>(std::max<std::uint64_t>(shared.gets, 1));
  m.reading = {.speed = m.phase.operations_per_second(),
               .remote_transfers = m.phase.per_operation(c.remote_transfers),
               .local_transfers = m.phase.per_operation(c.local_transfers),
               .memory_lines = m.phase.per_operation(c.local_dram + c.remote_dram),
               .stall_cycles = m.phase.per_operation(c.stall_cycles),
               .p50 = at(0.5),
               .p99 = at(0.99),
               .p999 = at(0.999),
               .hits = 1 - static_cast<double>(shared.misses) / gets,
               .overwritten = static_cast<double>(shared.overwritten) / gets,
               .too_short = too_short(m.phase, l.threads)};
  return m;
}

// The study ------------------------------------------------------------------------------------------------------------

std::vector<unsigned> threads_of(const study_options& o) {
  const study_place& place = o.places.front();
  std::vector<unsigned> threads = o.given("--threads") ? place.threads : usual_threads;
  std::erase_if(threads, [&](unsigned n) { return n > place.machine.hardware_threads(); });
  std::ranges::sort(threads);
  threads.erase(std::ranges::unique(threads).begin(), threads.end());
  return threads;
}

class simulated_caches {
 public:
  explicit simulated_caches(const study_options& o) : o_(o), pages_(pages_of(threads_of(o))) {
    if (o.given("--keys")) items_ = o.keys;
    if (items_ == 0) throw app::usage_error("--keys 0 is too small; at least 1 is needed");
    for (const page& p : pages_) configurations_ += p.loads.size() * p.engines.size();
  }

  int run() {
    app::study_files files(o_.out, study_name);
    for (const page& p : pages_) {
      if (!measure_all(p)) break;
      app::charted_figure figure = figure_of(p);
      figure.findings = p.judge(results_);
      files.show(std::move(figure), "simulated on " + machine().name);
    }
    std::printf("%s\n", trust);
    nlohmann::ordered_json all = study_document(o_, machine(), study_name, title, paper);
    all["benchmarks"] = benchmarks_;
    all["study"]["items"] = items_;
    all["study"]["zipf_exponent"] = zipf_exponent;
    all["study"]["figures"] = files.figures();
    all["study"]["contexts"] = nlohmann::ordered_json::array({all["context"]});
    files.write(all);
    return 0;
  }

 private:
  [[nodiscard]] const sim::machine_spec& machine() const { return o_.places.front().machine; }

  /// False if an interrupt left something out.
  bool measure_all(const page& p) {
    for (const load& l : p.loads) {
      for (const engine how : p.engines) {
        ++begun_;
        if (results_.find(l, how) != nullptr) continue;
        const auto shape = shape_of(machine(), how, l, items_);
        if (!shape) continue;
        if (app::interruption::requested()) return false;
        line_.step(begun_, configurations_, fmt::format("simulating {}, {}", name_of(how), l.name()));
        add(l, how,
            measure(machine(), l, how, *shape, o_.given("--operations") ? o_.operations : usual_operations,
                    o_.seed));
        line_.clear();
      }
    }
    return true;
  }

  void add(const load& l, engine how, const measured_load& m) {
    results_.add(l, how, m.reading);
    nlohmann::ordered_json one =
        study_entry(fmt::format("cache/{}/{}", name_of(how), l.name()), l.threads, m.phase);
    one["technique"] = name_of(how);
    one["items_per_second"] = m.reading.speed;
    one["latency_cycles"] = {{"p50", m.reading.p50}, {"p99", m.reading.p99}, {"p99.9", m.reading.p999}};
    one["hits"] = m.reading.hits;
    one["overwritten"] = m.reading.overwritten;
    one["counts"] = counts_json(m.phase);
    benchmarks_.push_back(std::move(one));
  }

  [[nodiscard]] app::charted_figure figure_of(const page& p) const {
    app::charted_figure figure{.id = p.id, .title = p.title, .summary = p.summary, .machine = machine().name};
    figure.summary += fmt::format(
        " {} items, of which the paper has a million; keys by Zipf's law with the exponent {}, where the "
        "paper names none.",
        app::grouped(items_), zipf_exponent);
    for (const shown_number& n : p.numbers) {
      app::chart& made = figure.charts.emplace_back(
          app::chart{.title = n.title, .caption = n.caption, .y = n.unit, .x = p.x_title});
      for (const engine how : p.engines) {
        app::chart_curve curve{std::string(name_of(how)), {}};
        for (const load& l : p.loads) {
          if (const load_reading* const r = results_.find(l, how))
            curve.points.emplace_back(p.x(l), n.value(*r));
        }
        if (!curve.points.empty()) made.curves.push_back(std::move(curve));
      }
    }
    return figure;
  }

  const study_options& o_;
  std::uint64_t items_ = usual_items;
  std::vector<page> pages_;
  results results_;
  std::size_t configurations_ = 0;
  std::size_t begun_ = 0;
  nlohmann::ordered_json benchmarks_ = nlohmann::ordered_json::array();
  app::progress_line line_;
};

const registered_study registered{{{study_name,
                                    "five caches, from memcached to delegation, as in the paper on DPS",
                                    {"--machine", "--threads", "--keys", "--operations", "--seed", "--out"},
                                    [](const study_options& o) { return simulated_caches(o).run(); }},
                                   {papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::caches
