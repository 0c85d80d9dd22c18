#include "apps/studies/dps/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace espalier::app::dps {

std::string load::name() const {
  std::string text;
  if (what == work::objects)
    text = fmt::format("{} x {} lines", objects, lines);
  else if (what == work::tree)
    text = fmt::format("{} keys, {} % updates", grouped(keys), updates);
  else
    text = length == 0 ? "empty operations" : fmt::format("operations of {} cycles", length);
  if (delay != 0) text += fmt::format(", {} cycles apart", delay);
  return text + fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
}

namespace {

const std::string optik = "ticket";
const std::string lf_n = "edge_ext_lf";
const std::string lb_b = "occ_avl";
const std::vector<std::string> shared_trees{lb_b, lf_n, optik};
const std::vector<std::string> all_trees{lb_b, lf_n, optik, delegated, served_4};
const std::vector<std::string> on_objects{mcs, delegated, asynchronous, served_4, partitioned};

constexpr unsigned papers_threads = 80;
constexpr unsigned papers_cores = 40;
constexpr unsigned one_socket = 10;

double threads_of(const load& l) { return l.threads; }
double length_of(const load& l) { return static_cast<double>(l.length); }
double delay_of(const load& l) { return static_cast<double>(l.delay); }
double objects_in(const load& l) { return static_cast<double>(l.objects); }
double lines_in(const load& l) { return static_cast<double>(l.lines); }
double keys_in(const load& l) { return static_cast<double>(l.keys); }
double updates_in(const load& l) { return l.updates; }

load cycles(std::uint64_t length, unsigned threads, std::uint64_t delay = 0) {
  return {.threads = threads, .length = length, .delay = delay};
}
load objects(std::uint64_t objects, std::uint64_t lines, unsigned threads) {
  return {.what = work::objects, .threads = threads, .objects = objects, .lines = lines};
}
load tree(std::uint64_t keys, unsigned updates, unsigned threads) {
  return {.what = work::tree, .threads = threads, .keys = keys, .updates = updates};
}

/// The loads for each of some numbers.
template <class Numbers, class Make>
std::vector<load> each(const Numbers& numbers, Make make) {
  std::vector<load> loads;
  for (const auto n : numbers) loads.push_back(make(n));
  return loads;
}

const std::vector<std::uint64_t> lengths{0, 100, 200, 400, 800, 1600, 3200};
const std::vector<std::uint64_t> delays{0, 200, 400, 800, 1600, 3200};
const std::vector<std::uint64_t> objects_varied{16, 64, 256, 1024};
const std::vector<std::uint64_t> lines_varied{1, 4, 16, 64, 256};
const std::vector<unsigned> updates_varied{0, 10, 50, 100};
constexpr std::uint64_t fixed_lines = 32;
constexpr std::uint64_t fixed_objects = 128;
constexpr std::uint64_t large_object_lines = 16'384;
// Percent of updates under high contention, and of the read-heavy load.
constexpr unsigned many_updates = 50;
constexpr unsigned few_updates = 10;

std::vector<std::uint64_t> sizes(const setting& where) {
  std::vector<std::uint64_t> all{where.few_keys, where.few_keys * 16, where.many_keys};
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

// Judging ---------------------------------------------------------------------------------------------------------------

/// What is compared.
struct side {
  std::string technique;
  load at;
};

class judging {
 public:
  judging(const setting& where, const results& measured) : where_(where), measured_(measured) {}

  /// A claim about the loads of the form, which are of these numbers of threads in the paper.
  void add(const std::string& paper, judgement ours, bool of_paper = true) {
    all_.push_back({paper, std::move(ours), of_paper});
  }

  /// The first has at least `ratio` times the throughput of the second.
  [[nodiscard]] judgement faster(const side& a, const side& b, double ratio = 1) const {
    return compared(a, b, [ratio](double is) { return is >= ratio; });
  }
  /// Throughputs differ by no more than this factor.
  [[nodiscard]] judgement alike(const side& a, const side& b, double factor) const {
    return compared(a, b, [factor](double is) { return is <= factor && is >= 1 / factor; });
  }
  /// The first has at least `ratio` times the misses of the second.
  [[nodiscard]] judgement more_misses(const side& a, const side& b, double ratio = 1) const {
    const load_reading* const x = find(a);
    const load_reading* const y = find(b);
    if (x == nullptr || y == nullptr) return unmeasured(x == nullptr ? a : b);
    if (const auto why = unjudged(*x, *y)) return *why;
    return {fmt::format("An operation of {} misses {:.2f} lines, of {} {:.2f}.", text(a), x->costs.misses(),
                        text(b), y->costs.misses()),
            x->costs.misses() >= ratio * y->costs.misses() ? agreement::agrees : agreement::differs};
  }
  [[nodiscard]] judgement moves_at_most(const side& a, double lines) const {
    const load_reading* const x = find(a);
    if (x == nullptr) return unmeasured(a);
    if (const auto why = unjudged(*x, *x)) return *why;
    return {fmt::format("An operation of {} moves {:.2f} lines between sockets.", text(a),
                        x->costs.remote_transfers),
            x->costs.remote_transfers <= lines ? agreement::agrees : agreement::differs};
  }
  /// All of them hold.
  [[nodiscard]] static judgement all_of(const std::vector<judgement>& parts) {
    judgement all{"", agreement::agrees};
    for (const judgement& part : parts) {
      if (all.sentence.find(part.sentence) == std::string::npos)
        all.sentence += (all.sentence.empty() ? "" : " ") + part.sentence;
      if (part.verdict == agreement::not_measurable || all.verdict == agreement::agrees)
        all.verdict = part.verdict;
    }
    return all;
  }

  std::vector<judged_claim> take() { return std::move(all_); }
  [[nodiscard]] const results& measured() const { return measured_; }
  [[nodiscard]] const setting& where() const { return where_; }

 private:
  [[nodiscard]] const load_reading* find(const side& s) const { return measured_.find(s.at, s.technique); }
  [[nodiscard]] static std::string text(const side& s) {
    return fmt::format("{} ({})", s.technique, s.at.name());
  }
  [[nodiscard]] static judgement unmeasured(const side& s) {
    return {fmt::format("Not measured: {}.", text(s)), agreement::not_measurable};
  }
  [[nodiscard]] static std::optional<judgement> unjudged(const load_reading& x, const load_reading& y) {
    const std::string& why = x.unjudged.empty() ? y.unjudged : x.unjudged;
    if (why.empty()) return std::nullopt;
    return judgement{why, agreement::not_measurable};
  }
  [[nodiscard]] static std::string costs(const side& s, const load_reading& r) {
    return fmt::format(
        "{:.2f} lines from other sockets, {:.2f} from other cores, {:.2f} from memory and {:.0f} stalled "
        "cycles in {}",
        r.costs.remote_transfers, r.costs.local_transfers, r.costs.memory_lines, r.costs.stall_cycles,
        s.technique);
  }
  template <class Holds>
  [[nodiscard]] judgement compared(const side& a, const side& b, Holds holds) const {
    const load_reading* const x = find(a);
    const load_reading* const y = find(b);
    if (x == nullptr || y == nullptr) return unmeasured(x == nullptr ? a : b);
    if (const auto why = unjudged(*x, *y)) return *why;
    const double ratio = x->speed / y->speed;
    const bool agrees = holds(ratio);
    std::string sentence = fmt::format("{} has {:.2f} times the throughput of {}.", text(a), ratio, text(b));
    if (!agrees) sentence += fmt::format(" An operation has {}; {}.", costs(a, *x), costs(b, *y));
    return {std::move(sentence), agrees ? agreement::agrees : agreement::differs};
  }

  const setting& where_;
  const results& measured_;
  std::vector<judged_claim> all_;
};

// Pages -----------------------------------------------------------------------------------------------------------------

void judge_figure_2(judging& j) {
  const setting& w = j.where();
  std::vector<judgement> slower;
  std::vector<judgement> missing;
  std::vector<judgement> large;
  for (const std::string& map : shared_trees) {
    slower.push_back(j.faster({map, tree(w.few_keys, 0, papers_threads)},
                              {map, tree(w.few_keys, 100, papers_threads)}, 1.5));
    missing.push_back(j.more_misses({map, tree(w.few_keys, 100, papers_threads)},
                                    {map, tree(w.few_keys, 0, papers_threads)}, 1.5));
    large.push_back(j.all_of({j.more_misses({map, tree(w.many_keys, few_updates, papers_threads)},
                                            {map, tree(w.few_keys * 16, few_updates, papers_threads)}, 1.5),
                              j.faster({map, tree(w.few_keys * 16, few_updates, papers_threads)},
                                       {map, tree(w.many_keys, few_updates, papers_threads)}, 1.5)}));
  }
  j.add(
      "More stores to the structure and a higher update rate force coherence traffic and remote accesses "
      "(section 2)",
      judging::all_of(missing));
  j.add("Throughput falls as updates rise (figure 2, left)", judging::all_of(slower));
  j.add(
      "As the structure outgrows the last-level cache, misses rise and throughput falls significantly "
      "(figure 2, right)",
      judging::all_of(large));
}

void judge_figure_3(judging& j) {
  const auto at = [](std::uint64_t length) { return cycles(length, papers_threads); };
  j.add(
      "The throughput of ffwd degrades steeply as operations become longer, with 1 and with 4 servers "
      "(section 5.1)",
      judging::all_of({j.faster({served_1, at(0)}, {served_1, at(800)}, 2),
                       j.faster({served_4, at(0)}, {served_4, at(800)}, 2)}));
  j.add("DPS performs better than ffwd from a modest length on, 400 cycles (section 5.1)",
        judging::all_of({j.faster({delegated, at(400)}, {served_1, at(400)}),
                         j.faster({delegated, at(400)}, {served_4, at(400)})}));
  j.add("The performance of DPS decreases by very little (section 5.1)",
        j.alike({delegated, at(0)}, {delegated, at(800)}, 1.25));
}

judgement coherence(double is, double papers) {
  return {fmt::format("{:.1f} transfers and upgrades of lines for 15 empty requests.", is),
          std::abs(is - papers) <= 2 ? agreement::agrees : agreement::differs};
}

void judge_figure_6(judging& j) {
  const auto empty = [](unsigned threads) { return cycles(0, threads); };
  const auto longer = [](unsigned threads) { return cycles(500, threads); };
  j.add("ffwd needs 46 cache operations for a batch of 15 (section 5.1)",
        coherence(j.measured().coherence_served, 46));
  j.add("DPS needs 60 cache operations for as many requests (section 5.1)",
        coherence(j.measured().coherence_delegated, 60));
  j.add(
      "At very low core counts the throughput of DPS is high, as operations are calls within a locality "
      "(figure 6a)",
      judging::all_of({j.faster({delegated, empty(one_socket)}, {served_1, empty(one_socket)}, 2),
                       j.faster({delegated, empty(one_socket)}, {served_4, empty(one_socket)}, 2)}));
  j.add("With fewer than 60 hardware threads DPS has a higher throughput than ffwd-s1 (figure 6a)",
        judging::all_of({j.faster({delegated, empty(20)}, {served_1, empty(20)}),
                         j.faster({delegated, empty(papers_cores)}, {served_1, empty(papers_cores)})}));
  j.add("With more, the batches of ffwd-s1 give it a higher throughput than DPS (figure 6a)",
        j.faster({served_1, empty(papers_threads)}, {delegated, empty(papers_threads)}));
  j.add(
      "With fewer than 40, ffwd-s4 has a lower throughput than DPS: its servers are on all sockets (figure "
      "6a)",
      j.faster({delegated, empty(20)}, {served_4, empty(20)}));
  j.add("After all sockets are involved, ffwd-s4 has a higher throughput than DPS (figure 6a)",
        j.faster({served_4, empty(papers_threads)}, {delegated, empty(papers_threads)}));
  j.add("With operations of 500 cycles neither ffwd-s1 nor ffwd-s4 is competitive with DPS (figure 6a)",
        judging::all_of(
            {j.faster({delegated, longer(papers_threads)}, {served_1, longer(papers_threads)}, 1.5),
             j.faster({delegated, longer(papers_threads)}, {served_4, longer(papers_threads)}, 1.5)}));
  j.add(
      "Its servers saturate quickly, and throughput is flat (figure 6a)",
      judging::all_of({j.alike({served_1, longer(20)}, {served_1, longer(papers_threads)}, 1.25),
                       j.alike({served_4, longer(papers_cores)}, {served_4, longer(papers_threads)}, 1.25)}));
  j.add(
      "ffwd performs better than basic DPS for empty operations, but is not competitive with asynchronous "
      "DPS (figure 6b)",
      judging::all_of({j.faster({served_4, empty(papers_threads)}, {delegated, empty(papers_threads)}),
                       j.faster({asynchronous, empty(papers_threads)}, {served_4, empty(papers_threads)})}));
  std::vector<judgement> hidden;
  for (const std::uint64_t delay : {400U, 1600U})
    hidden.push_back(j.faster({asynchronous, cycles(0, papers_threads, delay)},
                              {delegated, cycles(0, papers_threads, delay)}, 1.25));
  j.add("Asynchronous execution hides the delays between operations (figure 6b)", judging::all_of(hidden));
}

void judge_figure_7(judging& j) {
  const auto small = [](unsigned threads) { return objects(64, 4, threads); };
  const auto contended = [](unsigned threads) { return objects(64, 64, threads); };
  const auto large = [](unsigned threads) { return objects(512, 64, threads); };
  const auto calm = [](unsigned threads) { return objects(512, 4, threads); };
  j.add("64 x 4: with few cores fine-grained locks are fastest (figure 7a)",
        judging::all_of({j.faster({mcs, small(one_socket)}, {delegated, small(one_socket)}),
                         j.faster({mcs, small(one_socket)}, {served_4, small(one_socket)})}));
  j.add("64 x 4: DPS adds a slight overhead over MCS there (figure 7a)",
        j.alike({mcs, small(one_socket)}, {delegated, small(one_socket)}, 1.5));
  j.add("64 x 4: contention continuously decreases the throughput of MCS (figure 7a)",
        judging::all_of({j.faster({mcs, small(20)}, {mcs, small(papers_cores)}),
                         j.faster({mcs, small(papers_cores)}, {mcs, small(papers_threads)})}));
  j.add("64 x 4: DPS localizes cache traffic and performs better than MCS with many cores (figure 7a)",
        judging::all_of({j.faster({delegated, small(papers_cores)}, {mcs, small(papers_cores)}),
                         j.faster({delegated, small(papers_threads)}, {mcs, small(papers_threads)})}));
  j.add("64 x 4: ffwd steadily gains with more cores, as operations are short (figure 7a)",
        judging::all_of({j.faster({served_4, small(papers_cores)}, {served_4, small(20)}),
                         j.faster({served_4, small(papers_threads)}, {served_4, small(papers_cores)})}));
  j.add("64 x 64: coherence overheads prevent MCS from scaling (figure 7b)",
        judging::all_of({j.faster({mcs, contended(one_socket)}, {mcs, contended(papers_cores)}, 0.5),
                         j.faster({mcs, contended(papers_cores)}, {mcs, contended(papers_threads)}, 0.8)}));
  j.add("64 x 64: DPS presents a substantial performance boost (figure 7b)",
        judging::all_of(
            {j.faster({delegated, contended(papers_cores)}, {mcs, contended(papers_cores)}, 1.25),
             j.faster({delegated, contended(papers_threads)}, {mcs, contended(papers_threads)}, 1.25)}));
  j.add("64 x 64: longer operations prevent ffwd from scaling at the rate of DPS (figure 7b)",
        j.faster({delegated, contended(papers_threads)}, {served_4, contended(papers_threads)}, 1.25));
  j.add("512 x 64: less contention increases the throughput of MCS and DPS relative to ffwd (figure 7c)",
        judging::all_of(
            {j.faster({mcs, large(papers_threads)}, {mcs, contended(papers_threads)}),
             j.faster({delegated, large(papers_threads)}, {delegated, contended(papers_threads)}),
             j.faster({delegated, large(papers_threads)}, {served_4, large(papers_threads)}, 1.25)}));
  j.add("512 x 64: locality lets DPS scale well against MCS (figure 7c)",
        j.faster({delegated, large(papers_threads)}, {mcs, large(papers_threads)}, 1.25));
  j.add("512 x 4: MCS locks suffer little overhead (figure 7d)",
        judging::all_of({j.faster({mcs, calm(papers_cores)}, {delegated, calm(papers_cores)}),
                         j.faster({mcs, calm(papers_threads)}, {delegated, calm(papers_threads)})}));
  j.add("512 x 4: ffwd tracks DPS with the exception of low core counts (figure 7d)",
        judging::all_of({j.alike({served_4, calm(papers_cores)}, {delegated, calm(papers_cores)}, 1.5),
                         j.alike({served_4, calm(papers_threads)}, {delegated, calm(papers_threads)}, 1.5)}));
  for (const auto& [of, synchronous_gain] : {std::pair{64, 1.4}, {512, 1.3}}) {
    for (const unsigned threads : {papers_cores, papers_threads}) {
      const load at = objects(static_cast<std::uint64_t>(of), 64, threads);
      j.add(fmt::format("{} x 64, {} threads: DPS has {} times the throughput of MCS, with two operations in "
                        "flight 1.9 times, and moves at most 2.3 lines between sockets",
                        of, threads, synchronous_gain),
            judging::all_of({j.faster({delegated, at}, {mcs, at}, synchronous_gain),
                             j.faster({asynchronous, at}, {mcs, at}, 1.9),
                             j.moves_at_most({delegated, at}, 2.3)}),
            false);
    }
  }
}

void judge_figure_8(judging& j) {
  const auto of = [](std::uint64_t n) { return objects(n, fixed_lines, papers_threads); };
  const auto lines = [](std::uint64_t n) { return objects(fixed_objects, n, papers_threads); };
  const std::uint64_t few = objects_varied.front();
  const std::uint64_t many = objects_varied.back();
  j.add("With few objects MCS contends for few locks; DPS and ffwd avoid expensive contention (figure 8a)",
        judging::all_of({j.faster({delegated, of(few)}, {mcs, of(few)}, 1.25),
                         j.faster({served_4, of(few)}, {mcs, of(few)}, 1.25)}));
  j.add("With more objects ffwd degrades, as it uses L1 and L2 caches less effectively (figure 8a)",
        j.faster({served_4, of(few)}, {served_4, of(many)}, 1.25));
  j.add("With more objects DPS and MCS scale well (figure 8a)",
        judging::all_of({j.faster({delegated, of(many)}, {delegated, of(few)}, 1.25),
                         j.faster({mcs, of(many)}, {mcs, of(few)}, 1.25)}));
  j.add("ffwd does well with few lines, but degrades as they increase (figure 8b)",
        judging::all_of({j.faster({served_4, lines(1)}, {delegated, lines(1)}),
                         j.faster({delegated, lines(64)}, {served_4, lines(64)})}));
  j.add("DPS and MCS decrease as critical sections become longer (figure 8b)",
        judging::all_of({j.faster({delegated, lines(4)}, {delegated, lines(64)}),
                         j.faster({mcs, lines(4)}, {mcs, lines(64)})}));
  j.add("Locking significantly increases the number of cache misses (figure 8c)",
        judging::all_of({j.more_misses({mcs, of(64)}, {delegated, of(64)}, 2),
                         j.more_misses({mcs, of(64)}, {served_4, of(64)}, 2)}));
  j.add("Shared structures that modify more lines miss more (figure 8d)",
        j.more_misses({mcs, lines(64)}, {mcs, lines(4)}, 2));
  j.add("ffwd, which batches replies, misses less than DPS (figures 8c and 8d)",
        j.more_misses({delegated, of(64)}, {served_4, of(64)}));
}

void judge_table_2(judging& j) {
  const load at = objects(512, large_object_lines, papers_threads);
  j.add(
      "Node-local memory makes MCS slowest, as one NUMA node is saturated; interleaving gives 2.5 times the "
      "throughput (section 5.1)",
      j.faster({mcs, at}, {mcs_node_local, at}, 1.75));
  j.add("ffwd suffers from the lack of parallelism: DPS has 1.10 times its throughput (table 2)",
        j.faster({delegated, at}, {served_4, at}, 1.05));
  j.add("DPS is fastest, with 1.02 times the throughput of interleaved MCS (table 2)",
        j.faster({delegated, at}, {mcs, at}, 1.01));
}

void judge_figure_11(judging& j) {
  const setting& w = j.where();
  const auto hot = [&](unsigned threads) { return tree(w.few_keys, many_updates, threads); };
  const auto large = [&](unsigned threads) { return tree(w.many_keys, few_updates, threads); };
  const auto updates = [&](unsigned percent) { return tree(w.few_keys, percent, papers_threads); };
  j.add("High contention: OPTIK and lf-n flatline when physical cores are saturated (figure 11a)",
        judging::all_of({j.faster({optik, hot(papers_cores)}, {optik, hot(papers_threads)}, 0.8),
                         j.faster({lf_n, hot(papers_cores)}, {lf_n, hot(papers_threads)}, 0.8)}));
  j.add("High contention: DPS and ffwd scale well, as they avoid remote accesses (figure 11a)",
        judging::all_of({j.faster({delegated, hot(papers_threads)}, {delegated, hot(20)}, 2),
                         j.faster({served_4, hot(papers_threads)}, {served_4, hot(20)}, 2)}));
  j.add("High contention: lb-b scales poorly (figure 11a)",
        judging::all_of({j.faster({optik, hot(papers_threads)}, {lb_b, hot(papers_threads)}),
                         j.faster({lf_n, hot(papers_threads)}, {lb_b, hot(papers_threads)})}));
  std::vector<judgement> best;
  for (const std::string& other : {lf_n, optik, std::string(delegated), std::string(served_4)})
    best.push_back(j.faster({lb_b, large(papers_threads)}, {other, large(papers_threads)}));
  j.add("Large set: lb-b has the highest throughput: it reads without stores, and is balanced (figure 11b)",
        judging::all_of(best));
  j.add(
      "Large set: longer operations saturate the servers of ffwd, whereas DPS scales (figure 11b)",
      judging::all_of({j.faster({delegated, large(papers_threads)}, {served_4, large(papers_threads)}, 1.25),
                       j.faster({delegated, large(papers_threads)}, {delegated, large(20)}, 1.5)}));
  j.add("DPS and ffwd do not depend on the share of updates (figure 11c)",
        judging::all_of({j.alike({delegated, updates(0)}, {delegated, updates(100)}, 1.25),
                         j.alike({served_4, updates(0)}, {served_4, updates(100)}, 1.25)}));
  j.add("For reads alone delegation adds significant overhead (figure 11c)",
        judging::all_of({j.faster({optik, updates(0)}, {delegated, updates(0)}, 1.25),
                         j.faster({lf_n, updates(0)}, {delegated, updates(0)}, 1.25)}));
  std::vector<judgement> local;
  for (const std::string& map : shared_trees)
    local.push_back(j.more_misses({map, large(papers_threads)}, {delegated, large(papers_threads)}, 1.25));
  j.add(
      "Beyond the last-level cache DPS makes use of distributed caches; shared trees suffer remote accesses "
      "(figure 11d)",
      judging::all_of(local));
}

template <void (*Judge)(judging&)>
auto judged(const setting& where) {
  return [where](const results& measured) {
    judging j(where, measured);
    Judge(j);
    return j.take();
  };
}

}  // namespace

std::vector<page> pages_of(const setting& where) {
  const std::vector<unsigned>& threads = where.threads;
  const unsigned most = where.most();
  const std::string with = fmt::format("{} threads", most);
  const auto trees_by_updates =
      each(updates_varied, [&](unsigned u) { return tree(where.few_keys, u, most); });
  const auto trees_by_size = each(sizes(where), [&](std::uint64_t n) { return tree(n, few_updates, most); });
  const auto by_threads = [&](std::uint64_t o, std::uint64_t lines) {
    return panel{fmt::format("{} x {} lines", o, lines),
                 on_objects,
                 each(threads, [=](unsigned n) { return objects(o, lines, n); }),
                 "Threads",
                 threads_of,
                 true};
  };
  return {
      {"figure-2",
       "Shared trees",
       "Search trees under locks and without: throughput and misses over updates, and over the size.",
       {{"Updates, " + with, shared_trees, trees_by_updates, "Updates, %", updates_in, true},
        {"Size, " + with, shared_trees, trees_by_size, "Keys", keys_in, true}},
       judged<judge_figure_2>(where)},
      {"figure-3",
       "The length of operations",
       "Operations that only compute, by delegation to peers (DPS) and to dedicated servers (ffwd).",
       {{"Throughput, " + with,
         {served_1, served_4, delegated},
         each(lengths, [&](std::uint64_t n) { return cycles(n, most); }),
         "Cycles of an operation",
         length_of}},
       judged<judge_figure_3>(where)},
      {"figure-6",
       "Delegation",
       "Operations without data over threads, and over the time between two operations of a thread.",
       {{"Empty operations",
         {served_1, served_4, delegated},
         each(threads, [](unsigned n) { return cycles(0, n); }),
         "Threads",
         threads_of},
        {"Operations of 500 cycles",
         {served_1, served_4, delegated},
         each(threads, [](unsigned n) { return cycles(500, n); }),
         "Threads",
         threads_of},
        {"Empty operations, " + with,
         {served_1, served_4, delegated, asynchronous},
         each(delays, [&](std::uint64_t n) { return cycles(0, most, n); }),
         "Cycles between operations",
         delay_of}},
       judged<judge_figure_6>(where)},
      {"figure-7",
       "Objects over threads",
       "An operation reads and writes every line of an object, under an MCS lock except at a dedicated "
       "server. `partitioned` places objects like DPS, and each thread executes its own operations: the "
       "effect of partitioning without that of delegation.",
       {by_threads(64, 4), by_threads(64, 64), by_threads(512, 64), by_threads(512, 4)},
       judged<judge_figure_7>(where)},
      {"figure-8",
       "Objects by number and size",
       "The same operations with the most threads.",
       {{fmt::format("{} lines, {}", fixed_lines, with), on_objects,
         each(objects_varied, [&](std::uint64_t n) { return objects(n, fixed_lines, most); }), "Objects",
         objects_in, true},
        {fmt::format("{} objects, {}", fixed_objects, with), on_objects,
         each(lines_varied, [&](std::uint64_t n) { return objects(fixed_objects, n, most); }), "Lines",
         lines_in, true}},
       judged<judge_figure_8>(where)},
      {"table-2",
       "Objects beyond the caches",
       "512 objects of 1 MB, of which the paper has 10 MB.",
       {{"Throughput, " + with,
         {delegated, served_4, mcs_node_local, mcs},
         {objects(512, large_object_lines, most)}}},
       judged<judge_table_2>(where)},
      {"figure-11",
       "Search trees",
       "Shared trees, and the tree OPTIK by delegation to peers (DPS) and to dedicated servers (ffwd).",
       {{fmt::format("{} keys, {} % updates", grouped(where.few_keys), many_updates), all_trees,
         each(threads, [&](unsigned n) { return tree(where.few_keys, many_updates, n); }), "Threads",
         threads_of},
        {fmt::format("{} keys, {} % updates", grouped(where.many_keys), few_updates), all_trees,
         each(threads, [&](unsigned n) { return tree(where.many_keys, few_updates, n); }), "Threads",
         threads_of},
        {fmt::format("{} keys, {}", grouped(where.few_keys), with), all_trees, trees_by_updates, "Updates, %",
         updates_in, true},
        {fmt::format("{} % updates, {}", few_updates, with), all_trees, trees_by_size, "Keys", keys_in,
         true}},
       judged<judge_figure_11>(where)},
  };
}

}  // namespace espalier::app::dps
