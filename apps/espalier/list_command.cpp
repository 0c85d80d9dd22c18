#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "apps/common/child.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/terminal.hpp"
#include "apps/espalier/commands.hpp"

namespace espalier::app {
namespace {

/// Of the maps in which searches are counted.
constexpr const char* searched_keys = "1000";

std::string find_and_update(const map_properties& p) {
  return p.find_progress == p.update_progress
             ? std::string(to_string(p.find_progress))
             : fmt::format("{} / {}", to_string(p.find_progress), to_string(p.update_progress));
}

/// What a search reads and writes; an atomic operation counts as a write.
struct search_cost {
  double reads;
  double writes;
};
using search_costs = std::map<std::string, search_cost>;

/// Of the maps of the simulator: counted there, in searches by one thread of a few keys, of which every second one is present.
/// Throws usage_error if it is not here.
search_costs counted_searches() {
  const scratch_folder folder("espalier-list");
  const std::string results = folder.path() / "searches.json";
  const std::optional<int> status =
      run_child({program_of("simulate").string(), "--maps", "every", "--mix", "100/0/0", "--keys",
                 searched_keys, "--threads", "1", "--operations", "1000", "--json", results},
                child_output::dropped);
  if (status != 0) throw std::runtime_error("the simulator did not count the searches");
  search_costs costs;
  std::ifstream file(results);
  const nlohmann::json counted = nlohmann::json::parse(file);
  for (const auto& entry : counted.at("benchmarks")) {
    const auto& counts = entry.at("counts");
    costs[entry.at("map")] = {counts.at("reads"),
                              counts.at("writes").get<double>() + counts.at("atomics").get<double>()};
  }
  return costs;
}

/// A number of the map, or else that it is unavailable.
std::string cost_text(const search_costs& costs, const std::string& map, double search_cost::* number) {
  const auto found = costs.find(map);
  return found == costs.end() ? unavailable : fmt::format("{:.1f}", found->second.*number);
}

void print_table(const std::vector<workload::registration>& all, const std::optional<search_costs>& costs) {
  std::vector<std::string> heads{
      "map", "progress (find / update)", "balance", "scan", "bidirectional", "exchanges", "node bytes"};
  std::vector<std::size_t> text_columns{0, 1, 2, 3, 4, 5};
  if (costs) heads.insert(heads.end(), {"reads a search", "writes a search"});
  text_columns.insert(text_columns.end(), {heads.size(), heads.size() + 1});
  heads.insert(heads.end(), {"placement", "paper"});
  table t(std::move(heads), std::move(text_columns));
  for (const auto& r : all) {
    const auto& f = r.facts;
    std::vector<std::string> row{f.name,
                                 find_and_update(f.properties),
                                 std::string(to_string(f.properties.shape)),
                                 f.supports_scan ? "per key" : "none",
                                 f.properties.bidirectional ? "yes" : "no",
                                 f.properties.exchanges ? "yes" : "no",
                                 f.node_bytes ? fmt::format("{}", *f.node_bytes) : unavailable};
    if (costs) {
      row.push_back(cost_text(*costs, f.name, &search_cost::reads));
      row.push_back(cost_text(*costs, f.name, &search_cost::writes));
    }
    row.insert(row.end(), {std::string(f.placement), std::string(f.properties.paper)});
    t.add(std::move(row));
  }
  std::fputs(t.text(wants_colour(STDOUT_FILENO)).c_str(), stdout);
}

void print_json(const std::vector<workload::registration>& all, const std::optional<search_costs>& costs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& r : all) {
    const auto& f = r.facts;
    nlohmann::ordered_json j;
    j["map"] = f.name;
    j["kind"] = to_string(f.kind);
    j["find_progress"] = to_string(f.properties.find_progress);
    j["update_progress"] = to_string(f.properties.update_progress);
    j["balance"] = to_string(f.properties.shape);
    j["scan"] = f.supports_scan ? "per key" : "none";
    j["bidirectional"] = f.properties.bidirectional;
    j["exchanges"] = f.properties.exchanges;
    j["node_bytes"] = f.node_bytes ? nlohmann::ordered_json(*f.node_bytes) : unavailable;
    if (costs) {
      const auto found = costs->find(f.name);
      const bool known = found != costs->end();
      j["reads_a_search"] = known ? nlohmann::ordered_json(found->second.reads) : unavailable;
      j["writes_a_search"] = known ? nlohmann::ordered_json(found->second.writes) : unavailable;
    }
    j["placement"] = f.placement;
    j["paper"] = f.properties.paper;
    list.push_back(std::move(j));
  }
  std::printf("%s\n", list.dump(1).c_str());
}

/// A node's members and the gaps between them, as lines of a table.
struct node_lines {
  std::string head;
  std::vector<std::array<std::string, 3>> lines;
};

node_lines lines_of(const std::string& head, const node_type& of) {
  node_lines node;
  node.head = fmt::format("{}: {} bytes", head, of.bytes);
  std::size_t at = 0;
  const auto gap_until = [&](std::size_t end) {
    if (end > at) node.lines.push_back({fmt::format("{}", at), fmt::format("{}", end - at), "(padding)"});
  };
  for (const node_member& m : of.members) {
    gap_until(m.offset);
    node.lines.push_back({fmt::format("{}", m.offset), fmt::format("{}", m.bytes),
                          m.elements == 1 ? std::string(m.name) : fmt::format("{}[{}]", m.name, m.elements)});
    at = std::max(at, m.offset + m.bytes);
  }
  if (!of.members.empty()) gap_until(of.bytes);
  if (node.lines.empty()) node.lines.push_back({"", "", "members unavailable"});
  return node;
}

void add_nodes(std::vector<node_lines>& nodes, const workload::subject_facts& f) {
  for (const node_type& of : f.node_types)
    nodes.push_back(lines_of(f.node_types.size() == 1 ? f.name : fmt::format("{}, {}", f.name, of.name), of));
  if (f.node_types.empty()) nodes.push_back({f.name + ": unavailable", {{"", "", "members unavailable"}}});
}

/// The nodes of each algorithm's default, and beside them its published node if there is one.
void print_nodes(const std::vector<workload::registration>& all) {
  const bool colour = wants_colour(STDOUT_FILENO);
  for (const auto& r : all) {
    if (!r.facts.variant.empty()) continue;
    std::vector<node_lines> nodes;
    add_nodes(nodes, r.facts);
    for (const auto& other : all) {
      if (other.facts.algorithm == r.facts.algorithm && other.facts.variant == "published")
        add_nodes(nodes, other.facts);
    }
    std::vector<std::string> heads;
    std::vector<std::size_t> text_columns;
    std::size_t rows = 0;
    for (const node_lines& node : nodes) {
      heads.insert(heads.end(), {"offset", "bytes", node.head});
      text_columns.push_back(heads.size() - 1);
      rows = std::max(rows, node.lines.size());
    }
    table t(std::move(heads), std::move(text_columns));
    for (std::size_t i = 0; i < rows; ++i) {
      std::vector<std::string> row;
      for (const node_lines& node : nodes) {
        const auto line = i < node.lines.size() ? node.lines[i] : std::array<std::string, 3>{};
        row.insert(row.end(), line.begin(), line.end());
      }
      t.add(std::move(row));
    }
    std::printf("%s\n", t.text(colour).c_str());
  }
}

void print_nodes_json(const std::vector<workload::registration>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& r : all) {
    const auto& f = r.facts;
    if (!f.variant.empty() && f.variant != "published") continue;
    if (f.node_types.empty()) {
      nlohmann::ordered_json j;
      j["map"] = f.name;
      for (const char* const unknown : {"node", "node_bytes", "members"}) j[unknown] = unavailable;
      list.push_back(std::move(j));
    }
    for (const node_type& of : f.node_types) {
      nlohmann::ordered_json j;
      j["map"] = f.name;
      j["node"] = of.name;
      j["node_bytes"] = of.bytes;
      if (of.members.empty()) j["members"] = unavailable;
      for (const node_member& m : of.members)
        j["members"].push_back(
            {{"name", m.name}, {"offset", m.offset}, {"bytes", m.bytes}, {"elements", m.elements}});
      list.push_back(std::move(j));
    }
  }
  std::printf("%s\n", list.dump(1).c_str());
}

}  // namespace

