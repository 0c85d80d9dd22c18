#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/simulate/session.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/cache/claims.hpp"
#include "apps/studies/cache/engines.hpp"
#include "apps/studies/cache/values.hpp"
#include "apps/studies/dps/measuring.hpp"
#include "apps/studies/placed_threads.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/histogram.hpp"
#include "sim/simulation/simulation.hpp"

// The study of caches on its paper's machine.

namespace espalier::simulate::caches {
namespace {

using namespace app::caches;
using dps::measured_pages;
using dps::reading_of;
using dps::threads_of;

constexpr unsigned locality_threads = 10;
constexpr std::uint64_t usual_items = 65'536;
constexpr std::uint64_t usual_operations = 4000;
const std::vector<unsigned> usual_threads{1, 20, 40, 80};

/// Nothing if there are too few threads for a server and a client.
std::optional<placed_threads> placed_for(const sim::machine_spec& machine, engine how, unsigned threads) {
  switch (how) {
    case engine::stock:
    case engine::parsec:
      return in_one(threads, true);
    case engine::ffwd:
      if (threads == 1) return std::nullopt;
      return with_servers(machine, threads, 1);
    case engine::dps:
    case engine::dps_parsec:
    case engine::dps_parsec_fenced:
      return in_localities(machine, threads);
  }
  return std::nullopt;
}

// One measurement ------------------------------------------------------------------------------------------------------

/// What the feeds of all threads have found in a phase.
struct found_in_phase {
  measure::histogram cycles{3};
  std::uint64_t gets = 0;
  std::uint64_t misses = 0;
  std::uint64_t overwritten = 0;
  std::uint64_t wrong = 0;
};

class drawn_feed final : public client_feed<request_feed> {
 public:
  drawn_feed(const load& l, const measure::distribution& keys, std::uint64_t seed, unsigned thread,
             own_values& mine, const sim::simulation& in, phase_state& shared, found_in_phase& found)
      : client_feed(shared),
        sets_(l.updates),
        keys_(keys, seed, thread, l.threads),
        random_(seed, thread),
        mine_(mine),
        in_(in),
        found_(found) {}

  bool next(request& r) override {
    const sim::own_code scope;
    const std::uint64_t now = in_.clock();
    if (has_one()) found_.cycles.record(now - began_);
    began_ = now;
    if (!take()) return false;
    r = {keys_.next(), random_.below(100) < sets_};
    return true;
  }
  void make_value(std::uint64_t number, std::byte* value) override {
    const sim::own_code scope;
    mine_.make_next(number, value);
  }
  void got(std::uint64_t number, const std::byte* value) override {
    const sim::own_code scope;
    ++found_.gets;
    if (value == nullptr) {
      ++found_.misses;
      return;
    }
    const own_values::finding is = mine_.judge(number, value);
    found_.overwritten += is == own_values::finding::overwritten ? 1 : 0;
    found_.wrong += is == own_values::finding::wrong ? 1 : 0;
  }
  void was_set(std::uint64_t /*number*/, bool stored) override {
    const sim::own_code scope;
    found_.wrong += stored ? 0 : 1;
  }

