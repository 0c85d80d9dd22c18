#include "apps/studies/study_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/common/exit_status.hpp"
#include "apps/common/options.hpp"
#include "apps/common/report_page.hpp"
#include "apps/common/terminal.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json json_of(const chart& c) {
  ordered_json j{{"title", c.title}, {"caption", c.caption}};
  if (c.bars.empty()) {
    j["x"] = c.x;
    j["y"] = c.y;
    j["series"] = ordered_json::array();
    for (const chart_curve& curve : c.curves)
      j["series"].push_back({{"name", curve.name}, {"points", curve.points}});
  } else {
    j["y"] = c.y;
    j["of"] = c.of;
    if (c.more_is_better) j["more_is_better"] = true;
    j["bars"] = ordered_json::array();
    for (const chart_bar& bar : c.bars) {
      ordered_json one{{"name", bar.name}, {"value", bar.value}};
      if (bar.least && bar.most) one.update({{"least", *bar.least}, {"most", *bar.most}});
      if (bar.peer) one["peer"] = true;
      j["bars"].push_back(std::move(one));
    }
  }
  if (c.limit) j["limit"] = {{"y", c.limit->y}, {"name", c.limit->name}};
  return j;
}

/// One row per curve and one column per x; or the bars.
std::string chart_text(const chart& c, bool colour) {
  std::map<double, std::size_t> column_of;
  for (const chart_curve& curve : c.curves) {
    for (const auto& [x, y] : curve.points) column_of[x] = 0;
  }
  std::vector<std::string> heads{c.bars.empty() ? fmt::format("by {}", c.x) : ""};
  for (auto& [x, column] : column_of) {
    column = heads.size();
    heads.push_back(fmt::format("{:g}", x));
  }
  if (!c.bars.empty()) heads.emplace_back("");
  table t(heads);
  for (const chart_curve& curve : c.curves) {
    std::vector<std::string> cells(heads.size());
    cells.front() = curve.name;
    for (const auto& [x, y] : curve.points) cells[column_of[x]] = fmt::format("{:.3g}", y);
    t.add(std::move(cells));
  }
  for (const chart_bar& bar : c.bars) t.add({bar.name, fmt::format("{:.3g}", bar.value)});
  return fmt::format("  {}: {}\n{}", c.title, c.y, t.text(colour));
}

}  // namespace

std::string finding_text(const std::string& source, const std::string& claim, const judgement& ours,
                         const std::string& where) {
  return wrapped(fmt::format("{}: {}.", source, claim), "  ") +
         wrapped(fmt::format("[{}] {}: {}", to_string(ours.verdict), where, ours.sentence), "    ");
}

study_files::study_files(const std::string& folder, std::string_view study) {
  if (folder.empty()) return;
  make_folder(folder);
  outlive_closed_pipes();
  results_.emplace(fs::path(folder) / fmt::format("{}.json", study));
  const io::output_file probe(fs::path(folder) / "index.html");
}

void study_files::show(charted_figure figure, const std::string& where) {
  std::printf("%s\n", figure_text(figure, where, wants_colour(STDOUT_FILENO)).c_str());
  std::fflush(stdout);
  keep(std::move(figure));
}

ordered_json study_files::figures() const { return to_json(kept_); }

void study_files::write(const ordered_json& results) {
  if (!results_) return;
  const fs::path file = results_->target();
  results_->commit(results.dump(1) + "\n");
  std::printf("wrote %s\n", file.c_str());
  std::fflush(stdout);
  // Some studies describe their figures before they have measured any.
  if (const auto study = results.find("study");
      study != results.end() &&
      (study->at("figures").empty() || results.value("benchmarks", ordered_json()).empty())) {
    std::printf("no page: the study was interrupted before its first figure was measured\n");
    return;
  }
  write_report({file}, file.parent_path() / "index.html");
  std::printf("wrote %s, and a page for each figure beside it\n",
              (file.parent_path() / "index.html").c_str());
}

void charted_figure::miss(const std::string& name, const std::string& why) {
  if (std::ranges::find(missing, name, &missing_map::map) == missing.end()) missing.push_back({name, why});
}

std::string figure_text(const charted_figure& figure, const std::string& where, bool colour) {
  std::string text =
      bold(fmt::format("{}{}: {}", figure.machine.empty() ? "" : "SIMULATED ", figure.id, figure.title),
           colour) +
      '\n' + wrapped(figure.summary, "  ");
  std::map<std::string, std::vector<std::string>> missing;
  for (const missing_map& m : figure.missing) missing[m.why].push_back(m.map);
  for (const auto& [why, names] : missing)
    text += wrapped(fmt::format("missing, {}: {}", why, fmt::join(names, ", ")), "  ");
  if (!figure.measured) text += '\n';
  for (const chart& c : figure.charts) text += chart_text(c, colour) + '\n';
  for (const judged_claim& f : figure.findings) {
    const std::string place = !f.keys ? where
                                      : fmt::format("{} keys{}{}", grouped(*f.keys),
                                                    f.machine.empty() ? "" : ", simulated on ", f.machine);
    text += finding_text(f.source(), f.claim, f.ours, place);
  }
  return text;
}

ordered_json to_json(const charted_figure& figure) {
  ordered_json j{{"id", figure.id}, {"title", figure.title}, {"summary", figure.summary}};
  if (figure.measured) {
    j["panels"] = ordered_json::array();
    for (const study_panel& p : figure.measured->panels) {
      j["panels"].push_back({{"workload", p.workload}, {"keys", p.keys}, {"threads", p.threads}});
      if (!p.machine.empty()) j["panels"].back()["machine"] = p.machine;
    }
    j["node_bytes"] = figure.measured->node_bytes;
  } else {
    j["charts"] = ordered_json::array();
    for (const chart& c : figure.charts) j["charts"].push_back(json_of(c));
  }
  j["missing"] = ordered_json::array();
  for (const missing_map& m : figure.missing) j["missing"].push_back({{"map", m.map}, {"why", m.why}});
  j["findings"] = ordered_json::array();
  for (const judged_claim& f : figure.findings) {
    ordered_json one{{"paper", f.claim}};
    if (f.keys)
      one["keys"] = *f.keys;
    else
      one["of_paper"] = f.of_paper;
    one["ours"] = f.ours.sentence;
    one["verdict"] = to_string(f.ours.verdict);
    const std::string& machine = f.machine.empty() ? figure.machine : f.machine;
    if (!machine.empty()) one["machine"] = machine;
    j["findings"].push_back(std::move(one));
  }
  return j;
}

ordered_json to_json(const std::vector<charted_figure>& figures) {
  ordered_json all = ordered_json::array();
  for (const charted_figure& figure : figures) all.push_back(to_json(figure));
  return all;
}

}  // namespace espalier::app
