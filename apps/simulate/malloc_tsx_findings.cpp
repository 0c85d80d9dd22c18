#include "apps/simulate/malloc_tsx_findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "apps/simulate/allocation_models.hpp"
#include "espalier/workload/statistics.hpp"

namespace espalier::simulate {
namespace {

using app::agreement;
using app::judgement;

constexpr std::string_view figure_1 = "figure 1";
constexpr std::string_view figure_2 = "figure 2";
/// The paper's ring.
constexpr std::size_t ring_nodes = 128;
/// The paper names multiples of this as the bad sizes.
constexpr std::size_t bad_stride = 512;
/// What makes a difference, and what none: the paper gives no numbers.
constexpr double margin = 1.02;
constexpr double alike = 1.10;
/// Of operations, what is worth a word.
constexpr double noticeable = 0.001;

judgement unmeasured(const std::string& what) {
  return {"Not measured: " + what + ".", agreement::not_measurable};
}

judgement verdict(const std::string& sentence, bool agrees) {
  return {sentence, agrees ? agreement::agrees : agreement::differs};
}

/// The sizes at which glibc's blocks follow one another at a multiple of bad_stride, or those at which they do not.
std::vector<std::size_t> sizes(const malloc_tsx_results& results, benchmark program, bool bad) {
  std::vector<std::size_t> found;
  for (const std::size_t bytes : results.sizes_of(program)) {
    if ((glibc_model::stride(bytes) % bad_stride == 0) == bad) found.push_back(bytes);
  }
  return found;
}

/// What is looked at of a figure: its program with as many nodes as the paper has.
struct view {
  const malloc_tsx_results& results;
  benchmark program;
  std::size_t nodes;

