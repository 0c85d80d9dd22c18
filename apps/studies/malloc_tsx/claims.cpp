#include "apps/studies/malloc_tsx/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include <nlohmann/json.hpp>
#include "apps/common/terminal.hpp"
#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::app::malloc_tsx {

// Readings ------------------------------------------------------------------------------------------------------------

std::vector<std::uint64_t> node_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 64; size <= 4096; size += 64) {
    // Smaller ones cannot hold a node of the tree.
    if (size - 16 >= 48) sizes.push_back(size - 16);
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::uint64_t> placed_readings::sizes() const {
  std::set<std::uint64_t> seen;
  for (const auto& [at, r] : all_) seen.insert(at.size);
  return {seen.begin(), seen.end()};
}

std::vector<std::string> placed_readings::mallocs() const {
  std::set<std::string> seen;
  for (const auto& [at, r] : all_) seen.insert(at.malloc);
  return {seen.begin(), seen.end()};
}

std::optional<double> placed_readings::ratio(const point& one, const point& other) const {
  const placed_reading* const above = find(one);
  const placed_reading* const below = find(other);
  if (above == nullptr || below == nullptr) return std::nullopt;
  return median_of_ratios(above->rounds, below->rounds);
}

std::vector<std::uint64_t> placed_readings::overloaded(std::string_view malloc, unsigned ways) const {
  std::set<std::uint64_t> found;
  for (const auto& [at, r] : all_) {
    if (at.malloc == malloc && r.largest_load > ways) found.insert(at.size);
  }
  return {found.begin(), found.end()};
}

// Claims --------------------------------------------------------------------------------------------------------------

namespace {

/// The paper names multiples of this as the bad strides.
constexpr std::uint64_t bad_stride = 512;
/// The approximate size at which the paper finds elision slower than the best of the locks.
constexpr std::uint64_t size_worse_than_serial = 2032;

// When two values differ, and when they are alike; the paper gives no numbers. Rounds in turns agree within a few per
// cent. Under a plain lock a whole ring of misses is slower by more than that.
constexpr double told_apart = 1.1;
constexpr double margin = 1.02;
constexpr double alike = 1.1;
/// Shares of sections: of those that must commit without an obstacle, and of those that may commit despite one.
constexpr double nearly_all = 0.98;
constexpr double nearly_none = 0.01;
/// If all ways are taken, none is left for what a section needs besides the nodes.
constexpr double most_of_full = 0.9;
/// The share of operations from which an effect is reported.
constexpr double noticeable = 0.001;

const std::string without_transactions = "this processor has no transactions";

judgement unknown(const std::string& why) { return {why + '.', agreement::not_measurable}; }
judgement judged(const std::string& sentence, bool agrees) {
  return {sentence + '.', agrees ? agreement::agrees : agreement::differs};
}

using sizes = std::vector<std::uint64_t>;

/// "496, 504, 512" or "none", or the first of many and how many there are.
std::string listed(const sizes& all) {
  constexpr std::size_t most = 12;
  if (all.empty()) return "none";
  if (all.size() <= most) return fmt::format("{}", fmt::join(all, ", "));
  const sizes first(all.begin(), all.begin() + most);
  return fmt::format("{} and {} more", fmt::join(first, ", "), all.size() - most);
}

struct curve {
  std::string_view malloc;
  std::string_view locks;
};

point at(const curve& c, std::uint64_t size) { return {std::string(c.malloc), std::string(c.locks), size}; }

/// The readings of a figure, with its sizes classified.
struct view {
  view(const placed_readings& measured, const setting& where) : all(measured), in(where) {
    for (const std::uint64_t size : all.sizes())
      (glibc_stride(size) % bad_stride == 0 ? bad : good).push_back(size);
  }

  [[nodiscard]] bool has(std::string_view malloc) const {
    const auto mallocs = all.mallocs();
    return std::ranges::find(mallocs, malloc) != mallocs.end();
  }
  [[nodiscard]] bool transactions() const {
    return std::ranges::any_of(all.all(), [](const auto& one) { return one.second.committed.has_value(); });
  }
  [[nodiscard]] const placed_reading* find(const curve& c, std::uint64_t size) const {
    return all.find(at(c, size));
  }
  [[nodiscard]] std::optional<double> ratio(const curve& one, const curve& other, std::uint64_t size) const {
    return all.ratio(at(one, size), at(other, size));
  }
  /// The geometric mean over sizes.
  [[nodiscard]] std::optional<double> mean_ratio(const sizes& of, const curve& one,
                                                 const curve& other) const {
    std::vector<double> ratios;
    for (const std::uint64_t size : of) {
      if (const auto r = ratio(one, other, size); r && *r > 0) ratios.push_back(*r);
    }
    return measure::geometric_mean(ratios);
  }
  /// Sizes at which less than `least` of the sections commit.
  [[nodiscard]] sizes failing(std::string_view malloc, double least) const {
    sizes found;
    for (const std::uint64_t size : all.sizes()) {
      const placed_reading* const r = find({malloc, tle}, size);
      if (r != nullptr && r->committed && *r->committed < least) found.push_back(size);
    }
    return found;
  }
  [[nodiscard]] std::size_t count() const { return bad.size() + good.size(); }

  const placed_readings& all;
  const setting& in;
  sizes bad;
  sizes good;
};

enum class need : unsigned char { transactions, bad_sizes, good_sizes };

/// The judgement on a claim if readings that it needs are missing.
std::optional<judgement> lacking(const view& v, std::initializer_list<need> needs,
                                 std::initializer_list<std::string_view> mallocs) {
  for (const need one : needs) {
    if (one == need::transactions && !v.transactions()) return unknown(without_transactions);
    if (one == need::bad_sizes && v.bad.empty())
      return unknown("no size was measured at which glibc's blocks follow each other at a multiple of 512");
    if (one == need::good_sizes && v.good.empty())
      return unknown(
          "no size was measured at which glibc's blocks do not follow each other at a multiple of 512");
  }
  for (const std::string_view malloc : mallocs) {
    if (!v.has(malloc)) return unknown(fmt::format("{} was not measured", malloc));
  }
  return std::nullopt;
}

judgement too_little() { return unknown("too little was measured"); }

// Figure 1 -----------------------------------------------------------------------------------------------------------

judgement bad_sizes_are_slow(const view& v) {
  if (const auto missing = lacking(v, {need::bad_sizes, need::good_sizes}, {v.in.glibc, index_aware}))
    return *missing;
  const auto there = v.mean_ratio(v.bad, {index_aware, tts}, {v.in.glibc, tts});
  const auto elsewhere = v.mean_ratio(v.good, {index_aware, tts}, {v.in.glibc, tts});
  if (!there || !elsewhere) return too_little();
  // A size that is slow for another reason would say nothing about strides.
  const sizes overloaded = v.all.overloaded(v.in.glibc, v.in.ways);
  sizes roomy;
  std::ranges::set_difference(v.bad, overloaded, std::back_inserter(roomy));
  return judged(
      fmt::format(
          "at sizes {} index-aware is {:.2f} x {} under tts in the geometric mean, at the others {:.2f} x{}",
          listed(v.bad), *there, v.in.glibc, *elsewhere,
          roomy.empty() ? "" : fmt::format("; no index has more blocks than ways at {}", listed(roomy))),
      *there >= told_apart * *elsewhere && roomy.empty());
}

judgement elision_is_wasted(const view& v) {
  if (const auto missing = lacking(v, {need::transactions, need::bad_sizes}, {v.in.glibc})) return *missing;
  const auto ratio = v.mean_ratio(v.bad, {v.in.glibc, tle}, {v.in.glibc, tts});
  if (!ratio) return too_little();
  double committed = 0;
  std::size_t measured = 0;
  for (const std::uint64_t size : v.bad) {
    const placed_reading* const r = v.find({v.in.glibc, tle}, size);
    if (r == nullptr || !r->committed) continue;
    committed += *r->committed;
    ++measured;
  }
  if (measured == 0) return too_little();
  committed /= static_cast<double>(measured);
  const auto learnt = v.mean_ratio(v.bad, {v.in.glibc, tle_learnt}, {v.in.glibc, tts});
  return judged(fmt::format("at sizes {}: {:.1f} % of the sections commit, and tle is {:.3f} x tts on {}{}",
                            listed(v.bad), 100 * committed, *ratio, v.in.glibc,
                            learnt ? fmt::format("; tle-learnt {:.3f} x", *learnt) : ""),
                *ratio * margin <= 1 && committed < nearly_none);
}

judgement index_aware_is_never_hit(const view& v, std::uint64_t nodes) {
  if (const auto missing = lacking(v, {}, {index_aware})) return *missing;
  std::uint64_t largest = 0;
  for (const auto& [where, r] : v.all.all()) {
    if (where.malloc == index_aware) largest = std::max(largest, r.largest_load);
  }
  std::string sentence = fmt::format(
      "of {} nodes at most {} begin at one of the indices, at every size, where the cache has {} ways", nodes,
      largest, v.in.ways);
  bool good = largest <= v.in.ways;
  if (v.transactions()) {
    const double least = nodes == paper_nodes || largest < v.in.ways ? nearly_all : most_of_full;
    const sizes bad = v.failing(index_aware, least);
    sentence += fmt::format("; sizes at which fewer than {:.0f} % of the sections commit: {}", 100 * least,
                            listed(bad));
    good = good && bad.empty();
  }
  return judged(sentence, good);
}

judgement chance_is_between(const view& v) {
  // At other sizes none of the three puts too many blocks at one index.
  if (const auto missing = lacking(v, {need::bad_sizes}, {random_padding, v.in.glibc, index_aware}))
    return *missing;
  const auto hit = v.all.overloaded(random_padding, v.in.ways).size();
  const auto without = v.all.overloaded(v.in.glibc, v.in.ways).size();
  const auto ours = v.all.overloaded(index_aware, v.in.ways).size();
  std::string sentence = fmt::format(
      "an index has more blocks than ways at {} of {} sizes with random, {} with {}, {} with index-aware",
      hit, v.count(), without, v.in.glibc, ours);
  bool between = ours <= hit && hit <= without;
  if (!v.transactions()) return judged(sentence, between && ours < hit);
  const auto over = [&](std::string_view malloc) {
    return v.mean_ratio(v.bad, {malloc, tle}, {v.in.glibc, tle});
  };
  const auto random = over(random_padding);
  const auto aware = over(index_aware);
  if (!random || !aware) return too_little();
  const sizes poor = v.failing(random_padding, nearly_all);
  sentence += fmt::format(
      "; under tle at sizes {} random is {:.2f} x {}, index-aware {:.2f} x; sizes at which fewer than {:.0f} "
      "% of the sections commit with random: {}",
      listed(v.bad), *random, v.in.glibc, *aware, 100 * nearly_all, listed(poor));
  between = between && *random >= margin && *aware * alike >= *random && !poor.empty();
  return judged(sentence, between);
}

judgement elision_costs(const view& v) {
  if (const auto missing = lacking(v, {need::transactions, need::good_sizes}, {index_aware})) return *missing;
  const auto ratio = v.mean_ratio(v.good, {index_aware, tle}, {index_aware, tts});
  if (!ratio) return too_little();
  return judged(fmt::format("tle is {:.3f} x tts on index-aware, in the geometric mean", *ratio),
                *ratio < 1 && *ratio * alike >= 1);
}

judgement chance_fails(const view& v) {
  if (const auto missing = lacking(v, {}, {random_padding})) return *missing;
  const std::size_t hit = v.all.overloaded(random_padding, v.in.ways).size();
  std::string sentence =
      fmt::format("with random an index has more blocks than ways at {} of {} sizes", hit, v.count());
  if (v.transactions())
    sentence +=
        fmt::format("; fewer than 5 % of the sections commit at {}", v.failing(random_padding, 0.05).size());
  return judged(sentence, 2 * hit > v.count());
}

// Figure 2 -----------------------------------------------------------------------------------------------------------

judgement same_sizes_are_slow(const view& v) {
  if (const auto missing =
          lacking(v, {need::transactions, need::bad_sizes, need::good_sizes}, {v.in.glibc, index_aware}))
    return *missing;
  const curve theirs{v.in.glibc, tle};
  const curve ours{index_aware, tle};
  const auto there = v.mean_ratio(v.bad, theirs, ours);
  const auto elsewhere = v.mean_ratio(v.good, theirs, ours);
  if (!there || !elsewhere) return too_little();
  std::vector<std::string> parts;
  for (const std::uint64_t size : v.bad) {
    if (const auto r = v.ratio(theirs, ours, size)) parts.push_back(fmt::format("{:.2f} at {}", *r, size));
  }
  return judged(fmt::format("{} over index-aware under tle: {}; {:.2f} in the geometric mean of other sizes",
                            v.in.glibc, fmt::join(parts, ", "), *elsewhere),
                *there * margin <= *elsewhere);
}

judgement capacity_forces_the_lock(const view& v) {
  if (const auto missing = lacking(v, {need::transactions, need::bad_sizes}, {v.in.glibc, index_aware}))
    return *missing;
  std::vector<std::string> parts;
  std::size_t forced = 0;
  double theirs = 0;
  double ours = 0;
  for (const std::uint64_t size : v.bad) {
    const placed_reading* const r = v.find({v.in.glibc, tle}, size);
    const placed_reading* const aware = v.find({index_aware, tle}, size);
    if (r == nullptr || aware == nullptr || !r->committed) continue;
    const double capacity = r->capacity_aborts.value_or(0);
    const double locked = 1 - *r->committed;
    parts.push_back(fmt::format("{:.4f} and {:.2f} % at {}", capacity, 100 * locked, size));
    if (capacity >= noticeable && locked >= capacity / 2) ++forced;
    theirs = std::max(theirs, capacity);
    ours = std::max(ours, aware->capacity_aborts.value_or(0));
  }
  if (parts.empty()) return too_little();
  return judged(
      fmt::format(
          "aborts for capacity an operation, and operations under the lock, with {}: {}; up to {:.4f} aborts "
          "with index-aware. At {} of these {} sizes it is one operation in a thousand or more",
          v.in.glibc, fmt::join(parts, ", "), ours, forced, parts.size()),
      2 * forced > parts.size() && ours < noticeable && theirs > 2 * ours);
}

judgement late_nodes_stay(const view& late, const view& early) {
  if (const auto missing = lacking(late, {need::transactions, need::bad_sizes}, {late.in.glibc}))
    return *missing;
  std::vector<std::string> parts;
  std::size_t spared = 0;
  for (const std::uint64_t size : late.bad) {
    const placed_reading* const before = early.find({early.in.glibc, tle}, size);
    const placed_reading* const after = late.find({late.in.glibc, tle}, size);
    if (before == nullptr || after == nullptr || !before->capacity_aborts || !after->capacity_aborts)
      continue;
    if (*before->capacity_aborts < noticeable) continue;
    parts.push_back(fmt::format("{:.4f} instead of {:.4f} at {}", *after->capacity_aborts,
                                *before->capacity_aborts, size));
    spared += *after->capacity_aborts <= *before->capacity_aborts / 4 ? 1 : 0;
  }
  if (parts.empty()) return unknown("at no bad size transactions did not fit");
  return judged(
      fmt::format("aborts for capacity an operation with {}: {}", late.in.glibc, fmt::join(parts, ", ")),
      spared == parts.size());
}

judgement elision_wins(const view& v, unsigned threads) {
  if (!v.transactions()) return unknown(without_transactions);
  if (threads < 2) return unknown("more than one thread was not measured");
  std::vector<double> ratios;
  for (const std::string& malloc : v.all.mallocs()) {
    for (const std::uint64_t size : v.all.sizes()) {
      if (const auto r = v.ratio({malloc, tle}, {malloc, tts}, size)) ratios.push_back(*r);
    }
  }
  if (ratios.empty()) return too_little();
  const auto [least, most] = std::ranges::minmax(ratios);
  const auto slow = std::ranges::count_if(ratios, [](double r) { return r < margin; });
  return judged(
      fmt::format(
          "with {} threads {:.2f} to {:.2f} x as fast, over all sizes and mallocs{}", threads, least, most,
          slow == 0 ? "" : fmt::format("; less than {:.2f} x in {} of {}", margin, slow, ratios.size())),
      slow == 0);
}

judgement worse_than_serial(const view& v, unsigned threads) {
  if (!v.transactions()) return unknown(without_transactions);
  if (threads < 2) return unknown("more than one thread was not measured");
  std::optional<double> least;
  for (const std::string& malloc : v.all.mallocs()) {
    if (const auto r = v.ratio({v.in.glibc, tle}, {malloc, tts}, size_worse_than_serial))
      least = std::min(least.value_or(*r), *r);
  }
  if (!least)
    return unknown(
        fmt::format("nodes of {} bytes were not measured with {}", size_worse_than_serial, v.in.glibc));
  return judged(fmt::format("at {} bytes {} under tle is {:.2f} x the best of the locks",
                            size_worse_than_serial, v.in.glibc, *least),
                *least * margin <= 1);
}

}  // namespace

std::vector<judged_claim> judge_ring(const placed_readings& measured, std::uint64_t nodes,
                                     const setting& in) {
  const view v(measured, in);
  const judgement never_hit = index_aware_is_never_hit(v, nodes);
  if (nodes == paper_nodes) {
    return {
        {"With glibc, sizes whose blocks follow each other at multiples of 512 bytes are slow even under a "
         "plain lock (figure 1, TTS)",
         bad_sizes_are_slow(v)},
        {"At those sizes an elided lock is slower than a plain one: the attempts are wasted (figure 1, "
         "TTSTLE)",
         elision_is_wasted(v)},
        {"The index-aware allocator has no bad sizes (figure 1, CIA)", never_hit},
        {"Random padding does better than glibc and worse than the index-aware allocator (figure 1, RAND)",
         chance_is_between(v)},
        {"Where transactions commit, a single thread is slightly slower with them (figure 1, CIA)",
         elision_costs(v)}};
  }
  return {{fmt::format("The index-aware allocator has no bad sizes with {} nodes either", nodes), never_hit,
           false},
          {fmt::format("Of {} nodes chance puts too many at one index, at most sizes", nodes),
           chance_fails(v), false}};
}

std::vector<judged_claim> judge_tree(const placed_readings& measured, const setting& in) {
  const view v(measured, in);
  return {{"The sizes that are bad in figure 1 are bad in figure 2 (TTSTLE-GLIBC)", same_sizes_are_slow(v)},
          {"At those sizes transactions do not fit, and fall back to the lock (figure 2, TTSTLE-GLIBC)",
           capacity_forces_the_lock(v)}};
}

std::vector<judged_claim> judge_concurrent_tree(const placed_readings& measured, unsigned threads,
                                                const setting& in) {
  const view v(measured, in);
  return {
      {"With several threads the elided lock outperforms the plain one (figure 2)", elision_wins(v, threads)},
      {"At about 2000 bytes the elided lock over glibc is slower than the best of the plain ones (figure 2, "
       "TTSTLE-GLIBC)",
       worse_than_serial(v, threads)}};
}

judged_claim judge_late_tree(const placed_readings& measured, const placed_readings& figure_2,
                             const setting& in) {
  return {
      "A search displaces what its section wrote before it: at bad sizes sections that allocate once they "
      "have searched lack capacity a quarter as often, or less",
      late_nodes_stay(view(measured, in), view(figure_2, in)), false};
}

judged_claim judge_fresh(const placed_readings& measured) {
  judged_claim f{"Sections that allocate fresh blocks can be elided where the allocator had its pages before",
                 unknown(without_transactions), false};
  for (const std::uint64_t size : measured.sizes()) {
    const placed_reading* const ours = measured.find(at({index_aware, tle}, size));
    if (ours == nullptr || !ours->committed) continue;
    const placed_reading* const theirs = measured.find(at({"glibc", tle}, size));
    f.ours = judged(fmt::format("{:.1f} % of the sections commit with index-aware{}", 100 * *ours->committed,
                                theirs != nullptr && theirs->committed
                                    ? fmt::format(", {:.1f} % with glibc", 100 * *theirs->committed)
                                    : ""),
                    *ours->committed >= 0.95);
  }
  return f;
}

capacity_law law_of(const std::vector<const placed_readings*>& rings, unsigned ways) {
  capacity_law law;
  for (const placed_readings* const ring : rings) {
    for (const auto& [where, r] : ring->all()) {
      if (where.locks != tle || !r.committed) continue;
      const bool mostly = *r.committed > most_of_full;
      if (r.largest_load > ways) {
        ++law.overloaded;
        law.overloaded_hold += *r.committed == 0 ? 1 : 0;
      } else if (r.largest_load < ways) {
        ++law.roomy;
        law.roomy_hold += mostly ? 1 : 0;
      } else {
        ++law.full;
        law.full_commit += mostly ? 1 : 0;
      }
    }
  }
  return law;
}

judged_claim judge_law(const capacity_law& law, unsigned ways) {
  judged_claim f{fmt::format("Where more than {} nodes begin at one index no section is elided, where fewer "
                             "do more than nine in ten are",
                             ways),
                 unknown(without_transactions), false};
  if (law.configurations() == 0 && law.full == 0) return f;
  if (law.configurations() == 0) {
    f.ours = unknown(fmt::format("each ring has {} nodes at one index", ways));
    return f;
  }
  const double share = static_cast<double>(law.holds()) / static_cast<double>(law.configurations());
  f.ours = judged(fmt::format("so it is in {} of {} rings ({:.2f} %): in {} of {} with more, in {} of {} "
                              "with fewer. Of {} with just as many {} commit",
                              law.holds(), law.configurations(), 100 * share, law.overloaded_hold,
                              law.overloaded, law.roomy_hold, law.roomy, law.full, law.full_commit),
                  share >= 0.99);
  return f;
}

// Figures -------------------------------------------------------------------------------------------------------------

namespace {

/// Curves of a value that a reading may have: value(point, reading) returns a number, or nothing.
template <class Value>
std::vector<chart_curve> curves_from(const placed_readings& readings, const std::set<std::string_view>& locks,
                                     bool name_locks, Value&& value) {
  std::vector<chart_curve> all;
  for (const auto& [malloc, lock] : curves_of(readings)) {
    if (!locks.contains(lock)) continue;
    chart_curve curve{name_locks ? fmt::format("{}, {}", malloc, lock) : malloc, {}};
    for (const std::uint64_t size : readings.sizes()) {
      const point at{malloc, lock, size};
      const placed_reading* const r = readings.find(at);
      if (r == nullptr) continue;
      if (const std::optional<double> v = value(at, *r)) curve.points.emplace_back(size, *v);
    }
    if (!curve.points.empty()) all.push_back(std::move(curve));
  }
  return all;
}

const std::string bytes_of_a_node = "Bytes of a node";

std::optional<double> over_reference(const placed_readings& readings, const point& at) {
  return readings.ratio(at, {std::string(reference_malloc), std::string(reference_locks), at.size});
}

}  // namespace

charted_figure ring_figure(std::uint64_t nodes) {
  charted_figure f;
  f.id = fmt::format("ring-{}", nodes);
  f.title = fmt::format("A ring of {} nodes", nodes);
  f.summary = fmt::format(
      "One thread goes round a ring of {} nodes that were allocated one by one, in random order, and writes "
      "each under a mutex. Nothing is allocated meanwhile: what differs is where the nodes lie{}.",
      nodes, nodes == paper_nodes ? " (figure 1)" : "");
  return f;
}

charted_figure tree_figure(std::uint64_t keys, unsigned threads) {
  charted_figure f;
  f.id = fmt::format("tree-{}", threads);
  f.title = fmt::format("An AVL tree under one mutex, {}",
                        threads == 1 ? "one thread" : fmt::format("{} threads", threads));
  f.summary = fmt::format(
      "30 % of the operations insert or overwrite one of {} keys, 30 % erase one, 40 % look one up; nodes "
      "are allocated, before the search, and freed under the mutex (figure 2).",
      keys);
  return f;
}

charted_figure late_tree_figure(std::uint64_t keys, unsigned threads) {
  charted_figure f = tree_figure(keys, threads);
  f.id += "-late";
  f.title += ", nodes made late";
  f.summary =
      "As figure 2, but an operation that inserts searches first, and allocates a node once it knows that it "
      "needs one.";
  return f;
}

std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& [at, r] : readings.all()) seen.insert({at.malloc, at.locks});
  return {seen.begin(), seen.end()};
}

