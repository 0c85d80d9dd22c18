#include "apps/studies/cache/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace espalier::app::caches {
namespace {

constexpr unsigned papers_threads = 80;
constexpr unsigned papers_cores = 40;

constexpr unsigned few_sets = 1;
constexpr unsigned many_sets = 50;
constexpr unsigned nearly_all_sets = 99;
constexpr std::size_t small_value = 128;
constexpr std::size_t large_value = 2048;
const std::vector<unsigned> sets_varied{few_sets, 25, many_sets, 75, nearly_all_sets};
const std::vector<std::size_t> values_varied{small_value, 1024, 8192};
const std::vector<engine> papers_engines{engine::stock, engine::ffwd, engine::parsec, engine::dps,
                                         engine::dps_parsec};
constexpr unsigned sets_beside_sizes = 10;

load severe(unsigned threads) { return {threads, many_sets, large_value}; }
load by_sets(unsigned threads, unsigned sets) { return {threads, sets, small_value}; }
load by_size(unsigned threads, std::size_t bytes) { return {threads, sets_beside_sizes, bytes}; }

// Judging ---------------------------------------------------------------------------------------------------------------

enum class merit : std::uint8_t { speed, remote_transfers, p99 };

struct side {
  engine of;
  load at;

  [[nodiscard]] std::string text() const { return fmt::format("{} ({})", name_of(of), at.name()); }
};

/// The first has at least `bound` times as much as the second, or at most.
struct part {
  merit what;
  side one;
  side other;
  double bound;
  bool at_most = false;
};

part beats(const load& at, engine one, engine other, double ratio = 1) {
  return {merit::speed, {one, at}, {other, at}, ratio};
}
part falls(engine of, const load& from, const load& to, double ratio = 1) {
  return {merit::speed, {of, from}, {of, to}, ratio};
}
part slower_tail(const load& at, engine one, engine other, double ratio = 1) {
  return {merit::p99, {one, at}, {other, at}, ratio};
}

/// All of the parts hold.
struct claim_row {
  std::string claim;
  std::vector<part> parts;
  bool of_paper = true;
  /// Where it differs on the paper's machine: whether that is the model's doing, our program's or the paper's.
  std::string why = {};
};
using claim_rows = std::vector<claim_row>;

double value_of(merit what, const load_reading& r) {
  switch (what) {
    case merit::speed:
      return r.speed;
    case merit::remote_transfers:
      return r.remote_transfers;
    case merit::p99:
      return r.p99;
  }
  return 0;
}

std::string costs(const side& s, const load_reading& r) {
  return fmt::format(
      "{:.2f} lines from other sockets, {:.2f} from other cores, {:.2f} from memory and {:.0f} stalled "
      "cycles in "
      "{}",
      r.remote_transfers, r.local_transfers, r.memory_lines, r.stall_cycles, name_of(s.of));
}

judgement judged(const part& p, const results& measured) {
  const load_reading* const x = measured.find(p.one.at, p.one.of);
  const load_reading* const y = measured.find(p.other.at, p.other.of);
  if (x == nullptr || y == nullptr)
    return {fmt::format("Not measured: {}.", (x == nullptr ? p.one : p.other).text()),
            agreement::not_measurable};
  for (const auto& [of, r] : {std::pair{&p.one, x}, std::pair{&p.other, y}})
    if (!r->too_short.empty())
      return {fmt::format("{} ({}).", r->too_short, of->text()), agreement::too_short};
  const double one = value_of(p.what, *x);
  const double other = value_of(p.what, *y);
  const bool holds = p.at_most ? one <= p.bound * other : one >= p.bound * other;
  std::string sentence;
  switch (p.what) {
    case merit::speed:
      sentence =
          fmt::format("{} has {:.2f} times the throughput of {}.", p.one.text(), one / other, p.other.text());
      break;
    case merit::remote_transfers:
      sentence = fmt::format("A request of {} moves {:.2f} lines between sockets, of {} {:.2f}.",
                             p.one.text(), one, p.other.text(), other);
      break;
    case merit::p99:
      sentence = fmt::format("The 99th percentile of {} is {:.0f} cycles, {:.2f} times the {:.0f} of {}.",
                             p.one.text(), one, one / other, other, p.other.text());
      break;
  }
  if (!holds && p.what != merit::remote_transfers)
    sentence += fmt::format(" A request has {}; {}.", costs(p.one, *x), costs(p.other, *y));
  return {std::move(sentence), holds ? agreement::agrees : agreement::differs};
}

judged_claim judged(const claim_row& claim, const results& measured) {
  judgement all{"", agreement::agrees};
  for (const part& p : claim.parts) {
    const judgement found = judged(p, measured);
    all.sentence += (all.sentence.empty() ? "" : " ") + found.sentence;
    all.verdict = std::max(all.verdict, found.verdict);  // in the order of their weight
  }
  if (all.verdict == agreement::differs && !claim.why.empty()) all.sentence += " " + claim.why;
  return {claim.claim, std::move(all), claim.of_paper};
}

// Claims ----------------------------------------------------------------------------------------------------------------

claim_rows figure_13a() {
  const load all = few_sets_of(papers_threads);
  return {
      {"DPS has more than 3.1 times the throughput of stock memcached (figure 13a)",
       {beats(all, engine::dps, engine::stock, 2.05)}},
      {"Stock memcached causes significant remote accesses, which DPS largely avoids (figure 13a)",
       {{merit::remote_transfers, {engine::dps, all}, {engine::stock, all}, 0.5, true}},
       true,
       "Program: a get by message moves the line of the message to and fro, and those of the value to the "
       "buffer of "
       "the thread that asked for it, which reads them; what is popular, other sockets have in their caches "
       "anyway."},
      {"ParSec, whose gets store nothing, greatly outperforms stock, ffwd and DPS (figure 13a)",
       {beats(all, engine::parsec, engine::stock, 1.5), beats(all, engine::parsec, engine::ffwd, 1.5),
        beats(all, engine::parsec, engine::dps, 1.5)}},
      {"DPS ParSec still improves on ParSec (figure 13a)", {beats(all, engine::dps_parsec, engine::parsec)}},
      {"ffwd does not provide high throughput: its one server limits it (figure 13a)",
       {beats(all, engine::dps, engine::ffwd, 1.5)}},
      {"DPS has 1.5 times the throughput of stock", {beats(all, engine::dps, engine::stock, 1.5)}, false}};
}

claim_rows figure_13b() {
  const load all = severe(papers_threads);
  return {{"Even ParSec fails to scale beyond 40 cores (figure 13b)",
           {{merit::speed, {engine::parsec, all}, {engine::parsec, severe(papers_cores)}, 1.1, true}}},
          {"With 80 DPS has the throughput of ParSec (figure 13b)",
           {beats(all, engine::dps, engine::parsec, 0.9)}}};
}

claim_rows figure_13c() {
  const auto at = [](unsigned sets) { return by_sets(papers_threads, sets); };
  claim_rows rows{
      {"With more sets throughput falls, in each implementation with shared memory (figure 13c)", {}},
      {"With more than 50 % sets ffwd has a higher throughput than stock (section 5.3)",
       {beats(at(75), engine::ffwd, engine::stock), beats(at(nearly_all_sets), engine::ffwd, engine::stock)}},
      {"With 99 % sets ffwd has 1.63 times the throughput of stock (section 5.3)",
       {beats(at(nearly_all_sets), engine::ffwd, engine::stock, 1.3)}},
      {"DPS has a much higher throughput than ffwd, as it uses all cores (section 5.3)",
       {beats(at(nearly_all_sets), engine::dps, engine::ffwd, 1.5)}}};
  for (const engine e : {engine::stock, engine::parsec, engine::dps, engine::dps_parsec})
    rows.front().parts.push_back(falls(e, at(few_sets), at(nearly_all_sets), 1.1));
  return rows;
}

claim_rows figure_13d() {
  const load smallest = by_size(papers_threads, values_varied.front());
  const load largest = by_size(papers_threads, values_varied.back());
  claim_rows rows{
      {"Methods that know no localities drop in throughput rapidly as values grow (figure 13d)", {}},
      {"DPS ParSec behaves alike, as its gets read remote memory (figure 13d)",
       {falls(engine::dps_parsec, smallest, largest, 2)}},
      {"DPS eventually has a higher throughput than ParSec (figure 13d)",
       {beats(largest, engine::dps, engine::parsec)}},
      {"and than DPS ParSec", {beats(largest, engine::dps, engine::dps_parsec)}, false}};
  for (const engine e : {engine::stock, engine::parsec})
    rows.front().parts.push_back(falls(e, smallest, largest, 2));
  return rows;
}

claim_rows latencies() {
  const load all = few_sets_of(papers_threads);
  const load two = few_sets_of(20);
  return {{"With 80 the tail latency of stock is 23 times that of DPS (section 5.3)",
           {slower_tail(all, engine::stock, engine::dps, 12)}},
          {"With 80 the tail latency of ParSec is 1.6 times that of DPS ParSec (section 5.3)",
           {slower_tail(all, engine::parsec, engine::dps_parsec, 1.3)}},
          {"With fewer than 30 ffwd and DPS have larger latencies than stock (section 5.3)",
           {slower_tail(two, engine::ffwd, engine::stock), slower_tail(two, engine::dps, engine::stock)}},
          {"The latency of DPS is significantly smaller than that of ffwd (section 5.3)",
           {slower_tail(all, engine::ffwd, engine::dps, 1.5)}},
          {"ParSec and DPS ParSec have the lowest latencies (section 5.3)",
           {slower_tail(all, engine::stock, engine::parsec), slower_tail(all, engine::dps, engine::parsec),
            slower_tail(all, engine::stock, engine::dps_parsec),
            slower_tail(all, engine::dps, engine::dps_parsec)}}};
}

auto judged(claim_rows rows) {
  return [rows = std::move(rows)](const results& measured) {
    std::vector<judged_claim> found;
    for (const claim_row& one : rows) found.push_back(judged(one, measured));
    return found;
  };
}

template <class Numbers, class Make>
std::vector<load> each(const Numbers& numbers, Make make) {
  std::vector<load> loads;
  for (const auto n : numbers) loads.push_back(make(n));
  return loads;
}

double threads_of(const load& l) { return l.threads; }
double sets_in(const load& l) { return l.sets; }
double bytes_of(const load& l) { return static_cast<double>(l.value_bytes); }

const shown_number throughput{"Throughput", "Higher is better.", "simulated Mop/s",
                              [](const load_reading& r) { return r.speed / 1e6; }};
const shown_number remote{"Lines from other sockets", "Lower is better.", "lines a request",
                          [](const load_reading& r) { return r.remote_transfers; }};
const shown_number from_memory{"Lines from memory", "Lower is better.", "lines a request",
                               [](const load_reading& r) { return r.memory_lines; }};

}  // namespace

