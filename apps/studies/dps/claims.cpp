#include "apps/studies/dps/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

  [[nodiscard]] std::string text() const { return fmt::format("{} ({})", technique, at.name()); }
};

enum class figure_of_merit : std::uint8_t { speed, equal_speed, misses, moved_lines, coherence };

/// A part of a claim: one side is so much more than the other, or no more than a limit.
struct part {
  figure_of_merit of;
  side one;
  side other;
  double bound;
};

/// The first has at least `ratio` times the throughput of the second.
part faster(const side& one, const side& other, double ratio = 1) {
  return {figure_of_merit::speed, one, other, ratio};
}
/// Under one load.
part beats(const load& at, const std::string& one, const std::string& other, double ratio = 1) {
  return faster({one, at}, {other, at}, ratio);
}
/// With one technique.
part falls(const std::string& technique, const load& from, const load& to, double ratio = 1) {
  return faster({technique, from}, {technique, to}, ratio);
}
/// Throughputs differ by no more than this factor.
part alike(const side& one, const side& other, double factor) {
  return {figure_of_merit::equal_speed, one, other, factor};
}
part stays(const std::string& technique, const load& from, const load& to, double factor) {
  return alike({technique, from}, {technique, to}, factor);
}
/// The first has at least `ratio` times the misses of the second.
part more_misses(const side& one, const side& other, double ratio = 1) {
  return {figure_of_merit::misses, one, other, ratio};
}
part moves_at_most(const side& one, double lines) { return {figure_of_merit::moved_lines, one, one, lines}; }
/// Of 15 empty requests, within 2 of the paper's.
part coherence(const std::string& technique, double papers) {
  return {figure_of_merit::coherence, {technique, {}}, {}, papers};
}

/// A claim of the paper, or beyond it: all of its parts hold. Loads have the paper's numbers of threads.
struct claim_row {
  std::string paper;
  std::vector<part> parts;
  bool of_paper = true;
  /// Where it differs on the paper's machine: whether that is the model's doing, our program's or the paper's, and why.
  std::string why = {};
};
using claim_rows = std::vector<claim_row>;

std::string costs(const side& s, const load_reading& r) {
  return fmt::format(
      "{:.2f} lines from other sockets, {:.2f} from other cores, {:.2f} from memory and {:.0f} stalled "
      "cycles in {}",
      r.costs.remote_transfers, r.costs.local_transfers, r.costs.memory_lines, r.costs.stall_cycles,
      s.technique);
}

judgement judged(const part& p, const results& measured) {
  const auto verdict = [](std::string sentence, bool holds) -> judgement {
    return {std::move(sentence), holds ? agreement::agrees : agreement::differs};
  };
  if (p.of == figure_of_merit::coherence) {
    const double is = p.one.technique == delegated ? measured.coherence_delegated : measured.coherence_served;
    return verdict(fmt::format("{:.1f} transfers and upgrades of lines for 15 empty requests.", is),
                   std::abs(is - p.bound) <= 2);
  }
  const load_reading* const x = measured.find(p.one.at, p.one.technique);
  const load_reading* const y = measured.find(p.other.at, p.other.technique);
  if (x == nullptr || y == nullptr)
    return {fmt::format("Not measured: {}.", (x == nullptr ? p.one : p.other).text()),
            agreement::not_measurable};
  for (const auto& [of, r] : {std::pair{&p.one, x}, std::pair{&p.other, y}})
    if (!r->too_short.empty())
      return {fmt::format("{} ({}).", r->too_short, of->text()), agreement::too_short};
  const std::string one = p.one.text();
  const std::string other = p.other.text();
  if (p.of == figure_of_merit::misses)
    return verdict(fmt::format("An operation of {} misses {:.2f} lines, of {} {:.2f}.", one,
                               x->costs.misses(), other, y->costs.misses()),
                   x->costs.misses() >= p.bound * y->costs.misses());
  if (p.of == figure_of_merit::moved_lines)
    return verdict(
        fmt::format("An operation of {} moves {:.2f} lines between sockets.", one, x->costs.remote_transfers),
        x->costs.remote_transfers <= p.bound);
  const double ratio = x->speed / y->speed;
  const bool holds =
      p.of == figure_of_merit::speed ? ratio >= p.bound : ratio <= p.bound && ratio >= 1 / p.bound;
  std::string sentence = fmt::format("{} has {:.2f} times the throughput of {}.", one, ratio, other);
  if (!holds) sentence += fmt::format(" An operation has {}; {}.", costs(p.one, *x), costs(p.other, *y));
  return verdict(std::move(sentence), holds);
}

