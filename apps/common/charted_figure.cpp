#include "apps/common/charted_figure.hpp"

#include <nlohmann/json.hpp>

namespace espalier::app {
namespace {

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

}  // namespace

ordered_json to_json(const charted_figure& figure) {
  ordered_json j{{"id", figure.id}, {"title", figure.title}, {"summary", figure.summary}};
  j["charts"] = ordered_json::array();
  for (const chart& c : figure.charts) j["charts"].push_back(json_of(c));
  j["missing"] = ordered_json::array();
  for (const missing_map& m : figure.missing) j["missing"].push_back({{"map", m.map}, {"why", m.why}});
  j["findings"] = ordered_json::array();
  for (const judged_claim& f : figure.findings) {
    ordered_json one{{"paper", f.claim},
                     {"of_paper", f.of_paper},
                     {"ours", f.ours.sentence},
                     {"verdict", to_string(f.ours.verdict)}};
    if (!figure.machine.empty()) one["machine"] = figure.machine;
    j["findings"].push_back(std::move(one));
  }
  return j;
}

}  // namespace espalier::app
