#include "apps/espalier/oltp_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/common/terminal.hpp"
#include "apps/studies/study_output.hpp"

namespace espalier::app {
namespace {

using db::measured;
/// By number of threads, and the fastest of each number first.
using ranking = std::vector<const measured*>;

ranking ranked(const std::vector<measured>& all) {
  ranking order;
  for (const measured& m : all) order.push_back(&m);
  std::ranges::stable_sort(order, [](const measured* a, const measured* b) {
    return a->threads != b->threads ? a->threads < b->threads : a->throughput() > b->throughput();
  });
  return order;
}

std::string name_of(const measured& m) { return fmt::format("{} with {}", m.index, m.protocol); }

std::string rate_of(const measured& m) {
  return fmt::format("{} transactions a second",
                     grouped(static_cast<std::uint64_t>(std::llround(m.throughput()))));
}

bool all_hold(const measured& m) { return std::ranges::all_of(m.conditions, &db::condition::holds); }

/// Of one number of threads, the fastest first.
std::string winner_of(const ranking& group) {
  const measured& best = *group.front();
  const std::string at = number_of(best.threads, "thread");
  if (group.size() == 1) return fmt::format("{}, {}: {}.", name_of(best), at, rate_of(best));
  const measured& next = *group[1];
  const double least = *std::ranges::min_element(best.per_second);
  const auto overlaps = std::ranges::count_if(group.begin() + 1, group.end(), [&](const measured* m) {
    return *std::ranges::max_element(m->per_second) >= least;
  });
  const std::string ratio = next.throughput() > 0
                                ? fmt::format("{:.2f} times", best.throughput() / next.throughput())
                                : "and not 0 as";
  const std::string first =
      fmt::format("{}: {} is first with {}, {} {}", at, name_of(best), rate_of(best), ratio, name_of(next));
  constexpr std::size_t fewest_runs = 3;
  if (best.per_second.size() < fewest_runs)
    return fmt::format("{}. From {} each the order may be chance.", first,
                       number_of(best.per_second.size(), "run"));
  if (overlaps != 0)
    return fmt::format("{}. Its runs overlap with those of {}, so that no winner can be told.", first,
                       overlaps == 1 ? std::string("one other") : fmt::format("{} others", overlaps));
  return first + ". Its slowest run is faster than every run of the others.";
}

/// A sentence for each number of threads.
std::vector<std::string> winners(const ranking& all) {
  std::vector<std::string> sentences;
  for (auto first = all.begin(); first != all.end();) {
    const auto last =
        std::find_if(first, all.end(), [&](const measured* m) { return m->threads != (*first)->threads; });
    sentences.push_back(winner_of({first, last}));
    first = last;
  }
  return sentences;
}

/// Of all measurements together.
std::string conditions_in_words(const std::vector<measured>& all) {
  std::size_t conditions = 0;
  std::size_t held = 0;
  for (const measured& m : all) {
    conditions += m.conditions.size();
    held += static_cast<std::size_t>(std::ranges::count_if(m.conditions, &db::condition::holds));
  }
  return held == conditions ? fmt::format("All {} conditions of consistency hold.", conditions)
                            : fmt::format("BROKEN: {} of {} conditions of consistency do not hold.",
                                          conditions - held, conditions);
}

std::string percent(double part, double whole) {
  return whole == 0 ? unavailable : fmt::format("{:.1f}", 100 * part / whole);
}

/// One line a measurement.
void print_table(const ranking& all, bool colour) {
  table t({"index", "protocol", "threads", "tx/s", "min..max", "CPU us/tx", "aborts %", "waits/tx",
           "index ops/tx", "in index %", "rows MB", "index MB", "B/key"},
          {0, 1});
  for (const measured* const one : all) {
    const measured& m = *one;
    const auto& c = m.counts;
    const auto commits = static_cast<double>(c.commits);
    t.add({m.index, m.protocol, fmt::format("{}", m.threads), fmt::format("{:.0f}", m.throughput()),
           fmt::format("{:.0f}..{:.0f}", *std::ranges::min_element(m.per_second),
                       *std::ranges::max_element(m.per_second)),
           fmt::format("{:.2f}", m.cpu_us_each),
           percent(static_cast<double>(m.lost_attempts()), static_cast<double>(c.attempts())),
           commits == 0 ? unavailable : fmt::format("{:.3f}", static_cast<double>(c.waits) / commits),
           commits == 0 ? unavailable
                        : fmt::format("{:.1f}", static_cast<double>(c.index_operations) / commits),
           percent(static_cast<double>(c.sampled_index_ticks), static_cast<double>(c.sampled_ticks)),
           fmt::format("{:.1f}", static_cast<double>(m.row_bytes) / 1e6),
           m.index_bytes ? fmt::format("{:.1f}", static_cast<double>(*m.index_bytes) / 1e6) : unavailable,
           m.bytes_per_key ? fmt::format("{:.1f}", *m.bytes_per_key) : unavailable});
  }
  std::fputs(t.text(colour, terminal_width(STDOUT_FILENO).value_or(SIZE_MAX)).c_str(), stdout);
}

void print_kinds(const measured& m, bool colour) {
  table t({"transaction", "committed", "rolled back", "p50 us", "p90 us", "p99 us", "max us"}, {0});
  const auto us = [](const std::optional<std::uint64_t>& ns) {
    return ns ? fmt::format("{:.1f}", static_cast<double>(*ns) / 1000) : std::string(unavailable);
  };
  for (const db::kind_result& k : m.kinds) {
    if (k.committed + k.rolled_back == 0) continue;
    t.add({k.name, fmt::format("{}", k.committed), fmt::format("{}", k.rolled_back),
           us(k.latency.value_at(0.5)), us(k.latency.value_at(0.9)), us(k.latency.value_at(0.99)),
           us(k.latency.max())});
  }
  std::fputs(t.text(colour).c_str(), stdout);
  std::string reasons;
  for (std::size_t r = 0; r < espalier::oltp::abort_reasons; ++r) {
    if (m.counts.aborts[r] != 0)
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ",
                             to_string(static_cast<espalier::oltp::abort_reason>(r)), m.counts.aborts[r]);
  }
  if (!reasons.empty()) std::printf("attempts that did not commit: %s\n", reasons.c_str());
}

std::string_view to_string(db::share_verdict v) noexcept {
  constexpr std::array<std::string_view, 3> names{"met", "too few to tell", "NOT MET"};
  return names[static_cast<std::size_t>(v)];
}

/// With `only_faults`, nothing of what is as it should be.
void print_conditions(const measured& m, bool only_faults) {
  if (!only_faults) {
    const auto held = std::ranges::count_if(m.conditions, &db::condition::holds);
    std::printf("conditions: %td of %zu hold\n", held, m.conditions.size());
  }
  for (const db::condition& c : m.conditions) {
    if (!c.holds) std::printf("  BROKEN %s: %s\n", c.name.c_str(), c.detail.c_str());
  }
  for (const db::share& s : m.shares) {
    if (only_faults && s.verdict() != db::share_verdict::missed) continue;
    std::printf("  %s: %.2f of %llu (%.4g to %.4g is asked): %s\n", s.name.c_str(), s.value,
                static_cast<unsigned long long>(s.of), s.least, s.most, to_string(s.verdict()).data());
  }
  if (!m.stopped_because.empty()) std::printf("the run ended early: %s\n", m.stopped_because.c_str());
}

charted_figure figure_of(const std::string& workload, const std::vector<measured>& all) {
  const ranking order = ranked(all);
  const bool one_number = order.front()->threads == order.back()->threads;
  const std::string at = one_number ? ", " + number_of(order.front()->threads, "thread") : "";
  charted_figure f;
  f.id = workload;
  f.title = fmt::format("{}: which index and protocol is the fastest", workload);
  f.summary = fmt::format("{}", fmt::join(winners(order), " "));
  chart rate{
      .title = fmt::format("Transactions a second{}", at),
      .caption =
          "More is better. A bar is the median of the runs, its whisker reaches from the least to the most.",
      .y = "transactions/s"};
  chart cpu{.title = fmt::format("Processor time of a transaction{}", at),
            .caption = "Less is better. It is that of all runs together.",
            .y = "us"};
  rate.of = cpu.of = one_number ? "Index, protocol" : "Index, protocol, threads";
  rate.more_is_better = true;
  for (const measured* const m : order) {
    std::string name = fmt::format("{}, {}", m->index, m->protocol);
    if (!one_number) name += fmt::format(", {}", m->threads);
    rate.bars.push_back({.name = name,
                         .value = m->throughput(),
                         .least = *std::ranges::min_element(m->per_second),
                         .most = *std::ranges::max_element(m->per_second)});
    cpu.bars.push_back({.name = std::move(name), .value = m->cpu_us_each});
  }
  f.charts = {std::move(rate), std::move(cpu)};
  return f;
}

nlohmann::ordered_json entry_of(const std::string& workload, const measured& m) {
  nlohmann::ordered_json j{
      {"name", fmt::format("{}/{}/{}/threads:{}", workload, m.index, m.protocol, m.threads)},
      {"run_type", "iteration"},
      {"real_time", 1e9 / m.throughput()},
      {"cpu_time", m.cpu_us_each * 1000},
      {"time_unit", "ns"},
      {"rounds", m.per_second},
      {"commits", m.counts.commits},
      {"waits", m.counts.waits},
      {"index_operations", m.counts.index_operations},
      {"row_bytes", m.row_bytes},
      {"forecast_bytes", m.forecast_bytes},
      {"loaded_bytes", m.loaded_bytes}};
  std::optional<double> index_share;
  if (m.counts.sampled != 0)
    index_share =
        static_cast<double>(m.counts.sampled_index_ticks) / static_cast<double>(m.counts.sampled_ticks);
  const auto or_unavailable = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(unavailable);
  };
  j["index_bytes"] = or_unavailable(m.index_bytes);
  j["bytes_per_key"] = or_unavailable(m.bytes_per_key);
  j["index_share"] = or_unavailable(index_share);
  for (std::size_t r = 0; r < espalier::oltp::abort_reasons; ++r)
    j["aborts"][std::string(to_string(static_cast<espalier::oltp::abort_reason>(r)))] = m.counts.aborts[r];
  for (const db::kind_result& k : m.kinds) {
    if (k.committed + k.rolled_back == 0) continue;
    auto& kind = j["transactions"][k.name];
    kind = {{"committed", k.committed}, {"rolled_back", k.rolled_back}};
    if (k.latency.count() != 0) {
      for (const auto& [name, at] : {std::pair{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}})
        kind[name] = *k.latency.value_at(at);
    }
  }
  for (const db::condition& c : m.conditions) j["conditions"][c.name] = c.holds;
  for (const db::share& s : m.shares)
    j["shares"][s.name] = {{"value", s.value},
                           {"least", s.least},
                           {"most", s.most},
                           {"of", s.of},
                           {"verdict", to_string(s.verdict())}};
  return j;
}

}  // namespace

