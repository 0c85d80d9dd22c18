#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/espalier/commands.hpp"
#include "apps/oltp/run.hpp"
#include "apps/studies/study.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/catalog/any_map.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/memory/any_placement.hpp"

// `espalier oltp`: the database under TPC-C and YCSB, with each index and each protocol.

namespace espalier::app {
namespace {

using db::measured;

// Output --------------------------------------------------------------------------------------------------------------

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

std::string share_of(double part, double whole) {
  return whole == 0 ? unavailable : fmt::format("{:.1f}", 100 * part / whole);
}

/// One line a measurement.
void print_table(const ranking& all, bool colour) {
  table t({"index", "protocol", "threads", "tx/s", "min..max", "CPU us/tx", "aborts %", "waits/tx",
           "index ops/tx", "in index %", "waiting %", "rows MB", "index MB", "B/key"},
          {0, 1});
  for (const measured* const one : all) {
    const measured& m = *one;
    const auto& c = m.counts;
    const auto commits = static_cast<double>(c.commits);
    t.add({m.index, m.protocol, fmt::format("{}", m.threads), fmt::format("{:.0f}", m.throughput()),
           fmt::format("{:.0f}..{:.0f}", *std::ranges::min_element(m.per_second),
                       *std::ranges::max_element(m.per_second)),
           fmt::format("{:.2f}", m.cpu_us_each),
           share_of(static_cast<double>(m.lost_attempts()), static_cast<double>(c.attempts())),
           commits == 0 ? unavailable : fmt::format("{:.3f}", static_cast<double>(c.waits) / commits),
           commits == 0 ? unavailable
                        : fmt::format("{:.1f}", static_cast<double>(c.index_operations) / commits),
           share_of(static_cast<double>(c.sampled_index_ticks), static_cast<double>(c.sampled_ticks)),
           share_of(static_cast<double>(c.sampled_wait_ticks), static_cast<double>(c.sampled_ticks)),
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

void print_layout(const measured& m, const std::string& machine, bool colour) {
  if (m.layout.empty()) return;
  std::printf("where the blocks lie, in caches of %s:\n", machine.c_str());
  table t({"blocks of", "blocks", "L1 sets\nunused %", "L2 sets\nunused %", "LLC sets\nunused %",
           "pages of\n4 KiB", "in runs", "pages of\n2 MiB"});
  for (const db::kind_of_block& k : m.layout)
    t.add({k.name, fmt::format("{}", k.blocks), fmt::format("{:.2f}", 100 * k.unused_l1),
           fmt::format("{:.2f}", 100 * k.unused_l2), fmt::format("{:.2f}", 100 * k.unused_llc),
           fmt::format("{}", k.pages), fmt::format("{}", k.runs), fmt::format("{}", k.huge_pages)});
  std::fputs(t.text(colour).c_str(), stdout);
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
  const auto time = m.shares_of_time();
  const auto or_unavailable = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(unavailable);
  };
  j["index_bytes"] = or_unavailable(m.index_bytes);
  j["bytes_per_key"] = or_unavailable(m.bytes_per_key);
  j["index_share"] = or_unavailable(time ? std::optional(time->index) : std::nullopt);
  j["waits_share"] = or_unavailable(time ? std::optional(time->waits) : std::nullopt);
  for (const db::kind_of_block& k : m.layout)
    j["layout"][k.name] = {{"blocks", k.blocks},        {"unused_l1", k.unused_l1},
                           {"unused_l2", k.unused_l2},  {"unused_llc", k.unused_llc},
                           {"pages", k.pages},          {"runs", k.runs},
                           {"huge_pages", k.huge_pages}};
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

bool holds_everywhere(const std::vector<measured>& all) { return std::ranges::all_of(all, all_hold); }

/// The ranking, what is wrong anywhere, and with `details`, or of a single measurement, the transactions of each.
void print_measured(const std::vector<measured>& all, bool details, const std::string& inspected,
                    bool colour) {
  const ranking order = ranked(all);
  if (order.size() > 1) {
    for (const std::string& sentence : winners(order)) std::fputs(wrapped(sentence, "  ").c_str(), stdout);
    std::fputs(wrapped(conditions_in_words(all), "  ").c_str(), stdout);
  }
  print_table(order, colour);
  const bool whole = details || order.size() == 1;
  for (const measured* const m : order) {
    const bool shown = !m->layout.empty() || !all_hold(*m) || !m->stopped_because.empty() ||
                       std::ranges::any_of(m->shares, [](const db::share& s) {
                         return s.verdict() == db::share_verdict::missed;
                       });
    if (!whole && !shown) continue;
    if (order.size() > 1)
      std::printf("\n%s, %s\n", name_of(*m).c_str(), number_of(m->threads, "thread").c_str());
    if (whole) print_kinds(*m, colour);
    print_layout(*m, inspected, colour);
    print_conditions(*m, !whole);
  }
  if (!whole) std::printf("--details shows the transactions of each, --out writes them to a file.\n");
  std::fflush(stdout);
}

/// Adds to the document of a study: result, figures and benchmarks.
void add_measured(nlohmann::ordered_json& document, const std::string& workload,
                  const std::vector<measured>& all) {
  auto& study = document["study"];
  study["result"] = winners(ranked(all));
  study["result"].push_back(conditions_in_words(all));
  study["reading"] = {
      "Each index was loaded and run under each protocol, one after the other, in several runs. Compare them "
      "within one page: the machine may have done other work at another time.",
      "A transaction counts once, however often it was repeated. Its time includes the repetitions, and so "
      "does the processor time.",
      "The first is called the fastest only where its slowest run is faster than every run of the others.",
      "After the runs the database is checked: TPC-C's twelve conditions of consistency, or that each row of "
      "YCSB is whole and there. oltp.json has them one by one, with latencies, aborts and memory."};
  study["figures"] = nlohmann::ordered_json::array({to_json(figure_of(workload, all))});
  document["benchmarks"] = nlohmann::ordered_json::array();
  for (const measured& m : all) document["benchmarks"].push_back(entry_of(workload, m));
}

// Command -------------------------------------------------------------------------------------------------------------

struct oltp_options {
  std::string workload = "tpcc";
  std::vector<std::string> indexes{"ordered_map"};
  std::vector<std::string> protocols{"no_wait"};
  unsigned warehouses = 2;
  std::string cardinalities = "whole";
  std::vector<std::string> transactions;
  std::uint64_t rows = 1'000'000;
  double theta = 0.99;
  unsigned accesses = 16;
  unsigned reads = 90;
  std::size_t row_bytes = 1000;
  std::string look_ups = "single";
  std::string tpcc_as = "standard";
  std::string rows_as = "plain";
  std::string inspected;
  std::vector<std::int64_t> threads;
  std::uint64_t each = 0;
  double seconds = 1;
  unsigned runs = 3;
  std::string placement;
  std::string index_placement;
  std::string row_placement;
  unsigned row_locks = 48;
  std::uint64_t memory_limit_mb = 0;
  std::uint64_t seed = 42;
  bool details = false;
  std::string out;
};

constexpr std::string_view study_name = "oltp";
constexpr std::int64_t most_rows = 1'000'000'000'000;
constexpr std::int64_t most_megabytes = 1'000'000'000;

/// Threads wait in them by design: for the one lock of the index, or for the thread that runs their operation.
constexpr std::array<std::string_view, 3> slow_indexes{"global_lock_bst", "locked_map", "partitioned"};

/// The names, or all of them for "all".
std::vector<std::string> chosen_of(const std::vector<std::string>& named,
                                   const std::vector<std::string>& known, const std::string& noun) {
  if (std::ranges::find(named, "all") != named.end()) return known;
  for (const std::string& one : named) {
    if (std::ranges::find(known, one) == known.end())
      throw usage_error(fmt::format("there is no {} '{}'{}; there are {}", noun, one,
                                    did_you_mean(one, known), fmt::join(known, ", ")));
  }
  return without_repeats(named);
}

/// Before the runs, so that a long one does not surprise.
void say_what_is_slow(const std::vector<std::string>& indexes, bool keys_ascend) {
  const auto say = [&](const char* what, const char* why, const auto& is_slow) {
    std::vector<std::string> slow;
    std::ranges::copy_if(indexes, std::back_inserter(slow), is_slow);
    if (!slow.empty())
      std::fprintf(stderr, "%s: %s; %s\n", what, fmt::format("{}", fmt::join(slow, ", ")).c_str(), why);
  };
  say("slow by design", "operations wait for the index's lock or for another thread",
      [](const std::string& index) { return std::ranges::find(slow_indexes, index) != slow_indexes.end(); });
  if (!keys_ascend) return;
  say("slower with each order",
      "they do not balance, and become lists where keys ascend as TPC-C's orders do",
      [](const std::string& index) { return any_map(index).properties_of_chosen().shape == balance::none; });
}

/// How a user chooses the number of keys.
const char* key_count_of(const oltp_options& o) {
  return o.workload == "tpcc" ? "the number of items" : "--rows";
}

/// Those that were left out. An index has as many keys as its table has rows.
std::vector<std::string> leave_out_lists(std::vector<std::string>& indexes, const oltp_options& o) {
  std::vector<std::string> lists;
  std::ranges::copy_if(indexes, std::back_inserter(lists),
                       [](const std::string& index) { return any_map(index).properties_of_chosen().linear; });
  const bool tpcc = o.workload == "tpcc";
  const std::uint64_t rows = !tpcc ? o.rows : o.cardinalities == "small" ? 0 : db::tpcc_options().items;
  lists = lists_to_leave_out(std::move(lists), o.indexes, rows, key_count_of(o));
  std::erase_if(indexes,
                [&](const std::string& index) { return std::ranges::find(lists, index) != lists.end(); });
  return lists;
}

std::unique_ptr<db::benchmark> make(const oltp_options& o, const espalier::oltp::database_options& engine) {
  if (o.workload == "tpcc") {
    db::tpcc_options t;
    t.warehouses = o.warehouses;
    if (o.cardinalities == "small") {
      t.customers = 60;
      t.items = 500;
    }
    t.as_dbx = o.tpcc_as == "dbx";
    const std::vector<std::string> only =
        o.transactions.empty() && t.as_dbx
            ? std::vector<std::string>(db::tpcc_kinds.begin(), db::tpcc_kinds.begin() + db::kinds_of_dbx)
            : o.transactions;
    for (std::size_t i = 0; !only.empty() && i < t.weights.size(); ++i) {
      if (std::ranges::find(only, db::tpcc_kinds[i]) == only.end()) t.weights[i] = 0;
    }
    return db::make_tpcc(engine, t);
  }
  db::ycsb_options y;
  y.letter = o.workload == "ycsb-atc" ? 't' : o.workload.back();
  y.rows = o.rows;
  y.theta = o.theta;
  y.accesses = o.accesses;
  y.reads = o.reads;
  y.row_bytes = o.row_bytes;
  y.batches = o.look_ups == "batch";
  return db::make_ycsb(engine, y);
}

const std::vector<std::string>& workloads() {
  static const std::vector<std::string> all{"tpcc",   "ycsb-a", "ycsb-b", "ycsb-c",
                                            "ycsb-d", "ycsb-e", "ycsb-f", "ycsb-atc"};
  return all;
}

void check(const CLI::App& verb, const oltp_options& o) {
  static_cast<void>(chosen_of({o.workload}, workloads(), "workload"));
  check_effects(verb, {{{"--warehouses", "--cardinalities", "--transactions"}, {}, {}},
                       {{"--transactions-each"}, {}, {"--time", "--runs"}},
                       {{"--index-placement", "--row-placement"}, {}, {"--placement"}}});
  const bool tpcc = o.workload == "tpcc";
  const auto refuse = [&](const char* option, bool has_effect) {
    if (!has_effect && is_given(verb, option))
      throw usage_error(fmt::format("{} has no effect on {}", option, o.workload));
  };
  for (const char* const option : {"--warehouses", "--cardinalities", "--transactions"}) refuse(option, tpcc);
  for (const char* const option : {"--rows", "--theta", "--row-bytes"}) refuse(option, !tpcc);
  refuse("--tpcc-as", tpcc);
  for (const char* const option : {"--accesses", "--reads", "--look-ups"})
    refuse(option, o.workload == "ycsb-atc");
  if (o.cardinalities != "whole" && o.cardinalities != "small")
    throw usage_error(fmt::format("--cardinalities is whole or small, not '{}'", o.cardinalities));
  if (o.tpcc_as != "standard" && o.tpcc_as != "dbx")
    throw usage_error(fmt::format("--tpcc-as is standard or dbx, not '{}'", o.tpcc_as));
  if (o.rows_as != "plain" && o.rows_as != "dbx")
    throw usage_error(fmt::format("--rows-as is plain or dbx, not '{}'", o.rows_as));
  if (o.look_ups != "single" && o.look_ups != "batch")
    throw usage_error(fmt::format("--look-ups is single or batch, not '{}'", o.look_ups));
  const auto kinds_end =
      o.tpcc_as == "dbx" ? db::tpcc_kinds.begin() + db::kinds_of_dbx : db::tpcc_kinds.end();
  static_cast<void>(chosen_of(o.transactions, {db::tpcc_kinds.begin(), kinds_end}, "transaction"));
  const bool latest = o.workload == "ycsb-d";
  if (o.theta < 0 || o.theta > 64 || (latest && o.theta == 0))
    throw usage_error(fmt::format("--theta {} is out of range; {} to 64 is possible", o.theta,
                                  latest ? "on ycsb-d above 0 and up" : "from 0"));
  if (o.row_bytes != 100 && o.row_bytes != 1000) throw usage_error("--row-bytes is 100 or 1000");
  if (o.row_locks != 48 && o.row_locks != 192) throw usage_error("--row-locks is 48 or 192");
  check_seconds(o.seconds);
}

void run(oltp_options o, const CLI::App& verb) {
  check(verb, o);
  // The study's rows have 100 bytes.
  if (o.rows_as == "dbx" && !is_given(verb, "--row-bytes")) o.row_bytes = 100;
  // "all" are the defaults.
  std::vector<std::string> maps;
  for (const std::string_view name : any_map_names()) maps.emplace_back(name);
  if (std::ranges::find(o.indexes, "all") == o.indexes.end()) {
    for (const std::string_view name : any_map_variant_names()) maps.emplace_back(name);
  }
  std::vector<std::string> protocols;
  for (const auto p : espalier::oltp::all_protocols) protocols.emplace_back(to_string(p));
  std::vector<std::string> indexes = chosen_of(o.indexes, maps, "index");
  const std::vector<std::string> left_out = leave_out_lists(indexes, o);
  const std::vector<std::string> by = chosen_of(o.protocols, protocols, "protocol");
  std::vector<std::string> placements;
  for (const std::string_view name : placement_names()) placements.emplace_back(name);
  for (const std::string& one : {o.placement, o.index_placement, o.row_placement}) {
    if (!one.empty()) static_cast<void>(chosen_of({one}, placements, "placement"));
  }
  const std::vector<unsigned> threads = checked_threads(o.threads);
  std::optional<hw::cache_geometry> inspected;
  if (!o.inspected.empty())
    inspected = o.inspected == "this" ? hw::cache_geometry_of(hw::topology::system())
                                      : hw::cache_geometry_named(o.inspected);
  study_files files(o.out, study_name);
  say_left_out(left_out, key_count_of(o));
  // The rows of YCSB have hashed keys.
  say_what_is_slow(indexes, o.workload == "tpcc" && o.tpcc_as == "standard");

  const interruption watched;
  const bool colour = wants_colour(STDOUT_FILENO);
  progress_line line;
  std::vector<measured> all;
  const std::size_t total = indexes.size() * by.size() * threads.size();
  for (const unsigned n : threads) {
    for (const std::string& index : indexes) {
      for (const std::string& protocol : by) {
        if (interruption::requested()) break;
        espalier::oltp::database_options engine;
        engine.map = index;
        engine.by = espalier::oltp::parse_protocol(protocol);
        engine.lock_bytes = o.row_locks;
        if (o.rows_as == "dbx") engine.rows_as = espalier::oltp::row_form::dbx;
        if (inspected) engine.recording = any_placement::recording::on;
        engine.sample_every = 64;
        if (!o.placement.empty()) {
          engine.row_placement = engine.index_placement = o.placement;
          engine.one_placement = true;
        }
        if (!o.index_placement.empty()) engine.index_placement = o.index_placement;
        if (!o.row_placement.empty()) engine.row_placement = o.row_placement;
        db::run_plan plan;
        plan.threads = n;
        plan.runs = o.each != 0 ? 1 : o.runs;
        plan.seconds = o.seconds;
        plan.each = o.each;
        plan.seed = o.seed;
        plan.memory_limit = o.memory_limit_mb * 1'000'000;
        if (inspected) plan.inspected = &*inspected;
        plan.interrupted = &interruption::requested();
        plan.progress = [&](double done, const std::string& what) {
          const double at = static_cast<double>(all.size()) + done;
          line.step(static_cast<std::size_t>(1000 * at), 1000 * total,
                    fmt::format("{}, {}: {}", index, protocol, what));
        };
        const auto bench = make(o, engine);
        measured m = db::measure_benchmark(*bench, plan);
        m.index = index;
        m.protocol = protocol;
        if (!m.per_second.empty()) all.push_back(std::move(m));
      }
    }
  }
  line.clear();
  if (all.empty()) throw CLI::RuntimeError(interruption::status());  // while it loaded
  std::printf("%s", bold(fmt::format("{}, {}\n", o.workload,
                                     o.workload == "tpcc" ? number_of(o.warehouses, "warehouse")
                                                          : number_of(o.rows, "row")),
                         colour)
                        .c_str());
  print_measured(all, o.details, o.inspected, colour);
  auto document = study_results(o.seed, "cores", study_name, "The in-memory database on this machine",
                                "TPC-C 5.11; YCSB, SoCC 2010", {});
  add_measured(document, o.workload, all);
  files.write(document);
  if (!holds_everywhere(all)) {
    std::fprintf(stderr, "espalier: a condition is broken\n");
    throw CLI::RuntimeError(exit_failure);
  }
  if (interruption::status() != 0) throw CLI::RuntimeError(interruption::status());
}

}  // namespace

void add_oltp_command(CLI::App& parser) {
  const auto o = std::make_shared<oltp_options>();
  CLI::App* const verb =
      parser.add_subcommand("oltp", "Run the in-memory database under TPC-C or YCSB, with any map as index");
  option_group which(*verb, "Which engine");
  which.add_list(
      "--index", o->indexes, "NAMES",
      "Maps of the indexes, comma-separated, or all (ordered_map); trees of the ATC 2018 study also "
      "with the node as published: ticket/published");
  which.add_list("--cc", o->protocols, "NAMES", "Protocols: no_wait, wait_die, silo, or all (no_wait)");
  which.add("--placement", o->placement, "NAME",
            "One placement for rows and indexes; by default each has a segregated one");
  which.add(
      "--index-placement", o->index_placement, "NAME",
      "The placement of the indexes alone; segregated: one arena each for nodes, descriptors, the rest");
  which.add("--row-placement", o->row_placement, "NAME", "The placement of the rows alone");
  which.add_default("--row-locks", o->row_locks, "BYTES",
                    "Bytes of a row's lock: 48, or 192 in lines of its own");
  which.add_default(
      "--rows-as", o->rows_as, "FORM",
      "Blocks of a row: plain, which are three, or dbx: the five of the ATC 2018 study's database");
  which.add(
      "--inspect", o->inspected, "MACHINE",
      "Show where the blocks lie after the load, in the caches of a machine: this, or a paper's; slower");
  option_group load(*verb, load_group);
  load.add_default("--workload", o->workload, "NAME",
                   "tpcc, ycsb-a to ycsb-f, or ycsb-atc, the mix of the ATC 2018 study");
  load.add_default("--warehouses", o->warehouses, "N", "Of tpcc")->check(at_least(1, 60'000));
  load.add_default("--cardinalities", o->cardinalities, "KIND",
                   "Of tpcc: whole, as its clause 4.3 says, or small");
  load.add_default("--tpcc-as", o->tpcc_as, "HOW",
                   "Of tpcc: standard, or dbx: new-order and payment, whose new rows enter no index");
  load.add_list("--transactions", o->transactions, "NAMES",
                "Of tpcc: only these of new-order, payment, order-status, delivery, stock-level");
  load.add_default("--rows", o->rows, "N", "Of ycsb")->check(at_least(1, most_rows));
  load.add_default("--row-bytes", o->row_bytes, "BYTES", "Of ycsb: 100 or 1000 bytes of fields");
  load.add_default("--theta", o->theta, "X", "Of ycsb: skew of the keys, 0 for none");
  load.add_default("--accesses", o->accesses, "N", "Of ycsb-atc: accesses of a transaction")
      ->check(at_least(1, 32));
  load.add_default("--reads", o->reads, "PERCENT", "Of ycsb-atc: accesses that read")
      ->check(at_least(0, 100));
  load.add_default("--look-ups", o->look_ups, "HOW",
                   "Of ycsb-atc: single, as in the study, or batch: all that a transaction reads at once");
  load.add_default("--seed", o->seed, "N", "Seed of all random numbers");
  option_group measuring(*verb, measurement_group);
  measuring.add_list("--threads", o->threads, "N",
                     "Numbers of threads, comma-separated; by default one per core, at most 16");
  measuring.add_default("--runs", o->runs, "N", "Runs of each; medians are reported")
      ->check(at_least(1, most_runs));
  measuring.add_default("--time", o->seconds, "S", "Seconds of each run");
  measuring
      .add("--transactions-each", o->each, "N",
           "Transactions of each thread, instead of a time; the first thread that is done ends the run")
      ->check(at_least(1));
  measuring
      .add("--memory-limit", o->memory_limit_mb, "MB",
           "End a run when rows and indexes take so much; by default three quarters of what is available, "
           "within the limits of its control groups")
      ->check(at_least(1, most_megabytes));
  option_group results(*verb, results_group);
  results.add_flag(
      "--details", o->details,
      "Show the transactions, aborts and conditions of each of several measurements, not of one alone");
  results.add("--out", o->out, "FOLDER", "Folder for oltp.json, and a page");
  verb->footer(
      "Examples:\n"
      "  espalier oltp --index all --cc all\n"
      "  espalier oltp --workload ycsb-a --rows 1000000 --threads 1,2,4 --out results/\n"
      "  espalier oltp --transactions payment,new-order --index ticket --index-placement shared_heap\n"
      "After each run it checks TPC-C's twelve consistency conditions; if one is broken, the exit status is "
      "1.");
  verb->callback([o, verb] { run(*o, *verb); });
}

}  // namespace espalier::app
