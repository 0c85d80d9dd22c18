#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/common/map_choice.hpp"
#include "apps/common/table.hpp"
#include "commands.hpp"

namespace espalier::app {
namespace {

std::string find_and_update(const map_properties& p) {
  return p.find_progress == p.update_progress
             ? std::string(to_string(p.find_progress))
             : fmt::format("{} / {}", to_string(p.find_progress), to_string(p.update_progress));
}

std::string node_bytes(const workload::subject_facts& facts) {
  return facts.node_bytes ? fmt::format("{}", *facts.node_bytes) : "unavailable";
}

void print_table(const std::vector<workload::registration>& all) {
  using enum table::align;
  table t({"map", "progress (find / update)", "balance", "scan", "node bytes", "placement", "paper"},
          {left, left, left, left, right, left, left});
  for (const auto& r : all) {
    const auto& f = r.facts;
    t.add({f.name, find_and_update(f.properties), std::string(to_string(f.properties.shape)),
           f.supports_scan ? std::string(to_string(f.properties.scan)) : "none", node_bytes(f),
           std::string(f.placement), std::string(f.properties.paper)});
  }
  std::fputs(t.text(wants_colour(STDOUT_FILENO)).c_str(), stdout);
}

void print_json(const std::vector<workload::registration>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& r : all) {
    const auto& f = r.facts;
    nlohmann::ordered_json j;
    j["map"] = f.name;
    j["kind"] = to_string(f.kind);
    j["find_progress"] = to_string(f.properties.find_progress);
    j["update_progress"] = to_string(f.properties.update_progress);
    j["balance"] = to_string(f.properties.shape);
    j["scan"] = f.supports_scan ? to_string(f.properties.scan) : "none";
    if (f.node_bytes)
      j["node_bytes"] = *f.node_bytes;
    else
      j["node_bytes"] = "unavailable";
    j["placement"] = f.placement;
    j["paper"] = f.properties.paper;
    list.push_back(std::move(j));
  }
  std::printf("%s\n", list.dump(1).c_str());
}

}  // namespace

void add_list_command(CLI::App& parser) {
  struct options {
    bool peers = false;
    bool json = false;
  };
  const auto chosen = std::make_shared<options>();
  CLI::App* const verb =
      parser.add_subcommand("list", "Show the maps of the catalogue and what each promises");
  verb->add_flag("--peers", chosen->peers,
                 "Also the maps of other libraries that this program was built with");
  verb->add_flag("--json", chosen->json, "Print JSON instead of a table");
  verb->callback([chosen] {
    using workload::subject_kind;
    auto all = choose_maps(workload::registry(), subject_kind::espalier);
    if (chosen->peers) {
      const auto peers = choose_maps(workload::registry(), subject_kind::peer);
      all.insert(all.end(), peers.begin(), peers.end());
    }
    chosen->json ? print_json(all) : print_table(all);
  });
}

}  // namespace espalier::app
