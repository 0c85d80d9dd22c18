#include "espalier/workload/driver.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/measure/team.hpp"

namespace espalier::workload {

struct driver::thread_result {
  std::uint64_t operations = 0;
  double cpu_ns = 0;
  std::uint64_t sum = 0;
  std::vector<measure::histogram> latency;
  unsigned until_timed = 0;
  hw::counter_values counters;
};

namespace {

using batch = std::array<step, steps_per_batch>;

step recorded(step s) noexcept {
  if (s.op == map_operation::find || s.op == map_operation::erase) s.argument = 0;
  return s;
}

/// Waits for the time of a run, or until it is interrupted.
void wait_for_end(const run_request& request) {
  constexpr std::chrono::nanoseconds slice = std::chrono::milliseconds(100);
  const auto end = std::chrono::steady_clock::now() + request.time;
  for (auto now = end - request.time; now < end; now = std::chrono::steady_clock::now()) {
    if (is_set(request.interrupted)) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, end - now));
  }
}

void add(std::optional<std::uint64_t>& sum, bool first, const std::optional<std::uint64_t>& part) {
  if (first)
    sum = part;
  else if (sum && part)
    *sum += *part;
  else
    sum.reset();
}

/// What was counted after `before`; nothing if no section was.
std::vector<elision_counts> counted_since(const std::vector<elision_counts>& before,
                                          std::vector<elision_counts> now) {
  bool any = false;
  for (std::size_t region = 0; region < now.size(); ++region) {
    now[region] -= before[region];
    any = any || now[region].sections() != 0;
  }
  if (!any) now.clear();
  return now;
}

}  // namespace

driver::driver(subject_facts facts, const std::function<std::unique_ptr<catalog::erased_map>()>& make)
    : facts_(std::move(facts)), heap_before_(measure::heap_bytes_in_use()), map_(make()) {}

void driver::prefill(const workload_plan& plan, unsigned threads, std::span<const unsigned> pus) {
  static_cast<void>(fill({.plan = plan, .threads = threads, .pus = pus, .operations = std::nullopt}));
}

/// It ends with the last key, whatever time the request gives.
run_outcome driver::fill(run_request request) {
  const workload_plan& plan = request.plan;
  request.time = {};
  run_outcome outcome =
      run_source(request, [&](unsigned thread) { return filling_steps(plan, thread, request.threads); });
  new_keys_.value.store(plan.loaded, std::memory_order_relaxed);
  loaded_ = plan.loaded;
  std::optional<std::uint64_t> of_malloc;
  const std::optional<std::uint64_t> now = measure::heap_bytes_in_use();
  if (now && heap_before_ && *now >= *heap_before_) of_malloc = *now - *heap_before_;
  bytes_after_prefill_ = of_malloc;
  if (const std::optional<memory_usage> used = map_->usage()) {
    bytes_after_prefill_ = used->bytes_reserved;
    // The text of a std::string in a node is malloc's.
    if (plan.keys.type() == key_type::string) *bytes_after_prefill_ += of_malloc.value_or(0);
  }
  return outcome;
}

run_outcome driver::run(const run_request& request) {
  if (!request.plan.trace.empty())
    return run_source(request, [&](unsigned) { return traced_steps(request, cursor_.value); });
  if (request.plan.mix.into_empty) return fill(request);
  return run_source(request, [&](unsigned thread) { return drawn_steps(request, thread, new_keys_.value); });
}

std::optional<double> driver::bytes_per_key() const {
  if (!bytes_after_prefill_ || loaded_ == 0) return std::nullopt;
  return static_cast<double>(*bytes_after_prefill_) / static_cast<double>(loaded_);
}

inspect::snapshot driver::layout() const {
  const any_placement* const placement = map_->recording_placement();
  return placement != nullptr && placement->is_recorded() ? layout_of(facts_, *placement)
                                                          : layout_of(facts_, *map_);
}