  [[nodiscard]] configuration at(std::size_t bytes, allocation from, section_policy policy) const {
    return {program, nodes, bytes, from, policy};
  }
  [[nodiscard]] const malloc_tsx_measurement* find(std::size_t bytes, allocation from,
                                                   section_policy policy) const {
    return results.find(at(bytes, from, policy));
  }
  /// Geometric mean over sizes of one's throughput over the other's.
  [[nodiscard]] std::optional<double> mean_ratio(const std::vector<std::size_t>& of, allocation one,
                                                 section_policy one_policy, allocation other,
                                                 section_policy other_policy) const {
    std::vector<double> ratios;
    for (const std::size_t bytes : of) {
      if (const auto r = results.ratio(at(bytes, one, one_policy), at(bytes, other, other_policy)))
        ratios.push_back(*r);
    }
    return workload::geometric_mean(ratios);
  }
  /// Mean over sizes of a figure per section.
  template <class Figure>
  [[nodiscard]] double mean(const std::vector<std::size_t>& of, allocation from, section_policy policy,
                            Figure&& figure) const {
    double sum = 0;
    std::size_t measured = 0;
    for (const std::size_t bytes : of) {
      if (const auto* m = find(bytes, from, policy)) {
        sum += figure(*m);
        ++measured;
      }
    }
    return measured == 0 ? 0 : sum / static_cast<double>(measured);
  }
};

double misses_a_node(const malloc_tsx_measurement& m, std::size_t nodes) {
  return m.per_section(m.l1_misses()) / static_cast<double>(nodes);
}

const std::string no_bad_sizes = "sizes at which glibc's stride is a multiple of 512, and others";

malloc_tsx_finding bad_sizes_slow(const view& v, const std::vector<std::size_t>& bad,
                                  const std::vector<std::size_t>& good) {
  malloc_tsx_finding f{
      figure_1,
      "under one thread's lock the ring over glibc is slower than over index-aware blocks near "
      "sizes of 512, 1024, 1536 bytes and so on, and as fast elsewhere",
      {}};
  const auto there =
      v.mean_ratio(bad, allocation::glibc, section_policy::tts, allocation::index_aware, section_policy::tts);
  const auto elsewhere = v.mean_ratio(good, allocation::glibc, section_policy::tts, allocation::index_aware,
                                      section_policy::tts);
  f.ours = there && elsewhere
               ? verdict(fmt::format("at glibc's multiples of 512 it has {:.2f} times the throughput of "
                                     "index-aware blocks, at other sizes {:.2f} times",
                                     *there, *elsewhere),
                         *there * margin <= *elsewhere)
               : unmeasured(no_bad_sizes);
  return f;
}

malloc_tsx_finding bad_sizes_miss(const view& v, const std::vector<std::size_t>& bad,
                                  const std::vector<std::size_t>& good) {
  malloc_tsx_finding f{figure_1, "the slow sizes are those with many L1 misses", {}};
  if (bad.empty() || good.empty()) {
    f.ours = unmeasured(no_bad_sizes);
    return f;
  }
  const auto misses = [&](const malloc_tsx_measurement& m) { return misses_a_node(m, v.nodes); };
  const double there = v.mean(bad, allocation::glibc, section_policy::tts, misses);
  const double elsewhere = v.mean(good, allocation::glibc, section_policy::tts, misses);
  f.ours = verdict(fmt::format("{:.2f} L1 misses a node at glibc's multiples of 512, {:.2f} at other sizes",
                               there, elsewhere),
                   there >= 0.5 && elsewhere <= there / 4);
  return f;
}

malloc_tsx_finding bad_sizes_abort(const view& v, const std::vector<std::size_t>& bad) {
  malloc_tsx_finding f{
      figure_1, "over glibc, elision is slower than the lock at those sizes: each transaction is futile", {}};
  const auto tle =
      v.mean_ratio(bad, allocation::glibc, section_policy::tle, allocation::glibc, section_policy::tts);
  if (!tle) {
    f.ours = unmeasured("sizes at which glibc's stride is a multiple of 512");
    return f;
  }
  const double committed = v.mean(bad, allocation::glibc, section_policy::tle, committed_share);
  const auto learnt = v.mean_ratio(bad, allocation::glibc, section_policy::tle_learnt, allocation::glibc,
                                   section_policy::tts);
  f.ours = verdict(
      fmt::format("{:.1f} % of the sections commit, and elision has {:.2f} times the throughput of the lock; "
                  "sync/elided_lock, which passes such sections over, {:.2f} times",
                  100 * committed, *tle, learnt.value_or(0)),
      *tle * margin <= 1 && committed < 0.01);
  return f;
}

malloc_tsx_finding index_aware_has_none(const view& v) {
  malloc_tsx_finding f{figure_1, "index-aware allocation has no bad sizes", {}};
  std::vector<std::size_t> failing;
  double least = 1;
  const auto all = v.results.sizes_of(v.program);
  for (const std::size_t bytes : all) {
    const auto* m = v.find(bytes, allocation::index_aware, section_policy::tle);
    if (m == nullptr) continue;
    least = std::min(least, committed_share(*m));
    if (committed_share(*m) < 0.98) failing.push_back(bytes);
  }
  f.ours =
      verdict(failing.empty() ? fmt::format("at each of {} sizes at least {:.1f} % of the sections commit",
                                            all.size(), 100 * least)
                              : fmt::format("at sizes of {} bytes less than 98 % of the sections commit",
                                            fmt::join(failing, ", ")),
              failing.empty());
  return f;
}

malloc_tsx_finding random_between(const view& v, const std::vector<std::size_t>& bad) {
  malloc_tsx_finding f{
      figure_1, "random amounts added to the sizes are of some use, and come between the two", {}};
  const auto over = [&](allocation a) {
    return v.mean_ratio(bad, a, section_policy::tle, allocation::glibc, section_policy::tle);
  };
  const auto random = over(allocation::random);
  const auto aware = over(allocation::index_aware);
  if (!random || !aware) {
    f.ours = unmeasured("sizes at which glibc's stride is a multiple of 512");
    return f;
  }
  std::vector<std::size_t> poor;
  for (const std::size_t bytes : v.results.sizes_of(v.program)) {
    const auto* m = v.find(bytes, allocation::random, section_policy::tle);
    if (m != nullptr && committed_share(*m) < 0.98) poor.push_back(bytes);
  }
  f.ours = verdict(
      fmt::format(
          "with elision at glibc's multiples of 512 random padding has {:.2f} times the throughput of "
          "glibc's blocks, index-aware allocation {:.2f} times; {}",
          *random, *aware,
          poor.empty() ? "at no size do less than 98 % of the sections commit over random padding"
                       : fmt::format("at {} sizes less than 98 % of the sections commit over random "
                                     "padding ({} bytes)",
                                     poor.size(), fmt::join(poor, ", "))),
      *random >= margin && *aware * alike >= *random && !poor.empty());
  return f;
}

malloc_tsx_finding elision_costs(const view& v, const std::vector<std::size_t>& good) {
  malloc_tsx_finding f{
      figure_1, "where transactions commit, a single thread is slightly slower with them", {}};
  const auto ratio = v.mean_ratio(good, allocation::index_aware, section_policy::tle, allocation::index_aware,
                                  section_policy::tts);
  f.ours = ratio
               ? verdict(fmt::format("over index-aware blocks elision has {:.3f} times the throughput of the "
                                     "lock",
                                     *ratio),
                         *ratio < 1 && *ratio * alike >= 1)
               : unmeasured("other sizes than those of the bad strides");
  return f;
}

malloc_tsx_finding elision_wins(const view& v) {
  malloc_tsx_finding f{figure_2, "with 4 threads elision is faster than the lock", {}};
  std::vector<double> ratios;
  unsigned threads = 0;
  for (const std::size_t bytes : v.results.sizes_of(v.program)) {
    for (std::size_t a = 0; a < allocations; ++a) {
      const auto from = static_cast<allocation>(a);
      const auto r =
          v.results.ratio(v.at(bytes, from, section_policy::tle), v.at(bytes, from, section_policy::tts));
      if (!r) continue;
      ratios.push_back(*r);
      threads = v.find(bytes, from, section_policy::tle)->threads;
    }
  }
  if (ratios.empty() || threads < 2) {
    f.ours = unmeasured("more than one thread");
    return f;
  }
  const auto [least, most] = std::ranges::minmax(ratios);
  f.ours =
      verdict(fmt::format("with {} threads {:.2f} to {:.2f} times as fast, over all sizes and allocations",
                          threads, least, most),
              least >= margin);
  return f;
}

malloc_tsx_finding same_bad_sizes(const view& v, const std::vector<std::size_t>& bad,
                                  const std::vector<std::size_t>& good) {
  malloc_tsx_finding f{
      figure_2,
      "over glibc, elision is slow at the sizes that are bad for the ring, over the others it is not",
      {}};
  const auto ratio = [&](const std::vector<std::size_t>& of) {
    return v.mean_ratio(of, allocation::glibc, section_policy::tle, allocation::index_aware,
                        section_policy::tle);
  };
  const auto there = ratio(bad);
  const auto elsewhere = ratio(good);
  if (!there || !elsewhere) {
    f.ours = unmeasured(no_bad_sizes);
    return f;
  }
  std::vector<std::string> parts;
  for (const std::size_t bytes : bad) {
    const auto r = v.results.ratio(v.at(bytes, allocation::glibc, section_policy::tle),
                                   v.at(bytes, allocation::index_aware, section_policy::tle));
    if (r) parts.push_back(fmt::format("{:.2f} at {}", *r, bytes));
  }
  f.ours =
      verdict(fmt::format("throughput over that of index-aware blocks: {}; {:.2f} on average at other sizes",
                          fmt::join(parts, ", "), *elsewhere),
              *there * margin <= *elsewhere);
  return f;
}

malloc_tsx_finding capacity_forces_the_lock(const view& v, const std::vector<std::size_t>& bad) {
  malloc_tsx_finding f{
      figure_2, "aborts for want of capacity force sections onto the lock at those sizes", {}};
  if (bad.empty()) {
    f.ours = unmeasured("sizes at which glibc's stride is a multiple of 512");
    return f;
  }
  const auto capacity = [](const malloc_tsx_measurement& m) {
    return m.per_section(m.transactions.of(sim::abort_reason::capacity));
  };
  const auto locked = [](const malloc_tsx_measurement& m) { return m.per_section(m.ends.under_lock); };
  std::vector<std::string> parts;
  std::size_t forced = 0;
  for (const std::size_t bytes : bad) {
    const auto* m = v.find(bytes, allocation::glibc, section_policy::tle);
    if (m == nullptr) continue;
    parts.push_back(fmt::format("{:.4f} and {:.2f} % at {}", capacity(*m), 100 * locked(*m), bytes));
    if (capacity(*m) >= noticeable && locked(*m) >= capacity(*m) / 2) ++forced;
  }
  const double aware = v.mean(bad, allocation::index_aware, section_policy::tle, capacity);
  f.ours = verdict(
      fmt::format(
          "capacity aborts an operation over glibc, and operations under the lock: {}; {:.4f} aborts over "
          "index-aware blocks. At {} of these {} sizes it is one operation in a thousand or more",
          fmt::join(parts, ", "), aware, forced, parts.size()),
      2 * forced > parts.size() && aware < noticeable);
  return f;
}

malloc_tsx_finding worse_than_serial(const view& v) {
  malloc_tsx_finding f{
      figure_2, "at about 2000 bytes elision over glibc is slower than the best of the locks", {}};
  constexpr std::size_t bytes = 2032;
  const auto* elided = v.find(bytes, allocation::glibc, section_policy::tle);
  double best = 0;
  for (std::size_t a = 0; a < allocations; ++a) {
    if (const auto* m = v.find(bytes, static_cast<allocation>(a), section_policy::tts))
      best = std::max(best, v.results.per_second(*m));
  }
  if (elided == nullptr || best == 0 || elided->threads < 2) {
    f.ours = unmeasured("nodes of 2032 bytes with more than one thread");
    return f;
  }
  const double ratio = v.results.per_second(*elided) / best;
  f.ours = verdict(fmt::format("at 2032 bytes it has {:.2f} times the throughput of the best of them", ratio),
                   ratio * margin <= 1);
  return f;
}

}  // namespace

std::vector<std::size_t> malloc_tsx_results::nodes_of(benchmark program) const {
  std::set<std::size_t> found;
  for (const auto& [c, m] : all_) {
    if (c.program == program) found.insert(c.nodes);
  }
  return {found.begin(), found.end()};
}

std::vector<std::size_t> malloc_tsx_results::sizes_of(benchmark program) const {
  std::set<std::size_t> found;
  for (const auto& [c, m] : all_) {
    if (c.program == program) found.insert(c.node_bytes);
  }
  return {found.begin(), found.end()};
}

std::optional<double> malloc_tsx_results::ratio(const configuration& one, const configuration& other) const {
  const auto* a = find(one);
  const auto* b = find(other);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return per_second(*a) / per_second(*b);
}

double committed_share(const malloc_tsx_measurement& m) noexcept {
  return m.per_section(m.transactions.committed);
}

capacity_law law_of(const malloc_tsx_results& results) {
  capacity_law law;
  for (const auto& [c, m] : results.all()) {
    if (c.program != benchmark::ring || c.policy != section_policy::tle) continue;
    const bool never = m.transactions.committed == 0;
    const bool mostly = committed_share(m) > 0.9;
    if (m.load.most > results.write_ways()) {
      ++law.overloaded;
      law.overloaded_hold += never ? 1 : 0;
    } else if (m.load.most < results.write_ways()) {
      ++law.roomy;
      law.roomy_hold += mostly ? 1 : 0;
    } else {
      ++law.full;
      law.full_commit += mostly ? 1 : 0;
    }
  }
  return law;
}

std::vector<malloc_tsx_finding> findings_of(const malloc_tsx_results& results) {
  std::vector<malloc_tsx_finding> all;
  const auto rings = results.nodes_of(benchmark::ring);
  if (std::ranges::find(rings, ring_nodes) != rings.end()) {
    const view v{results, benchmark::ring, ring_nodes};
    const auto bad = sizes(results, v.program, true);
    const auto good = sizes(results, v.program, false);
    all = {bad_sizes_slow(v, bad, good), bad_sizes_miss(v, bad, good), bad_sizes_abort(v, bad),
           index_aware_has_none(v),      random_between(v, bad),       elision_costs(v, good)};
  }
  for (const std::size_t nodes : results.nodes_of(benchmark::tree)) {
    const view v{results, benchmark::tree, nodes};
    const auto bad = sizes(results, v.program, true);
    const auto good = sizes(results, v.program, false);
    for (malloc_tsx_finding& f :
         std::vector<malloc_tsx_finding>{elision_wins(v), same_bad_sizes(v, bad, good),
                                         capacity_forces_the_lock(v, bad), worse_than_serial(v)})
      all.push_back(std::move(f));
  }
  return all;
}

}  // namespace espalier::simulate
