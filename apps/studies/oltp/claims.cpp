#include "apps/studies/oltp/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/common/exit_status.hpp"
#include "apps/common/map_choice.hpp"

namespace espalier::app::dbx {

std::string configuration::name() const {
  if (what == work::alone) return index + " alone";
  return fmt::format("{} in {}, {}, locks of {} bytes", index, what == work::ycsb ? "YCSB" : "TPC-C",
                     where == memory::shared ? "one heap" : "segregated", lock_bytes);
}

void note_nodes(database_reading& r, const std::vector<db::kind_of_block>& layout) {
  const auto nodes = std::ranges::find(layout, "node", &db::kind_of_block::name);
  if (nodes == layout.end()) return;
  r.unused_llc = nodes->unused_llc;
  r.chunks = static_cast<double>(nodes->pages);
  r.runs = static_cast<double>(nodes->runs);
  r.huge_pages = static_cast<double>(nodes->huge_pages);
  r.first_chunks = nodes->first_pages;
}

tpcc_size tpcc_of(std::uint64_t rows, unsigned threads) {
  const auto at_most = [](std::uint64_t n, std::uint64_t least, std::uint64_t most) {
    return static_cast<unsigned>(std::clamp(n, least, most));
  };
  return {threads, at_most(rows / (2ULL * threads), 100, 100'000),
          at_most(rows / (200ULL * threads), 20, 3000)};
}

namespace {

constexpr unsigned padded = 192;
constexpr unsigned unpadded = 48;

configuration ycsb(const std::string& index, memory where, unsigned lock_bytes = padded) {
  return {work::ycsb, index, where, lock_bytes};
}
configuration tpcc(const std::string& index, memory where) { return {work::tpcc, index, where, padded}; }
configuration alone(const std::string& index) { return {work::alone, index, memory::segregated, padded}; }

std::vector<std::string> compact_trees() {
  std::vector<std::string> all;
  for (const studied_tree& t : studied_trees()) all.emplace_back(t.name);
  return all;
}
std::string published_of(const std::string& tree) {
  for (const studied_tree& t : studied_trees()) {
    if (t.name == tree && t.published != nullptr) return t.published;
  }
  return tree;
}

template <class Make>
std::vector<configuration> each_tree(const Make& make) {
  std::vector<configuration> all;
  for (const std::string& tree : compact_trees()) all.push_back(make(tree));
  return all;
}
std::vector<configuration> both(const std::vector<std::string>& trees, work what,
                                unsigned lock_bytes = padded) {
  std::vector<configuration> all;
  for (const std::string& tree : trees) {
    for (const memory m : {memory::shared, memory::segregated}) all.push_back({what, tree, m, lock_bytes});
  }
  return all;
}

// Numbers -------------------------------------------------------------------------------------------------------------

const metric speed{"transactions a second", [](const database_reading& r) {
                     return r.speed > 0 ? std::optional(r.speed) : std::nullopt;
                   }};
metric counted(const char* name, std::optional<access_costs> database_reading::* of,
               double access_costs::* what) {
  return {name, [=](const database_reading& r) {
            return (r.*of) ? std::optional((*(r.*of)).*what) : std::nullopt;
          }};
}

const metric page_walks =
    counted("page walks a transaction", &database_reading::all, &access_costs::page_walks);
const metric false_transfers{"transfers of row locks a transaction because of other rows' locks",
                             [](const database_reading& r) { return r.false_transfers; }};
const metric index_stalls =
    counted("stalled cycles a transaction in the index", &database_reading::in_index, &access_costs::stalls);
const metric index_accesses =
    counted("accesses in the index", &database_reading::in_index, &access_costs::accesses);
const metric index_memory_lines =
    counted("lines from memory in the index", &database_reading::in_index, &access_costs::memory_lines);
const metric lock_transfers{"transfers of row locks",
                            [](const database_reading& r) { return r.true_transfers; }};
const metric node_megabytes{"MB of chunks of nodes", [](const database_reading& r) {
                              return r.chunks ? std::optional(*r.chunks * 4096 / 1e6) : std::nullopt;
                            }};
const metric index_share{"percent of the time in the index", [](const database_reading& r) {
                           return r.index_time && r.rest_time
                                      ? std::optional(100 * *r.index_time / (*r.index_time + *r.rest_time))
                                      : std::nullopt;
                         }};
const metric stalls = counted("stalled cycles a transaction", &database_reading::all, &access_costs::stalls);
const metric unused_llc{"percent of the last level's sets without a node", [](const database_reading& r) {
                          return r.unused_llc ? std::optional(100 * *r.unused_llc) : std::nullopt;
                        }};

struct times {
  metric index, rest, total;
};
times times_in(const std::string& unit) {
  return {{unit + " a transaction in the index", [](const database_reading& r) { return r.index_time; }},
          {unit + " a transaction elsewhere (dbx)", [](const database_reading& r) { return r.rest_time; }},
          {unit + " a transaction", [](const database_reading& r) -> std::optional<double> {
             if (!r.index_time || !r.rest_time) return std::nullopt;
             return *r.index_time + *r.rest_time + r.wait_time.value_or(0);
           }}};
}

// Judging -------------------------------------------------------------------------------------------------------------

/// Half of the paper's difference in its direction.
constexpr double half(double papers_ratio) noexcept { return 1 + (papers_ratio - 1) / 2; }

judgement verdict(std::string sentence, bool holds) {
  return {std::move(sentence), holds ? agreement::agrees : agreement::differs};
}

std::string costs(const configuration& c, const database_reading& r) {
  std::string text = fmt::format("{}:", c.name());
  const auto add = [&](const char* words, const std::optional<double>& value) {
    if (value) text += fmt::format(" {:.2f} {},", *value, words);
  };
  add("in the index", r.index_time);
  add("elsewhere", r.rest_time);
  add("waiting", r.wait_time);
  if (r.in_index) {
    add("accesses in the index", r.in_index->accesses);
    add("lines from memory there", r.in_index->memory_lines);
    add("stalled cycles there", r.in_index->stalls);
  }
  if (r.all) {
    add("lines from memory", r.all->memory_lines);
    add("page walks", r.all->page_walks);
  }
  add("false transfers of locks", r.false_transfers);
  add("true ones", r.true_transfers);
  text.back() = '.';
  return text;
}

/// A value and what prevents a verdict.
struct looked_up {
  std::optional<double> value;
  judgement instead{"", agreement::agrees};
};
looked_up look_up(const metric& m, const configuration& c, const results& all) {
  const database_reading* const r = all.find(c);
  if (r == nullptr) {
    const std::string why = all.why_missing(c);
    return {std::nullopt,
            {fmt::format("Not measured: {}{}{}.", c.name(), why.empty() ? "" : ", ", why),
             agreement::not_measurable}};
  }
  if (!r->too_short.empty())
    return {std::nullopt, {fmt::format("{} ({}).", r->too_short, c.name()), agreement::too_short}};
  const std::optional<double> value = m.of(*r);
  if (!value)
    return {std::nullopt, {fmt::format("Not counted here: {}.", m.name), agreement::not_measurable}};
  return {value};
}

using part = claim_part<results>;

/// Compares a number of two configurations: `ratio` is that of the first to the second.
part compared(const metric& m, const configuration& one, const configuration& other,
              std::function<bool(double ratio)> holds) {
  return [=](const results& all) {
    const looked_up x = look_up(m, one, all);
    const looked_up y = look_up(m, other, all);
    if (!x.value) return x.instead;
    if (!y.value) return y.instead;
    if (*y.value == 0)
      return verdict(fmt::format("{}: {:.3f}, and 0.", m.name, *x.value), holds(*x.value == 0 ? 1 : 1e9));
    const double ratio = *x.value / *y.value;
    const bool good = holds(ratio);
    std::string sentence = fmt::format("{}: {:.2f} ({}) to {:.2f} ({}), {:.3f} times.", m.name, *x.value,
                                       one.name(), *y.value, other.name(), ratio);
    if (!good) sentence += fmt::format(" {} {}", costs(one, *all.find(one)), costs(other, *all.find(other)));
    return verdict(std::move(sentence), good);
  };
}
part at_most(const metric& m, const configuration& one, const configuration& other, double ratio) {
  return compared(m, one, other, [ratio](double is) { return is <= ratio; });
}
part at_least(const metric& m, const configuration& one, const configuration& other, double ratio) {
  return compared(m, one, other, [ratio](double is) { return is >= ratio; });
}
part alike(const metric& m, const configuration& one, const configuration& other, double factor) {
  return compared(m, one, other, [factor](double is) { return is <= factor && is >= 1 / factor; });
}
/// A number from `least` to `most`.
part within(const metric& m, const configuration& one, double least, double most) {
  return [=](const results& all) {
    const looked_up x = look_up(m, one, all);
    if (!x.value) return x.instead;
    return verdict(fmt::format("{}: {:.2f} ({}).", m.name, *x.value, one.name()),
                   *x.value >= least && *x.value <= most);
  };
}
/// Two numbers of one unit differ by no more than this.
part near(const metric& m, const configuration& one, const configuration& other, double most) {
  return [=](const results& all) {
    const looked_up x = look_up(m, one, all);
    const looked_up y = look_up(m, other, all);
    if (!x.value) return x.instead;
    if (!y.value) return y.instead;
    return verdict(
        fmt::format("{}: {:.2f} ({}) and {:.2f} ({}).", m.name, *x.value, one.name(), *y.value, other.name()),
        std::abs(*x.value - *y.value) <= most);
  };
}

using pair_of = std::pair<configuration, configuration>;
struct pair_ratio {
  std::string of;
  double ratio;
};

/// Of a number of the first of a pair to that of the second. Rounds in turns are compared one by one.
double ratio_of(const metric& m, const database_reading& one, const database_reading& other) {
  if (m.name == speed.name && one.session == other.session) {
    // More time is less speed.
    if (const auto inverse = median_of_ratios(other.rounds, one.rounds)) return *inverse;
  }
  return *m.of(one) / *m.of(other);
}

/// Judges the ratios of those pairs that were measured; one at least.
part of_pairs(const metric& m, const std::vector<pair_of>& pairs,
              std::function<judgement(const std::vector<pair_ratio>&)> holds) {
  return [m, pairs, holds = std::move(holds)](const results& all) {
    std::vector<pair_ratio> found;
    judgement instead;
    for (const auto& [one, other] : pairs) {
      const looked_up x = look_up(m, one, all);
      const looked_up y = look_up(m, other, all);
      if (!x.value || !y.value || *y.value == 0) {
        instead = x.value ? y.instead : x.instead;
        continue;
      }
      found.push_back({one.index, ratio_of(m, *all.find(one), *all.find(other))});
    }
    return found.empty() ? instead : holds(found);
  };
}

/// The least of the ratios.
part best(const metric& m, const std::vector<pair_of>& pairs, double at_most_so_much) {
  return of_pairs(m, pairs, [=](const std::vector<pair_ratio>& found) {
    const pair_ratio& least = *std::ranges::min_element(found, {}, &pair_ratio::ratio);
    return verdict(fmt::format("{}: at best {:.3f} times, with {}.", m.name, least.ratio, least.of),
                   least.ratio <= at_most_so_much);
  });
}

/// Their geometric mean, of a number of which more is better.
part mean_at_least(const metric& m, const std::vector<pair_of>& pairs, double bound) {
  return of_pairs(m, pairs, [=](const std::vector<pair_ratio>& found) {
    double logs = 0;
    std::string each;
    for (const pair_ratio& one : found) {
      logs += std::log(one.ratio);
      each += fmt::format("{}{} {:.3f}", each.empty() ? "" : ", ", one.of, one.ratio);
    }
    const double mean = std::exp(logs / static_cast<double>(found.size()));
    return verdict(fmt::format("{}: {:.3f} times, the geometric mean of {}.", m.name, mean, each),
                   mean >= bound);
  });
}

part none_below(const metric& m, const std::vector<pair_of>& pairs, double bound) {
  return of_pairs(m, pairs, [=](const std::vector<pair_ratio>& found) {
    const pair_ratio& least = *std::ranges::min_element(found, {}, &pair_ratio::ratio);
    return verdict(fmt::format("{}: the least is {:.3f} times, with {}.", m.name, least.ratio, least.of),
                   least.ratio >= bound);
  });
}

/// Tiers from fast to slow by the geometric means of their trees.
part ordered_by(const std::function<configuration(const std::string&)>& at, const std::vector<tier>& tiers) {
  return [=](const results& all) {
    readings measured;
    for (const tier& t : tiers) {
      for (const std::string& tree : t.maps) {
        const configuration c = at(tree);
        if (const looked_up x = look_up(speed, c, all); !x.value) return x.instead;
        const double value = all.find(c)->speed;
        measured.add(tree, 0, {value, value, value, std::nullopt});
      }
    }
    return ordered(tiers)(measured, 0);
  };
}

/// How far the speeds of trees in their indexes differ from those alone, each relative to the mean of all: a mean of logarithms.
std::optional<double> distance(const metric& index_time, memory where, const results& all,
                               judgement& instead) {
  std::vector<std::pair<double, double>> logs;
  double mean_alone = 0;
  double mean_here = 0;
  for (const std::string& tree : compact_trees()) {
    const looked_up a = look_up(speed, alone(tree), all);
    const looked_up b = look_up(index_time, ycsb(tree, where), all);
    if (!a.value || !b.value) {
      instead = a.value ? b.instead : a.instead;
      return std::nullopt;
    }
    logs.emplace_back(std::log(*a.value), -std::log(*b.value));
    mean_alone += logs.back().first;
    mean_here += logs.back().second;
  }
  const auto n = static_cast<double>(logs.size());
  double sum = 0;
  for (const auto& [a, b] : logs) sum += std::abs((a - mean_alone / n) - (b - mean_here / n));
  return sum / n;
}
part closer_if_segregated(const metric& index_time) {
  return [=](const results& all) {
    judgement instead;
    const auto shared = distance(index_time, memory::shared, all, instead);
    const auto apart = distance(index_time, memory::segregated, all, instead);
    if (!shared || !apart) return instead;
    return verdict(
        fmt::format("Speeds in the index differ from those alone by {:.1f} % in one heap and by {:.1f} "
                    "% segregated, relative to the means.",
                    100 * std::expm1(*shared), 100 * std::expm1(*apart)),
        *apart < *shared);
  };
}

/// Text for a claim that differs; it has its numbers from the results.
using reason = std::function<std::string(const results&)>;
/// "12.3"; "?" where it was not measured.
std::string number(const metric& m, const configuration& c, const results& all) {
  const looked_up x = look_up(m, c, all);
  return x.value ? fmt::format("{:.3g}", *x.value) : "?";
}

/// "12.3 in occ_avl, 4.5 in ticket".
std::string numbers(const metric& m, const std::vector<configuration>& some, const results& all) {
  std::string text;
  for (const configuration& c : some)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", number(m, c, all), c.index);
  return text;
}

using claim_rows = std::vector<claim_in_parts<results>>;

/// The reasons are those of a simulation.
auto judged(const setting& where, claim_rows claims) {
  if (!where.simulated) {
    for (claim_in_parts<results>& one : claims) one.why = nullptr;
  }
  return app::judged(std::move(claims));
}

// Pages ---------------------------------------------------------------------------------------------------------------

const std::vector<std::string> avls{"occ_avl", "occ_avl_2"};
const std::vector<tier> classes{
    {"the AVL trees", avls},
    {"the internal trees with both edge_ext_lf",
     {"log_int", "edge_int_lf", "citrus", "int_lf", "edge_ext_lf", "edge_ext_lf_2"}},
    {"ticket", {"ticket"}},
    {"ext_lf", {"ext_lf"}}};
/// With blocks of 48 bytes, as the study's edge_int_lf.
const std::string edge_int_lf_48 = "edge_int_lf/published";
/// With two nodes of 64 bytes an insert.
const std::string ticket_64 = "ticket/published";
const std::string ext_lf_64 = "ext_lf/published";
/// With a node of 64 bytes and a descriptor of 112.
const std::string int_lf_64 = "int_lf/wide_descriptors";

configuration shared(const std::string& index) { return ycsb(index, memory::shared); }
configuration segregated(const std::string& index) { return ycsb(index, memory::segregated); }
/// What an index costs, of a tree of each class.
reason few_keys(const setting& where, const std::function<configuration(const std::string&)>& at) {
  return [=](const results& all) {
    const std::vector<configuration> some{at("occ_avl"), at("log_int"), at("edge_ext_lf"), at("ticket"),
                                          at("ext_lf")};
    return fmt::format(
        "Model: {} keys, whose nodes take {} MB in occ_avl, where the last level has 30; those of the "
        "paper's "
        "{} do not fit. Lines from memory in the index: {}. Accesses there: {}.",
        grouped(where.rows), number(node_megabytes, segregated("occ_avl"), all), grouped(papers_rows),
        numbers(index_memory_lines, some, all), numbers(index_accesses, some, all));
  };
}

/// How much of TPC-C an index can change.
reason small_index(const configuration& apart, const configuration& together) {
  return [=](const results& all) {
    return fmt::format(
        "Model: a database of few rows. {} percent of its time is in the index, 46 in the paper; an index "
        "has "
        "{} lines a transaction from memory in one heap, and {} segregated.",
        number(index_share, together, all), number(index_memory_lines, together, all),
        number(index_memory_lines, apart, all));
  };
}

/// Why no contention on row locks appears when the index is faster.
reason few_conflicts(const setting& where, const configuration& apart, const configuration& together) {
  return [=](const results& all) {
    return fmt::format(
        "Model: {} threads meet at a row less often than the paper's {}. A transaction transfers {} lines of "
        "row locks segregated, and {} in one heap.",
        where.threads, papers_threads, number(lock_transfers, apart, all),
        number(lock_transfers, together, all));
  };
}

page figure_1b(const setting& where, const times& t) {
  std::vector<pair_of> pairs;
  for (const std::string& tree : compact_trees()) pairs.emplace_back(segregated(tree), shared(tree));
  return {"figure-1b",
          "What segregating the trees' data gains a database",
          "YCSB over each tree: rows and tree in one heap, and with memory of its own for each kind of the "
          "tree's "
          "blocks (figure 1b, section 4.1).",
          {{"One heap", speed, each_tree(shared), true}, {"Segregated", speed, each_tree(segregated), true}},
          {},
          {},
          judged(where, {{"Segregating a tree's data improves the trees by up to 20 % (abstract)",
                          {best(t.index, pairs, half(1 / 1.20))}},
                         {"It improves the application by up to 10 % (abstract)",
                          {best(t.total, pairs, half(1 / 1.10))}}})};
}

page figure_5(const setting& where, const times& t) {
  return {
      "figure-5",
      "Trees alone and in YCSB",
      "Throughput of look-ups in the trees alone, and of YCSB without and with segregation (figure 5).",
      {{"Alone", {"look-ups a second", speed.of}, each_tree(alone), true},
       {"In YCSB, one heap", speed, each_tree(shared), true},
       {"In YCSB, segregated", speed, each_tree(segregated), true}},
      {},
      {},
      judged(
          where,
          {{"Alone there are four classes: the AVL trees; the internal trees with both edge_ext_lf; ticket; "
            "ext_lf (section 4.2)",
            {ordered_by(alone, classes)},
            true,
            few_keys(where, alone)},
           {"In one heap log_int performs about as well as the AVL trees (section 4.2)",
            {alike(speed, shared("log_int"), shared("occ_avl"), 1.1)},
            true,
            few_keys(where, shared)},
           {"In one heap edge_ext_lf_2 is significantly slower than edge_ext_lf (section 4.2)",
            {at_most(speed, shared("edge_ext_lf_2"), shared("edge_ext_lf"), 0.95)},
            true,
            [](const results& all) {
              const std::vector<configuration> both_trees{shared("edge_ext_lf"), shared("edge_ext_lf_2")};
              return fmt::format(
                  "Paper: it names no cause. Chunks with nodes here, in MB: {}. Accesses in the index: {}.",
                  numbers(node_megabytes, both_trees, all), numbers(index_accesses, both_trees, all));
            }},
           {"In one heap ticket and ext_lf have the same performance (section 4.2)",
            {alike(speed, shared("ticket"), shared("ext_lf"), 1.05)},
            true,
            few_keys(where, shared)},
           {"Segregation brings the results closer to those of the trees alone (section 4.2)",
            {closer_if_segregated(t.index)},
            true,
            few_keys(where, segregated)},
           {"Segregated, there are the four classes again (figure 5, right)",
            {ordered_by(segregated, classes)},
            true,
            few_keys(where, segregated)}})};
}

page figure_6_and_7(const setting& where) {
  const metric in_runs{"chunks of nodes a run of consecutive ones", [](const database_reading& r) {
                         return r.chunks && r.runs ? std::optional(*r.chunks / *r.runs) : std::nullopt;
                       }};
  const metric share_of_chunks{
      "percent of the chunks of their huge pages that have nodes", [](const database_reading& r) {
        return r.chunks && r.huge_pages ? std::optional(100 * *r.chunks / (512 * *r.huge_pages))
                                        : std::nullopt;
      }};
  const metric huge_pages{"huge pages with nodes", [](const database_reading& r) { return r.huge_pages; }};
  const std::string tree = "occ_avl_2";
  return {
      "figures-6-and-7",
      "The chunks of the nodes",
      "The allocator divides huge pages into chunks of 4 KiB, and gives each size class the next one when "
      "its "
      "last is full. Without segregation nodes lie in few of the chunks of many huge pages (figures 6 and "
      "7).",
      {{"Huge pages with nodes, one heap", huge_pages, each_tree(shared)},
       {"Huge pages with nodes, segregated", huge_pages, each_tree(segregated)}},
      {shared(edge_int_lf_48), segregated(edge_int_lf_48)},
      {shared(tree), segregated(tree)},
      judged(
          where,
          {{"In occ_avl_2 some consecutive chunks have nodes, and the next one comes five or six chunks "
            "later "
            "(figure 6)",
            {within(in_runs, shared(tree), 0.5, 3), within(share_of_chunks, shared(tree), 15, 50)}},
           {"In a variant of edge_int_lf with nodes of 48 bytes one of ten chunks has nodes (section 4.3.3)",
            {within(share_of_chunks, shared(edge_int_lf_48), 5, 20)}},
           {"Segregated, the chunks of nodes almost always have consecutive addresses (figure 7)",
            {within(in_runs, segregated(tree), 50, 1e9)}}})};
}

page section_4_3_1(const setting& where, const times& t) {
  std::vector<configuration> wide = both({"occ_avl", "occ_avl_2", ticket_64, ext_lf_64}, work::ycsb);
  std::vector<part> small;
  for (const char* const tree :
       {"edge_int_lf", "citrus", "int_lf", "edge_ext_lf", "edge_ext_lf_2", "ticket", "ext_lf"})
    small.push_back(within(unused_llc, shared(tree), 0, 10));
  return {
      "section-4-3-1",
      "A third of the cache",
      "A row, its lock's wrapper and the node that one insert allocates are of one size class: nodes lie in "
      "a third "
      "of the last level's sets (section 4.3.1).",
      {{"Sets of the last level without a node", unused_llc, wide},
       {"Time in the index", t.index, both({"occ_avl", "occ_avl_2"}, work::ycsb)},
       {"Time elsewhere", t.rest, both({"occ_avl", "occ_avl_2"}, work::ycsb)}},
      both({"edge_int_lf", "citrus", "int_lf", "edge_ext_lf", "edge_ext_lf_2", "ticket", "ext_lf"},
           work::ycsb),
      {},
      judged(
          where,
          {{"Nodes of occ_avl and occ_avl_2 map to a third of the last level's sets (section 4.3.1)",
            {within(unused_llc, shared("occ_avl"), 60, 70), within(unused_llc, shared("occ_avl_2"), 60, 70)}},
           {"Segregated, they use all sets (section 4.3.1)",
            {within(unused_llc, segregated("occ_avl"), 0, 5),
             within(unused_llc, segregated("occ_avl_2"), 0, 5)}},
           {"Only trees with nodes of 64 bytes are affected (section 4.3.1)", small},
           {"ticket and ext_lf with nodes of 64 bytes are not: an insert allocates two (section 4.3.1)",
            {near(unused_llc, shared(ticket_64), segregated(ticket_64), 5),
             near(unused_llc, shared(ext_lf_64), segregated(ext_lf_64), 5)}},
           {"Segregation reduces the time of occ_avl's index from 121 to 108 s (section 4.3.1)",
            {at_most(t.index, segregated("occ_avl"), shared("occ_avl"), half(108.0 / 121))}},
           {"In total from 188 to 178 s (section 4.3.1)",
            {at_most(t.total, segregated("occ_avl"), shared("occ_avl"), half(178.0 / 188))}},
           {"The cycles for which its index waits for memory fall as well",
            {at_most(index_stalls, segregated("occ_avl"), shared("occ_avl"), half(108.0 / 121)),
             at_most(stalls, segregated("occ_avl"), shared("occ_avl"), half(178.0 / 188))},
            false},
           {"It increases dbx time by 3 s, from 67 s, by contention on row locks (section 4.3.1)",
            {at_least(t.rest, segregated("occ_avl"), shared("occ_avl"), half(70.0 / 67))},
            true,
            few_conflicts(where, segregated("occ_avl"), shared("occ_avl"))}})};
}

page section_4_3_2(const setting& where, const times& t) {
  const auto at = [](memory m, unsigned bytes) { return ycsb(edge_int_lf_48, m, bytes); };
  std::vector<configuration> four;
  for (const unsigned bytes : {unpadded, padded}) {
    for (const memory m : {memory::shared, memory::segregated}) four.push_back(at(m, bytes));
  }
  return {
      "section-4-3-2",
      "Locks that share lines",
      "Row locks of 48 bytes share lines. Nodes of that size class come between them, as long as the tree "
      "has no "
      "memory of its own; padding separates them for good (section 4.3.2). The tree is edge_int_lf with "
      "nodes of "
      "the class of 48 bytes.",
      {{"Transfers of row locks because of other rows' locks", false_transfers, four},
       {"Time elsewhere than in the index", t.rest, four}},
      {},
      {},
      judged(
          where,
          {{"With locks of 48 bytes, segregation increases dbx time from 58 to 67 s (section 4.3.2)",
            {at_least(t.rest, at(memory::segregated, unpadded), at(memory::shared, unpadded),
                      half(67.0 / 58))},
            true,
            [at](const results& all) {
              return fmt::format(
                  "Model: lines of row locks are transferred {} times a transaction because of other rows' "
                  "locks, which eight threads use, and {} times because of the same row's.",
                  number(false_transfers, at(memory::segregated, unpadded), all),
                  number(lock_transfers, at(memory::segregated, unpadded), all));
            }},
           {"The locks share lines more often then: false sharing (section 4.3.2)",
            {at_least(false_transfers, at(memory::segregated, unpadded), at(memory::shared, unpadded), 1.1)}},
           {"Padding the locks eliminates false sharing (section 4.3.2)",
            {at_most(false_transfers, at(memory::segregated, padded), at(memory::segregated, unpadded),
                     0.1)}},
           {"With padded locks segregation does not increase dbx time so (section 4.3.2)",
            {at_most(t.rest, at(memory::segregated, padded), at(memory::shared, padded),
                     half(67.0 / 58))}}})};
}

/// Whose nodes fill few huge pages gains none of them by memory of its own.
reason few_rows(const setting& where) {
  return [where](const results& all) {
    std::string text;
    for (const std::string& tree : compact_trees()) {
      const database_reading* const together = all.find(shared(tree));
      const database_reading* const apart = all.find(segregated(tree));
      if (together == nullptr || apart == nullptr || !together->in_index || !apart->in_index) continue;
      text += fmt::format("{}{} {:.0f} to {:.0f} (in its index {:.0f} to {:.0f})", text.empty() ? "" : ", ",
                          tree, together->huge_pages.value_or(0), apart->huge_pages.value_or(0),
                          together->in_index->page_walks, apart->in_index->page_walks);
    }
    return fmt::format(
        "Model: {} rows have few huge pages, and a thread's memory for nodes has one at least. Huge pages "
        "with nodes, and page walks, one heap to segregated: {}.",
        grouped(where.rows), text);
  };
}

page section_4_3_3(const setting& where, const times& t) {
  std::vector<part> each;
  for (const std::string& tree : compact_trees())
    each.push_back(
        compared(page_walks, segregated(tree), shared(tree), [](double ratio) { return ratio < 1; }));
  return {
      "section-4-3-3",
      "Pages",
      "Where nodes lie in few chunks of many huge pages, the TLBs hold fewer nodes (section 4.3.3).",
      {{"Page walks, one heap", page_walks, each_tree(shared)},
       {"Page walks, segregated", page_walks, each_tree(segregated)}},
      {},
      {},
      judged(where,
             {{"In occ_avl_2 segregation reduces TLB misses from 412 to 161 a transaction (section 4.3.3)",
               {at_most(page_walks, segregated("occ_avl_2"), shared("occ_avl_2"), half(161.0 / 412))},
               true,
               few_rows(where)},
              {"It reduces them in all of the trees (section 4.3.3)", each, true, few_rows(where)},
              {"It improves trees with nodes of 48 bytes significantly even if the locks are padded (section "
               "4.3.3)",
               {at_most(t.index, segregated(edge_int_lf_48), shared(edge_int_lf_48), 0.97)}}})};
}

page figure_8(const setting& where, const times& t) {
  const auto before = [](const std::string& tree) { return tpcc(published_of(tree), memory::shared); };
  const auto after = [](const std::string& tree) { return tpcc(tree, memory::segregated); };
  const configuration between = tpcc("occ_avl", memory::shared);
  std::vector<pair_of> pairs;
  for (const std::string& tree : compact_trees()) pairs.emplace_back(after(tree), before(tree));
  return {
      "figure-8",
      "TPC-C: trees as published, and improved",
      "New-Order and Payment, over trees with nodes as published in one heap, and over compact ones, "
      "segregated "
      "(figure 8). The rows that transactions insert enter no index, as in DBx1000.",
      {{"As published, one heap", speed, each_tree(before), true},
       {"Improved and segregated", speed, each_tree(after), true}},
      {between},
      {},
      judged(where, {{"The improved trees make TPC-C faster by up to 7.6 % (section 4.5)",
                      {best(t.total, pairs, half(1 / 1.076))}},
                     {"Compact nodes alone reduce the total time of occ_avl from 249 to 240 s (section 4.5)",
                      {at_most(t.total, between, before("occ_avl"), half(240.0 / 249))}},
                     {"Segregation reduces it further to 232 s (section 4.5)",
                      {at_most(t.total, after("occ_avl"), between, half(232.0 / 240))}},
                     {"Its index time is 108, 105 and 95 s (section 4.5)",
                      {at_most(t.index, between, before("occ_avl"), half(105.0 / 108)),
                       at_most(t.index, after("occ_avl"), between, half(95.0 / 105))}},
                     {"None of the improved trees makes TPC-C slower by more than 2 %",
                      {none_below(speed, pairs, 0.98)},
                      false}})};
}

page figure_9(const setting& where, const times& t) {
  const std::vector<std::string> trees{"occ_avl", "edge_ext_lf", "int_lf", int_lf_64};
  const auto with = [](const std::string& tree, memory m) { return tpcc(tree, m); };
  return {
      "figure-9",
      "TPC-C: what segregation changes",
      "Time in the index and elsewhere, in one heap and segregated (figure 9). int_lf/wide_descriptors "
      "has nodes of "
      "64 and descriptors of 112 bytes.",
      {{"Time in the index", t.index, both(trees, work::tpcc)},
       {"Time elsewhere", t.rest, both(trees, work::tpcc)}},
      {},
      {},
      judged(where,
             {{"Segregation reduces the index time of occ_avl from 105 to 95 s (section 4.6)",
               {at_most(t.index, with("occ_avl", memory::segregated), with("occ_avl", memory::shared),
                        half(95.0 / 105))}},
              {"It improves the index time of edge_ext_lf and hurts its dbx time (section 4.6)",
               {at_most(t.index, with("edge_ext_lf", memory::segregated), with("edge_ext_lf", memory::shared),
                        0.97),
                at_least(t.rest, with("edge_ext_lf", memory::segregated), with("edge_ext_lf", memory::shared),
                         1.01)},
               true,
               few_conflicts(where, with("edge_ext_lf", memory::segregated),
                             with("edge_ext_lf", memory::shared))},
              {"With int_lf of 64 and 112 bytes it reduces index time from 113 to 97 s (section 4.6)",
               {at_most(t.index, with(int_lf_64, memory::segregated), with(int_lf_64, memory::shared),
                        half(97.0 / 113))},
               true,
               small_index(with(int_lf_64, memory::segregated), with(int_lf_64, memory::shared))},
              {"There it increases dbx time from 135 to 140 s (section 4.6)",
               {at_least(t.rest, with(int_lf_64, memory::segregated), with(int_lf_64, memory::shared),
                         half(140.0 / 135))},
               true,
               few_conflicts(where, with(int_lf_64, memory::segregated), with(int_lf_64, memory::shared))}})};
}

page improved(const setting& where) {
  const auto before = [](const std::string& tree) { return shared(published_of(tree)); };
  std::vector<pair_of> pairs;
  for (const std::string& tree : compact_trees()) pairs.emplace_back(segregated(tree), before(tree));
  return {
      "improved",
      "YCSB: trees as published, and improved",
      "YCSB over trees with nodes as published in one heap, and over compact ones, segregated: as figure 8 "
      "has it for TPC-C.",
      {{"As published, one heap", speed, each_tree(before), true},
       {"Improved and segregated", speed, each_tree(segregated), true}},
      {},
      {},
      judged(where,
             {{"The improved trees make YCSB faster by 5 %, as a geometric mean",
               {mean_at_least(speed, pairs, 1.05)},
               false},
              {"None of them makes it slower by more than 2 %", {none_below(speed, pairs, 0.98)}, false}})};
}

chart chart_of(const panel& p, const results& measured) {
  chart made{.title = p.title,
             .caption = p.more_is_better ? "More is better." : "Less is better.",
             .y = p.shown.name};
  made.of = "Index";
  made.more_is_better = p.more_is_better;
  const bool one_memory = std::ranges::all_of(p.bars, [&](const configuration& c) {
    return c.where == p.bars.front().where && c.lock_bytes == p.bars.front().lock_bytes;
  });
  for (const configuration& c : p.bars) {
    const database_reading* const r = measured.find(c);
    const std::optional<double> value = r == nullptr ? std::nullopt : p.shown.of(*r);
    if (!value) continue;
    std::string name = c.index;
    if (!one_memory)
      name += fmt::format(", {}{}", c.where == memory::shared ? "one heap" : "segregated",
                          c.lock_bytes == padded ? "" : ", locks of 48");
    made.bars.push_back({.name = std::move(name), .value = *value});
  }
  return made;
}

}  // namespace

std::vector<configuration> page::configurations() const {
  std::vector<configuration> all = besides;
  all.insert(all.end(), mapped.begin(), mapped.end());
  for (const panel& p : panels) all.insert(all.end(), p.bars.begin(), p.bars.end());
  return all;
}

charted_figure page::figure(const results& measured, const std::string& machine) const {
  charted_figure made{.id = id, .title = title, .summary = summary, .machine = machine};
  for (const panel& p : panels) {
    chart c = chart_of(p, measured);
    if (!c.bars.empty()) made.charts.push_back(std::move(c));
  }
  chart chunks{.title = "The first chunks with nodes",
               .caption = "Each is a point; a straight line is consecutive chunks.",
               .y = "chunk of 4 KiB",
               .x = "chunk with nodes, in the order of addresses"};
  for (const configuration& c : mapped) {
    const database_reading* const r = measured.find(c);
    if (r == nullptr || r->first_chunks.empty()) continue;
    chart_curve& curve = chunks.curves.emplace_back(chart_curve{c.name(), {}});
    for (std::size_t n = 0; n < r->first_chunks.size(); ++n)
      curve.points.emplace_back(static_cast<double>(n), static_cast<double>(r->first_chunks[n]));
  }
  if (!chunks.curves.empty()) made.charts.push_back(std::move(chunks));
  for (const configuration& c : configurations()) {
    if (const std::string why = measured.why_missing(c); !why.empty()) made.miss(c.name(), why);
  }
  made.findings = judge(measured);
  return made;
}

std::vector<page> pages_of(const setting& where) {
  const times t = times_in(where.simulated ? "cycles" : "ns");
  return {figure_1b(where, t),     figure_5(where, t),      figure_6_and_7(where),
          section_4_3_1(where, t), section_4_3_2(where, t), section_4_3_3(where, t),
          figure_8(where, t),      figure_9(where, t),      improved(where)};
}

void leave_trees(std::vector<page>& pages, const std::vector<std::string>& trees) {
  const std::vector<std::string> all = compact_trees();
  for (const std::string& tree : trees) {
    if (std::ranges::find(all, tree) == all.end())
      throw usage_error(
          fmt::format("--maps {} is not of this study, which has {}", tree, fmt::join(all, ", ")));
  }
  if (trees.empty()) return;
  const auto is_left_out = [&](const configuration& c) {
    return std::ranges::find(trees, c.index.substr(0, c.index.find('/'))) == trees.end();
  };
  for (page& p : pages) {
    std::erase_if(p.besides, is_left_out);
    std::erase_if(p.mapped, is_left_out);
    for (panel& of : p.panels) std::erase_if(of.bars, is_left_out);
  }
  std::erase_if(pages, [](const page& p) { return p.configurations().empty(); });
}

}  // namespace espalier::app::dbx