/// make_source(thread) gives a thread its steps.
template <class MakeSource>
run_outcome driver::run_source(const run_request& request, MakeSource&& make_source) {
  cursor_.value.store(0, std::memory_order_relaxed);
  std::vector<hw::padded<thread_result>> results(request.threads);
  std::atomic<bool> stop{false};
  const bool timed = !request.operations && request.plan.trace.empty();
  run_outcome outcome;
  const std::vector<elision_counts> before = map_->transactions();
  outcome.wall_ns = measure::run_team(
      request.threads, request.pus,
      [&](unsigned thread, const std::function<void()>& ready) {
        const std::shared_ptr<void> scope = map_->thread_scope();
        thread_result& mine = results[thread].value;
        auto source = make_source(thread);
        hw::counter_set counters;
        if (request.latency_every != 0) mine.latency.resize(map_operations.size());
        mine.until_timed = request.latency_every;
        ready();
        counters.start();
        const std::uint64_t cpu_before = hw::thread_cpu_ns();
        const double share_of_map = work(source, request, thread, stop, mine);
        mine.cpu_ns = static_cast<double>(hw::thread_cpu_ns() - cpu_before) * share_of_map;
        counters.stop();
        mine.counters = counters.read();
      },
      [&] {
        if (timed) wait_for_end(request);
        stop.store(true, std::memory_order_relaxed);
      });
  outcome.transactions = counted_since(before, map_->transactions());
  for (const auto& r : results) {
    const thread_result& part = r.value;
    const bool first = outcome.cpu_ns == 0 && outcome.operations == 0;
    outcome.operations += part.operations;
    outcome.cpu_ns += part.cpu_ns;
    add(outcome.instructions, first, part.counters[hw::counter::instructions]);
    add(outcome.llc_misses, first, part.counters[hw::counter::llc_misses]);
    add(outcome.context_switches, first, part.counters[hw::counter::context_switches]);
    if (outcome.latency.empty()) {
      outcome.latency = part.latency;
    } else {
      for (std::size_t i = 0; i < part.latency.size(); ++i) outcome.latency[i].merge(part.latency[i]);
    }
  }
  return outcome;
}

/// Returns the share of its time that was the map's: the rest is for the drawing of steps.
template <class Source>
double driver::work(Source& source, const run_request& request, unsigned thread,
                    const std::atomic<bool>& stop, thread_result& mine) {
  batch all;
  const std::uint64_t begin = hw::tsc_now();
  std::uint64_t drawing = 0;
  while (const std::uint64_t count = source.more(stop.load(std::memory_order_relaxed))) {
    const std::span<step> steps = std::span(all).first(count);
    // All operations before have then ended: what they wait for is not taken for the drawing's.
    const std::uint64_t begin_of_drawing = hw::tsc_end();
    for (step& s : steps) s = source.next();
    drawing += hw::tsc_now() - begin_of_drawing;
    if (request.recorder != nullptr) {
      for (step& s : steps) {
        request.recorder->lane_of(thread).record(recorded(s));
        mine.sum += map_->apply_all(std::span(&s, 1));
      }
    } else if (request.latency_every == 0) {
      mine.sum += map_->apply_all(steps);
    } else {
      time_some(steps, request.latency_every, mine);
    }
    mine.operations += count;
  }
  const std::uint64_t all_ticks = std::max<std::uint64_t>(hw::tsc_now() - begin, 1);
  return 1 - static_cast<double>(std::min(drawing, all_ticks)) / static_cast<double>(all_ticks);
}

/// Each so-many-th step by itself, with the clock read before and after it.
void driver::time_some(std::span<const step> steps, unsigned every, thread_result& mine) {
  while (!steps.empty()) {
    const std::size_t untimed = std::min<std::size_t>(steps.size(), mine.until_timed - 1);
    mine.sum += map_->apply_all(steps.first(untimed));
    steps = steps.subspan(untimed);
    mine.until_timed -= static_cast<unsigned>(untimed);
    if (steps.empty()) return;
    const std::uint64_t begin = hw::tsc_now();
    mine.sum += map_->apply_all(steps.first(1));
    const auto ns = static_cast<std::uint64_t>(hw::tsc_to_ns(hw::tsc_end() - begin));
    mine.latency[static_cast<std::size_t>(steps.front().op)].record(ns);
    mine.until_timed = every;
    steps = steps.subspan(1);
  }
}

}  // namespace espalier::workload
