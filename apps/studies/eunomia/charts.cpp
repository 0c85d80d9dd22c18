#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>

#include "apps/studies/eunomia/claims.hpp"

namespace espalier::app::eunomia {
namespace {

using value_of = std::function<std::optional<double>(const map_reading&)>;

double theta_of(const load& l) {
  return measure::distribution_spec::parse(l.distribution).parameters.front();
}
double threads_of(const load& l) { return l.threads; }

std::optional<double> speed_of(const map_reading& r) { return r.speed.median / 1e6; }
std::optional<double> aborts_of(const map_reading& r) {
  return r.aborts ? std::optional(r.aborts->all()) : std::nullopt;
}
std::optional<double> bytes_of(const map_reading& r) { return r.bytes_per_key; }

/// Makes the charts of a page.
class charts_of_page {
 public:
  charts_of_page(const page& shown, const results& measured, const setting& where, charted_figure& figure)
      : page_(shown), measured_(measured), simulated_(where.simulated), figure_(figure) {}

  /// Points of a curve over some of the loads.
  [[nodiscard]] chart_curve curve(const std::string& name, const std::string& map,
                                  const std::vector<load>& loads, double (*x)(const load&),
                                  const value_of& y) const {
    chart_curve found{name, {}};
    for (const load& l : loads) {
      const map_reading* const r = measured_.find(l, map);
      if (r == nullptr) continue;
      if (const auto value = y(*r)) found.points.emplace_back(x(l), *value);
    }
    std::ranges::sort(found.points);
    return found;
  }

  /// A curve for each map.
  [[nodiscard]] std::vector<chart_curve> curves(const std::vector<load>& loads, double (*x)(const load&),
                                                const value_of& y) const {
    std::vector<chart_curve> all;
    for (const std::string& map : page_.maps) all.push_back(curve(map, map, loads, x, y));
    return all;
  }

  /// Adds a chart without its empty curves, unless it has none.
  void add(const std::string& title, const std::string& caption, const std::string& y, const std::string& x,
           std::vector<chart_curve> curves) {
    std::erase_if(curves, [](const chart_curve& c) { return c.points.empty(); });
    if (curves.empty()) return;
    figure_.charts.push_back(
        {.title = title, .caption = caption, .y = y, .x = x, .curves = std::move(curves)});
  }

  void throughput(const std::string& title, const std::vector<load>& loads, double (*x)(const load&),
                  const std::string& x_title) {
    add(title,
        simulated_ ? "Higher is better. Compare maps and slopes: absolute numbers are those of a model."
                   : "Medians of runs in turns. Higher is better.",
        simulated_ ? "simulated Mop/s" : "Mop/s", x_title, curves(loads, x, speed_of));
  }

  /// The loads of the page that this keeps.
  template <class Keep>
  [[nodiscard]] std::vector<load> loads(Keep keep) const {
    std::vector<load> kept;
    std::ranges::copy_if(page_.loads, std::back_inserter(kept), keep);
    return kept;
  }

  /// A chart over threads for all loads of the same title, in the page's order.
  void over_threads(const std::function<std::string(const load&)>& title) {
    std::vector<std::string> drawn;
    for (const load& l : page_.loads) {
      const std::string of = title(l);
      if (std::ranges::find(drawn, of) != drawn.end()) continue;
      drawn.push_back(of);
      throughput(of, loads([&](const load& other) { return title(other) == of; }), threads_of, "Threads");
    }
  }

  void skew() { throughput("Throughput", page_.loads, theta_of, "theta"); }

  void aborts() {
    const std::string y = "aborts an operation";
    add("Aborts", "Of all causes. Lower is better.", y, "theta", curves(page_.loads, theta_of, aborts_of));
    for (const std::string& map : page_.maps) {
      add(fmt::format("Why {} aborts", map), "Lower is better.", y, "theta",
          named(map, "", [](const abort_counts& a) { return a.by_cause; }));
    }
    std::vector<chart_curve> regions;
    for (const std::string& map : page_.maps)
      std::ranges::move(named(map, map + ", ", [](const abort_counts& a) { return a.by_region; }),
                        std::back_inserter(regions));
    add("Conflicts by region",
        "The upper region ends at the leaf, the lower one begins there. Lower is better.",
        "conflicts an operation", "theta", std::move(regions));
  }

