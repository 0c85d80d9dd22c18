#include "apps/simulate/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "apps/common/terminal.hpp"
#include "espalier/workload/drawn_steps.hpp"
#include "sim/simulation/simulation.hpp"

namespace espalier::simulate {
namespace {

using catalog::step;

/// The plan's keys, a share for each thread.
class fill_feed final : public step_feed {
 public:
  fill_feed(const workload::workload_plan& plan, unsigned thread, unsigned threads)
      : steps_(plan, thread, threads) {}

  bool next(step& s) override {
    const sim::own_code scope;
    if (steps_.more(false) == 0) return false;
    s = steps_.next();
    return true;
  }

 private:
  workload::filling_steps steps_;
};

class drawn_feed final : public step_feed {
 public:
  drawn_feed(const workload::run_request& request, unsigned thread, std::atomic<std::uint64_t>& new_keys,
             shared_operations& shared)
      : steps_(request, thread, new_keys), shared_(shared), interrupted_(request.interrupted) {}

  bool next(step& s) override {
    const sim::own_code scope;
    if (workload::is_set(interrupted_) || !shared_.take(has_one_)) return false;
    s = steps_.next();
    return true;
  }

 private:
  workload::drawn_steps steps_;
  shared_operations& shared_;
  bool has_one_ = false;
  const std::atomic<bool>* interrupted_;
};

simulated_measurement measure(const simulation_request& request, const simulated_entry& entry,
                              const std::shared_ptr<const workload::workload_plan>& plan, unsigned threads) {
  sim::simulation program(request.machine, threads, request.pinning);
  std::unique_ptr<simulated_map> map;
  program.outside_time([&] { map = entry.make(); });
  program.without_time([&](unsigned thread) {
    fill_feed feed(*plan, thread, threads);
    map->do_all(feed);
  });

  std::atomic<std::uint64_t> new_keys{plan->loaded};
  workload::run_request draws{.plan = *plan,
                              .threads = threads,
                              .pus = {},
                              .time = {},
                              .operations = std::nullopt,
                              .seed = request.seed,
                              .latency_every = 0,
                              .recorder = nullptr,
                              .interrupted = request.interrupted};
  const auto phase = [&](std::uint64_t operations) {
    shared_operations shared(program, operations);
    return shared.counted(program.run([&](unsigned thread) {
      drawn_feed feed(draws, thread, new_keys, shared);
      map->do_all(feed);
    }));
  };
  static_cast<void>(phase(request.warm_up.value_or(request.operations / 5 + 1)));
  ++draws.seed;
  std::vector<elision_counts> before;
  program.outside_time([&] { before = map->transactions(); });
  const counted_phase measured = phase(request.operations);

  std::vector<elision_counts> regions;
  std::optional<memory_usage> used;
  program.outside_time([&] {
    regions = map->transactions();
    used = map->usage();
    if (request.nodes) {
      const sim::own_code scope;
      request.nodes(workload::layout_of(entry.facts, *map));
    }
    map.reset();
  });
  for (std::size_t r = 0; r < regions.size(); ++r) regions[r] -= before[r];
  std::optional<double> bytes_per_key;
  if (used && plan->loaded != 0)
    bytes_per_key = static_cast<double>(used->bytes_in_use) / static_cast<double>(plan->loaded);
  return {measured, entry.facts, plan, threads, std::move(regions), bytes_per_key};
}

}  // namespace

std::vector<simulated_entry>& simulated_catalog() {
  static std::vector<simulated_entry> entries;
  return entries;
}

const simulated_entry* entry_of(std::string_view map) {
  const auto& all = simulated_catalog();
  const auto found = std::ranges::find(all, map, [](const simulated_entry& e) { return e.facts.name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<simulated_measurement> run_simulation(const simulation_request& request,
                                                  const simulation_observer& observer) {
  if (request.operations == 0) throw std::invalid_argument("0 operations show nothing; at least 1 is needed");
  std::vector<simulated_measurement> all;
  const std::size_t total = request.plans.size() * request.threads.size() * request.maps.size();
  for (const auto& plan : request.plans) {
    if (!plan->trace.empty()) throw std::invalid_argument("traces are not simulated yet");
    for (const unsigned threads : request.threads) {
      for (const simulated_entry& entry : request.maps) {
        observer(all.size(), total,
                 fmt::format("{}: {}, {}", plan->name, entry.facts.name, app::number_of(threads, "thread")));
        simulated_measurement m = measure(request, entry, plan, threads);
        if (workload::is_set(request.interrupted)) return all;
        all.push_back(std::move(m));
      }
    }
  }
  return all;
}

}  // namespace espalier::simulate