std::vector<chart> charts_of(const placed_readings& readings, bool ring, const setting& in) {
  std::vector<chart> charts;
  const auto add = [&](std::string called, std::string caption, std::string y,
                       std::vector<chart_curve> curves) -> bool {
    if (curves.empty()) return false;
    charts.push_back({.title = std::move(called),
                      .caption = std::move(caption),
                      .y = std::move(y),
                      .x = bytes_of_a_node,
                      .curves = std::move(curves)});
    return true;
  };
  add("Throughput",
      fmt::format("Times that of {} under {} at the same size{}. Higher is better.", reference_malloc,
                  reference_locks, in.simulated ? "" : ", round by round; the median"),
      fmt::format("x {} under {}", reference_malloc, reference_locks),
      curves_from(readings, {tts, tle, tle_learnt}, true,
                  [&](const point& at, const placed_reading&) { return over_reference(readings, at); }));
  const std::string_view what = in.simulated ? "lines" : "nodes";
  if (ring &&
      add(in.simulated ? "Lines of nodes at the fullest index" : "Nodes at the fullest index",
          fmt::format("How many {} the L1 index has at which {}. Above the ways of the cache no transaction "
                      "can write them all. Lower is better.",
                      in.simulated ? "lines with nodes" : "nodes",
                      in.simulated ? "most of them lie" : "most of them begin"),
          std::string(what), curves_from(readings, {tts}, false, [](const point&, const placed_reading& r) {
            return std::optional(static_cast<double>(r.largest_load));
          })))
    charts.back().limit = {static_cast<double>(in.ways), "ways of the L1 cache"};
  add("Sections that were elided",
      "Of all critical sections under tle, those that committed as a transaction. Higher is better.",
      "share of sections",
      curves_from(readings, {tle}, false, [](const point&, const placed_reading& r) { return r.committed; }));
  add("Aborts for capacity", "Attempts that did not fit, for an operation. Lower is better.",
      "aborts an operation", curves_from(readings, {tle}, false, [](const point&, const placed_reading& r) {
        return r.capacity_aborts;
      }));
  return charts;
}

