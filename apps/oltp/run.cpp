#include "apps/oltp/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "espalier/catalog/any_map.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/measure/team.hpp"
#include "espalier/memory/parts/size_class.hpp"

namespace espalier::app::db {

namespace {

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// Bytes of an index for each key, of the map that the benchmark uses: measured on a small one.
double index_bytes_a_key(const espalier::oltp::database_options& o) {
  constexpr std::uint64_t keys = 50'000;
  const any_placement arena(o.index_placement);
  any_map sample(o.map, espalier::oltp::engine::options_for(o.map, arena, nullptr));
  const auto used = [&] {
    return arena.usage().bytes_in_use + (any_map_takes_placement(o.map) ? 0 : sample.usage().bytes_in_use);
  };
  const std::uint64_t before = used();
  for (std::uint64_t i = 0; i < keys; ++i) sample.insert(measure::mix64(i), i);
  return static_cast<double>(used() - before) / static_cast<double>(keys);
}

std::uint64_t held(std::size_t bytes) {
  return size_class::has(bytes, 8) ? size_class::bytes_for(bytes, 8) : hw::whole_pages(bytes);
}

std::uint64_t bytes_now(const espalier::oltp::database& d) {
  return d.row_usage().bytes_reserved + d.index_usage().bytes_reserved;
}

/// Bytes that rows and indexes may take. Where the system does not report what it has, only a limit that was given counts.
std::uint64_t limit_of(const run_plan& plan) {
  if (plan.memory_limit != 0) return plan.memory_limit;
  const auto available = hw::available_memory_bytes();
  return available ? *available / 4 * 3 : std::numeric_limits<std::uint64_t>::max();
}

/// What one thread has done in a run.
struct work {
  std::vector<kind_result> kinds;
  std::vector<std::uint64_t> tallies;
  std::uint64_t done = 0;
  double cpu_ns = 0;
};

}  // namespace

measured measure_benchmark(benchmark& b, const run_plan& plan) {
  measured m;
  m.threads = plan.threads;
  const espalier::oltp::database_options& engine = b.database().chosen();

  // Memory.
  const double a_key = index_bytes_a_key(engine);
  double forecast = 0;
  std::uint64_t keys = 0;
  for (const benchmark::rows& r : b.expected_rows()) {
    const auto count = static_cast<double>(r.count);
    espalier::oltp::engine::row_blocks(engine, r.bytes).for_each([&](const block& part) {
      forecast += count * static_cast<double>(held(part.bytes));
    });
    forecast += count * r.indexes * a_key;
    keys += r.count * r.indexes;
  }
  m.forecast_bytes = static_cast<std::uint64_t>(forecast);
  const std::uint64_t limit = limit_of(plan);
  if (m.forecast_bytes > limit)
    throw std::runtime_error(
        fmt::format("the rows and indexes will take {} MB, more than the limit of {} MB; take fewer, or "
                    "raise --memory-limit",
                    m.forecast_bytes / 1'000'000, limit / 1'000'000));

  // Load.
  const std::vector<unsigned> pus = hw::pin_order(hw::topology::system(), hw::pin_policy::cores);
  std::atomic<std::size_t> next_part{0};
  const std::size_t parts = b.load_parts();
  const unsigned loaders =
      static_cast<unsigned>(std::min<std::size_t>(parts, std::max<std::size_t>(plan.threads, 1)));
  std::atomic<unsigned> loading{loaders};
  static_cast<void>(measure::run_team(
      loaders, pus,
      [&](unsigned, const std::function<void()>& ready) {
        struct leaving {
          std::atomic<unsigned>& left;
          ~leaving() { --left; }
        } const at_end{loading};
        ready();
        for (std::size_t part = next_part++; part < parts && !is_set(plan.interrupted); part = next_part++)
          b.load(part);
      },
      [&] {
        while (loading.load() != 0) {
          plan.progress(
              0.5 * static_cast<double>(std::min(next_part.load(), parts)) / static_cast<double>(parts),
              fmt::format("load, {} MB expected", m.forecast_bytes / 1'000'000));
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      }));
  if (is_set(plan.interrupted)) return m;
  // What the maps have retired is not of the load; the forecast does not have it either.
  for (int n = 0; n < 4; ++n) b.database().collect();
  const std::uint64_t index_bytes = b.database().index_usage().bytes_in_use;
  m.loaded_bytes = b.database().row_usage().bytes_in_use + index_bytes;
  if (!engine.one_placement && keys != 0)
    m.bytes_per_key = static_cast<double>(index_bytes) / static_cast<double>(keys);

  if (plan.inspected != nullptr) {
    plan.progress(0.5, "look where the blocks lie");
    m.layout = layout_of(b.database(), *plan.inspected);
  }

  // Run.
  const espalier::oltp::transaction_counts before = b.database().counts();
  for (const std::string_view kind : b.kinds())
    m.kinds.push_back({std::string(kind), 0, 0, measure::histogram()});
  std::vector<std::unique_ptr<client>> clients;
  for (unsigned i = 0; i < plan.threads; ++i) clients.push_back(b.connect(i, plan.threads, plan.seed));
  double cpu_ns = 0;
  std::uint64_t done = 0;
  for (unsigned run = 0; run < plan.runs && !is_set(plan.interrupted) && m.stopped_because.empty(); ++run) {
    std::atomic<bool> stop{false};
    std::atomic<unsigned> running{plan.threads};
    std::vector<work> works(plan.threads);
    const double ns = measure::run_team(
        plan.threads, pus,
        [&](unsigned index, const std::function<void()>& ready) {
          struct leaving {
            std::atomic<unsigned>& left;
            ~leaving() { --left; }
          } const at_end{running};
          client& c = *clients[index];
          work mine;
          for (const kind_result& k : m.kinds) mine.kinds.push_back({k.name, 0, 0, measure::histogram()});
          ready();
          const std::uint64_t begin = hw::thread_cpu_ns();
          while (!stop.load(std::memory_order_relaxed)) {
            const std::size_t kind = c.draw();
            const std::uint64_t from = hw::tsc_now();
            const bool committed = c.run();
            mine.kinds[kind].latency.record(static_cast<std::uint64_t>(hw::tsc_to_ns(hw::tsc_now() - from)));
            ++(committed ? mine.kinds[kind].committed : mine.kinds[kind].rolled_back);
            if (++mine.done == plan.each) stop.store(true, std::memory_order_relaxed);
          }
          mine.cpu_ns = static_cast<double>(hw::thread_cpu_ns() - begin);
          works[index] = std::move(mine);
        },
        [&] {
          const auto from = std::chrono::steady_clock::now();
          const std::chrono::duration<double> length(plan.seconds);
          while (running.load() != 0 && !stop.load()) {
            const std::chrono::duration<double> past = std::chrono::steady_clock::now() - from;
            if (plan.each == 0 && past >= length) break;
            if (is_set(plan.interrupted)) break;
            if (bytes_now(b.database()) > limit) {
              m.stopped_because = fmt::format("rows and indexes take more than {} MB", limit / 1'000'000);
              break;
            }
            plan.progress(0.5 + 0.5 * (run + std::min(past / length, 0.99)) / plan.runs,
                          fmt::format("run {} of {}", run + 1, plan.runs));
            std::this_thread::sleep_for(
                std::min<std::chrono::duration<double>>(std::chrono::milliseconds(20), length / 4));
          }
          stop = true;
        });
    std::uint64_t of_run = 0;
    for (const work& w : works) {
      for (std::size_t k = 0; k < w.kinds.size(); ++k) {
        m.kinds[k].committed += w.kinds[k].committed;
        m.kinds[k].rolled_back += w.kinds[k].rolled_back;
        m.kinds[k].latency.merge(w.kinds[k].latency);
      }
      of_run += w.done;
      cpu_ns += w.cpu_ns;
    }
    done += of_run;
    m.per_second.push_back(static_cast<double>(of_run) * 1e9 / std::max(ns, 1.0));
  }
  m.cpu_us_each = done == 0 ? 0 : cpu_ns / 1000 / static_cast<double>(done);
  m.counts = b.database().counts();
  m.counts -= before;

  // Check.
  plan.progress(0.99, "check");
  std::vector<std::uint64_t> tallies;
  for (const auto& c : clients) {
    const std::vector<std::uint64_t> one = c->tallies();
    tallies.resize(std::max(tallies.size(), one.size()));
    for (std::size_t i = 0; i < one.size(); ++i) tallies[i] += one[i];
  }
  m.shares = b.shares(tallies);
  m.conditions = b.check();
  m.row_bytes = b.database().row_usage().bytes_in_use;
  if (!engine.one_placement) m.index_bytes = b.database().index_usage().bytes_in_use;
  return m;
}

}  // namespace espalier::app::db