  void changes() {
    skew();
    aborts();
  }

  void threads() {
    over_threads([](const load& l) { return fmt::format("theta = {}", theta_of(l)); });
  }
  void puts() {
    over_threads([](const load& l) { return fmt::format("{} % gets, {} % puts", 100 - l.puts, l.puts); });
  }
  void distributions() {
    over_threads([](const load& l) {
      std::string name = l.distribution.substr(0, l.distribution.find(':'));
      name[0] = static_cast<char>(std::toupper(name[0]));
      return name;
    });
  }

  void ladder() {
    for (const load& l : page_.loads) {
      const map_reading* const base = measured_.find(l, baseline);
      if (base == nullptr) continue;
      add(fmt::format("theta = {}{}", theta_of(l), l.inserts ? ", inserts and erases" : ""),
          "Longer is better.", fmt::format("throughput, x {}", baseline), "Threads",
          curves({l}, threads_of, [&](const map_reading& r) {
            const auto of_rounds = median_of_ratios(r.speed.rounds, base->speed.rounds);
            return of_rounds ? of_rounds : std::optional(r.speed.median / base->speed.median);
          }));
    }
  }

  void memory() {
    const std::string y = "bytes for each key";
    const auto half_puts = [](const load& l) { return l.puts == 50; };
    const auto zipf = [&](const load& l) {
      return measure::distribution_spec::parse(l.distribution).kind == measure::distribution_kind::zipfian ||
             l.distribution == "uniform";
    };
    add("By skew", "Lower is better.", y, "theta",
        curves(loads([&](const load& l) { return half_puts(l) && zipf(l); }), theta_of, bytes_of));
    add("By puts", "Lower is better.", y, "Puts, %",
        curves(
            loads([](const load& l) { return l.distribution == "zipfian:0.9"; }),
            [](const load& l) { return static_cast<double>(l.puts); }, bytes_of));
  }

  void verdict() {
    throughput("Throughput", page_.loads, threads_of, "Threads");
    add("Aborts", "Of all causes. Fewer are better.", "aborts an operation", "Threads",
        curves(page_.loads, threads_of, aborts_of));
  }

 private:
  /// A curve over theta for each of the counts that a map has.
  [[nodiscard]] std::vector<chart_curve> named(const std::string& map, const std::string& prefix,
                                               named_counts (*counts)(const abort_counts&)) const {
    std::vector<chart_curve> all;
    for (const load& l : page_.loads) {
      const map_reading* const r = measured_.find(l, map);
      if (r == nullptr || !r->aborts) continue;
      const named_counts found = counts(*r->aborts);
      all.resize(std::max(all.size(), found.size()));
      for (std::size_t i = 0; i < found.size(); ++i) {
        all[i].name = prefix + found[i].first;
        all[i].points.emplace_back(theta_of(l), found[i].second);
      }
    }
    return all;
  }

  const page& page_;
  const results& measured_;
  bool simulated_;
  charted_figure& figure_;
};

void draw(const page& shown, charts_of_page& charts) {
  struct drawing {
    const char* id;
    void (charts_of_page::*draw)();
  };
  static const std::vector<drawing> all{
      {"skew", &charts_of_page::skew},       {"aborts", &charts_of_page::aborts},
      {"changes", &charts_of_page::changes}, {"threads", &charts_of_page::threads},
      {"puts", &charts_of_page::puts},       {"distributions", &charts_of_page::distributions},
      {"ladder", &charts_of_page::ladder},   {"memory", &charts_of_page::memory},
      {"verdict", &charts_of_page::verdict}};
  for (const auto& [id, how] : all) {
    if (shown.id == id) (charts.*how)();
  }
}

}  // namespace

charted_figure figure_of(const page& shown, const results& measured, const setting& where,
                         const std::string& machine) {
  charted_figure figure{.id = shown.id, .title = shown.title, .summary = shown.summary, .machine = machine};
  charts_of_page charts(shown, measured, where, figure);
  draw(shown, charts);
  return figure;
}

}  // namespace espalier::app::eunomia
