#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "apps/studies/dps/claims.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/delegation/partitioned_map.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/measure/statistics.hpp"

// The delegation runtime on this machine: what a message costs. Two processors are two localities. What a locality gains
// needs sockets, and is simulated (simulated.cpp).

namespace espalier::app::dps {
namespace {

using delegation::localities;
using delegation::partitions;
using delegation::runtime;

constexpr std::uint64_t usual_keys = 1'000'000;
constexpr double usual_seconds = 0.1;

struct counter {
  std::atomic<std::uint64_t> n{0};
  void add() noexcept { n.fetch_add(1, std::memory_order_relaxed); }
};

/// The processors of the two localities.
struct two_processors {
  std::array<unsigned, 2> pu;

  [[nodiscard]] localities as_localities() const { return localities::groups({{pu[0]}, {pu[1]}}); }
};

std::optional<two_processors> first_two() {
  const std::vector<unsigned> order = hw::pin_order(hw::topology::system(), hw::pin_policy::cores);
  if (order.size() < 2) return std::nullopt;
  return two_processors{{order[0], order[1]}};
}

/// Runs body(i) in n threads, thread i on the processor i modulo 2, after all have begun.
void on_both(const two_processors& where, unsigned n, const std::function<void(unsigned)>& body) {
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> all;
  for (unsigned i = 0; i < n; ++i) {
    all.emplace_back([&, i] {
      const hw::scoped_pin pinned(where.pu[i % 2]);
      ++ready;
      while (ready.load() != n) hw::park();
      body(i);
    });
  }
  for (std::thread& one : all) one.join();
}

/// The values of all rounds of one measurement.
using rounds = std::vector<double>;
double median_of(const rounds& values) { return measure::median(values).value_or(0); }

// What is measured ----------------------------------------------------------------------------------------------------

struct alignas(hw::false_sharing_bytes) line {
  std::atomic<std::uint32_t> turn{0};
};

/// Nanoseconds from one processor to the other and back through one line.
double ping_pong(const two_processors& where, unsigned trips) {
  line shared;
  rounds ticks;
  on_both(where, 2, [&](unsigned thread) {
    for (unsigned i = 0; i < trips; ++i) {
      const std::uint64_t begin = hw::tsc_now();
      if (thread == 0) shared.turn.store(2 * i + 1, std::memory_order_release);
      const std::uint32_t awaited = thread == 0 ? 2 * i + 2 : 2 * i + 1;
      while (shared.turn.load(std::memory_order_acquire) != awaited) hw::cpu_relax();
      if (thread == 0)
        ticks.push_back(static_cast<double>(hw::tsc_end() - begin));
      else
        shared.turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  return hw::tsc_to_ns(static_cast<std::uint64_t>(median_of(ticks)));
}

/// One thread submits, and the other one serves until it ends.
void submit_and_serve(const two_processors& where, const delegation::options& how,
                      const std::function<void(partitions<counter>&)>& submit) {
  runtime threads(where.as_localities(), how);
  partitions<counter> all(threads, 2);
  std::atomic<bool> ended{false};
  on_both(where, 2, [&](unsigned thread) {
    threads.attach(thread);
    if (thread == 0) {
      submit(all);
      threads.barrier();
      ended.store(true);
    } else {
      while (!ended.load(std::memory_order_relaxed)) {
        if (threads.poll() == 0) hw::cpu_relax();
      }
    }
    threads.leave();
  });
}

/// Nanoseconds of a call to the other locality.
double call(const two_processors& where, unsigned calls) {
  rounds ticks;
  delegation::options how;
  how.patience = 1'000'000;  // the other thread serves each
  submit_and_serve(where, how, [&](partitions<counter>& all) {
    for (unsigned i = 0; i < calls; ++i) {
      const std::uint64_t begin = hw::tsc_now();
      all.call_at(1, [](counter& c) { c.add(); });
      ticks.push_back(static_cast<double>(hw::tsc_end() - begin));
    }
  });
  return hw::tsc_to_ns(static_cast<std::uint64_t>(median_of(ticks)));
}

/// Nanoseconds of the submitting thread's processor time for an operation in rings of a depth.
double submission(const two_processors& where, unsigned depth, unsigned operations) {
  delegation::options how;
  how.ring_depth = depth;
  how.patience = 1'000'000;  // as for a call
  double ns = 0;
  submit_and_serve(where, how, [&](partitions<counter>& all) {
    const std::uint64_t begin = hw::thread_cpu_ns();
    for (unsigned i = 0; i < operations; ++i)
      static_cast<void>(all.execute_at(1, [](counter& c) { c.add(); }));
    all.threads().barrier();
    ns = static_cast<double>(hw::thread_cpu_ns() - begin) / operations;
  });
  return ns;
}

constexpr unsigned crowd = 8;

/// Operations per second of more threads than processors. step(thread) does one, and returns false if it could not.
double crowded(const two_processors& where, double seconds, const std::function<bool(unsigned)>& step,
               const std::function<void()>& at_end) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> done{0};
  const std::uint64_t begin = hw::wall_ns();
  std::thread clock([&] {
    usleep(static_cast<useconds_t>(seconds * 1e6));
    stop = true;
    at_end();
  });
  on_both(where, crowd, [&](unsigned thread) {
    std::uint64_t mine = 0;
    while (!stop.load(std::memory_order_relaxed)) mine += step(thread) ? 1 : 0;
    done += mine;
  });
  clock.join();
  return static_cast<double>(done.load()) * 1e9 / static_cast<double>(hw::wall_ns() - begin);
}

/// A token that threads hand round, asleep or spinning while they wait.
double token(const two_processors& where, double seconds, bool sleeps) {
  line turn;
  std::atomic<bool> stop{false};
  return crowded(
      where, seconds,
      [&](unsigned thread) {
        for (std::uint32_t seen = turn.turn.load(); seen % crowd != thread; seen = turn.turn.load()) {
          if (stop.load(std::memory_order_relaxed)) return false;
          sleeps ? hw::wait_on(turn.turn, seen) : hw::cpu_relax();
        }
        turn.turn.fetch_add(1);
        if (sleeps) hw::wake_all(turn.turn);
        return true;
      },
      [&] {
        stop = true;
        turn.turn.fetch_add(crowd);
        hw::wake_all(turn.turn);
      });
}

double crowded_calls(const two_processors& where, double seconds) {
  runtime threads(where.as_localities());
  partitions<counter> all(threads, 2);
  return crowded(
      where, seconds,
      [&](unsigned thread) {
        threads.attach(thread % 2);
        all.call_at(1 - thread % 2, [](counter& c) { c.add(); });
        return true;
      },
      [] {});
}

/// The processor time of the process, in processors, while a runtime with pollers has nothing to do.
double idle(const two_processors& where, double seconds) {
  runtime threads(where.as_localities());
  partitions<counter> all(threads, 2);
  threads.add_poller(0);
  threads.add_poller(1);
  all.call_at(0, [](counter& c) { c.add(); });
  while (threads.counts().sleeps < 2) hw::park();
  const auto used = [] {
    rusage r{};
    getrusage(RUSAGE_SELF, &r);
    return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
  };
  const double before = used();
  usleep(static_cast<useconds_t>(seconds * 1e6));
  return (used() - before) / seconds;
}

using shared_map = ordered_map<std::uint64_t, std::uint64_t>;
using part_map = espalier::partitioned<shared_map>;
constexpr unsigned batch = 32;

/// Finds by both processors in a map that they share and in one with a partition for each.
class two_maps {
 public:
  two_maps(const two_processors& where, std::uint64_t keys, std::uint64_t seed)
      : where_(where), keys_(keys), seed_(seed), threads_(where.as_localities()), parts_(threads_) {
    std::vector<shared_map::value_type> all;
    for (std::uint64_t k = 0; k < keys; ++k) all.push_back({2 * k, k});
    shared_.bulk_load(all);
    for (const auto& e : all) parts_.parts()[parts_.parts().index_of(e.key)].insert(e.key, e.value);
  }

  double in_shared(double seconds) {
    return finds(seconds, [&](measure::random_generator& r) {
      std::uint64_t present = 0;
      for (unsigned i = 0; i < batch; ++i) present += shared_.find(key(r)).has_value();
      return present;
    });
  }
  double batches_in_shared(double seconds) {
    return finds(seconds, [&](measure::random_generator& r) { return find_batch(shared_, r); });
  }
  double batches_in_parts(double seconds) {
    return finds(seconds, [&](measure::random_generator& r) { return find_batch(parts_, r); });
  }
  double in_parts(double seconds, unsigned in_flight) {
    using found = delegation::completion<std::optional<std::uint64_t>>;
    return finds(seconds, [&](measure::random_generator& r) {
      std::array<std::optional<found>, batch> flying;
      std::uint64_t present = 0;
      for (unsigned i = 0; i < batch; ++i) {
        std::optional<found>& slot = flying[i % in_flight];
        if (slot) present += slot->await().has_value();
        slot.reset();
        const std::uint64_t k = key(r);
        slot.emplace(parts_.parts().execute(k, [k](shared_map& m) { return m.find(k); }));
      }
      for (unsigned i = 0; i < in_flight; ++i) present += flying[i]->await().has_value();
      return present;
    });
  }

 private:
  std::uint64_t key(measure::random_generator& r) const { return r.below(2 * keys_); }

  template <class Map>
  std::uint64_t find_batch(Map& map, measure::random_generator& r) {
    std::array<std::uint64_t, batch> keys;
    std::array<std::optional<std::uint64_t>, batch> results;
    for (std::uint64_t& k : keys) k = key(r);
    return map.find_batch(keys, results);
  }

  /// Finds per second of both threads, of which some_finds() does a batch.
  double finds(double seconds, const std::function<std::uint64_t(measure::random_generator&)>& some_finds) {
    std::atomic<std::uint64_t> done{0};
    std::atomic<unsigned> running{2};
    const std::uint64_t begin = hw::wall_ns();
    const auto limit = static_cast<std::uint64_t>(seconds * 1e9);
    on_both(where_, 2, [&](unsigned thread) {
      threads_.attach(thread);
      measure::random_generator random(seed_, thread);
      std::uint64_t mine = 0;
      std::uint64_t present = 0;
      while (hw::wall_ns() - begin < limit) {
        for (unsigned i = 0; i < 16; ++i, mine += batch) present += some_finds(random);
      }
      present_ += present;
      threads_.barrier();
      done += mine;
      --running;
      // The other thread may still wait for this one's locality.
      while (running.load() != 0) threads_.poll();
      threads_.leave();
    });
    return static_cast<double>(done.load()) * 1e9 / static_cast<double>(hw::wall_ns() - begin);
  }

  two_processors where_;
  std::uint64_t keys_;
  std::uint64_t seed_;
  std::atomic<std::uint64_t> present_{0};  ///< so that no find is left out
  shared_map shared_;
  runtime threads_;
  part_map parts_;
};

// The study -----------------------------------------------------------------------------------------------------------

/// One way of doing a thing, and its rounds.
struct way {
  std::string name;
  std::function<double()> measure;
  rounds values{};
};

/// Ways that are compared with one another. A value is a cost, or with `more_is_better` its reciprocal.
struct comparison {
  std::string id;
  std::string title;
  std::string unit;
  std::vector<way> ways;
  bool more_is_better = false;
  std::function<judged_claim(const std::vector<way>&)> judge;
};

judgement ratio_of(const way& one, const way& other, double limit, bool at_most, std::string_view words) {
  const double ratio = median_of_ratios(one.values, other.values).value_or(0);
  const bool holds = at_most ? ratio <= limit : ratio >= limit;
  return {fmt::format("{}: {} has {:.2f} times that of {}", words, one.name, ratio, other.name),
          holds ? agreement::agrees : agreement::differs};
}

std::vector<comparison> comparisons_of(const two_processors& where, double seconds, two_maps& maps) {
  std::vector<comparison> all;
  all.push_back({"call",
                 "A call to the other locality",
                 "ns, median",
                 {{"ping-pong of one line", [&where] { return ping_pong(where, 20'000); }},
                  {"call", [&where] { return call(where, 20'000); }}},
                 false,
                 [](const std::vector<way>& w) {
                   return judged_claim{"A call takes at most two round trips of one line",
                                       ratio_of(w[1], w[0], 2, true, "Median time"), false};
                 }});
  comparison rings{"asynchronous", "Processor time to submit an operation", "ns", {}, false, {}};
  for (const unsigned depth : {1U, 8U, 64U})
    rings.ways.push_back(
        {fmt::format("ring of {}", depth), [&where, depth] { return submission(where, depth, 100'000); }});
  rings.judge = [](const std::vector<way>& w) {
    return judged_claim{"A ring of 64 hides the latency: an operation costs a third",
                        ratio_of(w[2], w[0], 1.0 / 3, true, "Time of the submitting thread"), false};
  };
  all.push_back(std::move(rings));
  all.push_back({"crowded",
                 fmt::format("{} threads on two processors", crowd),
                 "operations/s",
                 {{"spinning token", [&where, seconds] { return token(where, seconds, false); }},
                  {"sleeping token", [&where, seconds] { return token(where, seconds, true); }},
                  {"calls", [&where, seconds] { return crowded_calls(where, seconds); }}},
                 true,
                 [](const std::vector<way>& w) {
                   return judged_claim{
                       "With more threads than processors, calls have at least half the speed of a futex",
                       ratio_of(w[2], w[1], 0.5, false, "Operations per second"), false};
                 }});
  all.push_back({"idle",
                 "An idle runtime",
                 "processors in use",
                 {{"two pollers that sleep", [&where, seconds] { return idle(where, 4 * seconds); }}},
                 false,
                 [](const std::vector<way>& w) {
                   const double used = median_of(w[0].values);
                   return judged_claim{"An idle runtime uses less than a hundredth of a processor",
                                       {fmt::format("It uses {:.4f}", used),
                                        used < 0.01 ? agreement::agrees : agreement::differs},
                                       false};
                 }});
  comparison finds{"map", "Finds in ordered_map, shared and in two partitions", "finds/s", {}, true, {}};
  finds.ways.push_back({"shared", [&maps, seconds] { return maps.in_shared(seconds); }});
  finds.ways.push_back({fmt::format("shared, batches of {}", batch),
                        [&maps, seconds] { return maps.batches_in_shared(seconds); }});
  for (const unsigned in_flight : {1U, 8U, 32U})
    finds.ways.push_back({fmt::format("partitioned, {} in flight", in_flight),
                          [&maps, seconds, in_flight] { return maps.in_parts(seconds, in_flight); }});
  finds.ways.push_back({fmt::format("partitioned, batches of {}", batch),
                        [&maps, seconds] { return maps.batches_in_parts(seconds); }});
  finds.judge = [](const std::vector<way>& w) {
    return judged_claim{"Within one socket partitions cost at most a fifth of the speed of a shared map",
                        ratio_of(w.back(), w[1], 0.8, false, "Finds per second"), false};
  };
  all.push_back(std::move(finds));
  return all;
}

charted_figure figure_of(const comparison& c) {
  charted_figure figure;
  figure.id = c.id;
  figure.title = c.title;
  chart shown{
      .title = c.title, .caption = c.more_is_better ? "More is better." : "Less is better.", .y = c.unit};
  shown.of = "Way";
  shown.more_is_better = c.more_is_better;
  for (const way& w : c.ways) {
    shown.bars.push_back({.name = w.name,
                          .value = median_of(w.values),
                          .least = measure::minimum(w.values),
                          .most = measure::maximum(w.values)});
  }
  figure.charts.push_back(std::move(shown));
  return figure;
}

/// As other result files have it: nanoseconds for an operation. The values of all rounds are in the comparison's unit.
nlohmann::ordered_json entry_of(const comparison& c, const way& w) {
  const double value = median_of(w.values);
  return {{"name", fmt::format("{}/{}", c.id, w.name)},
          {"run_type", "iteration"},
          {"real_time", c.more_is_better ? 1e9 / value : value},
          {"time_unit", "ns"},
          {"unit", c.unit},
          {"rounds", w.values}};
}

void run(const bench_options& o, const CLI::App& verb) {
  const std::optional<two_processors> where = first_two();
  if (!where) throw usage_error("--study dps needs two processors; this process may run on one");
  study_files files(o.out, study_name);
  two_maps maps(*where, is_given(verb, "--keys") ? o.keys : usual_keys, o.seed);
  const double seconds = is_given(verb, "--time") ? o.seconds : usual_seconds;
  std::vector<comparison> all = comparisons_of(*where, seconds, maps);
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  progress_line line;
  for (comparison& c : all) {
    // In turns: what else the machine does meanwhile affects all ways of a round.
    for (std::int64_t run = 0; run < o.runs && !interruption::requested(); ++run) {
      for (way& w : c.ways) {
        line.step(static_cast<std::size_t>(&c - all.data()), all.size(),
                  fmt::format("{}, {}", c.title, w.name));
        w.values.push_back(w.measure());
      }
    }
    line.clear();
    if (interruption::requested()) break;
    for (const way& w : c.ways) entries.push_back(entry_of(c, w));
    charted_figure figure = figure_of(c);
    figure.findings.push_back(c.judge(c.ways));
    figure.summary = figure.findings.front().ours.sentence;
    files.show(std::move(figure), "two processors of this machine");
  }
  auto document = study_results(o.seed, o.pin, study_name, native_title, paper, {});
  document["study"]["reading"] = {
      "The ways of a figure were measured in turns, round by round. A bar is the median of the rounds, its "
      "whisker reaches from the least to the most.",
      "A ratio is the median of the rounds' ratios, so that what slows the machine for a while slows both "
      "sides."};
  document["study"]["figures"] = files.figures();
  document["benchmarks"] = std::move(entries);
  files.write(document);
}

const registered_study dps_study{
    {study_name, native_title, {"--keys", "--runs", "--time", "--seed", "--out"}, run}};

}  // namespace
}  // namespace espalier::app::dps
