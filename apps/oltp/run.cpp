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

run_session::run_session(benchmark& b, run_plan plan)
    : runs_(b), plan_(std::move(plan)), pus_(hw::pin_order(hw::topology::system(), hw::pin_policy::cores)) {
  m_.threads = plan_.threads;
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
  m_.forecast_bytes = static_cast<std::uint64_t>(forecast);
  limit_ = limit_of(plan_);
  if (m_.forecast_bytes > limit_)
    throw std::runtime_error(
        fmt::format("the rows and indexes will take {} MB, more than the limit of {} MB; take fewer, or "
                    "raise --memory-limit",
                    m_.forecast_bytes / 1'000'000, limit_ / 1'000'000));
  if (!load()) return;
  // What the maps have retired is not of the load; the forecast does not have it either.
  for (int n = 0; n < 4; ++n) b.database().collect();
  const std::uint64_t index_bytes = b.database().index_usage().bytes_in_use;
  m_.loaded_bytes = b.database().row_usage().bytes_in_use + index_bytes;
  if (!engine.one_placement && keys != 0)
    m_.bytes_per_key = static_cast<double>(index_bytes) / static_cast<double>(keys);
  if (plan_.inspected != nullptr) {
    plan_.progress(0.5, "look where the blocks lie");
    m_.layout = layout_of(b.database(), *plan_.inspected);
  }
  before_ = b.database().counts();
  for (const std::string_view kind : b.kinds())
    m_.kinds.push_back({std::string(kind), 0, 0, measure::histogram()});
  for (unsigned i = 0; i < plan_.threads; ++i) clients_.push_back(b.connect(i, plan_.threads, plan_.seed));
}

/// False if it was interrupted.
bool run_session::load() {
  std::atomic<std::size_t> next_part{0};
  const std::size_t parts = runs_.load_parts();
  const unsigned loaders =
      static_cast<unsigned>(std::min<std::size_t>(parts, std::max<std::size_t>(plan_.threads, 1)));
  std::atomic<unsigned> loading{loaders};
  static_cast<void>(measure::run_team(
      loaders, pus_,
      [&](unsigned, const std::function<void()>& ready) {
        struct leaving {
          std::atomic<unsigned>& left;
          ~leaving() { --left; }
        } const at_end{loading};
        ready();
        for (std::size_t part = next_part++; part < parts && !is_set(plan_.interrupted); part = next_part++)
          runs_.load(part);
      },
      [&] {
        while (loading.load() != 0) {
          plan_.progress(
              0.5 * static_cast<double>(std::min(next_part.load(), parts)) / static_cast<double>(parts),
              fmt::format("load, {} MB expected", m_.forecast_bytes / 1'000'000));
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      }));
  return !is_set(plan_.interrupted);
}

void run_session::run() {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> running{plan_.threads};
  std::vector<work> works(plan_.threads);
  const double ns = measure::run_team(
      plan_.threads, pus_,
      [&](unsigned index, const std::function<void()>& ready) {
        struct leaving {
          std::atomic<unsigned>& left;
          ~leaving() { --left; }
        } const at_end{running};
        client& c = *clients_[index];
        work mine;
        for (const kind_result& k : m_.kinds) mine.kinds.push_back({k.name, 0, 0, measure::histogram()});
        ready();
        const std::uint64_t begin = hw::thread_cpu_ns();
        while (!stop.load(std::memory_order_relaxed)) {
          const std::size_t kind = c.draw();
          const std::uint64_t from = hw::tsc_now();
          const bool committed = c.run();
          mine.kinds[kind].latency.record(static_cast<std::uint64_t>(hw::tsc_to_ns(hw::tsc_now() - from)));
          ++(committed ? mine.kinds[kind].committed : mine.kinds[kind].rolled_back);
          if (++mine.done == plan_.each) stop.store(true, std::memory_order_relaxed);
        }
        mine.cpu_ns = static_cast<double>(hw::thread_cpu_ns() - begin);
        works[index] = std::move(mine);
      },
      [&] {
        const auto from = std::chrono::steady_clock::now();
        const std::chrono::duration<double> length(plan_.seconds);
        while (running.load() != 0 && !stop.load()) {
          const std::chrono::duration<double> past = std::chrono::steady_clock::now() - from;
          if (plan_.each == 0 && past >= length) break;
          if (is_set(plan_.interrupted)) break;
          if (bytes_now(runs_.database()) > limit_) {
            m_.stopped_because = fmt::format("rows and indexes take more than {} MB", limit_ / 1'000'000);
            break;
          }
          plan_.progress(0.5 + 0.5 * (runs_done_ + std::min(past / length, 0.99)) / plan_.runs,
                         fmt::format("run {} of {}", runs_done_ + 1, plan_.runs));
          std::this_thread::sleep_for(
              std::min<std::chrono::duration<double>>(std::chrono::milliseconds(20), length / 4));
        }
        stop = true;
      });
  std::uint64_t of_run = 0;
  double cpu_ns = 0;
  for (const work& w : works) {
    for (std::size_t k = 0; k < w.kinds.size(); ++k) {
      m_.kinds[k].committed += w.kinds[k].committed;
      m_.kinds[k].rolled_back += w.kinds[k].rolled_back;
      m_.kinds[k].latency.merge(w.kinds[k].latency);
    }
    of_run += w.done;
    cpu_ns += w.cpu_ns;
  }
  done_ += of_run;
  cpu_ns_ += cpu_ns;
  ++runs_done_;
  m_.cpu_us.push_back(of_run == 0 ? 0 : cpu_ns / 1000 / static_cast<double>(of_run));
  m_.per_second.push_back(static_cast<double>(of_run) * 1e9 / std::max(ns, 1.0));
}

measured run_session::finish() {
  m_.cpu_us_each = done_ == 0 ? 0 : cpu_ns_ / 1000 / static_cast<double>(done_);
  m_.counts = runs_.database().counts();
  m_.counts -= before_;
  plan_.progress(0.99, "check");
  std::vector<std::uint64_t> tallies;
  for (const auto& c : clients_) {
    const std::vector<std::uint64_t> one = c->tallies();
    tallies.resize(std::max(tallies.size(), one.size()));
    for (std::size_t i = 0; i < one.size(); ++i) tallies[i] += one[i];
  }
  m_.shares = runs_.shares(tallies);
  m_.conditions = runs_.check();
  m_.row_bytes = runs_.database().row_usage().bytes_in_use;
  if (!runs_.database().chosen().one_placement) m_.index_bytes = runs_.database().index_usage().bytes_in_use;
  return std::move(m_);
}

bool run_session::ends_early() const { return is_set(plan_.interrupted) || !m_.stopped_because.empty(); }

measured measure_benchmark(benchmark& b, const run_plan& plan) {
  run_session s(b, plan);
  if (is_set(plan.interrupted)) return {};
  for (unsigned run = 0; run < plan.runs && !s.ends_early(); ++run) s.run();
  return s.finish();
}

}  // namespace espalier::app::db
