#include "apps/simulate/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "apps/common/exit_status.hpp"
#include "apps/common/terminal.hpp"
#include "espalier/workload/result.hpp"
#include "sim/machine/presets.hpp"

namespace espalier::simulate {

// Tables --------------------------------------------------------------------------------------------------------------

namespace {

using app::table;

/// Three digits, and at most five characters below 100000.
std::string short_number(double value) {
  if (value == 0) return "0";
  return fmt::format(fmt::runtime(value < 9.995 ? "{:.2f}" : value < 99.95 ? "{:.1f}" : "{:.0f}"), value);
}

struct count_column {
  std::string head;
  std::uint64_t (*of)(const sim::counts&);
};

const std::vector<count_column>& narrow_columns() {
  using sim::counts;
  static const std::vector<count_column> columns{
      {"acces-\nses", [](const counts& c) { return c.accesses; }},
      {"L1\nhits", [](const counts& c) { return c.l1_hits; }},
      {"L2\nhits", [](const counts& c) { return c.l2_hits; }},
      {"LLC\nhits", [](const counts& c) { return c.llc_hits; }},
      {"local\ntrans.", [](const counts& c) { return c.local_transfers; }},
      {"remote\ntrans.", [](const counts& c) { return c.remote_transfers; }},
      {"local\nDRAM", [](const counts& c) { return c.local_dram; }},
      {"remote\nDRAM", [](const counts& c) { return c.remote_dram; }},
      {"TLB\nwalks", [](const counts& c) { return c.page_walks; }},
      {"inval.", [](const counts& c) { return c.local_invalidations + c.remote_invalidations; }},
      {"stall\ncycles", [](const counts& c) { return c.stall_cycles; }}};
  return columns;
}

std::string two_lines(std::string_view name) {
  std::string head(name);
  const std::size_t cut = head.find('_');
  if (cut != std::string::npos) head[cut] = '\n';
  return head;
}

std::string socket_text(const sim::machine_spec& m) {
  return fmt::format("{} x {}{}, {} GHz", m.sockets, app::number_of(m.cores_per_socket, "core"),
                     m.threads_per_core == 1 ? "" : fmt::format(" x {} threads", m.threads_per_core), m.ghz);
}

}  // namespace

std::string measurement_table(const sim::machine_spec& machine,
                              const std::vector<simulated_measurement>& group, table_width width,
                              bool colour) {
  const bool wide = width == table_width::wide;
  std::vector<std::string> heads{"map", wide ? "threads" : "thr.", "sim.\nMop/s", "speed-\nup"};
  if (wide) {
    for (const sim::counts_field& field : sim::counts_fields) heads.push_back(two_lines(field.name));
  } else {
    for (const count_column& column : narrow_columns()) heads.push_back(column.head);
  }
  table t(std::move(heads), {0}, wide ? 2 : 1);

  // Measured by thread count, but shown by map: the rows of a map are read together.
  std::vector<std::string> order;
  std::map<std::string, std::vector<const simulated_measurement*>> by_map;
  for (const simulated_measurement& m : group) {
    auto& rows = by_map[m.facts.name];
    if (rows.empty()) order.push_back(m.facts.name);
    rows.push_back(&m);
  }
  for (const std::string& name : order) {
    const double first = by_map[name].front()->operations_per_second();
    for (const simulated_measurement* m : by_map[name]) {
      std::vector<std::string> row{name, fmt::format("{}", m->threads),
                                   short_number(m->operations_per_second() / 1e6),
                                   short_number(m->operations_per_second() / first)};
      if (wide) {
        for (const sim::counts_field& field : sim::counts_fields)
          row.push_back(short_number(m->per_operation(m->total.*field.value)));
      } else {
        for (const count_column& column : narrow_columns())
          row.push_back(short_number(m->per_operation(column.of(m->total))));
      }
      t.add(std::move(row));
    }
  }
  const simulated_measurement& one = group.front();
  const std::string title =
      fmt::format("SIMULATED {} ({}): {}, {}; counts per operation", machine.name, socket_text(machine),
                  one.plan->name, app::number_of(one.plan->loaded, "key"));
  return app::bold(title, colour) + '\n' + t.text(colour);
}

std::string calibration_table(const std::vector<calibrated_ratio>& ratios, bool colour) {
  table t({"workload", "threads", "map", "native", "SIMULATED", "deviation"}, {0, 2});
  for (const calibrated_ratio& r : ratios)
    t.add({r.workload, fmt::format("{}", r.threads), r.map, fmt::format("{:.3f}", r.native),
           fmt::format("{:.3f}", r.simulated), fmt::format("{:+.0f} %", r.deviation() * 100)});
  return app::bold(fmt::format("Throughput of each map over that of {}: measured here, and simulated",
                               ratios.front().reference),
                   colour) +
         '\n' + t.text(colour);
}

std::string machine_list() {
  std::string all;
  const auto add = [&](const sim::machine_spec& m) {
    all +=
        fmt::format("{}  SIMULATED: {}\n", m.name, socket_text(m)) + app::wrapped(m.description, "  ", 100);
    sim::machine_spec changed = m;
    for (const sim::model_part& part : sim::model_parts())
      if (const bool* const has = part.of(changed); has != nullptr)
        all += app::wrapped(fmt::format("{}:{}-{}: {}", m.name, *has ? "no" : "with", part.name, part.what),
                            "    ", 100);
  };
  for (const sim::machine_spec& m : sim::presets()) add(m);
  try {
    add(sim::this_machine(hw::topology::system()));
  } catch (const std::invalid_argument& error) {
    all += fmt::format("this  unavailable: {}\n", error.what());
  }
  return all;
}

// Result files --------------------------------------------------------------------------------------------------------

namespace {

using nlohmann::ordered_json;

ordered_json cache_json(const hw::cache_shape& c) {
  return {{"sets", c.sets}, {"ways", c.ways}, {"slices", c.slices}, {"bytes", c.bytes()}};
}

// Entries of an array, not bytes.
ordered_json tlb_json(const hw::cache_shape& c) { return {{"sets", c.sets}, {"ways", c.ways}}; }

ordered_json latency_json(const sim::latency_spec& l) {
  return {{"l1", l.l1},
          {"l2", l.l2},
          {"llc", l.llc},
          {"llc_snoop", l.llc_snoop},
          {"local_transfer", l.local_transfer},
          {"remote_transfer", l.remote_transfer},
          {"remote_clean", l.remote_clean},
          {"local_dram", l.local_dram},
          {"remote_dram", l.remote_dram},
          {"local_invalidation", l.local_invalidation},
          {"remote_invalidation", l.remote_invalidation},
          {"store", l.store},
          {"atomic", l.atomic},
          {"fence", l.fence},
          {"l2_tlb", l.l2_tlb},
          {"page_walk", l.page_walk},
          {"dram_occupancy", l.dram_occupancy},
          {"link_occupancy", l.link_occupancy}};
}

ordered_json machine_json(const sim::machine_spec& m) {
  ordered_json j;
  j["name"] = m.name;
  j["description"] = m.description;
  j["sockets"] = m.sockets;
  j["cores_per_socket"] = m.cores_per_socket;
  j["threads_per_core"] = m.threads_per_core;
  j["cores_per_l2"] = m.cores_per_l2;
  j["ghz"] = m.ghz;
  j["l1"] = cache_json(m.l1);
  j["l2"] = cache_json(m.l2);
  j["llc"] = cache_json(m.llc);
  j["l1_tree_ways"] = m.l1_tree_ways;
  j["llc_inclusive"] = m.llc_inclusive;
  j["adjacent_line_prefetch"] = m.adjacent_line_prefetch;
  j["tlb"] = {{"l1_small", tlb_json(m.tlb.l1_small)},
              {"l1_huge", tlb_json(m.tlb.l1_huge)},
              {"l2", tlb_json(m.tlb.l2)},
              {"l2_holds_huge", m.tlb.l2_holds_huge}};
  j["latency_cycles"] = latency_json(m.latency);
  j["store_buffer"] = m.store_buffer;
  j["links_queue"] = m.links_queue;
  j["overlaps_loads"] = m.overlaps_loads;
  j["loads_in_flight"] = m.loads_in_flight;
  j["window_accesses"] = m.window_accesses;
  j["smt_factor"] = m.smt_factor;
  if (m.transactions)
    j["transactions"] = {{"write_sets", m.transactions->write_sets},
                         {"write_ways", m.transactions->write_ways},
                         {"read_set_lines", m.transactions->read_set_lines},
                         {"keeps_written", m.transactions->keeps_written},
                         {"commit_waits", m.transactions->commit_waits},
                         {"requests_travel", m.transactions->requests_travel}};
  else
    j["transactions"] = "unavailable";
  return j;
}

ordered_json caches_json(const sim::machine_spec& m) {
  const auto one = [](const char* type, int level, const hw::cache_shape& c, unsigned sharing) {
    return ordered_json{{"type", type}, {"level", level}, {"size", c.bytes()}, {"num_sharing", sharing}};
  };
  return ordered_json::array({one("Data", 1, m.l1, m.threads_per_core),
                              one("Unified", 2, m.l2, m.cores_per_l2 * m.threads_per_core),
                              one("Unified", 3, m.llc, m.cores_per_socket * m.threads_per_core)});
}

/// What became of the transactions, per operation; "unavailable" if there were none.
ordered_json transactions_json(const counted_phase& measured) {
  const sim::transaction_counts& all = measured.transactions;
  if (all.begun == 0) return "unavailable";
  ordered_json j{{"begun", measured.per_operation(all.begun)},
                 {"committed", measured.per_operation(all.committed)}};
  for (const sim::abort_reason reason : sim::abort_reasons)
    j["aborts"][std::string(sim::to_string(reason))] = measured.per_operation(all.of(reason));
  return j;
}

ordered_json regions_json(const simulated_measurement& m) {
  ordered_json regions = ordered_json::object();
  for (std::size_t r = 0; r < m.regions.size(); ++r) {
    for (std::size_t e = 0; e < elision_events; ++e)
      regions[std::string(m.facts.transaction_regions[r])][std::string(workload::event_names[e])] =
          m.per_operation(m.regions[r].of_event[e]);
  }
  return regions;
}

}  // namespace

ordered_json entry_json(const simulated_measurement& m, std::size_t family) {
  const std::string name = fmt::format("{}/{}/threads:{}", m.plan->name, m.facts.name, m.threads);
  const double time = 1e9 / m.operations_per_second();
  ordered_json j;
  j["name"] = name;
  j["family_index"] = family;
  j["per_family_instance_index"] = 0;
  j["run_name"] = name;
  j["run_type"] = "iteration";
  j["repetitions"] = 1;
  j["repetition_index"] = 0;
  j["threads"] = m.threads;
  j["iterations"] = m.operations;
  j["real_time"] = time;
  j["cpu_time"] = time * m.threads;  // no thread ends before the others
  j["time_unit"] = "ns";
  j["items_per_second"] = m.operations_per_second();
  j["simulated"] = true;
  j["map"] = m.facts.name;
  j["kind"] = to_string(m.facts.kind);
  j["workload"] = m.plan->name;
  j["mix"] = m.plan->mix.name;
  j["distribution"] = m.plan->draws.spec().to_string();
  j["keys"] = m.plan->loaded;
  j["placement"] = m.facts.placement;
  j["counts"] = counts_json(m);
  j["transactions"] = transactions_json(m);
  if (j["transactions"].is_object() && !m.regions.empty()) j["transactions"]["regions"] = regions_json(m);
  if (m.bytes_per_key) j["bytes_per_key"] = *m.bytes_per_key;
  return j;
}

ordered_json counts_json(const counted_phase& measured) {
  ordered_json counts;
  for (const sim::counts_field& field : sim::counts_fields)
    counts[std::string(field.name)] = measured.per_operation(measured.total.*field.value);
  return counts;
}

ordered_json context_json(const measure::run_context& host, const sim::machine_spec& machine) {
  ordered_json j;
  j["date"] = host.date;
  j["executable"] = "espalier simulate";
  j["simulated"] = true;
  j["num_cpus"] = machine.hardware_threads();
  j["mhz_per_cpu"] = std::llround(machine.ghz * 1000);
  j["cpu_scaling_enabled"] = false;
  j["caches"] = caches_json(machine);
  j["library_build_type"] = host.build_type == "Debug" ? "debug" : "release";
  j["espalier_version"] = host.version;
  j["commit"] = host.commit;
  j["compiler"] = host.compiler;
  j["build_flags"] = host.build_flags;
  j["seed"] = host.seed;
  j["pinning"] = host.pinning;
  if (host.incomplete) j["incomplete"] = true;
  j["machine"] = machine_json(machine);
  return j;
}

std::string to_json(const measure::run_context& host, const sim::machine_spec& machine,
                    const std::vector<simulated_measurement>& all,
                    const std::vector<calibrated_ratio>& calibration) {
  ordered_json benchmarks = ordered_json::array();
  for (const simulated_measurement& m : all) benchmarks.push_back(entry_json(m, benchmarks.size()));
  ordered_json j;
  j["context"] = context_json(host, machine);
  j["benchmarks"] = std::move(benchmarks);
  if (!calibration.empty()) {
    ordered_json ratios = ordered_json::array();
    for (const calibrated_ratio& r : calibration)
      ratios.push_back({{"workload", r.workload},
                        {"threads", r.threads},
                        {"map", r.map},
                        {"reference", r.reference},
                        {"native_ratio", r.native},
                        {"simulated_ratio", r.simulated},
                        {"deviation", r.deviation()}});
    j["calibration"] = std::move(ratios);
  }
  return j.dump(1) + "\n";
}

std::string to_csv(const sim::machine_spec& machine, const std::vector<simulated_measurement>& all) {
  std::string text =
      "simulated_machine,workload,map,placement,mix,distribution,keys,threads,operations,simulated_ops_per_s";
  for (const sim::counts_field& field : sim::counts_fields) text += fmt::format(",{}_per_op", field.name);
  text += '\n';
  for (const simulated_measurement& m : all) {
    text += fmt::format("{},\"{}\",{},{},{},\"{}\",{},{},{},{}", machine.name, m.plan->name, m.facts.name,
                        m.facts.placement, m.plan->mix.name, m.plan->draws.spec().to_string(), m.plan->loaded,
                        m.threads, m.operations, m.operations_per_second());
    for (const sim::counts_field& field : sim::counts_fields)
      text += fmt::format(",{}", m.per_operation(m.total.*field.value));
    text += '\n';
  }
  return text;
}

// Studies ------------------------------------------------------------------------------------------------------------

const sim::transactional_spec& transactions_of(const sim::machine_spec& machine) {
  if (!machine.transactions)
    throw app::usage_error(fmt::format(
        "the machine {} has no transactional memory; i7_4770, e5_2650_htm and emerald_rapids have",
        machine.name));
  return *machine.transactions;
}

ordered_json study_document(const study_options& o, const sim::machine_spec& machine, std::string_view name,
                            std::string_view title, std::string_view paper) {
  ordered_json j;
  j["context"] =
      context_json(measure::gather_context(o.seed, o.pin, app::interruption::requested()), machine);
  j["context"]["study"] = name;
  j["benchmarks"] = ordered_json::array();
  j["study"] = {{"name", name}, {"title", title}, {"paper", paper}};
  return j;
}

ordered_json study_entry(const std::string& name, unsigned threads, const counted_phase& measured) {
  const double time =
      static_cast<double>(measured.cycles) / measured.ghz / static_cast<double>(measured.operations);
  return {{"name", name},       {"run_type", "iteration"},
          {"threads", threads}, {"iterations", measured.operations},
          {"real_time", time},  {"cpu_time", time * threads},
          {"time_unit", "ns"},  {"simulated", true}};
}

}  // namespace espalier::simulate