std::string summary_table(const placed_readings& readings, bool ring, const setting& in, bool colour) {
  const auto cell = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "";
  };
  table t({"malloc", "locks", "throughput\n(geometric mean)", "at its\nworst size", "largest\nload",
           "sizes above\nall ways", "committed\nat least", "capacity aborts\nan operation"},
          {0, 1});
  const std::vector<std::uint64_t> sizes = readings.sizes();
  for (const auto& [malloc, locks] : curves_of(readings)) {
    std::vector<double> ratios;
    std::uint64_t largest = 0;
    std::optional<double> committed;
    std::optional<double> capacity;
    for (const std::uint64_t size : sizes) {
      const placed_reading* const r = readings.find({malloc, locks, size});
      if (r == nullptr) continue;
      if (const auto ratio = over_reference(readings, {malloc, locks, size})) ratios.push_back(*ratio);
      largest = std::max(largest, r->largest_load);
      if (r->committed) committed = std::min(committed.value_or(1), *r->committed);
      if (r->capacity_aborts) capacity = std::max(capacity.value_or(0), *r->capacity_aborts);
    }
    const std::size_t overloaded = readings.overloaded(malloc, in.ways).size();
    t.add({malloc, locks, cell(measure::geometric_mean(ratios), "{:.2f}"),
           cell(measure::minimum(ratios), "{:.2f}"), fmt::format("{}", largest),
           ring ? fmt::format("{} of {}", overloaded, sizes.size()) : "",
           committed ? fmt::format("{:.1f} %", 100 * *committed) : "", cell(capacity, "{:.4f}")});
  }
  return t.text(colour);
}

std::string entry_name(std::string_view figure, const point& at) {
  return fmt::format("{}/{}/{}/size:{}", figure, at.malloc, at.locks, at.size);
}

void add_reading(nlohmann::ordered_json& entry, const point& at, const placed_reading& r,
                 const std::vector<std::uint64_t>& loads) {
  entry["locks"] = at.locks;
  entry["size"] = at.size;
  entry["largest_load"] = r.largest_load;
  entry["loads"] = loads;
  if (!r.committed) return;
  entry["committed"] = *r.committed;
  entry["capacity_aborts"] = r.capacity_aborts.value_or(0);
}

}  // namespace espalier::app::malloc_tsx
