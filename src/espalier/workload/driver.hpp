#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/workload/context.hpp"
#include "espalier/workload/step.hpp"
#include "espalier/workload/subject.hpp"

// The loop that performs a plan's operations on a map of a known type. Every map, of the catalogue and of the peers, is
// driven by this code.

namespace espalier::workload {

/// Runs body(i) in `threads` new threads, pinned if PUs are given. Each calls `ready` when it is prepared, and all
/// continue together once every thread has called it. between() runs in the calling thread while they work; then they
/// are joined. Rethrows the first exception of any of them.
///
/// Returns the wall time in nanoseconds from the moment when the first body continues after `ready` to the end of the
/// last; 0 if no body calls it.
double run_team(unsigned threads, std::span<const unsigned> pus,
                const std::function<void(unsigned index, const std::function<void()>& ready)>& body,
                const std::function<void()>& between = {});

namespace detail {

struct no_thread_scope {};

template <class Map>
struct thread_scope_of {
  using type = no_thread_scope;
};
/// For a map from a library that must be notified of each thread: each thread holds an object of this type.
template <class Map>
  requires requires { typename Map::thread_scope; }
struct thread_scope_of<Map> {
  using type = typename Map::thread_scope;
};

}  // namespace detail

template <concurrent_ordered_map Map>
class driver final : public subject {
 public:
  /// The further arguments construct the map.
  template <class... Arguments>
  explicit driver(subject_facts facts, const Arguments&... arguments) : facts_(std::move(facts)) {
    heap_before_ = heap_bytes_in_use();
    map_ = std::make_unique<Map>(arguments...);
  }

  [[nodiscard]] const subject_facts& facts() const noexcept override { return facts_; }

  void prefill(const workload_plan& plan, unsigned threads, std::span<const unsigned> pus) override {
    run_team(threads, pus, [&](unsigned thread, const std::function<void()>& ready) {
      [[maybe_unused]] const typename detail::thread_scope_of<Map>::type scope;
      ready();
      const index_range mine = share_of(plan.loaded, thread, threads);
      for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
        const std::uint64_t key = plan.keys.key(plan.fill(i));
        map_->insert(key, value_for(key));
      }
    });
    new_keys_.value.store(plan.loaded, std::memory_order_relaxed);
    loaded_ = plan.loaded;
    bytes_after_prefill_ = bytes_held();
  }

  run_outcome run(const run_request& request) override {
    if (!request.plan.trace.empty())
      return run_source(request, [&](unsigned) { return traced_steps(request, cursor_.value); });
    return run_source(request,
                      [&](unsigned thread) { return drawn_steps(request, thread, new_keys_.value); });
  }

  [[nodiscard]] std::optional<double> bytes_per_key() const override {
    if (!bytes_after_prefill_ || loaded_ == 0) return std::nullopt;
    return static_cast<double>(*bytes_after_prefill_) / static_cast<double>(loaded_);
  }

  [[nodiscard]] std::optional<std::uint64_t> leaked_bytes() override {
    if constexpr (requires {
                    map_->usage();
                    map_->visit_nodes([](const void*, std::size_t, memory_role) {});
                  }) {
      if constexpr (requires { map_->domain().collect(); }) {
        while (map_->domain().collect() != 0) {
        }
      }
      std::uint64_t blocks = 0;
      std::uint64_t bytes = 0;
      map_->visit_nodes([&](const void* memory, std::size_t block_bytes, memory_role role) {
        ++blocks;
        bytes += espalier::bytes_held(map_->placement(), memory, block{block_bytes, alignof(void*), role});
      });
      const memory_usage held = map_->usage();
      if (held.blocks == blocks) return 0;
      return held.bytes_in_use > bytes ? held.bytes_in_use - bytes : 0;
    } else {
      return std::nullopt;
    }
  }

  [[nodiscard]] inspect::snapshot layout() const override {
    if constexpr (requires { map_->placement().for_each_live([](const live_block&) {}); })
      return layout_of(facts_, map_->placement());
    else
      throw std::logic_error(facts_.name + " does not record where its blocks lie");
  }

 private:
  [[nodiscard]] std::optional<std::uint64_t> bytes_held() const {
    if constexpr (requires { map_->usage(); }) {
      return map_->usage().bytes_reserved;
    } else {
      const std::optional<std::uint64_t> now = heap_bytes_in_use();
      if (!now || !heap_before_ || *now < *heap_before_) return std::nullopt;
      return *now - *heap_before_;
    }
  }

  struct thread_result {
    std::uint64_t operations = 0;
    std::uint64_t cpu_ns = 0;
    std::uint64_t sum = 0;
    std::vector<histogram> latency;
    hw::counter_values counters;
  };

  /// make_source(thread) gives a thread its steps.
  template <class MakeSource>
  run_outcome run_source(const run_request& request, MakeSource&& make_source) {
    cursor_.value.store(0, std::memory_order_relaxed);
    std::vector<hw::padded<thread_result>> results(request.threads);
    std::atomic<bool> stop{false};
    const bool timed = !request.operations && request.plan.trace.empty();
    run_outcome outcome;
    outcome.wall_ns = run_team(
        request.threads, request.pus,
        [&](unsigned thread, const std::function<void()>& ready) {
          [[maybe_unused]] const typename detail::thread_scope_of<Map>::type scope;
          thread_result& mine = results[thread].value;
          auto source = make_source(thread);
          hw::counter_set counters;
          if (request.latency_every != 0) mine.latency.resize(map_operations.size());
          ready();
          counters.start();
          const std::uint64_t cpu_before = hw::thread_cpu_ns();
          if (request.recorder != nullptr)
            loop<false, true>(source, request, thread, stop, mine);
          else if (request.latency_every != 0)
            loop<true, false>(source, request, thread, stop, mine);
          else
            loop<false, false>(source, request, thread, stop, mine);
          mine.cpu_ns = hw::thread_cpu_ns() - cpu_before;
          counters.stop();
          mine.counters = counters.read();
        },
        [&] {
          if (timed) wait_for_end(request);
          stop.store(true, std::memory_order_relaxed);
        });
    for (const auto& r : results) add(outcome, r.value);
    return outcome;
  }

