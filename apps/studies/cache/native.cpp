#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/cache/claims.hpp"
#include "apps/studies/cache/engines.hpp"
#include "apps/studies/cache/values.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/statistics.hpp"

// The caches on two processors of this machine: that each get is right, and what an engine costs where there is one socket. What
// a locality gains needs sockets, and is simulated (simulated.cpp).

namespace espalier::app::caches {
namespace {

constexpr std::uint64_t usual_items = 1'000'000;
constexpr std::uint64_t usual_requests = 1'000'000;
constexpr unsigned threads = 2;

/// A thread's requests, and what it has found.
class native_feed final : public request_feed {
 public:
  native_feed(const measure::distribution& keys, std::uint64_t seed, unsigned thread, const load& l,
              std::uint64_t items, std::atomic<unsigned>& clients)
      : sets_(l.updates),
        value_bytes_(l.value_bytes),
        keys_(keys, seed, thread, threads),
        random_(seed, thread),
        values_(thread, items, l.value_bytes),
        clients_(clients) {}

  /// The next requests; before, it provides values to begin with.
  void begin(std::uint64_t requests) {
    left_ = requests;
    begins_ = false;
  }

  bool next(request& r) override {
    if (left_ == 0) return false;
    --left_;
    r = {keys_.next(), random_.below(100) < sets_};
    return true;
  }
  void make_value(std::uint64_t number, std::byte* value) override {
    if (begins_)
      own_values::make_first(number, value, value_bytes_);
    else
      values_.make_next(number, value);
  }
  void got(std::uint64_t number, const std::byte* value) override {
    ++gets;
    if (value == nullptr) {
      ++misses;
      return;
    }
    const own_values::finding found = values_.judge(number, value);
    overwritten += found == own_values::finding::overwritten ? 1 : 0;
    wrong += found == own_values::finding::wrong ? 1 : 0;
  }
  void was_set(std::uint64_t /*number*/, bool stored) override { wrong += stored ? 0 : 1; }
  void ended() override { clients_.fetch_sub(1); }
  bool all_ended() override { return clients_.load() == 0; }

  [[nodiscard]] const own_values& values() const { return values_; }

  std::uint64_t gets = 0;
  std::uint64_t misses = 0;
  std::uint64_t overwritten = 0;
  std::uint64_t wrong = 0;

 private:
  unsigned sets_;
  std::size_t value_bytes_;
  measure::sampler keys_;
  measure::random_generator random_;
  own_values values_;
  std::atomic<unsigned>& clients_;
  std::uint64_t left_ = 0;
  bool begins_ = true;
};

cache_shape shape_of(engine how, std::uint64_t items, std::size_t value_bytes) {
  cache_shape shape{.how = how, .roles = {}, .partitions = 1, .items = items, .value_bytes = value_bytes};
  if (how == engine::stock || how == engine::parsec) {
    for (unsigned i = 0; i < threads; ++i) shape.roles.push_back({.rank = i, .members = threads});
  } else if (how == engine::ffwd) {
    shape.roles = {{.serves = true}, {}};
  } else {
    for (unsigned i = 0; i < threads; ++i) shape.roles.push_back({.home = i});
    shape.partitions = threads;
  }
  return shape;
}

/// Of all rounds of an engine.
struct engine_rounds {
  std::vector<double> nanoseconds;  ///< for a request, of all threads together
  std::uint64_t gets = 0;
  std::uint64_t misses = 0;
  std::uint64_t overwritten = 0;

  [[nodiscard]] double hits() const {
    return 1 - static_cast<double>(misses) / static_cast<double>(std::max<std::uint64_t>(gets, 1));
  }
};

/// Throws std::logic_error if a get returned a wrong value, or a set was lost.
void measure_round(engine how, const std::vector<unsigned>& pus, const load& l,
                   const measure::distribution& keys, std::uint64_t requests, std::uint64_t seed,
                   engine_rounds& into) {
  const std::unique_ptr<studied_cache> cache = make_cache(shape_of(how, keys.keys(), l.value_bytes));
  const unsigned clients = how == engine::ffwd ? 1 : threads;
  std::atomic<unsigned> running{clients};
  std::vector<std::unique_ptr<native_feed>> feeds;
  for (unsigned i = 0; i < threads; ++i)
    feeds.push_back(std::make_unique<native_feed>(keys, seed, i, l, keys.keys(), running));
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> all;
  std::uint64_t began = 0;
  for (unsigned i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const hw::scoped_pin pinned(pus[i]);
      cache->settle(i, *feeds[i]);
      feeds[i]->begin(requests / clients);
      ready.fetch_add(1);
      while (ready.load() != threads) hw::park();
      if (i == 0) began = hw::wall_ns();
      cache->operate(i, *feeds[i]);
    });
  }
  for (std::thread& one : all) one.join();
  into.nanoseconds.push_back(static_cast<double>(hw::wall_ns() - began) /
                             static_cast<double>(requests / clients * clients));
  std::uint64_t wrong = 0;
  std::vector<own_values> values;
  for (const auto& feed : feeds) {
    into.gets += feed->gets;
    into.misses += feed->misses;
    into.overwritten += feed->overwritten;
    wrong += feed->wrong + (how == engine::dps_parsec ? 0 : feed->overwritten);
    values.push_back(feed->values());
  }
  std::uint64_t lost = 0;
  std::vector<std::byte> value(l.value_bytes);
  for (std::uint64_t number = 0; number < keys.keys(); ++number) {
    if (cache->find(number, value.data()) && !own_values::is_last(number, value.data(), values)) ++lost;
  }
  check_contents(how, l, wrong, lost);
}

