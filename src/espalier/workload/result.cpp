#include "espalier/workload/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "espalier/hw/process.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::workload {
namespace {

using nlohmann::ordered_json;

constexpr const char* unavailable = "unavailable";

template <class T>
ordered_json or_unavailable(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(unavailable);
}

ordered_json context_json(const measure::run_context& c) {
  ordered_json caches = ordered_json::array();
  for (const auto& one : c.caches)
    caches.push_back({{"type", one.type},
                      {"level", one.level},
                      {"size", one.bytes.value_or(0)},
                      {"num_sharing", one.sharing}});
  ordered_json j;
  j["date"] = c.date;
  j["host_name"] = or_unavailable(c.host);
  j["executable"] = "espalier";
  j["num_cpus"] = c.processors;
  j["mhz_per_cpu"] = std::llround(c.mhz);
  j["cpu_scaling_enabled"] = c.cpu_scaling.value_or(false);
  j["caches"] = caches;
  j["load_avg"] = c.load ? ordered_json(*c.load) : ordered_json::array();
  j["library_build_type"] = c.build_type == "Debug" ? "debug" : "release";
  j["espalier_version"] = c.version;
  j["commit"] = c.commit;
  j["compiler"] = c.compiler;
  j["build_flags"] = c.build_flags;
  j["cpu_model"] = or_unavailable(c.cpu_model);
  j["topology"] = c.topology;
  j["tsc"] = c.tsc_source;
  j["huge_pages"] = c.huge_pages;
  j["rtm"] = c.rtm;
  j["membarrier"] = c.fence == "membarrier" ? "available" : unavailable;
  j["hardware_counters"] = c.hardware_counters ? "available" : unavailable;
  j["malloc"] = c.malloc;
  j["seed"] = c.seed;
  j["pinning"] = c.pinning;
  if (c.incomplete) j["incomplete"] = true;
  if (const auto switches = hw::context_switches())
    j["context_switches"] = {{"voluntary", switches->voluntary}, {"involuntary", switches->involuntary}};
  else
    j["context_switches"] = unavailable;
  return j;
}

std::string run_name(const measurement& m) {
  return workload::run_name(m.plan->name, m.facts.name, m.threads);
}

ordered_json identity(const measurement& m, std::size_t family) {
  ordered_json j;
  j["name"] = run_name(m);
  j["family_index"] = family;
  j["per_family_instance_index"] = 0;
  j["run_name"] = run_name(m);
  return j;
}

void add_subject(ordered_json& j, const subject_facts& map, const workload_plan& plan) {
  j["map"] = map.name;
  j["kind"] = to_string(map.kind);
  j["workload"] = plan.name;
  j["mix"] = plan.trace.empty() ? plan.mix.name : "trace";
  j["distribution"] = plan.trace.empty() ? plan.draws.spec().to_string() : "trace";
  j["keys"] = plan.loaded;
  j["key_order"] = to_string(plan.keys.order());
  j["key_type"] = to_string(plan.keys.type());
  j["placement"] = map.placement;
}

std::optional<double> per_operation(const std::optional<std::uint64_t>& count, std::uint64_t operations) {
  if (!count || operations == 0) return std::nullopt;
  return static_cast<double>(*count) / static_cast<double>(operations);
}

/// A region's events per operation, medians over those of the runs that have counted transactions.
std::array<std::optional<double>, elision_events> transactions_of(const measurement& m,
                                                                  std::span<const run_outcome> runs,
                                                                  std::string_view region) {
  const auto regions = m.facts.transaction_regions;
  const auto at = static_cast<std::size_t>(std::ranges::find(regions, region) - regions.begin());
  std::array<std::optional<double>, elision_events> medians;
  for (std::size_t e = 0; e < elision_events; ++e) {
    std::vector<double> values;
    for (const run_outcome& r : runs) {
      if (at >= r.transactions.size()) continue;
      if (const auto value = per_operation(r.transactions[at].of_event[e], r.operations))
        values.push_back(*value);
    }
    medians[e] = measure::median(values);
  }
  return medians;
}

ordered_json transactions_json(const measurement& m, std::span<const run_outcome> runs) {
  ordered_json regions;
  for (const std::string_view region : m.facts.transaction_regions) {
    const auto events = transactions_of(m, runs, region);
    for (std::size_t e = 0; e < elision_events; ++e) {
      if (!events[e]) return unavailable;
      regions[std::string(region)][std::string(event_names[e])] = *events[e];
    }
  }
  return regions.empty() ? ordered_json(unavailable) : regions;
}

void add_runs(ordered_json& benchmarks, const measurement& m, std::size_t family) {
  for (std::size_t i = 0; i < m.runs.size(); ++i) {
    const run_outcome& r = m.runs[i];
    ordered_json j = identity(m, family);
    j["run_type"] = "iteration";
    j["repetitions"] = m.runs.size();
    j["repetition_index"] = i;
    j["threads"] = m.threads;
    j["iterations"] = r.operations;
    // A short run on a busy machine may have executed none.
    j["real_time"] = r.operations > 0 ? ordered_json(r.wall_ns_per_operation()) : ordered_json(unavailable);
    j["cpu_time"] = r.operations > 0 ? ordered_json(r.cpu_ns_per_operation()) : ordered_json(unavailable);
    j["time_unit"] = "ns";
    j["items_per_second"] = r.operations_per_second();
    add_subject(j, m.facts, *m.plan);
    j["instructions"] = or_unavailable(per_operation(r.instructions, r.operations));
    j["llc_misses"] = or_unavailable(per_operation(r.llc_misses, r.operations));
    j["context_switches"] = or_unavailable(r.context_switches);
    j["transactions"] = transactions_json(m, std::span(&r, 1));
    benchmarks.push_back(std::move(j));
  }
}

void add_aggregates(ordered_json& benchmarks, const measurement& m, std::size_t family) {
  std::vector<double> real;
  real.reserve(m.runs.size());
  for (const run_outcome& r : m.runs)
    if (r.operations > 0) real.push_back(r.wall_ns_per_operation());
  const std::vector<double> cpu = m.cpu_ns_per_operation();
  using aggregate = std::optional<double> (*)(std::span<const double>);
  struct row {
    const char* name;
    const char* unit;
    aggregate of;
  };
  // As in Google Benchmark, each figure of an aggregate is computed for its own column. The entry named min has the
  // least time and the least throughput, which do not come from one run.
  const row rows[] = {
      {"median", "time", measure::median}, {"mean", "time", measure::mean},
      {"stddev", "time", measure::stddev}, {"cv", "percentage", measure::coefficient_of_variation},
      {"min", "time", measure::minimum},   {"max", "time", measure::maximum}};
  for (const row& a : rows) {
    const auto throughput = a.of(m.throughput());
    if (!throughput) continue;
    ordered_json j = identity(m, family);
    j["name"] = fmt::format("{}_{}", run_name(m), a.name);
    j["run_type"] = "aggregate";
    j["repetitions"] = m.runs.size();
    j["threads"] = m.threads;
    j["aggregate_name"] = a.name;
    j["aggregate_unit"] = a.unit;
    j["iterations"] = m.runs.size();
    j["real_time"] = or_unavailable(a.of(real));
    j["cpu_time"] = or_unavailable(a.of(cpu));
    j["time_unit"] = "ns";
    j["items_per_second"] = *throughput;
    add_subject(j, m.facts, *m.plan);
    if (a.of == &measure::median) {
      j["bytes_per_key"] = or_unavailable(m.bytes_per_key);
      j["leaked_bytes"] = or_unavailable(m.leaked_bytes);
      j["transactions"] = transactions_json(m, m.runs);
    }
    benchmarks.push_back(std::move(j));
  }
}

ordered_json latency_json(const measurement& m, std::string_view operation_name,
                          const measure::histogram& h) {
  ordered_json j;
  j["workload"] = m.plan->name;
  j["map"] = m.facts.name;
  j["kind"] = to_string(m.facts.kind);
  j["threads"] = m.threads;
  j["operation"] = operation_name;
  j["count"] = h.count();
  j["p50"] = or_unavailable(h.value_at(0.5));
  j["p99"] = or_unavailable(h.value_at(0.99));
  j["p999"] = or_unavailable(h.value_at(0.999));
  j["max"] = or_unavailable(h.max());
  j["unit"] = "ns";
  j["curve"] = h.curve();
  return j;
}

}  // namespace

