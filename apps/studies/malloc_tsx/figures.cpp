#include "apps/studies/malloc_tsx/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/common/terminal.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::app::malloc_tsx {
namespace {

/// Curves of a value that a reading may have: value(point, reading) returns a number, or nothing.
template <class Value>
std::vector<chart_curve> curves_from(const placed_readings& readings, const std::set<std::string_view>& locks,
                                     bool name_locks, Value&& value) {
  std::vector<chart_curve> all;
  for (const auto& [malloc, lock] : curves_of(readings)) {
    if (!locks.contains(lock)) continue;
    chart_curve curve{name_locks ? fmt::format("{}, {}", malloc, lock) : malloc, {}};
    for (const std::uint64_t size : readings.sizes()) {
      const point at{malloc, lock, size};
      const placed_reading* const r = readings.find(at);
      if (r == nullptr) continue;
      if (const std::optional<double> v = value(at, *r)) curve.points.emplace_back(size, *v);
    }
    if (!curve.points.empty()) all.push_back(std::move(curve));
  }
  return all;
}

const std::string bytes_of_a_node = "Bytes of a node";

std::optional<double> over_reference(const placed_readings& readings, const point& at) {
  return readings.ratio(at, {std::string(reference_malloc), std::string(reference_locks), at.size});
}

}  // namespace

charted_figure ring_figure(std::uint64_t nodes) {
  charted_figure f;
  f.id = fmt::format("ring-{}", nodes);
  f.title = fmt::format("A ring of {} nodes", nodes);
  f.summary = fmt::format(
      "One thread goes round a ring of {} nodes that were allocated one by one, in random order, and writes "
      "each under a mutex. Nothing is allocated meanwhile: what differs is where the nodes lie{}.",
      nodes, nodes == paper_nodes ? " (figure 1)" : "");
  return f;
}

charted_figure tree_figure(std::uint64_t keys, unsigned threads) {
  charted_figure f;
  f.id = fmt::format("tree-{}", threads);
  f.title = fmt::format("An AVL tree under one mutex, {}",
                        threads == 1 ? "one thread" : fmt::format("{} threads", threads));
  f.summary = fmt::format(
      "30 % of the operations insert or overwrite one of {} keys, 30 % erase one, 40 % look one up; nodes "
      "are allocated, before the search, and freed under the mutex (figure 2).",
      keys);
  return f;
}

charted_figure late_tree_figure(std::uint64_t keys, unsigned threads) {
  charted_figure f = tree_figure(keys, threads);
  f.id += "-late";
  f.title += ", nodes made late";
  f.summary =
      "As figure 2, but an operation that inserts searches first, and allocates a node once it knows that it "
      "needs one.";
  return f;
}

std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& [at, r] : readings.all()) seen.insert({at.malloc, at.locks});
  return {seen.begin(), seen.end()};
}

std::vector<chart> charts_of(const placed_readings& readings, bool ring, const setting& in) {
  std::vector<chart> charts;
  const auto add = [&](std::string called, std::string caption, std::string y,
                       std::vector<chart_curve> curves) -> bool {
    if (curves.empty()) return false;
    charts.push_back({.title = std::move(called),
                      .caption = std::move(caption),
                      .y = std::move(y),
                      .x = bytes_of_a_node,
                      .curves = std::move(curves)});
    return true;
  };
  add("Throughput",
      fmt::format("Times that of {} under {} at the same size{}. Higher is better.", reference_malloc,
                  reference_locks, in.simulated ? "" : ", round by round; the median"),
      fmt::format("x {} under {}", reference_malloc, reference_locks),
      curves_from(readings, {tts, tle, tle_learnt}, true,
                  [&](const point& at, const placed_reading&) { return over_reference(readings, at); }));
  const std::string_view what = in.simulated ? "lines" : "nodes";
  if (ring &&
      add(in.simulated ? "Lines of nodes at the fullest index" : "Nodes at the fullest index",
          fmt::format("How many {} the L1 index has at which {}. Above the ways of the cache no transaction "
                      "can write them all. Lower is better.",
                      in.simulated ? "lines with nodes" : "nodes",
                      in.simulated ? "most of them lie" : "most of them begin"),
          std::string(what), curves_from(readings, {tts}, false, [](const point&, const placed_reading& r) {
            return std::optional(static_cast<double>(r.largest_load));
          })))
    charts.back().limit = {static_cast<double>(in.ways), "ways of the L1 cache"};
  add("Sections that were elided",
      "Of all critical sections under tle, those that committed as a transaction. Higher is better.",
      "share of sections",
      curves_from(readings, {tle}, false, [](const point&, const placed_reading& r) { return r.committed; }));
  add("Aborts for capacity", "Attempts that did not fit, for an operation. Lower is better.",
      "aborts an operation", curves_from(readings, {tle}, false, [](const point&, const placed_reading& r) {
        return r.capacity_aborts;
      }));
  return charts;
}

std::string summary_table(const placed_readings& readings, bool ring, const setting& in, bool colour) {
  const auto cell = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "";
  };
  table t({"malloc", "locks", "throughput\n(geometric mean)", "at its\nworst size", "largest\nload",
           "sizes above\nall ways", "committed\nat least", "capacity aborts\nan operation"},
          {0, 1});
  const std::vector<std::uint64_t> sizes = readings.sizes();
  for (const auto& [malloc, locks] : curves_of(readings)) {
    std::vector<double> ratios;
    std::uint64_t largest = 0;
    std::optional<double> committed;
    std::optional<double> capacity;
    for (const std::uint64_t size : sizes) {
      const placed_reading* const r = readings.find({malloc, locks, size});
      if (r == nullptr) continue;
      if (const auto ratio = over_reference(readings, {malloc, locks, size})) ratios.push_back(*ratio);
      largest = std::max(largest, r->largest_load);
      if (r->committed) committed = std::min(committed.value_or(1), *r->committed);
      if (r->capacity_aborts) capacity = std::max(capacity.value_or(0), *r->capacity_aborts);
    }
    const std::size_t overloaded = readings.overloaded(malloc, in.ways).size();
    t.add({malloc, locks, cell(measure::geometric_mean(ratios), "{:.2f}"),
           cell(measure::minimum(ratios), "{:.2f}"), fmt::format("{}", largest),
           ring ? fmt::format("{} of {}", overloaded, sizes.size()) : "",
           committed ? fmt::format("{:.1f} %", 100 * *committed) : "", cell(capacity, "{:.4f}")});
  }
  return t.text(colour);
}

std::string entry_name(std::string_view figure, const point& at) {
  return fmt::format("{}/{}/{}/size:{}", figure, at.malloc, at.locks, at.size);
}

void add_reading(nlohmann::ordered_json& entry, const point& at, const placed_reading& r,
                 const std::vector<std::uint64_t>& loads) {
  entry["locks"] = at.locks;
  entry["size"] = at.size;
  entry["largest_load"] = r.largest_load;
  entry["loads"] = loads;
  if (!r.committed) return;
  entry["committed"] = *r.committed;
  entry["capacity_aborts"] = r.capacity_aborts.value_or(0);
}

}  // namespace espalier::app::malloc_tsx
