#include "apps/common/malloc_tsx_study.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "espalier/workload/statistics.hpp"

namespace espalier::app::malloc_tsx {
namespace {

const std::string glibc = "glibc";
const std::string index_aware = "index-aware";
const std::string random_padding = "random";
const std::string tts = "tts";
const std::string tle = "tle";

constexpr std::uint64_t paper_nodes = 128;

// A ratio of which it can be said that something is slower: rounds in turns agree within a few per cent.
constexpr double told_apart = 1.1;
constexpr double nearly_all = 0.98;
constexpr double nearly_none = 0.01;

judgement unknown(const std::string& why) { return {why + '.', agreement::not_measurable}; }
judgement told(const std::string& sentence, bool agrees) {
  return {sentence + '.', agrees ? agreement::agrees : agreement::differs};
}

/// "496, 504, 512" or "none", or the first of many and how many there are.
std::string listed(const std::vector<std::uint64_t>& sizes) {
  constexpr std::size_t most = 12;
  if (sizes.empty()) return "none";
  if (sizes.size() <= most) return fmt::format("{}", fmt::join(sizes, ", "));
  const std::vector<std::uint64_t> first(sizes.begin(), sizes.begin() + most);
  return fmt::format("{} and {} more", fmt::join(first, ", "), sizes.size() - most);
}

/// The geometric mean of a ratio over sizes.
template <class RatioAt>
std::optional<double> mean_over(const std::vector<std::uint64_t>& sizes, RatioAt&& ratio_at) {
  std::vector<double> ratios;
  for (const std::uint64_t size : sizes) {
    if (const std::optional<double> r = ratio_at(size); r && *r > 0) ratios.push_back(*r);
  }
  return workload::geometric_mean(ratios);
}

std::vector<std::uint64_t> others_of(const std::vector<std::uint64_t>& all,
                                     const std::vector<std::uint64_t>& some) {
  std::vector<std::uint64_t> rest;
  std::ranges::set_difference(all, some, std::back_inserter(rest));
  return rest;
}

bool has_transactions(const placed_readings& measured) {
  return std::ranges::any_of(measured.all(),
                             [](const auto& one) { return one.second.committed.has_value(); });
}

const std::string without_transactions = "this processor has no transactions";

judgement glibc_is_hit(const placed_readings& measured, unsigned ways) {
  const auto hit = measured.overloaded(glibc, ways);
  if (hit.empty()) return unknown("of the sizes that were measured glibc's blocks overload no index at any");
  const auto at = [&](std::uint64_t size) {
    return measured.ratio({index_aware, tts, size}, {glibc, tts, size});
  };
  const auto there = mean_over(hit, at);
  const auto elsewhere = mean_over(others_of(measured.sizes(), hit), at);
  if (!there) return unknown("index-aware was not measured");
  return told(
      fmt::format("at sizes {} index-aware is {:.2f} x glibc under tts in the geometric mean{}", listed(hit),
                  *there, elsewhere ? fmt::format(", at the others {:.2f} x", *elsewhere) : ""),
      *there >= told_apart * elsewhere.value_or(1));
}

judgement elision_is_wasted(const placed_readings& measured, unsigned ways) {
  if (!has_transactions(measured)) return unknown(without_transactions);
  const auto hit = measured.overloaded(glibc, ways);
  const auto ratio = mean_over(
      hit, [&](std::uint64_t size) { return measured.ratio({glibc, tle, size}, {glibc, tts, size}); });
  if (!ratio) return unknown("of the sizes that were measured glibc's blocks overload no index at any");
  return told(
      fmt::format("at sizes {} tle is {:.2f} x tts on glibc; a lock that learns passes most attempts over",
                  listed(hit), *ratio),
      *ratio < 1);
}

/// Sizes where less than `least` of the sections commit.
std::vector<std::uint64_t> failing(const placed_readings& measured, const std::string& malloc, double least) {
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t size : measured.sizes()) {
    const placed_reading* const r = measured.find({malloc, tle, size});
    if (r != nullptr && r->committed && *r->committed < least) sizes.push_back(size);
  }
  return sizes;
}

judgement index_aware_is_never_hit(const placed_readings& measured, std::uint64_t nodes, unsigned ways) {
  std::uint64_t largest = 0;
  std::size_t sizes = 0;
  for (const auto& [at, r] : measured.all()) {
    if (at.malloc != index_aware) continue;
    largest = std::max(largest, r.largest_load);
    ++sizes;
  }
  if (sizes == 0) return unknown("index-aware was not measured");
  std::string sentence = fmt::format(
      "of {} nodes at most {} begin at one of the indices, at every size, where the cache has {} ways", nodes,
      largest, ways);
  bool good = largest <= ways;
  if (has_transactions(measured)) {
    const double least = largest < ways ? nearly_all : 0.9;
    const auto bad = failing(measured, index_aware, least);
    sentence += fmt::format("; sizes at which fewer than {:.0f} % of the sections commit: {}", 100 * least,
                            listed(bad));
    good = good && bad.empty();
  }
  return told(sentence, good);
}

judgement chance_is_between(const placed_readings& measured, unsigned ways) {
  const auto mallocs = measured.mallocs();
  if (std::ranges::find(mallocs, random_padding) == mallocs.end()) return unknown("random was not measured");
  const auto hit = measured.overloaded(random_padding, ways);
  const auto without = measured.overloaded(glibc, ways);
  const auto ours = measured.overloaded(index_aware, ways);
  std::string sentence = fmt::format(
      "an index has more blocks than ways at {} of {} sizes with random, {} with glibc, {} "
      "with index-aware",
      hit.size(), measured.sizes().size(), without.size(), ours.size());
  if (has_transactions(measured))
    sentence += fmt::format("; fewer than 5 % of the sections commit at {} sizes with random",
                            failing(measured, random_padding, 0.05).size());
  return told(sentence, ours.size() <= hit.size() && hit.size() <= without.size());
}

judgement chance_fails(const placed_readings& measured, unsigned ways) {
  const auto mallocs = measured.mallocs();
  if (std::ranges::find(mallocs, random_padding) == mallocs.end()) return unknown("random was not measured");
  const std::size_t hit = measured.overloaded(random_padding, ways).size();
  const std::size_t all = measured.sizes().size();
  std::string sentence =
      fmt::format("with random an index has more blocks than ways at {} of {} sizes", hit, all);
  if (has_transactions(measured))
    sentence += fmt::format("; fewer than 5 % of the sections commit at {}",
                            failing(measured, random_padding, 0.05).size());
  return told(sentence, 2 * hit > all);
}

}  // namespace