std::string run_name(std::string_view workload, std::string_view map, unsigned threads) {
  return fmt::format("{}/{}/threads:{}", workload, map, threads);
}

std::string subject_json(const subject_facts& map, const workload_plan& plan) {
  ordered_json subject;
  add_subject(subject, map, plan);
  return subject.dump();
}

measure::histogram latency_of_all(const measurement& m) {
  measure::histogram all;
  for (const measure::histogram& h : m.latency) all.merge(h);
  return all;
}

ordered_json to_document(const measure::run_context& context, const std::vector<measurement>& all) {
  ordered_json benchmarks = ordered_json::array();
  ordered_json latency = ordered_json::array();
  std::size_t family = 0;
  for (const measurement& m : all) {
    add_runs(benchmarks, m, family);
    add_aggregates(benchmarks, m, family);
    ++family;
    if (m.latency.empty()) continue;
    latency.push_back(latency_json(m, "all", latency_of_all(m)));
    for (const map_operation op : drawn_operations) {  // a trace is not timed
      const measure::histogram& h = m.latency[static_cast<std::size_t>(op)];
      if (h.count() != 0) latency.push_back(latency_json(m, word_of(op), h));
    }
  }
  ordered_json j;
  j["context"] = context_json(context);
  j["benchmarks"] = std::move(benchmarks);
  j["latency"] = std::move(latency);
  return j;
}

