#include "apps/studies/dps/claims.hpp"

#include <fmt/format.h>

#include <utility>

#include "apps/studies/dps/judging.hpp"

// What section 5.1 of the paper shows: operations without data, and objects.

namespace espalier::app::dps {
namespace {

const std::vector<std::string> on_objects{mcs, delegated, asynchronous, served_4, partitioned};

double length_of(const load& l) { return static_cast<double>(l.length); }
double delay_of(const load& l) { return static_cast<double>(l.delay); }
double objects_in(const load& l) { return static_cast<double>(l.objects); }
double lines_in(const load& l) { return static_cast<double>(l.lines); }

load cycles(std::uint64_t length, unsigned threads, std::uint64_t delay = 0) {
  return {.threads = threads, .length = length, .delay = delay};
}
load objects(std::uint64_t objects, std::uint64_t lines, unsigned threads) {
  return {.what = work::objects, .threads = threads, .objects = objects, .lines = lines};
}
const std::vector<std::uint64_t> lengths{0, 100, 200, 400, 800, 1600, 3200};
const std::vector<std::uint64_t> delays{0, 200, 400, 800, 1600, 3200};
const std::vector<std::uint64_t> objects_varied{16, 64, 256, 1024};
const std::vector<std::uint64_t> lines_varied{1, 4, 16, 64, 256};
constexpr std::uint64_t fixed_lines = 32;
constexpr std::uint64_t fixed_objects = 128;
constexpr std::uint64_t large_object_lines = 16'384;

// Claims ----------------------------------------------------------------------------------------------------------------

// Why some differ on the simulated machine of the paper.

std::string fast_messages(const results& measured) {
  const load empty = cycles(0, papers_threads);
  return fmt::format(
      "Program: a message of this library costs less. With empty operations and {} threads it does {} times "
      "what "
      "four servers do, whose limit is the lines that one core can have on their way.",
      papers_threads, ratio_text(measured, {delegated, empty}, {served_4, empty}));
}
const reason memory_of_one_node = because(
    "Model: each line that another socket has modified is written to the memory of the one node that has the "
    "objects, as fast as was published of its channels; that limits MCS whatever the number of objects.");

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
       because(
           "Model: with 20 threads two sockets have one pair of links, with 40 six pairs, and each transfer "
           "takes as long as alone.")},
      {"64 x 4: DPS localizes cache traffic and performs better than MCS with many cores (figure 7a)",
       {beats(small(cores), delegated, mcs), beats(small(all), delegated, mcs)},
       true,
       because(
           "Model: what many requests at once cost where they are ordered is unknown, so that locks hold too "
           "long only with 80.")},
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
           because("Model: a server overlaps the lines of an object, wherever in its socket they are.")},
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
       {beats(at, delegated, mcs_interleaved, 1.01)}}};
}

}  // namespace

std::vector<page> pages_of(const setting& where) {
  const std::vector<unsigned>& threads = where.threads;
  const unsigned most = where.most();
  const std::string with = fmt::format("{} threads", most);
  const auto by_threads = [&](std::uint64_t o, std::uint64_t lines) {
    return panel{fmt::format("{} x {} lines", o, lines),
                 on_objects,
                 each(threads, [=](unsigned n) { return objects(o, lines, n); }),
                 "Threads",
                 threads_of,
                 {shown_misses()}};
  };
  return {
      figure_2(where),
      table_1(where),
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
       {{fmt::format("{} lines, {}", fixed_lines, with),
         on_objects,
         each(objects_varied, [&](std::uint64_t n) { return objects(n, fixed_lines, most); }),
         "Objects",
         objects_in,
         {shown_misses()}},
        {fmt::format("{} objects, {}", fixed_objects, with),
         on_objects,
         each(lines_varied, [&](std::uint64_t n) { return objects(fixed_objects, n, most); }),
         "Lines",
         lines_in,
         {shown_misses()}}},
       judged(figure_8())},
      {"table-2",
       "Objects beyond the caches",
       "512 objects of 1 MB, of which the paper has 10 MB.",
       {{"Throughput, " + with,
         {delegated, served_4, mcs, mcs_interleaved},
         {objects(512, large_object_lines, most)}}},
       judged(table_2())},
      figure_9(where),
      figure_10(where),
      figure_11(where),
      figure_12(where),
  };
}

}  // namespace espalier::app::dps