/// All of the parts hold.
judged_claim judged(const claim_row& claim, const results& measured) {
  judgement all{"", agreement::agrees};
  for (const part& p : claim.parts) {
    const judgement found = judged(p, measured);
    if (all.sentence.find(found.sentence) == std::string::npos)
      all.sentence += (all.sentence.empty() ? "" : " ") + found.sentence;
    all.verdict = std::max(all.verdict, found.verdict);  // in the order of their weight
  }
  if (all.verdict == agreement::differs && !claim.why.empty()) all.sentence += " " + claim.why;
  return {claim.paper, std::move(all), claim.of_paper};
}

auto judged(const claim_rows& claims) {
  return [claims](const results& measured) {
    std::vector<judged_claim> found;
    for (const claim_row& one : claims) found.push_back(judged(one, measured));
    return found;
  };
}

// Claims ----------------------------------------------------------------------------------------------------------------

// Why some differ on the simulated machine of the paper.

constexpr const char* fast_messages =
    "Program: a message of this library costs less. With empty operations and 80 threads it does 1.3 times "
    "what four servers "
    "do, whose limit is the lines that one core can have on their way.";
constexpr const char* memory_of_one_node =
    "Model: each line that another socket has modified is written to the memory of the one node that has the "
    "objects, as fast "
    "as was published of its channels; that limits MCS whatever the number of objects.";
constexpr const char* small_tree =
    "Program: 262,144 keys are smaller than one last-level cache, and most of what is missed is cold; a tree "
    "beyond all caches "
    "takes --keys of some millions, and hours.";
constexpr const char* no_depth =
    "Model: simulated threads that share a core take turns without loss but for issue slots, and links are "
    "far from full.";

/// A part for each of some numbers or names.
template <class Values, class Make>
std::vector<part> for_each_of(const Values& values, Make make) {
  std::vector<part> parts;
  for (const auto& value : values) {
    const std::vector<part> made = make(value);
    parts.insert(parts.end(), made.begin(), made.end());
  }
  return parts;
}

claim_rows figure_2(const setting& w) {
  using parts = std::vector<part>;
  const load read = tree(w.few_keys, 0, papers_threads);
  const load updated = tree(w.few_keys, 100, papers_threads);
  const load cached = tree(w.few_keys * 16, few_updates, papers_threads);
  const load large = tree(w.many_keys, few_updates, papers_threads);
  return {
      {"More stores to the structure and a higher update rate force coherence traffic and remote accesses "
       "(section 2)",
       for_each_of(shared_trees,
                   [&](const auto& map) { return parts{more_misses({map, updated}, {map, read}, 1.5)}; })},
      {"Throughput falls as updates rise (figure 2, left)",
       for_each_of(shared_trees, [&](const auto& map) { return parts{falls(map, read, updated, 1.5)}; })},
      {"As the structure outgrows the last-level cache, misses rise and throughput falls significantly "
       "(figure 2, right)",
       for_each_of(shared_trees, [&](const auto& map) {
         return parts{more_misses({map, large}, {map, cached}, 1.5), falls(map, cached, large, 1.5)};
       })}};
}

claim_rows figure_3() {
  const auto at = [](std::uint64_t length) { return cycles(length, papers_threads); };
  return {{"The throughput of ffwd degrades steeply as operations become longer, with 1 and with 4 servers "
           "(section 5.1)",
           {falls(served_1, at(0), at(800), 2), falls(served_4, at(0), at(800), 2)}},
          {"DPS performs better than ffwd from a modest length on, 400 cycles (section 5.1)",
           {beats(at(400), delegated, served_1), beats(at(400), delegated, served_4)}},
          {"The performance of DPS decreases by very little (section 5.1)",
           {stays(delegated, at(0), at(800), 1.25)},
           true,
           fast_messages}};
}

