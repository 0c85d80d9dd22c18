#include "apps/simulate/tables.hpp"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "apps/common/table.hpp"
#include "sim/machine/presets.hpp"
#include "sim/machine/this_machine.hpp"

namespace espalier::simulate {
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
  return fmt::format("{} x {} core{}{}, {} GHz", m.sockets, m.cores_per_socket,
                     m.cores_per_socket == 1 ? "" : "s",
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
  std::vector<table::align> aligns(heads.size(), table::align::right);
  aligns.front() = table::align::left;
  table t(std::move(heads), std::move(aligns), wide ? 2 : 1);

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
  const std::string title = fmt::format("SIMULATED {} ({}): {}, {} keys; counts per operation", machine.name,
                                        socket_text(machine), one.plan->name, one.plan->loaded);
  return app::bold(title, colour) + '\n' + t.text(colour);
}

std::string calibration_table(const std::vector<calibrated_ratio>& ratios, bool colour) {
  using enum table::align;
  table t({"workload", "threads", "map", "native", "SIMULATED", "deviation"},
          {left, right, left, right, right, right});
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
  };
  for (const sim::machine_spec& m : sim::presets()) add(m);
  try {
    add(sim::this_machine(hw::topology::system()));
  } catch (const std::invalid_argument& error) {
    all += fmt::format("this  unavailable: {}\n", error.what());
  }
  return all;
}

}  // namespace espalier::simulate
