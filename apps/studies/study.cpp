#include "apps/studies/study.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/exit_status.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/workload/result.hpp"
#include "espalier/workload/result_document.hpp"

namespace espalier::app {
namespace {

hw::pin_policy checked_pin(const std::string& name) {
  if (name == "cores") return hw::pin_policy::cores;
  if (name == "scatter") return hw::pin_policy::scatter;
  if (name == "none") return hw::pin_policy::none;
  throw usage_error(fmt::format("--pin {} is unknown; it is cores, scatter or none", name));
}

}  // namespace

workload::session_request measurement_of(const bench_options& o) {
  check_seconds(o.seconds);
  workload::session_request s;
  s.threads = checked_threads(o.threads);
  s.pinning = checked_pin(o.pin);
  s.runs = static_cast<unsigned>(o.runs);
  s.time = std::chrono::nanoseconds(std::llround(o.seconds * 1e9));
  if (o.operations > 0) s.operations = static_cast<std::uint64_t>(o.operations);
  s.seed = o.seed;
  s.latency_every = static_cast<unsigned>(o.latency_every);
  s.check_leaks = !o.no_leak_check;
  return s;
}

// Sessions of maps -----------------------------------------------------------------------------------------------------

namespace {

template <class T>
std::string cell(const std::optional<T>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : unavailable;
}

std::string group_table(const std::vector<workload::measurement>& group, bool colour) {
  table t({"map", "Mop/s", "min..max", "of best", "CPU ns/op", "p50 ns", "p99 ns", "p99.9 ns", "B/key",
           "leaked"});
  std::vector<const workload::measurement*> order;
  order.reserve(group.size());
  for (const auto& m : group) order.push_back(&m);
  std::ranges::sort(order, std::ranges::greater{}, [](const auto* m) { return m->median_throughput(); });
  const double best = order.empty() ? 0 : order.front()->median_throughput();
  for (const auto* m : order) {
    const auto throughput = m->throughput();
    const measure::histogram latency = workload::latency_of_all(*m);
    t.add({m->facts.kind == workload::subject_kind::peer ? m->facts.name + " (peer)" : m->facts.name,
           fmt::format("{:.3f}", m->median_throughput() / 1e6),
           fmt::format("{:.3f}..{:.3f}", measure::minimum(throughput).value_or(0) / 1e6,
                       measure::maximum(throughput).value_or(0) / 1e6),
           best > 0 ? fmt::format("{:.2f}", m->median_throughput() / best) : unavailable,
           cell(measure::median(m->cpu_ns_per_operation()), "{:.0f}"), cell(latency.value_at(0.5), "{}"),
           cell(latency.value_at(0.99), "{}"), cell(latency.value_at(0.999), "{}"),
           cell(m->bytes_per_key, "{:.1f}"), cell(m->leaked_bytes, "{}")});
  }
  return t.text(colour);
}

}  // namespace

void progress::step(std::size_t done, std::size_t total, const std::string& what) {
  total = std::max<std::size_t>(total, 1);
  line_.step(session_ * total + done, sessions_ * total, what);
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
      fmt::format("{}: {}{}, {}", m.plan->name, m.plan->trace.empty() ? "" : "trace over ",
                  number_of(m.plan->loaded, "key"), number_of(m.threads, "thread"));
  std::printf("%s\n%s\n", bold(title, colour).c_str(), group_table(group, colour).c_str());
  std::fflush(stdout);
}

reading reading_of(const workload::measurement& m, std::size_t session) {
  const std::vector<double> runs = m.throughput();
  return {m.median_throughput(),
          measure::minimum(runs).value_or(0),
          measure::maximum(runs).value_or(0),
          m.facts.node_bytes,
          std::nullopt,
          runs,
          session};
}

workload::session_request study_session(const bench_options& o) {
  workload::session_request s = measurement_of(o);
  s.latency_every = 0;
  s.check_leaks = false;
  s.interrupted = &interruption::requested();
  return s;
}

nlohmann::ordered_json study_results(std::uint64_t seed, const std::string& pin, std::string_view name,
                                     std::string_view title, std::string_view paper,
                                     const std::vector<workload::measurement>& all) {
  auto results = workload::to_document(measure::gather_context(seed, pin, interruption::requested()), all);
  results["context"]["study"] = name;
  results["study"] = {{"name", name}, {"title", title}, {"paper", paper}};
  return results;
}

const workload::registration* registered_map(const std::string& name) {
  const auto& all = workload::registry();
  const auto found =
      std::ranges::find(all, name, [](const workload::registration& r) { return r.facts.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace espalier::app