std::string_view name_of(engine e) noexcept {
  switch (e) {
    case engine::stock:
      return "stock";
    case engine::ffwd:
      return "ffwd";
    case engine::parsec:
      return "ParSec";
    case engine::dps:
      return "DPS";
    case engine::dps_parsec:
      return "DPS ParSec";
    case engine::dps_parsec_fenced:
      return "DPS ParSec, fenced";
  }
  return "";
}

std::string load::name() const {
  return fmt::format("{} % sets, {} bytes, {} threads", sets, value_bytes, threads);
}

load few_sets_of(unsigned threads) { return {threads, few_sets, small_value}; }

void check_contents(engine e, const load& l, std::uint64_t wrong, std::uint64_t lost) {
  if (wrong + lost != 0)
    throw std::logic_error(
        fmt::format("{}, {}: {} requests had results that they may not have, and {} keys have lost a set",
                    name_of(e), l.name(), wrong, lost));
}

judged_claim equal_hits(const results& measured, const std::vector<load>& loads) {
  double least = 1;
  double most = 0;
  for (const load& l : loads) {
    for (const engine e : all_engines) {
      if (const load_reading* const r = measured.find(l, e)) {
        least = std::min(least, r->hits);
        most = std::max(most, r->hits);
      }
    }
  }
  constexpr double point = 0.01;
  return {"Hit ratios of all engines are within one point, and each value is that of its key and of one set",
          {fmt::format("From {:.2f} to {:.2f} % of the gets find a value; each is right.", 100 * least,
                       100 * most),
           most - least <= point ? agreement::agrees : agreement::differs},
          false};
}