bool holds_everywhere(const std::vector<measured>& all) { return std::ranges::all_of(all, all_hold); }

void print_measured(const std::vector<measured>& all, bool details, bool colour) {
  const ranking order = ranked(all);
  if (order.size() > 1) {
    for (const std::string& sentence : winners(order)) std::fputs(wrapped(sentence, "  ").c_str(), stdout);
    std::fputs(wrapped(conditions_in_words(all), "  ").c_str(), stdout);
  }
  print_table(order, colour);
  const bool whole = details || order.size() == 1;
  for (const measured* const m : order) {
    const bool faulty = !all_hold(*m) || !m->stopped_because.empty() ||
                        std::ranges::any_of(m->shares, [](const db::share& s) {
                          return s.verdict() == db::share_verdict::missed;
                        });
    if (!whole && !faulty) continue;
    if (order.size() > 1)
      std::printf("\n%s, %s\n", name_of(*m).c_str(), number_of(m->threads, "thread").c_str());
    if (whole) print_kinds(*m, colour);
    print_conditions(*m, !whole);
  }
  if (!whole) std::printf("--details shows the transactions of each, --out writes them to a file.\n");
  std::fflush(stdout);
}

void add_measured(nlohmann::ordered_json& document, const std::string& workload,
                  const std::vector<measured>& all) {
  auto& study = document["study"];
  study["result"] = winners(ranked(all));
  study["result"].push_back(conditions_in_words(all));
  study["reading"] = {
      "Each index was loaded and run under each protocol, one after the other, in several runs. Compare them "
      "within "
      "one page: the machine may have done other work at another time.",
      "A transaction counts once, however often it was repeated. Its time includes the repetitions, and so "
      "does the "
      "processor time.",
      "The first is called the fastest only where its slowest run is faster than every run of the others.",
      "After the runs the database is checked: TPC-C's twelve conditions of consistency, or that each row of "
      "YCSB is "
      "whole and there. oltp.json has them one by one, with latencies, aborts and memory."};
  study["figures"] = nlohmann::ordered_json::array({to_json(figure_of(workload, all))});
  document["benchmarks"] = nlohmann::ordered_json::array();
  for (const measured& m : all) document["benchmarks"].push_back(entry_of(workload, m));
}

}  // namespace espalier::app