claim_rows figure_6() {
  const load one = cycles(0, one_socket);
  const load two = cycles(0, 20);
  const load cores = cycles(0, papers_cores);
  const load all = cycles(0, papers_threads);
  const auto longer = [](unsigned threads) { return cycles(500, threads); };
  return {{"ffwd needs 46 cache operations for a batch of 15 (section 5.1)", {coherence(served_1, 46)}},
          {"DPS needs 60 cache operations for as many requests (section 5.1)", {coherence(delegated, 60)}},
          {"At very low core counts the throughput of DPS is high, as operations are calls within a locality "
           "(figure 6a)",
           {beats(one, delegated, served_1, 2), beats(one, delegated, served_4, 2)}},
          {"With fewer than 60 hardware threads DPS has a higher throughput than ffwd-s1 (figure 6a)",
           {beats(two, delegated, served_1), beats(cores, delegated, served_1)}},
          {"With more, the batches of ffwd-s1 give it a higher throughput than DPS (figure 6a)",
           {beats(all, served_1, delegated)},
           true,
           fast_messages},
          {"With fewer than 40, ffwd-s4 has a lower throughput than DPS: its servers are on all sockets "
           "(figure 6a)",
           {beats(two, delegated, served_4)}},
          {"After all sockets are involved, ffwd-s4 has a higher throughput than DPS (figure 6a)",
           {beats(all, served_4, delegated)},
           true,
           fast_messages},
          {"With operations of 500 cycles neither ffwd-s1 nor ffwd-s4 is competitive with DPS (figure 6a)",
           {beats(longer(papers_threads), delegated, served_1, 1.5),
            beats(longer(papers_threads), delegated, served_4, 1.5)}},
          {"Its servers saturate quickly, and throughput is flat (figure 6a)",
           {stays(served_1, longer(20), longer(papers_threads), 1.25),
            stays(served_4, longer(papers_cores), longer(papers_threads), 1.25)}},
          {"ffwd performs better than basic DPS for empty operations, but is not competitive with "
           "asynchronous DPS (figure "
           "6b)",
           {beats(all, served_4, delegated), beats(all, asynchronous, served_4)},
           true,
           fast_messages},
          {"Asynchronous execution hides the delays between operations (figure 6b)",
           {beats(cycles(0, papers_threads, 400), asynchronous, delegated, 1.25),
            beats(cycles(0, papers_threads, 1600), asynchronous, delegated, 1.25)}}};
}

claim_rows figure_7() {
  const auto small = [](unsigned threads) { return objects(64, 4, threads); };
  const auto contended = [](unsigned threads) { return objects(64, 64, threads); };
  const auto large = [](unsigned threads) { return objects(512, 64, threads); };
  const auto calm = [](unsigned threads) { return objects(512, 4, threads); };
  constexpr unsigned cores = papers_cores;
  constexpr unsigned all = papers_threads;
  claim_rows claims{
      {"64 x 4: with few cores fine-grained locks are fastest (figure 7a)",
       {beats(small(one_socket), mcs, delegated), beats(small(one_socket), mcs, served_4)}},
      {"64 x 4: DPS adds a slight overhead over MCS there (figure 7a)",
       {alike({mcs, small(one_socket)}, {delegated, small(one_socket)}, 1.5)}},
      {"64 x 4: contention continuously decreases the throughput of MCS (figure 7a)",
       {falls(mcs, small(20), small(cores)), falls(mcs, small(cores), small(all))},
       true,
       "Model: with 20 threads two sockets have one pair of links, with 40 six pairs, and each transfer "
       "takes as long as alone."},
      {"64 x 4: DPS localizes cache traffic and performs better than MCS with many cores (figure 7a)",
       {beats(small(cores), delegated, mcs), beats(small(all), delegated, mcs)},
       true,
       "Model: what many requests at once cost where they are ordered is unknown, so that locks hold too "
       "long only with 80."},
      {"64 x 4: ffwd steadily gains with more cores, as operations are short (figure 7a)",
       {falls(served_4, small(cores), small(20)), falls(served_4, small(all), small(cores))}},
      {"64 x 64: coherence overheads prevent MCS from scaling (figure 7b)",
       {falls(mcs, contended(one_socket), contended(cores), 0.5),
        falls(mcs, contended(cores), contended(all), 0.8)}},
      {"64 x 64: DPS presents a substantial performance boost (figure 7b)",
       {beats(contended(cores), delegated, mcs, 1.25), beats(contended(all), delegated, mcs, 1.25)}},
      {"64 x 64: longer operations prevent ffwd from scaling at the rate of DPS (figure 7b)",
       {beats(contended(all), delegated, served_4, 1.25)}},
      {"512 x 64: less contention increases the throughput of MCS and DPS relative to ffwd (figure 7c)",
       {falls(mcs, large(all), contended(all)), falls(delegated, large(all), contended(all)),
        beats(large(all), delegated, served_4, 1.25)},
       true,
       memory_of_one_node},
      {"512 x 64: locality lets DPS scale well against MCS (figure 7c)",
       {beats(large(all), delegated, mcs, 1.25)}},
      {"512 x 4: MCS locks suffer little overhead (figure 7d)",
       {beats(calm(cores), mcs, delegated), beats(calm(all), mcs, delegated)}},
      {"512 x 4: ffwd tracks DPS with the exception of low core counts (figure 7d)",
       {alike({served_4, calm(cores)}, {delegated, calm(cores)}, 1.5),
        alike({served_4, calm(all)}, {delegated, calm(all)}, 1.5)},
       true,
       fast_messages}};
  for (const auto& [of, synchronous_gain] : {std::pair{64U, 1.4}, {512U, 1.3}}) {
    for (const unsigned threads : {papers_cores, papers_threads}) {
      const load at = objects(of, 64, threads);
      claims.push_back(
          {fmt::format("{} x 64, {} threads: DPS has {} times the throughput of MCS, with two operations "
                       "in flight 1.9 times, and moves at most 2.3 lines between sockets",
                       of, threads, synchronous_gain),
           {beats(at, delegated, mcs, synchronous_gain), beats(at, asynchronous, mcs, 1.9),
            moves_at_most({delegated, at}, 2.3)},
           false});
    }
  }
  return claims;
}