  /// Waits for the time of a run, or until it is interrupted.
  static void wait_for_end(const run_request& request) {
    constexpr std::chrono::nanoseconds slice = std::chrono::milliseconds(100);
    const auto end = std::chrono::steady_clock::now() + request.time;
    for (auto now = end - request.time; now < end; now = std::chrono::steady_clock::now()) {
      if (is_set(request.interrupted)) return;
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, end - now));
    }
  }

  template <bool Latency, bool Record, class Source>
  void loop(Source& source, const run_request& request, unsigned thread, const std::atomic<bool>& stop,
            thread_result& mine) {
    [[maybe_unused]] unsigned until_timed = request.latency_every;  // NOLINT(misc-const-correctness)
    while (const std::uint64_t steps = source.more(stop.load(std::memory_order_relaxed))) {
      for (std::uint64_t i = 0; i < steps; ++i) {
        const step s = source.next();
        if constexpr (Record) request.recorder->lane_of(thread).record(recorded(s));
        if constexpr (Latency) {
          if (--until_timed == 0) {
            until_timed = request.latency_every;
            const std::uint64_t begin = hw::tsc_now();
            mine.sum += apply(*map_, s);
            const auto ns = static_cast<std::uint64_t>(hw::tsc_to_ns(hw::tsc_end() - begin));
            mine.latency[static_cast<std::size_t>(s.op)].record(ns);
            continue;
          }
        }
        mine.sum += apply(*map_, s);
      }
      mine.operations += steps;
    }
  }

  static trace_record recorded(const step& s) noexcept {
    const bool key_only = s.op == map_operation::find || s.op == map_operation::erase;
    return {s.key, key_only ? 0 : s.argument, s.op};
  }

  static void add(std::optional<std::uint64_t>& sum, bool first, const std::optional<std::uint64_t>& part) {
    if (first)
      sum = part;
    else if (sum && part)
      *sum += *part;
    else
      sum.reset();
  }

  static void add(run_outcome& outcome, const thread_result& part) {
    const bool first = outcome.cpu_ns == 0 && outcome.operations == 0;
    outcome.operations += part.operations;
    outcome.cpu_ns += static_cast<double>(part.cpu_ns);
    add(outcome.instructions, first, part.counters[hw::counter::instructions]);
    add(outcome.llc_misses, first, part.counters[hw::counter::llc_misses]);
    add(outcome.context_switches, first, part.counters[hw::counter::context_switches]);
    if (outcome.latency.empty()) {
      outcome.latency = part.latency;
    } else {
      for (std::size_t i = 0; i < part.latency.size(); ++i) outcome.latency[i].merge(part.latency[i]);
    }
    // Keeps the compiler from removing the sums of values, and with them the lookups.
    static_cast<void>(*static_cast<const volatile std::uint64_t*>(&part.sum));
  }

  subject_facts facts_;
  std::unique_ptr<Map> map_;
  std::uint64_t loaded_ = 0;
  std::optional<std::uint64_t> heap_before_;
  std::optional<std::uint64_t> bytes_after_prefill_;
  hw::padded<std::atomic<std::uint64_t>> new_keys_{};
  hw::padded<std::atomic<std::uint64_t>> cursor_{};
};

/// The facts that a catalogue entry states.
template <class Entry>
[[nodiscard]] subject_facts facts_of(subject_kind kind) {
  using map = typename Entry::map_type;
  subject_facts facts;
  facts.name = Entry::name();
  facts.algorithm = Entry::algorithm;
  facts.variant = Entry::variant;
  facts.kind = kind;
  facts.properties = map::properties;
  if constexpr (requires { map::node_bytes; }) facts.node_bytes = map::node_bytes;
  if constexpr (requires { map::node_members; }) facts.node_members = map::node_members;
  if constexpr (requires { typename map::traits_type; })
    facts.placement = map::traits_type::placement_type::name;
  else
    facts.placement = "unavailable";
  if constexpr (requires { map::supports_erase; }) facts.supports_erase = map::supports_erase;
  if constexpr (requires { map::supports_scan; }) facts.supports_scan = map::supports_scan;
  return facts;
}

/// Adds every entry of a catalogue list to the registry. Returns true, for use in an initialiser.
template <class EntryList>
bool register_subjects(subject_kind kind) {
  EntryList::for_each([kind]<class Entry>() {
    const subject_facts facts = facts_of<Entry>(kind);
    registration r{facts, [facts] { return std::make_unique<driver<typename Entry::map_type>>(facts); }, {}};
    if constexpr (rebindable<typename Entry::map_type>) {
      if constexpr (Entry::placement_is == catalog::placing::chosen) {
        r.make_placed = [facts](std::string_view placement, any_placement::recording keeps) {
          using map = catalog::placed<typename Entry::map_type, any_placement>;
          return std::make_unique<driver<map>>(placed_facts(facts, placement), nullptr, placement, keeps);
        };
      }
    }
    registry().push_back(std::move(r));
  });
  return true;
}

}  // namespace espalier::workload