void add_list_command(CLI::App& parser) {
  struct options {
    bool peers = false;
    bool nodes = false;
    bool searches = false;
    bool json = false;
  };
  const auto chosen = std::make_shared<options>();
  CLI::App* const verb =
      parser.add_subcommand("list", "Show the maps of the catalogue and what each promises");
  verb->add_flag("--peers", chosen->peers,
                 "Also show the maps of other libraries that this program was built with");
  CLI::Option* const nodes = verb->add_flag(
      "--nodes", chosen->nodes,
      "Show the layout of the nodes of each map: its default, and beside it the published one");
  verb->add_flag(
          "--searches", chosen->searches,
          fmt::format(
              "Add what a search reads and writes in a map of {} keys, counted by the simulator; an atomic "
              "operation is a write",
              searched_keys))
      ->excludes(nodes);
  verb->add_flag("--json", chosen->json, "Print JSON instead of a table");
  verb->callback([chosen] {
    using workload::subject_kind;
    auto all = choose_maps(workload::registry(), subject_kind::espalier);
    if (chosen->peers) {
      const auto peers = choose_maps(workload::registry(), subject_kind::peer);
      all.insert(all.end(), peers.begin(), peers.end());
    }
    if (chosen->nodes) {
      chosen->json ? print_nodes_json(all) : print_nodes(all);
      return;
    }
    std::optional<search_costs> costs;
    if (chosen->searches) costs = counted_searches();
    chosen->json ? print_json(all, costs) : print_table(all, costs);
  });
}

}  // namespace espalier::app