claim_rows figure_8() {
  const load few = objects(objects_varied.front(), fixed_lines, papers_threads);
  const load many = objects(objects_varied.back(), fixed_lines, papers_threads);
  const load some = objects(64, fixed_lines, papers_threads);
  const auto lines = [](std::uint64_t n) { return objects(fixed_objects, n, papers_threads); };
  return {{"With few objects MCS contends for few locks; DPS and ffwd avoid expensive contention (figure 8a)",
           {beats(few, delegated, mcs, 1.25), beats(few, served_4, mcs, 1.25)}},
          {"With more objects ffwd degrades, as it uses L1 and L2 caches less effectively (figure 8a)",
           {falls(served_4, few, many, 1.25)},
           true,
           "Model: a server overlaps the lines of an object, wherever in its socket they are."},
          {"With more objects DPS and MCS scale well (figure 8a)",
           {falls(delegated, many, few, 1.25), falls(mcs, many, few, 1.25)},
           true,
           memory_of_one_node},
          {"ffwd does well with few lines, but degrades as they increase (figure 8b)",
           {beats(lines(1), served_4, delegated), beats(lines(64), delegated, served_4)},
           true,
           fast_messages},
          {"DPS and MCS decrease as critical sections become longer (figure 8b)",
           {falls(delegated, lines(4), lines(64)), falls(mcs, lines(4), lines(64))}},
          {"Locking significantly increases the number of cache misses (figure 8c)",
           {more_misses({mcs, some}, {delegated, some}, 2), more_misses({mcs, some}, {served_4, some}, 2)}},
          {"Shared structures that modify more lines miss more (figure 8d)",
           {more_misses({mcs, lines(64)}, {mcs, lines(4)}, 2)}},
          {"ffwd, which batches replies, misses less than DPS (figures 8c and 8d)",
           {more_misses({delegated, some}, {served_4, some})}}};
}

claim_rows table_2() {
  const load at = objects(512, large_object_lines, papers_threads);
  return {
      {"Node-local memory makes MCS slowest, as one NUMA node is saturated; interleaving gives 2.5 times the "
       "throughput (section 5.1)",
       {beats(at, mcs_interleaved, mcs, 1.75)}},
      {"ffwd suffers from the lack of parallelism: DPS has 1.10 times its throughput (table 2)",
       {beats(at, delegated, served_4, 1.05)}},
      {"DPS is fastest, with 1.02 times the throughput of interleaved MCS (table 2)",
       {beats(at, delegated, mcs_interleaved, 1.01)},
       true,
       "Program: with two operations of a thread, DPS waits for the locality that has got the most."}};
}

