#include "apps/studies/atc18/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/terminal.hpp"

namespace espalier::app {
namespace {

using nlohmann::ordered_json;

std::string place(const finding& f) {
  return fmt::format("{} keys{}{}", grouped(f.keys), f.machine.empty() ? "" : ", simulated on ", f.machine);
}

ordered_json figure_json(const figure_outcome& outcome) {
  ordered_json j;
  j["id"] = outcome.figure->id;
  j["title"] = outcome.figure->title;
  j["summary"] = outcome.figure->summary;
  j["panels"] = ordered_json::array();
  for (const study_panel& p : outcome.panels) {
    j["panels"].push_back({{"workload", p.workload}, {"keys", p.keys}, {"threads", p.threads}});
    if (!p.machine.empty()) j["panels"].back()["machine"] = p.machine;
  }
  j["node_bytes"] = outcome.node_bytes;
  j["missing"] = missing_json(outcome.missing);
  j["findings"] = ordered_json::array();
  for (const finding& f : outcome.findings) {
    ordered_json one{{"paper", f.paper},
                     {"keys", f.keys},
                     {"ours", f.ours.sentence},
                     {"verdict", to_string(f.ours.verdict)}};
    if (!f.machine.empty()) one["machine"] = f.machine;
    j["findings"].push_back(std::move(one));
  }
  return j;
}

}  // namespace

void figure_outcome::miss(const std::string& map, const std::string& why) {
  if (std::ranges::find(missing, map, &missing_map::map) == missing.end()) missing.push_back({map, why});
}

void figure_outcome::judge(const readings& measured, const std::vector<std::uint64_t>& keys,
                           const std::string& machine) {
  for (finding& f : judge_all(figure->claims, measured, keys)) {
    f.machine = machine;
    findings.push_back(std::move(f));
  }
}

std::string workload_name(const atc18::figure& f, std::uint64_t keys, const std::string& machine) {
  return fmt::format("{}, {} keys{}{}", f.id, grouped(keys), machine.empty() ? "" : ", ", machine);
}

std::vector<std::uint64_t> keys_of(const atc18::figure& f, std::optional<std::uint64_t> only) {
  return only ? std::vector<std::uint64_t>{*only} : f.keys;
}

std::string findings_text(const figure_outcome& outcome, bool simulated, bool colour) {
  const atc18::figure& f = *outcome.figure;
  std::string text =
      bold(fmt::format("{}{}: {}", simulated ? "SIMULATED " : "", f.id, f.title), colour) + '\n';
  text += wrapped(f.summary, "  ");
  std::map<std::string, std::vector<std::string>> missing;
  for (const missing_map& m : outcome.missing) missing[m.why].push_back(m.map);
  for (const auto& [why, maps] : missing)
    text += wrapped(fmt::format("missing, {}: {}", why, fmt::join(maps, ", ")), "  ");
  for (const finding& found : outcome.findings)
    text += finding_text("The paper", found.paper, found.ours, place(found));
  return text;
}

ordered_json study_json(const std::vector<figure_outcome>& outcomes) {
  ordered_json j;
  j["name"] = atc18::study_name;
  j["title"] = atc18::title;
  j["paper"] = atc18::paper;
  j["figures"] = ordered_json::array();
  for (const figure_outcome& outcome : outcomes) j["figures"].push_back(figure_json(outcome));
  return j;
}

}  // namespace espalier::app