judged_claim misses_of_own_sets(const results& measured, const load& at) {
  const char* const claim =
      "A get that waits for the sets of its own thread never sees a value that these replace";
  const load_reading* const plain = measured.find(at, engine::dps_parsec);
  const load_reading* const fenced = measured.find(at, engine::dps_parsec_fenced);
  if (plain == nullptr || fenced == nullptr)
    return {claim, {fmt::format("Not measured: {}.", at.name()), agreement::not_measurable}, false};
  return {claim,
          {fmt::format(
               "{}: {:.3f} % of the gets of {} miss a pending set of their own thread, of {} {:.3f} %, at "
               "{:.2f} times the throughput.",
               at.name(), 100 * plain->overwritten, name_of(engine::dps_parsec),
               name_of(engine::dps_parsec_fenced), 100 * fenced->overwritten, fenced->speed / plain->speed),
           fenced->overwritten == 0 ? agreement::agrees : agreement::differs},
          false};
}

std::vector<page> pages_of(const std::vector<unsigned>& threads) {
  const unsigned most = threads.back();
  const auto commons = each(threads, few_sets_of);
  const auto mixes = each(sets_varied, [&](unsigned s) { return by_sets(most, s); });
  return {
      {"figure-13a",
       "Few sets, small values",
       "1 % sets of 128 bytes over threads.",
       papers_engines,
       commons,
       "Threads",
       threads_of,
       {throughput, remote},
       [rows = judged(figure_13a()), commons](const results& measured) {
         std::vector<judged_claim> found = rows(measured);
         found.push_back(equal_hits(measured, commons));
         return found;
       }},
      {"figure-13b",
       "Many sets, large values",
       "50 % sets of 2048 bytes over threads.",
       papers_engines,
       each(threads, severe),
       "Threads",
       threads_of,
       {throughput, remote, from_memory},
       judged(figure_13b())},
      {"figure-13c",
       "The share of sets",
       fmt::format("128 bytes with {} threads.", most),
       {all_engines.begin(), all_engines.end()},
       mixes,
       "Sets, %",
       sets_in,
       {throughput, remote},
       [rows = judged(figure_13c()), most](const results& measured) {
         std::vector<judged_claim> found = rows(measured);
         found.push_back(misses_of_own_sets(measured, by_sets(most, many_sets)));
         return found;
       }},
      {"figure-13d",
       "The size of values",
       fmt::format("10 % sets with {} threads.", most),
       papers_engines,
       each(values_varied, [&](std::size_t bytes) { return by_size(most, bytes); }),
       "Bytes of a value",
       bytes_of,
       {throughput, remote, from_memory},
       judged(figure_13d())},
      {"latency",
       "Latencies",
       "Of the requests of figure 13a. A set that its thread does not await ends when it is sent.",
       papers_engines,
       commons,
       "Threads",
       threads_of,
       {{"Median", "Lower is better.", "cycles", [](const load_reading& r) { return r.p50; }},
        {"99th percentile", "Lower is better.", "cycles", [](const load_reading& r) { return r.p99; }},
        {"99.9th percentile", "Lower is better.", "cycles", [](const load_reading& r) { return r.p999; }}},
       judged(latencies())},
  };
}

}  // namespace espalier::app::caches