void run(const bench_options& o, const CLI::App& verb) {
  std::vector<unsigned> pus = hw::pin_order(hw::topology::system(), hw::pin_policy::cores);
  if (pus.size() < threads)
    throw usage_error("--study cache needs two processors; this process may run on one");
  const std::uint64_t items = is_given(verb, "--keys") ? o.keys : usual_items;
  if (items == 0) throw usage_error("--keys 0 is too small; at least 1 is needed");
  const std::uint64_t requests =
      is_given(verb, "--operations") ? static_cast<std::uint64_t>(o.operations) : usual_requests;
  if (requests < threads) throw usage_error("--operations is too small; at least 2 are needed");
  study_files files(o.out, study_name);
  const load l = few_sets_of(threads);
  const measure::distribution keys({measure::distribution_kind::scrambled_zipfian, {zipf_exponent}}, items,
                                   o.seed);
  std::vector<engine_rounds> rounds(all_engines.size());
  progress_line line;
  // In turns: what else the machine does meanwhile affects all engines of a round.
  for (std::int64_t round = 0; round < o.runs && !interruption::requested(); ++round) {
    for (std::size_t i = 0; i < all_engines.size(); ++i) {
      line.step(static_cast<std::size_t>(round) * all_engines.size() + i,
                static_cast<std::size_t>(o.runs) * all_engines.size(), name_of(all_engines[i]));
      measure_round(all_engines[i], pus, l, keys, requests, o.seed + static_cast<std::uint64_t>(round),
                    rounds[i]);
    }
  }
  line.clear();
  if (rounds.front().nanoseconds.empty() || rounds.back().nanoseconds.empty()) return;

  charted_figure figure{.id = "engines", .title = "Few sets, small values, on two processors", .summary = {}};
  figure.summary = fmt::format("{} requests of {} items: {}.", grouped(requests), grouped(items), l.name());
  chart shown{.title = "A request of both threads", .caption = "Less is better.", .y = "ns"};
  shown.of = "Engine";
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  results measured;
  for (std::size_t i = 0; i < all_engines.size(); ++i) {
    const std::vector<double>& each = rounds[i].nanoseconds;
    const std::string name = name_of(all_engines[i]);
    const double median = measure::median(each).value_or(0);
    shown.bars.push_back(
        {.name = name, .value = median, .least = measure::minimum(each), .most = measure::maximum(each)});
    entries.push_back({{"name", "engines/" + name},
                       {"run_type", "iteration"},
                       {"real_time", median},
                       {"time_unit", "ns"},
                       {"threads", threads},
                       {"hits", rounds[i].hits()},
                       {"overwritten", rounds[i].overwritten},
                       {"rounds", each}});
    measured.add(l, name,
                 {.speed = 1e9 / median,
                  .hits = rounds[i].hits(),
                  .overwritten = static_cast<double>(rounds[i].overwritten) /
                                 static_cast<double>(std::max<std::uint64_t>(rounds[i].gets, 1))});
  }
  figure.charts.push_back(std::move(shown));
  figure.findings = {equal_hits(measured, {l}), misses_of_own_sets(measured, l)};
  files.show(std::move(figure), "two processors of this machine");
  auto document = study_results(o.seed, o.pin, study_name, native_title, paper, {});
  document["study"]["reading"] = {
      "The engines were measured in turns, round by round, each with items of its own. A bar is the median "
      "of the "
      "rounds, its whisker reaches from the least to the most.",
      "Each get is checked: the value is of its key, whole, and of a set that its thread has not "
      "overwritten. At the end "
      "of a round each key has the last value of a thread."};
  document["study"]["figures"] = files.figures();
  document["benchmarks"] = std::move(entries);
  files.write(document);
}

const registered_study cache_study{
    {study_name, native_title, {"--keys", "--operations", "--runs", "--seed", "--out"}, run}};

}  // namespace
}  // namespace espalier::app::caches
