#include "apps/studies/cache/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "apps/studies/dps/judging.hpp"

namespace espalier::app::caches {
namespace {

using namespace dps;

const std::string stock = name_of(engine::stock);
const std::string ffwd = name_of(engine::ffwd);
const std::string parsec = name_of(engine::parsec);
const std::string dps_stock = name_of(engine::dps);
const std::string dps_parsec = name_of(engine::dps_parsec);
const std::vector<std::string> papers_engines{stock, ffwd, parsec, dps_stock, dps_parsec};

constexpr unsigned few_sets = 1;
constexpr unsigned many_sets = 50;
constexpr unsigned nearly_all_sets = 99;
constexpr std::size_t small_value = 128;
constexpr std::size_t large_value = 2048;
const std::vector<unsigned> sets_varied{few_sets, 25, many_sets, 75, nearly_all_sets};
const std::vector<std::size_t> values_varied{small_value, 1024, 8192};
constexpr unsigned sets_beside_sizes = 10;

load with_sets(unsigned threads, unsigned sets, std::size_t value_bytes) {
  return {.what = work::cache, .threads = threads, .updates = sets, .value_bytes = value_bytes};
}
load severe(unsigned threads) { return with_sets(threads, many_sets, large_value); }
load by_sets(unsigned threads, unsigned sets) { return with_sets(threads, sets, small_value); }
load by_size(unsigned threads, std::size_t bytes) { return with_sets(threads, sets_beside_sizes, bytes); }

// Claims ----------------------------------------------------------------------------------------------------------------

// Why some differ on the simulated machine of the paper.

/// Of eight localities six lie on other sockets.
constexpr double far_localities = 0.75;

/// What a request of DPS moves, if a message goes to and fro and its value goes one way.
std::string moved_by_messages(std::size_t value_bytes) {
  const double lines = static_cast<double>(value_bytes) / 64;
  return fmt::format(
      "Program: a message to another socket moves its line to and fro, and the value once, from the thread "
      "that copies it. With {:.0f} % of the localities on other sockets that is {:.1f} lines a request, and "
      "{:.1f} without the value. What is popular, all sockets have copies of.",
      100 * far_localities, far_localities * (2 + lines), far_localities * 2);
}
std::string other_percentiles(const results& measured, const load& at, const std::string& one,
                              const std::string& other) {
  const load_reading* const x = measured.find(at, one);
  const load_reading* const y = measured.find(at, other);
  if (x == nullptr || y == nullptr) return {};
  return fmt::format("The median of {} is {:.2f} times that of {}, the 99.9th percentile {:.2f} times.", one,
                     x->p50 / y->p50, other, x->p999 / y->p999);
}
constexpr const char* which_percentile = "Paper: it does not say which percentile its latencies are. ";
reason percentiles(const std::string& one, const std::string& other) {
  return [=](const results& measured) {
    return which_percentile + other_percentiles(measured, few_sets_of(papers_threads), one, other);
  };
}

claim_rows figure_13a() {
  const load all = few_sets_of(papers_threads);
  return {
      {"DPS has more than 3.1 times the throughput of stock memcached (figure 13a)",
       {beats(all, dps_stock, stock, 2.05)}},
      {"Stock memcached causes significant remote accesses, which DPS largely avoids (figure 13a)",
       {more("moves between sockets", &operation_counts::moved, {stock, all}, {dps_stock, all}, 2)},
       true,
       because(moved_by_messages(small_value))},
      {"ParSec, whose gets store nothing, greatly outperforms stock, ffwd and DPS (figure 13a)",
       {beats(all, parsec, stock, 1.5), beats(all, parsec, ffwd, 1.5), beats(all, parsec, dps_stock, 1.5)}},
      {"DPS ParSec still improves on ParSec (figure 13a)", {beats(all, dps_parsec, parsec)}},
      {"ffwd does not provide high throughput: its one server limits it (figure 13a)",
       {beats(all, dps_stock, ffwd, 1.5)}},
      {"DPS has 1.5 times the throughput of stock", {beats(all, dps_stock, stock, 1.5)}, false}};
}

claim_rows figure_13b() {
  const load all = severe(papers_threads);
  return {{"Even ParSec fails to scale beyond 40 cores (figure 13b)",
           {no_faster({parsec, all}, {parsec, severe(papers_cores)}, 1.1)},
           true,
           because("Program: writers of byte_cache form groups that fill memory of their own. They meet at a "
                   "key, and where a group needs a new segment.")},
          {"With 80 DPS has the throughput of ParSec (figure 13b)",
           {beats(all, dps_stock, parsec, 0.9)},
           true,
           because(moved_by_messages(large_value))}};
}

claim_rows figure_13c() {
  const auto at = [](unsigned sets) { return by_sets(papers_threads, sets); };
  claim_rows rows{
      {"With more sets throughput falls, in each implementation with shared memory (figure 13c)", {}},
      {"With more than 50 % sets ffwd has a higher throughput than stock (section 5.3)",
       {beats(at(75), ffwd, stock), beats(at(nearly_all_sets), ffwd, stock)}},
      {"With 99 % sets ffwd has 1.63 times the throughput of stock (section 5.3)",
       {beats(at(nearly_all_sets), ffwd, stock, 1.3)}},
      {"DPS has a much higher throughput than ffwd, as it uses all cores (section 5.3)",
       {beats(at(nearly_all_sets), dps_stock, ffwd, 1.5)}}};
  for (const std::string& e : {stock, parsec, dps_stock, dps_parsec})
    rows.front().parts.push_back(falls(e, at(few_sets), at(nearly_all_sets), 1.1));
  return rows;
}

claim_rows figure_13d() {
  const load smallest = by_size(papers_threads, values_varied.front());
  const load largest = by_size(papers_threads, values_varied.back());
  claim_rows rows{
      {"Methods that know no localities drop in throughput rapidly as values grow (figure 13d)", {}},
      {"DPS ParSec behaves alike, as its gets read remote memory (figure 13d)",
       {falls(dps_parsec, smallest, largest, 2)}},
      {"DPS eventually has a higher throughput than ParSec (figure 13d)",
       {beats(largest, dps_stock, parsec)}},
      {"and than DPS ParSec", {beats(largest, dps_stock, dps_parsec)}, false}};
  for (const std::string& e : {stock, parsec}) rows.front().parts.push_back(falls(e, smallest, largest, 2));
  return rows;
}

claim_rows on_latencies() {
  const load all = few_sets_of(papers_threads);
  const load two = few_sets_of(20);
  return {{"With 80 the tail latency of stock is 23 times that of DPS (section 5.3)",
           {longer_tail({stock, all}, {dps_stock, all}, 12)},
           true,
           percentiles(stock, dps_stock)},
          {"With 80 the tail latency of ParSec is 1.6 times that of DPS ParSec (section 5.3)",
           {longer_tail({parsec, all}, {dps_parsec, all}, 1.3)},
           true,
           percentiles(parsec, dps_parsec)},
          {"With fewer than 30 ffwd and DPS have larger latencies than stock (section 5.3)",
           {longer_tail({ffwd, two}, {stock, two}), longer_tail({dps_stock, two}, {stock, two})},
           true,
           [two](const results& measured) {
             return which_percentile + other_percentiles(measured, two, ffwd, stock) + " " +
                    other_percentiles(measured, two, dps_stock, stock) +
                    " Threads that wait for the locks of popular items are the tail of stock.";
           }},
          {"The latency of DPS is significantly smaller than that of ffwd (section 5.3)",
           {longer_tail({ffwd, all}, {dps_stock, all}, 1.5)},
           true,
           [all](const results& measured) {
             return which_percentile + other_percentiles(measured, all, ffwd, dps_stock) +
                    " One of eight partitions has the most popular key, and a fifth of all requests.";
           }},
          {"ParSec and DPS ParSec have the lowest latencies (section 5.3)",
           {longer_tail({stock, all}, {parsec, all}), longer_tail({dps_stock, all}, {parsec, all}),
            longer_tail({stock, all}, {dps_parsec, all}), longer_tail({dps_stock, all}, {dps_parsec, all})}}};
}

double sets_in(const load& l) { return l.updates; }
double bytes_of(const load& l) { return static_cast<double>(l.value_bytes); }

const shown_count remote{"lines from other sockets", "Lower is better.", "lines a request",
                         [](const load_reading& r) { return r.costs.remote_transfers; }};
const shown_count from_memory{"lines from memory", "Lower is better.", "lines a request",
                              [](const load_reading& r) { return r.costs.memory_lines; }};
const std::vector<shown_count> latencies{
    {"median", "Lower is better.", "cycles", [](const load_reading& r) { return r.p50; }},
    {"99th percentile", "Lower is better.", "cycles", [](const load_reading& r) { return r.p99; }},
    {"99.9th percentile", "Lower is better.", "cycles", [](const load_reading& r) { return r.p999; }}};

}  // namespace

std::string name_of(engine e) {
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

engine engine_of(const std::string& name) {
  return *std::ranges::find(all_engines, name, [](engine e) { return name_of(e); });
}

load few_sets_of(unsigned threads) { return by_sets(threads, few_sets); }

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
      if (const load_reading* const r = measured.find(l, name_of(e))) {
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
  const load_reading* const plain = measured.find(at, name_of(engine::dps_parsec));
  const load_reading* const fenced = measured.find(at, name_of(engine::dps_parsec_fenced));
  if (plain == nullptr || fenced == nullptr)
    return {claim, {fmt::format("Not measured: {}.", at.name()), agreement::not_measurable}, false};
  // Where no get would have missed one, the fence has shown nothing.
  const agreement verdict = fenced->overwritten != 0  ? agreement::differs
                            : plain->overwritten == 0 ? agreement::too_short
                                                      : agreement::agrees;
  return {claim,
          {fmt::format(
               "{}: {:.3f} % of the gets of {} miss a pending set of their own thread, of {} {:.3f} %, at "
               "{:.2f} times the throughput.",
               at.name(), 100 * plain->overwritten, name_of(engine::dps_parsec),
               name_of(engine::dps_parsec_fenced), 100 * fenced->overwritten, fenced->speed / plain->speed),
           verdict},
          false};
}

std::vector<page> pages_of(const std::vector<unsigned>& threads) {
  const unsigned most = threads.back();
  const auto commons = each(threads, few_sets_of);
  std::vector<std::string> all;
  for (const engine e : all_engines) all.push_back(name_of(e));
  // A page of one panel. What is beyond the paper is judged after its claims.
  const auto one = [](const char* id, const char* heading, const std::string& summary, panel shown,
                      claim_rows claims, std::function<judged_claim(const results&)> beyond = {}) {
    return page{id,
                heading,
                summary,
                {std::move(shown)},
                [rows = judged(std::move(claims)), beyond = std::move(beyond)](const results& measured) {
                  std::vector<judged_claim> found = rows(measured);
                  if (beyond) found.push_back(beyond(measured));
                  return found;
                }};
  };
  return {
      one("figure-13a", "Few sets, small values", "1 % sets of 128 bytes over threads.",
          {"Throughput", papers_engines, commons, "Threads", threads_of, {remote}}, figure_13a(),
          [commons](const results& measured) { return equal_hits(measured, commons); }),
      one("figure-13b", "Many sets, large values", "50 % sets of 2048 bytes over threads.",
          {"Throughput", papers_engines, each(threads, severe), "Threads", threads_of, {remote, from_memory}},
          figure_13b()),
      one("figure-13c", "The share of sets", fmt::format("128 bytes with {} threads.", most),
          {"Throughput",
           all,
           each(sets_varied, [&](unsigned s) { return by_sets(most, s); }),
           "Sets, %",
           sets_in,
           {remote}},
          figure_13c(),
          [most](const results& measured) { return misses_of_own_sets(measured, by_sets(most, many_sets)); }),
      one("figure-13d", "The size of values", fmt::format("10 % sets with {} threads.", most),
          {"Throughput",
           papers_engines,
           each(values_varied, [&](std::size_t bytes) { return by_size(most, bytes); }),
           "Bytes of a value",
           bytes_of,
           {remote, from_memory}},
          figure_13d()),
      one("latency", "Latencies",
          "Of the requests of figure 13a. A set that its thread does not await ends when it is sent.",
          {"Throughput", papers_engines, commons, "Threads", threads_of, latencies}, on_latencies()),
  };
}

}  // namespace espalier::app::caches
