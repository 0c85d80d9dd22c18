#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "apps/studies/dps/judging.hpp"
#include "apps/studies/dps/lines_of_code.hpp"

// Maps and a priority queue, alone, in partitions, and by delegation: what sections 2 and 5.2 of the paper show.

namespace espalier::app::dps {
namespace {

// The paper's names are gl-m, lb-l, lf-m, OPTIK and RLU; lb-b, lf-n, lf-h and OPTIK; lb-h, lf-f and OPTIK; lf-s.
const std::string gl_m = "mcs_list";
const std::string lb_l = "lazy_list";
const std::string lf_m = "michael_list";
const std::string optik_list = "optik_list";
const std::string rlu_list = "rlu_list";
const std::string parsec_list = "parsec_list";
const std::string lb_b = "occ_avl";
const std::string lf_n = "edge_ext_lf";
const std::string lf_h = "int_lf";
const std::string optik = "ticket";
const std::string lb_h = "herlihy_skip_list";
const std::string lf_f = "fraser_skip_list";
const std::string optik_skip_list = "optik_skip_list";

/// A kind of structure: what is shared, what DPS has in its localities, and ffwd.
struct family {
  const char* name;
  work what;
  std::vector<std::string> shared;
  std::string dps;
  std::string control;
  std::string ffwd;

  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> techniques = shared;
    techniques.insert(techniques.end(), {dps, control, ffwd});
    return techniques;
  }
};
const family lists{"lists",
                   work::map,
                   {gl_m, lb_l, lf_m, optik_list, rlu_list, parsec_list},
                   over(delegated, parsec_list),
                   over(partitioned, parsec_list),
                   over(served_1, served_list)};
const family trees{"trees",
                   work::map,
                   {lb_b, lf_n, optik},
                   over(delegated, optik),
                   over(partitioned, optik),
                   over(served_4, sequential_tree)};
const family skip_lists{"skip lists",
                        work::map,
                        {lb_h, lf_f, optik_skip_list},
                        over(delegated, optik_skip_list),
                        over(partitioned, optik_skip_list),
                        over(served_1, sequential_skip_list)};

/// A whole program with a structure under DPS.
constexpr const char* ported = "examples/sharded_counters";

// Percent of updates under high contention, and of the read-heavy load.
constexpr unsigned many_updates = 50;
constexpr unsigned few_updates = 10;
const std::vector<unsigned> updates_varied{0, 10, 50, 100};

/// Numbers of keys, by what their nodes take.
struct key_counts {
  std::uint64_t few;
  std::uint64_t some;
  std::uint64_t many;
  std::uint64_t most;  ///< as many, if there is no such panel

