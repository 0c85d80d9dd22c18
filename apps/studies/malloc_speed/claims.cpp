#include "apps/studies/malloc_speed/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <array>
#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "espalier/measure/statistics.hpp"
#include "espalier/memory/parts/index_class.hpp"

namespace espalier::app::malloc_speed {
namespace {

const std::string index_aware = "index-aware";
const std::string glibc = "glibc";
const std::string mimalloc = "mimalloc";
const std::string jemalloc = "jemalloc";

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

judgement missing(const std::string& malloc) {
  return {fmt::format("{} or index-aware was not measured", malloc), agreement::not_measurable};
}

judgement time_beside(const cost_readings& measured, const std::string& other, double most, bool may_equal) {
  const auto mean = measured.mean(&cost_readings::ratio, index_aware, other);
  if (!mean) return missing(other);
  std::string worst;
  double most_seen = 0;
  for (const std::string& benchmark : measured.benchmarks()) {
    const double ratio = measured.ratio(benchmark, index_aware, other).value_or(0);
    if (ratio > most_seen) {
      most_seen = ratio;
      worst = benchmark;
    }
  }
  return {
      fmt::format("index-aware takes {:.2f} x the time of {} in the geometric mean, at most {:.2f} x ({})",
                  *mean, other, most_seen, worst),
      *mean < most || (may_equal && *mean == most) ? agreement::agrees : agreement::differs};
}

judgement memory_beside(const cost_readings& measured, const std::string& other) {
  std::string said;
  bool good = true;
  for (const std::string& benchmark : measured.benchmarks()) {
    const auto ratio = measured.memory_ratio(benchmark, index_aware, other);
    if (!ratio) return missing(other);
    said += fmt::format("{}{:.2f} x with {}", said.empty() ? "" : ", ", *ratio, benchmark);
    good = good && *ratio <= most_memory;
  }
  if (said.empty()) return missing(other);
  return {"memory at its most is " + said, good ? agreement::agrees : agreement::differs};
}

}  // namespace

void cost_readings::add(const std::string& benchmark, const std::string& malloc, cost_reading r) {
  add_once(benchmarks_, benchmark);
  add_once(mallocs_, malloc);
  all_[{benchmark, malloc}] = std::move(r);
}

const cost_reading* cost_readings::find(const std::string& benchmark, const std::string& malloc) const {
  const auto found = all_.find({benchmark, malloc});
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<double> cost_readings::ratios(const std::string& benchmark, const std::string& malloc,
                                          const std::string& other) const {
  const cost_reading* const above = find(benchmark, malloc);
  const cost_reading* const below = find(benchmark, other);
  if (above == nullptr || below == nullptr) return {};
  return ratios_of_rounds(above->rounds, below->rounds);
}

std::optional<double> cost_readings::ratio(const std::string& benchmark, const std::string& malloc,
                                           const std::string& other) const {
  return measure::median(ratios(benchmark, malloc, other));
}

std::optional<double> cost_readings::memory_ratio(const std::string& benchmark, const std::string& malloc,
                                                  const std::string& other) const {
  const cost_reading* const above = find(benchmark, malloc);
  const cost_reading* const below = find(benchmark, other);
  if (above == nullptr || below == nullptr || below->peak_kib == 0) return std::nullopt;
  return static_cast<double>(above->peak_kib) / static_cast<double>(below->peak_kib);
}

std::optional<double> cost_readings::mean(cost_ratio of, const std::string& malloc,
                                          const std::string& other) const {
  std::vector<double> ratios;
  for (const std::string& benchmark : benchmarks_) {
    const std::optional<double> one = (this->*of)(benchmark, malloc, other);
    if (!one) return std::nullopt;
    ratios.push_back(*one);
  }
  return measure::geometric_mean(ratios);
}

std::array<judged_claim, 3> judge(const cost_readings& measured) {
  return {judged_claim{
              fmt::format("An index-aware malloc takes no more than {} x the time of mimalloc", most_time),
              time_beside(measured, mimalloc, most_time, true), false},
          judged_claim{"An index-aware malloc is faster than glibc's", time_beside(measured, glibc, 1, false),
                       false},
          judged_claim{fmt::format("It needs no more than {} x the memory of jemalloc", most_memory),
                       memory_beside(measured, jemalloc), false}};
}

// Figures -------------------------------------------------------------------------------------------------------------

namespace {

const std::string geometric_mean = "Geometric mean of all benchmarks";

/// Adds a chart of the bars that value(malloc) returns, if there are any.
template <class Value>
void add(charted_figure& f, const cost_readings& measured, chart c, Value&& value) {
  for (const std::string& malloc : measured.mallocs()) {
    std::optional<chart_bar> bar = value(malloc);
    if (!bar) continue;
    bar->name = malloc;
    bar->peer = malloc != "index-aware" && malloc != "random";
    c.bars.push_back(std::move(*bar));
  }
  if (!c.bars.empty()) f.charts.push_back(std::move(c));
}

std::optional<chart_bar> bar_of(const std::optional<double>& value) {
  if (!value) return std::nullopt;
  return chart_bar{.name = {}, .value = *value};
}

charted_figure time_over(const cost_readings& measured, const std::string& other, double most) {
  charted_figure f{.id = "time-over-" + other,
                   .title = fmt::format("Time over {}'s", other),
                   .summary = fmt::format(
                       "Processor time of each benchmark under each malloc, in turns; {}'s is 1.", other)};
  const std::string y = fmt::format("processor time, x {}", other);
  add(f, measured,
      {.title = geometric_mean,
       .caption = fmt::format("Shorter is better. The line is what index-aware is held against: {:.2f} x {}.",
                              most, other),
       .y = y,
       .limit = {{most, fmt::format("x {}", other)}}},
      [&](const std::string& malloc) { return bar_of(measured.mean(&cost_readings::ratio, malloc, other)); });
  for (const std::string& benchmark : measured.benchmarks()) {
    add(f, measured,
        {.title = benchmark,
         .caption = fmt::format(
             "Times that of {}, round by round: the median, with least and most. Shorter is better.", other),
         .y = y},
        [&](const std::string& malloc) {
          const std::vector<double> ratios = measured.ratios(benchmark, malloc, other);
          std::optional<chart_bar> bar = bar_of(measure::median(ratios));
          if (bar && ratios.size() > 1) {
            const auto [least, greatest] = std::ranges::minmax(ratios);
            bar->least = least;
            bar->most = greatest;
          }
          return bar;
        });
  }
  return f;
}

charted_figure memory_over(const cost_readings& measured, const std::string& other) {
  charted_figure f{
      .id = "memory-over-" + other,
      .title = fmt::format("Memory over {}'s", other),
      .summary = fmt::format(
          "Memory that was resident at its most, of each benchmark under each malloc; {}'s is 1.", other)};
  const std::string y = fmt::format("resident memory, x {}", other);
  add(f, measured, {.title = geometric_mean, .caption = "Shorter is better.", .y = y},
      [&](const std::string& malloc) {
        return bar_of(measured.mean(&cost_readings::memory_ratio, malloc, other));
      });
  for (const std::string& benchmark : measured.benchmarks()) {
    add(f, measured,
        {.title = benchmark,
         .caption = fmt::format("Times that of {}. Shorter is better. The line is what index-aware is held "
                                "against: {:.2f} x {}.",
                                other, most_memory, other),
         .y = y,
         .limit = {{most_memory, fmt::format("x {}", other)}}},
        [&](const std::string& malloc) { return bar_of(measured.memory_ratio(benchmark, malloc, other)); });
  }
  return f;
}

struct classes {
  std::string malloc;
  double (*held)(std::size_t asked);
  bool ours;
};

double glibc_bytes(std::size_t asked) { return static_cast<double>(glibc_stride(asked)); }
double jemalloc_bytes(std::size_t asked) { return static_cast<double>(size_class_stride(asked)); }
double our_bytes(std::size_t asked) { return index_aware_bytes(asked); }

const std::array<classes, 3> all_classes{classes{"glibc", glibc_bytes, false},
                                         classes{"jemalloc", jemalloc_bytes, false},
                                         classes{"index-aware", our_bytes, true}};

struct requests {
  std::size_t least;
  std::size_t most;
  std::string title;
};

charted_figure classes_figure() {
  charted_figure f;
  f.id = "classes";
  f.title = "What the classes cost";
  f.summary =
      "Index-aware classes cost memory: blocks of more than 48 bytes have whole lines, and mostly an odd "
      "number of them. Counted from the classes, not measured: bytes from one block to the next for each "
      "byte asked for. jemalloc's classes stand for those of mimalloc and tcmalloc as well, which differ in "
      "details.";
  const std::string y = "bytes held for each byte asked for";
  chart curves{.title = "By size", .caption = "Lower is better.", .y = y, .x = "Bytes asked for"};
  constexpr std::size_t first = 32;
  constexpr std::size_t last = 2048;
  constexpr std::size_t step = 8;
  for (const classes& c : all_classes) {
    chart_curve& curve = curves.curves.emplace_back(chart_curve{c.malloc, {}});
    for (std::size_t asked = first; asked <= last; asked += step)
      curve.points.emplace_back(asked, c.held(asked) / static_cast<double>(asked));
  }
  f.charts.push_back(std::move(curves));
  for (const requests& r : {requests{1, 256, "Each size from 1 to 256 bytes"},
                            requests{8, 1000, "Each size from 8 to 1000 bytes, as larson"},
                            requests{1, 4096, "Each size from 1 to 4096 bytes"}}) {
    chart c{.title = r.title, .caption = "All of it over all that was asked for. Shorter is better.", .y = y};
    for (const classes& held : all_classes) {
      double sum = 0;
      double asked_sum = 0;
      for (std::size_t asked = r.least; asked <= r.most; ++asked) {
        sum += held.held(asked);
        asked_sum += static_cast<double>(asked);
      }
      c.bars.push_back({.name = held.malloc, .value = sum / asked_sum, .peer = !held.ours});
    }
    f.charts.push_back(std::move(c));
  }
  return f;
}

}  // namespace

double index_aware_bytes(std::size_t asked) noexcept {
  const index_class::shape s = index_class::shape_of(index_class::of(asked, malloc_granule));
  const double left_out =
      s.punctuated ? static_cast<double>(index_class::line) / static_cast<double>(s.group) : 0;
  return static_cast<double>(s.stride) + left_out;
}

std::vector<charted_figure> figures_of(const cost_readings& measured,
                                       const std::vector<missing_map>& missing) {
  auto [beside_mimalloc, beside_glibc, beside_jemalloc] = judge(measured);
  std::vector<charted_figure> figures{time_over(measured, "mimalloc", most_time),
                                      time_over(measured, "glibc", 1), memory_over(measured, "jemalloc")};
  figures[0].findings.push_back(std::move(beside_mimalloc));
  figures[1].findings.push_back(std::move(beside_glibc));
  figures[2].findings.push_back(std::move(beside_jemalloc));
  for (charted_figure& f : figures) f.missing = missing;
  figures.push_back(classes_figure());
  return figures;
}

}  // namespace espalier::app::malloc_speed