std::string to_json(const measure::run_context& context, const std::vector<measurement>& all) {
  return to_document(context, all).dump(1) + "\n";
}

std::string to_csv(const std::vector<measurement>& all) {
  const auto number = [](const auto& value) {
    return value ? fmt::format("{}", *value) : std::string(unavailable);
  };
  // Those of all maps, in the order in which they first occur.
  std::vector<std::string_view> regions;
  for (const measurement& m : all) {
    for (const std::string_view region : m.facts.transaction_regions) {
      if (std::ranges::find(regions, region) == regions.end()) regions.push_back(region);
    }
  }
  std::string text =
      "workload,map,kind,placement,mix,distribution,keys,threads,runs,median_ops_per_s,min_ops_per_s,max_ops_"
      "per_s,cpu_ns_per_op,bytes_per_key,leaked_bytes,p50_ns,p99_ns,p999_ns,max_ns";
  for (const std::string_view region : regions) {
    for (const std::string_view event : event_names) text += fmt::format(",{}_{}_per_op", region, event);
  }
  text += "\n";
  for (const measurement& m : all) {
    const std::vector<double> t = m.throughput();
    const std::vector<double> cpu = m.cpu_ns_per_operation();
    const measure::histogram h = latency_of_all(m);
    text += fmt::format(
        "\"{}\",{},{},{},{},\"{}\",{},{},{},{},{},{},{},{},{},{},{},{},{}", m.plan->name, m.facts.name,
        to_string(m.facts.kind), m.facts.placement, m.plan->trace.empty() ? m.plan->mix.name : "trace",
        m.plan->draws.spec().to_string(), m.plan->loaded, m.threads, m.runs.size(),
        number(measure::median(t)), number(measure::minimum(t)), number(measure::maximum(t)),
        number(measure::median(cpu)), number(m.bytes_per_key), number(m.leaked_bytes),
        number(h.value_at(0.5)), number(h.value_at(0.99)), number(h.value_at(0.999)), number(h.max()));
    for (const std::string_view region : regions) {
      for (const auto& value : transactions_of(m, m.runs, region)) text += "," + number(value);
    }
    text += "\n";
  }
  return text;
}

}  // namespace espalier::workload