 private:
  unsigned sets_;
  measure::sampler keys_;
  measure::random_generator random_;
  own_values& mine_;
  const sim::simulation& in_;
  found_in_phase& found_;
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
measured_load measure(const sim::machine_spec& machine, const load& l, engine how,
                      const placed_threads& placed, std::uint64_t items, std::uint64_t operations,
                      unsigned most_phases, std::uint64_t seed) {
  const cache_shape shape{.how = how,
                          .roles = placed.roles,
                          .partitions = placed.partitions,
                          .items = items,
                          .value_bytes = l.value_bytes};
  sim::simulation simulated(machine, l.threads);
  std::unique_ptr<studied_cache> cache;
  simulated.outside_time([&] { cache = make_cache(shape); });
  simulated.without_time([&](unsigned thread) {
    first_feed feed(l.value_bytes);
    cache->settle(thread, feed);
  });
  const measure::distribution keys({measure::distribution_kind::scrambled_zipfian, {zipf_exponent}}, items,
                                   seed);
  std::vector<own_values> values;
  for (unsigned i = 0; i < l.threads; ++i) values.emplace_back(i, items, l.value_bytes);
  found_in_phase found;
  std::uint64_t wrong = 0;
  const auto run = [&](std::uint64_t count, std::uint64_t with) {
    found = {};
    phase_state shared(simulated, count, placed.clients);
    const counted_phase phase = shared.operations.counted(simulated.run([&](unsigned thread) {
      drawn_feed feed(l, keys, with, thread, values[thread], simulated, shared, found);
      cache->operate(thread, feed);
    }));
    const bool may_be_late = how == engine::dps_parsec;
    wrong += found.wrong + (may_be_late ? 0 : found.overwritten);
    return phase;
  };
  static_cast<void>(run(operations, seed + 1));
  measured_load m{
      {}, run_until_even(operations, most_phases, [&](std::uint64_t count) { return run(count, seed + 2); })};
  std::uint64_t lost = 0;
  simulated.outside_time([&] {
    std::vector<std::byte> value(l.value_bytes);
    for (std::uint64_t number = 0; number < items; ++number) {
      if (cache->find(number, value.data()) && !own_values::is_last(number, value.data(), values)) ++lost;
    }
    cache.reset();
  });
  check_contents(how, l, wrong, lost);
  m.reading = reading_of(m.phase, l.threads);
  const auto at = [&](double fraction) {
    return static_cast<double>(found.cycles.value_at(fraction).value_or(0));
  };
  m.reading.p50 = at(0.5);
  m.reading.p99 = at(0.99);
  m.reading.p999 = at(0.999);
  const double gets = static_cast<double>(std::max<std::uint64_t>(found.gets, 1));
  m.reading.hits = 1 - static_cast<double>(found.misses) / gets;
  m.reading.overwritten = static_cast<double>(found.overwritten) / gets;
  return m;
}

// The study ------------------------------------------------------------------------------------------------------------

class simulated_caches final : public measured_pages {
 public:
  explicit simulated_caches(const study_options& o)
      : measured_pages(o, study_name, pages_of(threads_of(o, usual_threads))),
        items_(o.given("--keys") ? o.keys : usual_items) {
    if (items_ == 0) throw app::usage_error("--keys 0 is too small; at least 1 is needed");
  }

 private:
  void measure_one(const load& l, const std::string& name) override {
    const engine how = engine_of(name);
    const auto placed = placed_for(machine(), how, l.threads);
    if (!placed) return;
    const measured_load m = measure(machine(), l, how, *placed, items_,
                                    options().given("--operations") ? options().operations : usual_operations,
                                    most_phases(3), options().seed);
    nlohmann::ordered_json& one = add(l, name, m.reading, m.phase);
    one["latency_cycles"] = {{"p50", m.reading.p50}, {"p99", m.reading.p99}, {"p99.9", m.reading.p999}};
    one["hits"] = m.reading.hits;
    one["overwritten"] = m.reading.overwritten;
  }
  void complete(app::charted_figure& figure) const override {
    figure.summary += fmt::format(
        " {} items, of which the paper has a million; keys by Zipf's law with the exponent {}, where the "
        "paper names none.",
        app::grouped(items_), zipf_exponent);
  }
  void complete(nlohmann::ordered_json& study) const override {
    study["items"] = items_;
    study["zipf_exponent"] = zipf_exponent;
  }

  std::uint64_t items_;
};

const registered_study registered{
    {{study_name,
      "five caches, from memcached to delegation, as in the paper on DPS",
      {"--machine", "--threads", "--keys", "--operations", "--seed", "--figure", "--out"},
      [](const study_options& o) { return simulated_caches(o).run(title, paper); }},
     {papers_machine}}};

}  // namespace
}  // namespace espalier::simulate::caches