claim_rows figure_11(const setting& w) {
  const auto hot = [&](unsigned threads) { return tree(w.few_keys, many_updates, threads); };
  const load large = tree(w.many_keys, few_updates, papers_threads);
  const auto updates = [&](unsigned percent) { return tree(w.few_keys, percent, papers_threads); };
  constexpr unsigned cores = papers_cores;
  constexpr unsigned all = papers_threads;
  return {
      {"High contention: OPTIK and lf-n flatline when physical cores are saturated (figure 11a)",
       {falls(optik, hot(cores), hot(all), 0.8), falls(lf_n, hot(cores), hot(all), 0.8)},
       true,
       no_depth},
      {"High contention: DPS and ffwd scale well, as they avoid remote accesses (figure 11a)",
       {falls(delegated, hot(all), hot(20), 2), falls(served_4, hot(all), hot(20), 2)},
       true,
       "Program: servers of ffwd run a tree with locks, and are full with 20 threads."},
      {"High contention: lb-b scales poorly (figure 11a)",
       {beats(hot(all), optik, lb_b), beats(hot(all), lf_n, lb_b)}},
      {"Large set: lb-b has the highest throughput: it reads without stores, and is balanced (figure 11b)",
       {beats(large, lb_b, lf_n), beats(large, lb_b, optik), beats(large, lb_b, delegated),
        beats(large, lb_b, served_4)},
       true,
       small_tree},
      {"Large set: longer operations saturate the servers of ffwd, whereas DPS scales (figure 11b)",
       {beats(large, delegated, served_4, 1.25),
        falls(delegated, large, tree(w.many_keys, few_updates, 20), 1.5)}},
      {"DPS and ffwd do not depend on the share of updates (figure 11c)",
       {stays(delegated, updates(0), updates(100), 1.25), stays(served_4, updates(0), updates(100), 1.25)},
       true,
       "Program: a message costs little here, so that what an update does more shows."},
      {"For reads alone delegation adds significant overhead (figure 11c)",
       {beats(updates(0), optik, delegated, 1.25), beats(updates(0), lf_n, delegated, 1.25)}},
      {"Beyond the last-level cache DPS makes use of distributed caches; shared trees suffer remote accesses "
       "(figure "
       "11d)",
       {more_misses({lb_b, large}, {delegated, large}, 1.25),
        more_misses({lf_n, large}, {delegated, large}, 1.25),
        more_misses({optik, large}, {delegated, large}, 1.25)},
       true,
       small_tree}};
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
       judged(figure_2(where))},
      {"figure-3",
       "The length of operations",
       "Operations that only compute, by delegation to peers (DPS) and to dedicated servers (ffwd).",
       {{"Throughput, " + with,
         {served_1, served_4, delegated},
         each(lengths, [&](std::uint64_t n) { return cycles(n, most); }),
         "Cycles of an operation",
         length_of}},
       judged(figure_3())},
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
       judged(figure_6())},
      {"figure-7",
       "Objects over threads",
       "An operation reads and writes every line of an object, under an MCS lock except at a dedicated "
       "server. `partitioned` places objects like DPS, and each thread executes its own operations: the "
       "effect of partitioning without that of delegation.",
       {by_threads(64, 4), by_threads(64, 64), by_threads(512, 64), by_threads(512, 4)},
       judged(figure_7())},
      {"figure-8",
       "Objects by number and size",
       "The same operations with the most threads.",
       {{fmt::format("{} lines, {}", fixed_lines, with), on_objects,
         each(objects_varied, [&](std::uint64_t n) { return objects(n, fixed_lines, most); }), "Objects",
         objects_in, true},
        {fmt::format("{} objects, {}", fixed_objects, with), on_objects,
         each(lines_varied, [&](std::uint64_t n) { return objects(fixed_objects, n, most); }), "Lines",
         lines_in, true}},
       judged(figure_8())},
      {"table-2",
       "Objects beyond the caches",
       "512 objects of 1 MB, of which the paper has 10 MB.",
       {{"Throughput, " + with,
         {delegated, served_4, mcs, mcs_interleaved},
         {objects(512, large_object_lines, most)}}},
       judged(table_2())},
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
       judged(figure_11(where))},
  };
}

}  // namespace espalier::app::dps