std::vector<std::uint64_t> node_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 64; size <= 4096; size += 64) {
    // Smaller ones have no room for a node of the tree.
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

std::vector<std::uint64_t> placed_readings::overloaded(const std::string& malloc, unsigned ways) const {
  std::set<std::uint64_t> found;
  for (const auto& [at, r] : all_) {
    if (at.malloc == malloc && r.largest_load > ways) found.insert(at.size);
  }
  return {found.begin(), found.end()};
}

std::vector<curve_finding> judge_ring(const placed_readings& measured, std::uint64_t nodes, unsigned ways) {
  const judgement never_hit = index_aware_is_never_hit(measured, nodes, ways);
  if (nodes == paper_nodes) {
    return {
        {"With glibc, sizes whose blocks follow each other at multiples of 512 bytes are slow even under a "
         "plain "
         "lock (figure 1, TTS)",
         glibc_is_hit(measured, ways)},
        {"At those sizes an elided lock is slower than a plain one: the attempts are wasted (figure 1, "
         "TTSTLE)",
         elision_is_wasted(measured, ways)},
        {"The index-aware allocator has no bad sizes (figure 1, CIA)", never_hit},
        {"Random padding does better than glibc and worse than the index-aware allocator (figure 1, RAND)",
         chance_is_between(measured, ways)}};
  }
  return {{fmt::format("The index-aware allocator has no bad sizes with {} nodes either", nodes), never_hit,
           false},
          {fmt::format("Of {} nodes chance puts too many at one index, at most sizes", nodes),
           chance_fails(measured, ways), false}};
}

std::vector<curve_finding> judge_tree(const placed_readings& measured, const placed_readings& ring,
                                      unsigned threads, unsigned ways) {
  std::vector<curve_finding> findings;
  const auto capacity_of = [&](const std::string& malloc, std::uint64_t size) -> std::optional<double> {
    const placed_reading* const r = measured.find({malloc, tle, size});
    return r == nullptr ? std::nullopt : r->capacity_aborts;
  };
  if (threads > 1) {
    const auto faster = [&]() -> judgement {
      if (!has_transactions(measured)) return unknown(without_transactions);
      const auto ratio = mean_over(measured.sizes(), [&](std::uint64_t size) {
        return measured.ratio({index_aware, tle, size}, {index_aware, tts, size});
      });
      if (!ratio) return unknown("index-aware was not measured");
      return told(
          fmt::format(
              "with {} threads tle is {:.2f} x tts on index-aware, in the geometric mean of the sizes",
              threads, *ratio),
          *ratio > 1);
    };
    findings.push_back(
        {"With several threads the elided lock outperforms the plain one (figure 2)", faster()});
  }
  const auto same_sizes = [&]() -> judgement {
    if (!has_transactions(measured)) return unknown(without_transactions);
    const auto hit = ring.overloaded(glibc, ways);
    double theirs = 0;
    double ours = 0;
    for (const std::uint64_t size : hit) {
      theirs = std::max(theirs, capacity_of(glibc, size).value_or(0));
      ours = std::max(ours, capacity_of(index_aware, size).value_or(0));
    }
    if (hit.empty()) return unknown("no size of those is bad");
    return told(
        fmt::format("at sizes {} up to {:.4f} aborts for capacity an operation with glibc, up to {:.4f} with "
                    "index-aware",
                    listed(hit), theirs, ours),
        theirs > 2 * ours && theirs > 0.001);
  };
  findings.push_back(
      {"The sizes that are bad in figure 1 are bad in figure 2: transactions do not fit, and fall back to "
       "the lock (figure 2, TTSTLE-GLIBC)",
       same_sizes()});
  return findings;
}

curve_finding judge_fresh(const placed_readings& measured) {
  curve_finding f{
      "Sections that allocate fresh blocks can be elided where the allocator had its pages before",
      unknown(without_transactions), false};
  for (const std::uint64_t size : measured.sizes()) {
    const placed_reading* const ours = measured.find({index_aware, tle, size});
    if (ours == nullptr || !ours->committed) continue;
    const placed_reading* const theirs = measured.find({glibc, tle, size});
    f.ours = told(fmt::format("{:.1f} % of the sections commit with index-aware{}", 100 * *ours->committed,
                              theirs != nullptr && theirs->committed
                                  ? fmt::format(", {:.1f} % with glibc", 100 * *theirs->committed)
                                  : ""),
                  *ours->committed >= 0.95);
  }
  return f;
}

curve_finding judge_law(const std::vector<const placed_readings*>& rings, unsigned ways) {
  std::size_t judged = 0;
  std::size_t held = 0;
  for (const placed_readings* const ring : rings) {
    for (const auto& [at, r] : ring->all()) {
      if (!r.committed || r.largest_load == ways) continue;
      ++judged;
      if (r.largest_load > ways ? *r.committed <= nearly_none : *r.committed >= 0.9) ++held;
    }
  }
  curve_finding law{fmt::format("Where more than {} nodes begin at one index no section is elided, "
                                "where fewer do more than nine in ten are",
                                ways),
                    unknown(without_transactions), false};
  if (judged > 0) {
    const double share = static_cast<double>(held) / static_cast<double>(judged);
    law.ours =
        told(fmt::format("so it is in {} of {} rings ({:.2f} %)", held, judged, 100 * share), share >= 0.99);
  }
  return law;
}

}  // namespace espalier::app::malloc_tsx