  [[nodiscard]] std::vector<std::uint64_t> all() const {
    std::vector<std::uint64_t> sizes{few, some, many, most};
    sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    return sizes;
  }
};
/// 64 bytes a key: 64 KB, 1 MB, 48 MB and 120 MB with the usual number.
key_counts keys_of_trees(const setting& w) {
  return {std::min<std::uint64_t>(1024, w.many_keys), std::min<std::uint64_t>(16'384, w.many_keys),
          w.many_keys, w.many_keys * 5 / 2};
}
/// 40 bytes a key: 40 KB, 640 KB and 48 MB.
key_counts keys_of_skip_lists(const setting& w) {
  const std::uint64_t many = w.many_keys * 3 / 2;
  return {std::min<std::uint64_t>(1024, w.many_keys), std::min<std::uint64_t>(16'384, w.many_keys), many,
          many};
}
/// 32 bytes a key: 8 KB, 32 KB and 128 KB.
key_counts keys_of_lists(const setting& w) {
  const std::uint64_t many = std::min<std::uint64_t>(4096, w.many_keys);
  return {std::min<std::uint64_t>(256, many), std::min<std::uint64_t>(1024, many), many, many};
}

load entries(std::uint64_t keys, unsigned updates, unsigned threads) {
  return {.what = work::map, .threads = threads, .keys = keys, .updates = updates};
}
load list_entries(std::uint64_t keys, unsigned updates, unsigned threads) {
  load l = entries(keys, updates, threads);
  l.linear = true;
  return l;
}
load queue_entries(std::uint64_t keys, unsigned updates, unsigned threads) {
  load l = entries(keys, updates, threads);
  l.what = work::queue;
  return l;
}
using loads_of = load (*)(std::uint64_t keys, unsigned updates, unsigned threads);

double keys_in(const load& l) { return static_cast<double>(l.keys); }
double updates_in(const load& l) { return l.updates; }

/// Where the number of threads is the point, and each costs a large structure.
std::vector<unsigned> few_threads(const setting& w) {
  std::vector<unsigned> some{w.threads};
  std::erase_if(some, [&](unsigned n) { return n != w.most() && n != 20; });
  return some;
}

/// Each panel with uniform draws, and then with skewed ones.
std::vector<panel> with_skewed(const std::vector<panel>& uniform) {
  std::vector<panel> both = uniform;
  for (panel p : uniform) {
    p.title += ", Zipf .99";
    for (load& l : p.loads) l.skewed = true;
    both.push_back(std::move(p));
  }
  return both;
}

/// Panels a to d of figures 10 to 12.
std::vector<panel> four_panels(const family& f, const key_counts& keys, loads_of make,
                               const std::vector<unsigned>& threads_of_large, const setting& w) {
  const unsigned most = w.most();
  const auto techniques = f.all();
  return with_skewed(
      {{fmt::format("(a) {} keys, {} % updates", grouped(keys.few), many_updates), techniques,
        each(w.threads, [&](unsigned n) { return make(keys.few, many_updates, n); }), "Threads", threads_of},
       {fmt::format("(b) {} keys, {} % updates", grouped(keys.many), few_updates), techniques,
        each(threads_of_large, [&](unsigned n) { return make(keys.many, few_updates, n); }), "Threads",
        threads_of},
       {fmt::format("(c) {} keys, {} threads", grouped(keys.few), most),
        techniques,
        each(updates_varied, [&](unsigned u) { return make(keys.few, u, most); }),
        "Updates, %",
        updates_in,
        {shown_misses()}},
       {fmt::format("(d) {} % updates, {} threads", few_updates, most),
        techniques,
        each(keys.all(), [&](std::uint64_t n) { return make(n, few_updates, most); }),
        "Keys",
        keys_in,
        {shown_misses()}}});
}

/// The loads that claims about figures 10 to 12 name, of the paper's numbers of threads.
struct named_loads {
  key_counts keys;
  loads_of make;

  [[nodiscard]] load hot(unsigned threads = papers_threads) const {
    return make(keys.few, many_updates, threads);
  }
  [[nodiscard]] load large(unsigned threads = papers_threads) const {
    return make(keys.many, few_updates, threads);
  }
  [[nodiscard]] load largest() const { return make(keys.most, few_updates, papers_threads); }
  [[nodiscard]] load small() const { return make(keys.few, few_updates, papers_threads); }
  [[nodiscard]] load updates(unsigned percent, unsigned threads = papers_threads) const {
    return make(keys.few, percent, threads);
  }
};

// Why some claims differ on the simulated machine of the paper: with the numbers of the run.

/// What a message moves, and what the operation then fetches, beside that of the shared structure.
reason message_and_search(const family& f, const named_loads& named, const load& at,
                          const std::string& shared) {
  return [=](const results& measured) -> std::string {
    const auto of = [&](const std::string& how, const load& l) {
      const load_reading* const r = measured.find(l, how);
      return r == nullptr ? operation_counts{} : r->costs;
    };
    const load cached = named.updates(0);
    const double message = of(f.dps, cached).misses();
    // Of another page, which may not have been asked for.
    if (message == 0) return "Program: a message alone moves most of its lines.";
    const operation_counts moved = of(f.dps, at);
    const operation_counts alone = of(shared, at);
    return fmt::format(
        "Program: a message alone moves {:.2f} lines, as with {}. The operation fetches {:.2f} more under "
        "DPS, "
        "and {:.2f} in {}, as each socket has copies of what is read often. It makes {:.0f} accesses under "
        "DPS, "
        "and {:.0f} in {}.",
        message, cached.name(), std::max(moved.misses() - message, 0.0), alone.misses(), shared,
        moved.accesses, alone.accesses, shared);
  };
}

}  // namespace

page figure_2(const setting& w) {
  using parts = std::vector<part>;
  const auto panels = [&](const family& f, const key_counts& keys) -> std::vector<panel> {
    const unsigned most = w.most();
    return {{fmt::format("Updates, {}, {} keys, {} threads", f.name, grouped(keys.few), most),
             f.shared,
             each(updates_varied, [&](unsigned u) { return entries(keys.few, u, most); }),
             "Updates, %",
             updates_in,
             {shown_misses()}},
            {fmt::format("Size, {}, {} % updates, {} threads", f.name, few_updates, most),
             f.shared,
             each(keys.all(), [&](std::uint64_t n) { return entries(n, few_updates, most); }),
             "Keys",
             keys_in,
             {shown_misses()}}};
  };
  const key_counts of_trees = keys_of_trees(w);
  const key_counts of_skip_lists = keys_of_skip_lists(w);
  std::vector<panel> all = panels(trees, of_trees);
  std::ranges::copy(panels(skip_lists, of_skip_lists), std::back_inserter(all));
  claim_rows claims;
  for (const auto& [f, keys] : {std::pair{&trees, of_trees}, std::pair{&skip_lists, of_skip_lists}}) {
    const named_loads at{keys, entries};
    const std::vector<std::string>& maps = f->shared;
    claims.push_back(
        {fmt::format("{}: more stores to the structure and a higher update rate force coherence traffic and "
                     "remote accesses (section 2)",
                     f->name),
         for_each_of(maps, [&](const auto& map) {
           return parts{more_misses({map, at.updates(100)}, {map, at.updates(0)}, 1.5)};
         })});
    claims.push_back({fmt::format("{}: throughput falls as updates rise (figure 2, left)", f->name),
                      for_each_of(maps, [&](const auto& map) {
                        return parts{falls(map, at.updates(0), at.updates(100), 1.5)};
                      })});
    const load cached = entries(keys.some, few_updates, papers_threads);
    claims.push_back({fmt::format("{}: as the structure outgrows the last-level cache, misses rise and "
                                  "throughput falls significantly (figure 2, right)",
                                  f->name),
                      for_each_of(maps, [&](const auto& map) {
                        return parts{more_misses({map, at.large()}, {map, cached}, 1.5),
                                     falls(map, cached, at.large(), 1.5)};
                      })});
  }
  const named_loads at{of_trees, entries};
  claims.push_back({"Beyond all caches a shared tree fetches at least 1.5 times the lines of one in the L2",
                    for_each_of(trees.shared,
                                [&](const auto& map) {
                                  return parts{more_misses({map, at.largest()}, {map, at.small()}, 1.5),
                                               more_misses({map, at.largest()}, {map, at.large()})};
                                }),
                    false});
  return {
      "figure-2", "Shared structures",
      "Search trees and skip lists under locks and without: throughput and misses over updates, and over the "
      "size. The paper names no sizes; the smallest fit a core's L2, 48 MB lie between one last-level cache "
      "and all four, and the largest trees are beyond all.",
      std::move(all), judged(std::move(claims))};
}

page table_1(const setting& w) {
  const named_loads at{keys_of_trees(w), entries};
  const load hot = at.hot();
  const load large = at.large();
  const std::vector<std::pair<std::string, std::string>> rows{{"lock-based", optik},
                                                              {"non-blocking", lf_n},
                                                              {"delegation", over(served_4, sequential_tree)},
                                                              {"DPS", over(delegated, optik)}};
  std::vector<std::string> techniques;
  for (const auto& [kind, technique] : rows) techniques.push_back(technique);
  chart complexity{.title = "Complexity", .caption = "Lines with code of its file.", .y = "lines"};
  complexity.of = "Structure";
  for (const auto& name : {gl_m, lb_l, optik, lb_b, lf_m, lf_n, lf_h, lb_h, lf_f})
    complexity.bars.push_back({.name = name, .value = static_cast<double>(lines_of_code(name))});
  for (const char* const name : {sequential_tree, ported})
    complexity.bars.push_back({.name = name, .value = static_cast<double>(lines_of_code(name))});
  const shown_count coherence{"coherence", "Lines from other cores, and requests to write. Lower is better.",
                              "an operation", [](const load_reading& r) { return r.costs.coherence(); }};
  const shown_count locality{"locality", "Lines from caches and memory of other sockets. Lower is better.",
                             "an operation", [](const load_reading& r) { return r.costs.remote(); }};
  const auto bars = [&](const std::string& heading, const load& l, const shown_count& shown) {
    load here = l;
    here.threads = w.most();
    return panel{heading, techniques, {here}, {}, nullptr, {shown}};
  };
  using parts = std::vector<part>;
  const std::string& lock = rows[0].second;
  const std::string& free = rows[1].second;
  const std::string& ffwd = rows[2].second;
  const std::string& dps = rows[3].second;
  const auto coheres = [&](const std::string& one, const std::string& other, double ratio) {
    return more("moves or asks for", &operation_counts::coherence, {one, hot}, {other, hot}, ratio);
  };
  const auto strays = [&](const std::string& one, const std::string& other, double ratio) {
    return more("takes from other sockets", &operation_counts::remote, {one, large}, {other, large}, ratio);
  };
  return {"table-1",
          "What each kind of structure costs",
          fmt::format("Coherence is counted under {}, locality and parallelism under {}. Lock-based is {}, "
                      "non-blocking {}, delegation {}, DPS {}.",
                      hot.name(), large.name(), lock, free, ffwd, dps),
          {bars("Throughput under contention", hot, coherence),
           bars("Throughput of the large tree", large, locality)},
          judged(claim_rows{
              {"Complexity: non-blocking structures are hard, others easy",
               parts{more_lines_of_code(lf_m, gl_m, 1.25), more_lines_of_code(lf_n, sequential_tree, 1.25),
                     more_lines_of_code(lf_h, optik, 1.25)}},
              {"Coherence: large with locks, medium without, none by delegation and by DPS",
               parts{coheres(lock, free, 1), coheres(free, ffwd, 1), coheres(free, dps, 1)}, true,
               because("Paper: a message moves lines too, and where trees fit every cache and are searched "
                       "without stores there is little else to move.")},
              {"Locality: poor with shared structures, good by delegation and by DPS",
               parts{strays(lock, ffwd, 1.5), strays(free, ffwd, 1.5), strays(lock, dps, 1.5),
                     strays(free, dps, 1.5)},
               true, message_and_search(trees, at, large, free)},
              {"Parallelism: low with locks and by delegation, high without locks, highest in DPS",
               parts{beats(large, dps, free), beats(large, free, ffwd), beats(large, free, lock)}, true,
               because("Program: these locks are fine-grained, and searches take none.")},
              {"Porting a structure takes less than 50 lines (section 4.5)",
               parts{lines_of_code_below(ported, 50)}}}),
          {std::move(complexity)}};
}

page figure_9(const setting& w) {
  struct kind {
    const char* name;
    std::vector<std::string> maps;
    key_counts keys;
    loads_of make;
  };
  const key_counts of_skip_lists = keys_of_skip_lists(w);
  const std::array<kind, 4> kinds{{{"lists", {gl_m, lb_l, lf_m}, keys_of_lists(w), list_entries},
                                   {"trees", {lb_b, lf_n, lf_h}, keys_of_trees(w), entries},
                                   {"skip lists", {lb_h, lf_f}, of_skip_lists, entries},
                                   {"priority queue", {lf_s}, of_skip_lists, queue_entries}}};
  std::vector<panel> panels;
  for (const bool is_large : {false, true}) {
    for (const kind& k : kinds) {
      const unsigned updates = is_large ? few_updates : many_updates;
      const std::uint64_t keys = is_large ? k.keys.many : k.keys.few;
      std::vector<std::string> techniques;
      for (const std::string& map : k.maps) techniques.insert(techniques.end(), {map, over(delegated, map)});
      panels.push_back({fmt::format("({}) {}: {} keys, {} % updates, {} threads", is_large ? 'b' : 'a',
                                    k.name, grouped(keys), updates, w.most()),
                        techniques,
                        {k.make(keys, updates, w.most())}});
    }
  }
  const named_loads list{kinds[0].keys, list_entries};
  const named_loads tree{kinds[1].keys, entries};
  const named_loads skip{of_skip_lists, entries};
  const named_loads pq{of_skip_lists, queue_entries};
  const auto dps = [](const std::string& map) { return over(delegated, map); };
  const auto gains = [&](const std::string& map, const load& at, double ratio) {
    return beats(at, dps(map), map, ratio);
  };
  using parts = std::vector<part>;
  claim_rows claims{
      {"(a) With many updates DPS improves every structure",
       parts{gains(gl_m, list.hot(), 1), gains(lb_l, list.hot(), 1), gains(lf_m, list.hot(), 1),
             gains(lb_b, tree.hot(), 1), gains(lf_n, tree.hot(), 1), gains(lf_h, tree.hot(), 1),
             gains(lb_h, skip.hot(), 1), gains(lf_f, skip.hot(), 1), gains(lf_s, pq.hot(), 1)},
       true,
       because(
           "Program: a tree of this size is in every socket's caches, so that searching it costs less than a "
           "message.")},
      {"(a) DPS improves the lock-based tree up to 6 times", parts{gains(lb_b, tree.hot(), 3.5)}, true,
       because("Program: updates of this tree conflict rarely.")},
      {"(a) DPS improves the lock-based skip list up to 20 times", parts{gains(lb_h, skip.hot(), 10.5)}, true,
       because(
           "Program: updates lock few towers, and searches none; that of ASCYLIB, which the paper has, may "
           "wait more.")},
      {"(b) With large working sets DPS improves every structure but the queue",
       parts{gains(gl_m, list.large(), 1), gains(lb_l, list.large(), 1), gains(lf_m, list.large(), 1),
             gains(lb_b, tree.large(), 1), gains(lf_n, tree.large(), 1), gains(lf_h, tree.large(), 1),
             gains(lb_h, skip.large(), 1), gains(lf_f, skip.large(), 1)},
       true, message_and_search(trees, tree, tree.large(), lf_n)},
      {"(b) DPS improves the lock-free tree 1.4 times", parts{gains(lf_n, tree.large(), 1.2)}, true,
       message_and_search(trees, tree, tree.large(), lf_n)},
      {"(b) DPS improves the lock-free skip list 3 times", parts{gains(lf_f, skip.large(), 2)}, true,
       message_and_search(skip_lists, skip, skip.large(), lf_f)},
      {"(b) The queue gains nothing: its head is in the caches, and messages cost",
       parts{no_faster({dps(lf_s), pq.large()}, {lf_s, pq.large()}, 1.1)}, true,
       because("Program: one operation in twenty is a pop, and writes what all others read at the head; "
               "under DPS "
               "each partition has a head of its own.")},
      {"With DPS the list under one lock is on par with Michael's list alone",
       parts{beats(list.hot(), dps(gl_m), lf_m, 0.67), beats(list.large(), dps(gl_m), lf_m, 0.67)}},
      {"With DPS the lock-free tree and the lock-free skip list differ less between (a) and (b)",
       parts{less_spread({dps(lf_n), tree.hot()}, {dps(lf_n), tree.large()}, {lf_n, tree.hot()},
                         {lf_n, tree.large()}),
             less_spread({dps(lf_f), skip.hot()}, {dps(lf_f), skip.large()}, {lf_f, skip.hot()},
                         {lf_f, skip.large()})}}};
  return {"figure-9", "Nine structures, alone and under DPS",
          "(a) many updates of few keys, (b) few updates of many. The paper names no sizes.",
          with_skewed(panels), judged(std::move(claims))};
}

page figure_10(const setting& w) {
  const named_loads at{keys_of_lists(w), list_entries};
  const family& f = lists;
  using parts = std::vector<part>;
  const std::vector<std::string> unaware{gl_m, lb_l, lf_m, optik_list, rlu_list};
  const auto grows = [&](const std::string& map) {
    return parts{no_faster({map, at.hot()}, {map, at.hot(20)}, 1.5)};
  };
  claim_rows claims{
      {"Traffic between sockets limits all that know no locality as threads are added (figure 10a)",
       for_each_of(unaware, grows), true,
       because("Program: nodes that searches pass are rarely written, and fit every cache.")},
      {"Only DPS avoids most accesses to other sockets (figures 10a and 10b)",
       for_each_of(
           unaware,
           [&](const auto& map) { return parts{more_misses({map, at.hot()}, {f.dps, at.hot()}, 1.5)}; }),
       true, message_and_search(f, at, at.hot(), optik_list)},
      {"With 80 threads DPS has 4.3 times the throughput of the next best, OPTIK (figure 10a)",
       parts{beats(at.hot(), f.dps, optik_list, 2.65)}, true,
       because("Program: OPTIK reads without stores.")},
      {"Delegation gains at least 1.2 times over the same partitions without it",
       parts{beats(at.hot(), f.dps, f.control, 1.2)}, false, because("Shorter lists are most of the gain.")},
      {"The throughput of all methods drops as updates rise (figure 10c)",
       for_each_of(f.all(),
                   [&](const auto& how) { return parts{falls(how, at.updates(0), at.updates(100))}; }),
       true, because("Program: a method without loss has one lock for reads and updates alike.")},
      {"DPS and RLU degrade quicker than the others, as they have one writer (figure 10c)",
       for_each_of(std::vector<std::string>{lb_l, lf_m, optik_list},
                   [&](const auto& map) {
                     return parts{falls_more(f.dps, map, at.updates(0), at.updates(100)),
                                  falls_more(rlu_list, map, at.updates(0), at.updates(100))};
                   })},
      {"Throughput decreases quickly with the length, as operations are linear (figure 10d)",
       for_each_of(f.all(), [&](const auto& how) { return parts{falls(how, at.small(), at.large(), 4)}; })},
      {"ffwd drops from the second best to the worst with the length (figure 10d)",
       parts{beats(at.small(), f.ffwd, lb_l), beats(at.small(), f.ffwd, lf_m),
             beats(at.small(), f.ffwd, optik_list), beats(at.large(), lb_l, f.ffwd),
             beats(at.large(), lf_m, f.ffwd), beats(at.large(), optik_list, f.ffwd)},
       true,
       because("Program: clients search their caches, and the server only writes, which is one of ten "
               "operations.")},
      {"Partitions have shorter lists, which is an additional factor of DPS",
       parts{beats(at.large(), f.control, parsec_list, 1.5)}}};
  return {"figure-10", "Lists",
          fmt::format(
              "Lists of nodes of 32 bytes. DPS has `{}` in its localities; the control has the same "
              "partitions, which each thread uses itself. In ffwd clients search the list, and one server "
              "changes it. `{}` alone is shown beside them.",
              parsec_list, parsec_list),
          four_panels(f, at.keys, at.make, few_threads(w), w), judged(std::move(claims))};
}

page figure_11(const setting& w) {
  const named_loads at{keys_of_trees(w), entries};
  const family& f = trees;
  using parts = std::vector<part>;
  const std::uint64_t large = at.keys.many;
  const auto depth_is = [=](std::uint64_t keys, double papers) -> part {
    return [=](const results& measured) -> judgement {
      const auto found = measured.depth.find(keys);
      if (found == measured.depth.end()) return {"Not counted.", agreement::not_measurable};
      const double is = found->second;
      return {
          fmt::format("A tree of {} keys that is never rebalanced has {:.0f} levels; in the paper {:.0f}.",
                      grouped(keys), is, papers),
          is <= 1.25 * papers && is >= papers / 1.25 ? agreement::agrees : agreement::differs};
    };
  };
  const part balanced = [=](const results& measured) -> judgement {
    // Of any AVL tree.
    const double bound = 1.4405 * std::log2(static_cast<double>(large) + 2) - 0.3277;
    const auto found = measured.depth.find(large);
    if (found == measured.depth.end()) return {"Not counted.", agreement::not_measurable};
    return {fmt::format("A balanced tree of {} keys has at most {:.0f} levels; in the paper 25.",
                        grouped(large), bound),
            bound <= 1.25 * 25 && bound < 0.67 * found->second ? agreement::agrees : agreement::differs};
  };
  claim_rows claims{
      {"High contention: OPTIK and lf-n impose little overhead for few cores (figure 11a)",
       parts{beats(at.hot(one_socket), optik, f.dps), beats(at.hot(one_socket), lf_n, f.dps)}},
      {"High contention: OPTIK and lf-n flatline when physical cores are saturated (figure 11a)",
       parts{falls(optik, at.hot(papers_cores), at.hot(), 0.8),
             falls(lf_n, at.hot(papers_cores), at.hot(), 0.8)},
       true,
       because("Model: simulated threads that share a core take turns without loss but for issue slots, and "
               "links "
               "are far from full.")},
      {"High contention: DPS and ffwd scale well, as they avoid remote accesses (figure 11a)",
       parts{falls(f.dps, at.hot(), at.hot(20), 2), falls(f.ffwd, at.hot(), at.hot(20), 2)}, true,
       because("Program: four servers are full with few clients.")},
      {"High contention: lb-b scales poorly (figure 11a)",
       parts{beats(at.hot(), optik, lb_b), beats(at.hot(), lf_n, lb_b)}},
      {"DPS takes advantage of local computation for 10 cores (figure 11a)",
       parts{falls(f.dps, at.hot(one_socket), at.hot(20), 0.625)}},
      {"Large set: lb-b has the highest throughput: it reads without stores, and is balanced (figure 11b)",
       parts{beats(at.large(), lb_b, lf_n), beats(at.large(), lb_b, optik), beats(at.large(), lb_b, f.dps),
             beats(at.large(), lb_b, f.ffwd)},
       true, because("Program: DPS searches trees of an eighth of the keys, in the memory of their socket.")},
      {"Large set: depths are 25 for lb-b, 48 for DPS and 60 for OPTIK (figure 11b)",
       parts{balanced, depth_is(large / 8, 48), depth_is(large, 60)}, true,
       because("Program: the paper does not say how many keys its tree has.")},
      {"Large set: longer operations saturate the servers of ffwd, whereas DPS scales (figure 11b)",
       parts{beats(at.large(), f.dps, f.ffwd, 1.25), falls(f.dps, at.large(), at.large(20), 1.5)}},
      {"DPS and ffwd do not depend on the share of updates (figure 11c)",
       parts{stays(f.dps, at.updates(0), at.updates(100), 1.25),
             stays(f.ffwd, at.updates(0), at.updates(100), 1.25)},
       true, because("Program: a message costs little here, so that what an update does more shows.")},
      {"For reads alone delegation adds significant overhead (figure 11c)",
       parts{beats(at.updates(0), optik, f.dps, 1.25), beats(at.updates(0), lf_n, f.dps, 1.25)}},
      {"Beyond the last-level cache DPS makes use of distributed caches; shared trees suffer remote accesses "
       "(figure 11d)",
       for_each_of(f.shared,
                   [&](const auto& map) {
                     return parts{more_misses({map, at.large()}, {f.dps, at.large()}, 1.25),
                                  more_misses({map, at.largest()}, {f.dps, at.largest()}, 1.25)};
                   }),
       true, message_and_search(f, at, at.large(), lb_b)},
      {"ffwd suffers from longer operations as the tree outgrows its caches (figure 11d)",
       parts{falls(f.ffwd, at.small(), at.large(), 1.5)}},
      {"lb-b has very good performance with few updates (section 5.2)",
       parts{beats(at.large(), lb_b, lf_n), beats(at.large(), lb_b, optik)}},
      {"DPS is particularly effective with a large core count (section 5.2)",
       parts{gains_more({f.dps, at.large()}, {optik, at.large()}, {f.dps, at.large(20)},
                        {optik, at.large(20)})},
       true,
       because("Program: shared trees gain more from 20 to 80 threads, as each socket has copies of what is "
               "only read.")},
      {"At a small scale the runtime causes significant overhead for few updates (section 5.2)",
       parts{beats(at.updates(few_updates, one_socket), optik, f.dps, 1.25)}, true,
       because("Program: within a locality an operation is a call.")}};
  std::vector<panel> panels = four_panels(f, at.keys, at.make, few_threads(w), w);
  if (std::ranges::find(w.threads, one_socket) != w.threads.end())
    panels.push_back({fmt::format("Few threads: {} keys, {} % updates, {} threads", grouped(at.keys.few),
                                  few_updates, one_socket),
                      f.all(),
                      {at.updates(few_updates, one_socket)}});
  return {"figure-11",
          "Search trees",
          fmt::format(
              "Shared trees, and `{}` in localities: by delegation (DPS), and as the control. ffwd has four "
              "servers, each with a tree without locks. The paper's RLU tree is not here.",
              optik),
          std::move(panels),
          judged(std::move(claims)),
          {},
          {large / 8, large}};
}

page figure_12(const setting& w) {
  const named_loads at{keys_of_skip_lists(w), entries};
  const named_loads tree{keys_of_trees(w), entries};
  const family& f = skip_lists;
  using parts = std::vector<part>;
  const auto better_than_ffwd = [&](const load& l) {
    return for_each_of(std::vector<std::string>{lb_h, lf_f, f.dps},
                       [&](const auto& how) { return parts{beats(l, how, f.ffwd)}; });
  };
  std::vector<part> ffwd_is_worst = better_than_ffwd(at.hot());
  std::ranges::copy(better_than_ffwd(at.large()), std::back_inserter(ffwd_is_worst));
  const auto lines = &operation_counts::misses;
  claim_rows claims{
      {"ffwd performs consistently worse, as it has one server", std::move(ffwd_is_worst)},
      {"Skip lists are less efficient than their tree counterparts",
       parts{faster({lb_b, tree.large()}, {lb_h, at.large()}),
             faster({lf_n, tree.large()}, {lf_f, at.large()}),
             faster({optik, tree.large()}, {optik_skip_list, at.large()})}},
      {"So the relative performance of DPS is more favorable than with trees",
       parts{gains_more({f.dps, at.large()}, {optik_skip_list, at.large()}, {trees.dps, tree.large()},
                        {optik, tree.large()})}},
      {"Read-heavy, with a large working set, DPS has at least 3.2 times the throughput of the others",
       for_each_of(f.shared, [&](const auto& map) { return parts{beats(at.large(), f.dps, map, 2.1)}; }),
       true, message_and_search(f, at, at.large(), optik_skip_list)},
      {"An operation of DPS fetches at most half of the lines from memory and from other sockets",
       for_each_of(f.shared,
                   [&](const auto& map) {
                     return parts{more("misses", lines, {map, at.large()}, {f.dps, at.large()}, 2)};
                   }),
       false, message_and_search(f, at, at.large(), optik_skip_list)}};
  return {"figure-12", "Skip lists",
          fmt::format(
              "Shared skip lists, and `{}` in localities: by delegation (DPS), and as the control. ffwd has "
              "one server with a skip list without locks.",
              optik_skip_list),
          four_panels(f, at.keys, at.make, {w.most()}, w), judged(std::move(claims))};
}

}  // namespace espalier::app::dps
