#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "apps/common/table.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/statistics.hpp"

namespace espalier::app {
namespace {

constexpr const char* unavailable = "unavailable";

template <class T>
std::string cell(const std::optional<T>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : unavailable;
}

std::string group_table(const std::vector<workload::measurement>& group, bool colour) {
  using enum table::align;
  table t(
      {"map", "Mop/s", "min..max", "of best", "CPU ns/op", "p50 ns", "p99 ns", "p99.9 ns", "B/key", "leaked"},
      {left, right, right, right, right, right, right, right, right, right});
  std::vector<const workload::measurement*> order;
  order.reserve(group.size());
  for (const auto& m : group) order.push_back(&m);
  std::ranges::sort(order, std::ranges::greater{}, [](const auto* m) { return m->median_throughput(); });
  const double best = order.empty() ? 0 : order.front()->median_throughput();
  for (const auto* m : order) {
    const auto throughput = m->throughput();
    const workload::histogram latency = workload::latency_of_all(*m);
    t.add({m->facts.kind == workload::subject_kind::peer ? m->facts.name + " (peer)" : m->facts.name,
           fmt::format("{:.3f}", m->median_throughput() / 1e6),
           fmt::format("{:.3f}..{:.3f}", workload::minimum(throughput).value_or(0) / 1e6,
                       workload::maximum(throughput).value_or(0) / 1e6),
           best > 0 ? fmt::format("{:.2f}", m->median_throughput() / best) : unavailable,
           cell(workload::median(m->cpu_ns_per_operation()), "{:.0f}"), cell(latency.value_at(0.5), "{}"),
           cell(latency.value_at(0.99), "{}"), cell(latency.value_at(0.999), "{}"),
           cell(m->bytes_per_key, "{:.1f}"), cell(m->leaked_bytes, "{}")});
  }
  return t.text(colour);
}

}  // namespace

void progress::step(std::size_t done, std::size_t total, const std::string& what) {
  line_.step(done, total, what);
}

void progress::skipped(const workload::subject_facts& map, const workload::workload_plan& plan,
                       const std::string& why) {
  line_.clear();
  std::fprintf(stderr, "%s: %s is left out: %s\n", plan.name.c_str(), map.name.c_str(), why.c_str());
}

void progress::finished(const std::vector<workload::measurement>& group) {
  line_.clear();
  const bool colour = wants_colour(STDOUT_FILENO);
  const auto& m = group.front();
  const std::string title =
      fmt::format("{}: {}{} keys, {} thread{}", m.plan->name, m.plan->trace.empty() ? "" : "trace over ",
                  m.plan->loaded, m.threads, m.threads == 1 ? "" : "s");
  std::printf("%s\n%s\n", bold(title, colour).c_str(), group_table(group, colour).c_str());
  std::fflush(stdout);
}

}  // namespace espalier::app
