#include "apps/studies/study_claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "espalier/measure/statistics.hpp"

namespace espalier::app {
namespace {

constexpr double order_margin = 1.02;  // for a difference, if the paper gives no number
constexpr double tolerance = 1.1;      // for what the paper calls alike
constexpr std::size_t line_bytes = 64;

/// A quotient, between the minimum and the maximum that the runs permit.
struct quotient {
  double middle;
  double low;
  double high;
};

bool share_rounds(const reading& a, const reading& b) {
  return a.session == b.session && !a.rounds.empty() && a.rounds.size() == b.rounds.size();
}

quotient over(const reading& a, const reading& b) {
  if (!share_rounds(a, b)) return {a.median / b.median, a.least / b.most, a.most / b.least};
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.rounds.size(); ++i) ratios.push_back(a.rounds[i] / b.rounds[i]);
  return {*measure::median(ratios), *measure::minimum(ratios), *measure::maximum(ratios)};
}

quotient divided(const quotient& a, const quotient& b) {
  return {a.middle / b.middle, a.low / b.high, a.high / b.low};
}

quotient geometric_mean(const std::vector<quotient>& all) {
  quotient logs{0, 0, 0};
  for (const quotient& q : all) {
    logs.middle += std::log(q.middle);
    logs.low += std::log(q.low);
    logs.high += std::log(q.high);
  }
  const auto n = static_cast<double>(all.size());
  return {std::exp(logs.middle / n), std::exp(logs.low / n), std::exp(logs.high / n)};
}

std::string millions(const reading& r) { return fmt::format("{:.2f} Mop/s", r.median / 1e6); }

std::string times(double ratio) { return fmt::format("{:.2f} times", ratio); }

/// "161 accesses, 5.6 lines from memory, nodes of 56 bytes": means over the maps, of the costs known for all.
std::string costs_of(const std::vector<const reading*>& maps) {
  std::vector<std::string> parts;
  if (std::ranges::all_of(maps, [](const reading* r) { return r->costs.has_value(); })) {
    const auto mean = [&](double operation_costs::* cost) {
      double sum = 0;
      for (const reading* r : maps) sum += (*r->costs).*cost;
      return sum / static_cast<double>(maps.size());
    };
    parts = {fmt::format("{:.0f} accesses", mean(&operation_costs::accesses)),
             fmt::format("{:.2f} lines from memory", mean(&operation_costs::memory_lines)),
             fmt::format("{:.2f} page walks", mean(&operation_costs::page_walks))};
  }
  if (std::ranges::all_of(maps, [](const reading* r) { return r->node_bytes.has_value(); })) {
    const auto [least, most] = std::ranges::minmax(maps, {}, [](const reading* r) { return *r->node_bytes; });
    parts.push_back(*least->node_bytes == *most->node_bytes
                        ? fmt::format("nodes of {} bytes", *least->node_bytes)
                        : fmt::format("nodes of {} to {} bytes", *least->node_bytes, *most->node_bytes));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// A possible reason why the first is not faster than the second; empty if none is known.
std::string difference_between(const std::string& fast, const std::vector<const reading*>& fast_maps,
                               const std::string& slow, const std::vector<const reading*>& slow_maps) {
  const std::string ours = costs_of(fast_maps);
  const std::string theirs = costs_of(slow_maps);
  if (ours.empty() || theirs.empty() || ours == theirs) return {};
  return fmt::format(" An operation costs {} in {}, {} in {}.", ours, fast, theirs, slow);
}

judgement undecided(const std::string& sentence, const quotient& ratio) {
  return {fmt::format("{}. From run to run the ratio is anything from {:.2f} to {:.2f}, which does not tell.",
                      sentence, ratio.low, ratio.high),
          agreement::not_measurable};
}

/// The verdict on a ratio that must be at least `least`.
judgement decide(const std::string& sentence, const quotient& ratio, double least) {
  if (ratio.low >= least) return {sentence + '.', agreement::agrees};
  if (ratio.high < least) return {sentence + '.', agreement::differs};
  return undecided(sentence, ratio);
}

struct comparison {
  std::string sentence;
  quotient ratio;
  std::string reason;
};

judgement with_reason(judgement j, const std::string& why) {
  if (j.verdict == agreement::differs) j.sentence += why;
  return j;
}

/// Compares two measured maps.
comparison compare(const std::string& a, const std::string& b, const readings& measured, std::uint64_t keys) {
  const reading& ours = *measured.find(a, keys);
  const reading& theirs = *measured.find(b, keys);
  const quotient q = over(ours, theirs);
  const std::string of_medians = times(ours.median / theirs.median);
  const std::string of_rounds = times(q.middle);
  // The median of the rounds' ratios differs from the ratio of the medians.
  std::string sentence =
      of_rounds == of_medians
          ? fmt::format("{} does {}, {} the {} of {}", a, millions(ours), of_medians, millions(theirs), b)
          : fmt::format("{} does {} and {} does {} in the median; round by round it is {} as much", a,
                        millions(ours), b, millions(theirs), of_rounds);
  return {std::move(sentence), q, difference_between(a, {&ours}, b, {&theirs})};
}

/// The verdict on a ratio for which the paper reports a number above 1. Half of its effect suffices.
judgement decide_size(const std::string& sentence, const quotient& ratio, double papers) {
  judgement j = decide(sentence, ratio, 1 + (papers - 1) / 2);
  if (j.verdict == agreement::differs && ratio.low >= order_margin)
    j.sentence += " The direction is the paper's, the size is less than half of it.";
  return j;
}

judgement missing(const std::vector<std::string>& maps) {
  return {fmt::format("Not measured: {}.", fmt::join(maps, ", ")), agreement::not_measurable};
}

std::vector<std::string> missing_of(const readings& measured, std::uint64_t keys,
                                    const std::vector<std::string>& maps) {
  std::vector<std::string> absent;
  for (const std::string& map : maps) {
    if (measured.find(map, keys) == nullptr && std::ranges::find(absent, map) == absent.end())
      absent.push_back(map);
  }
  return absent;
}

/// Why one of the maps supports no verdict; empty if all do.
std::string short_of(const readings& measured, std::uint64_t keys, const std::vector<std::string>& maps) {
  for (const std::string& map : maps)
    if (const reading* const r = measured.find(map, keys); r != nullptr && !r->too_short.empty())
      return fmt::format("{} ({}).", r->too_short, map);
  return {};
}

std::vector<std::string> maps_of(const std::vector<map_pair>& pairs) {
  std::vector<std::string> maps;
  for (const map_pair& p : pairs) maps.insert(maps.end(), {p.better, p.worse});
  return maps;
}

struct pair_ratio {
  const map_pair* pair;
  quotient ratio;
};

std::vector<pair_ratio> ratios_of(const readings& measured, std::uint64_t keys,
                                  const std::vector<map_pair>& pairs) {
  std::vector<pair_ratio> ratios;
  for (const map_pair& p : pairs) {
    const reading* const a = measured.find(p.better, keys);
    const reading* const b = measured.find(p.worse, keys);
    if (a != nullptr && b != nullptr) ratios.push_back({&p, over(*a, *b)});
  }
  return ratios;
}

std::string ratio_list(const std::vector<pair_ratio>& ratios) {
  std::vector<std::string> parts;
  parts.reserve(ratios.size());
  for (const pair_ratio& r : ratios)
    parts.push_back(fmt::format("{} over {} {:.2f}", r.pair->better, r.pair->worse, r.ratio.middle));
  return fmt::format("{}", fmt::join(parts, ", "));
}

quotient mean_of(const std::vector<pair_ratio>& ratios) {
  std::vector<quotient> all;
  all.reserve(ratios.size());
  for (const pair_ratio& r : ratios) all.push_back(r.ratio);
  return geometric_mean(all);
}

/// The pairs whose second map has nodes that may straddle lines, and a sentence on the others.
std::pair<std::vector<map_pair>, std::string> straddling(const readings& measured, std::uint64_t keys,
                                                         const std::vector<map_pair>& pairs) {
  std::vector<map_pair> kept;
  std::vector<std::string> others;
  for (const map_pair& p : pairs) {
    const reading* const r = measured.find(p.worse, keys);
    const bool whole = r != nullptr && r->node_bytes && line_bytes % *r->node_bytes == 0;
    if (whole)
      others.push_back(fmt::format("{} ({} bytes)", p.worse, *r->node_bytes));
    else
      kept.push_back(p);
  }
  if (others.empty()) return {kept, ""};
  return {kept, fmt::format(" The nodes of {} never straddle two lines here.", fmt::join(others, " and "))};
}

/// Judged by `how` if all of the maps were measured.
template <class How>
judge of_measured(std::vector<std::string> maps, How how) {
  return [=](const readings& measured, std::uint64_t keys) -> judgement {
    const auto absent = missing_of(measured, keys, maps);
    if (!absent.empty()) return missing(absent);
    return unless_too_short(how(measured, keys), short_of(measured, keys, maps));
  };
}

template <class How>
judge compared(const std::string& a, const std::string& b, How how) {
  return of_measured({a, b}, [=](const readings& measured, std::uint64_t keys) {
    return how(compare(a, b, measured, keys));
  });
}

struct measured_tier {
  std::string name;
  std::vector<const reading*> maps;
  reading mean;  // geometric mean
};

/// The mean of each round, if all maps were measured in the same rounds.
std::vector<double> rounds_of(const std::vector<const reading*>& maps) {
  if (!std::ranges::all_of(maps, [&](const reading* r) { return share_rounds(*r, *maps.front()); }))
    return {};
  std::vector<double> rounds;
  for (std::size_t i = 0; i < maps.front()->rounds.size(); ++i) {
    double logs = 0;
    for (const reading* r : maps) logs += std::log(r->rounds[i]);
    rounds.push_back(std::exp(logs / static_cast<double>(maps.size())));
  }
  return rounds;
}

measured_tier measured_of(const tier& t, const readings& measured, std::uint64_t keys) {
  measured_tier found{t.name, {}, {}};
  std::vector<quotient> all;
  for (const std::string& map : t.maps) {
    const reading& r = *measured.find(map, keys);
    found.maps.push_back(&r);
    all.push_back({r.median, r.least, r.most});
  }
  const quotient mean = geometric_mean(all);
  found.mean = {mean.middle, mean.low, mean.high, std::nullopt};
  found.mean.rounds = rounds_of(found.maps);
  found.mean.session = found.maps.front()->session;
  return found;
}

}  // namespace

std::vector<double> ratios_of_rounds(const std::vector<double>& rounds,
                                     const std::vector<double>& other_rounds) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(rounds.size(), other_rounds.size()); ++i) {
    if (other_rounds[i] > 0) ratios.push_back(rounds[i] / other_rounds[i]);
  }
  return ratios;
}

std::optional<double> median_of_ratios(const std::vector<double>& rounds,
                                       const std::vector<double>& other_rounds) {
  return measure::median(ratios_of_rounds(rounds, other_rounds));
}

judgement unless_too_short(judgement j, const std::string& why) {
  if (why.empty() || j.verdict == agreement::not_measurable || j.verdict == agreement::too_short) return j;
  return {fmt::format("{} {}", j.sentence, why), agreement::too_short};
}

std::string grouped(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

judge far_faster(const std::string& fast, const std::string& slow) {
  return compared(fast, slow,
                  [](const comparison& c) { return with_reason(decide(c.sentence, c.ratio, 2), c.reason); });
}

judge faster(const std::string& fast, const std::string& slow, std::optional<double> ratio) {
  return compared(fast, slow, [=](const comparison& c) {
    if (!ratio) return with_reason(decide(c.sentence, c.ratio, order_margin), c.reason);
    return with_reason(
        decide_size(fmt::format("{}; in the paper {}", c.sentence, times(*ratio)), c.ratio, *ratio),
        c.reason);
  });
}

judge alike(const std::string& one, const std::string& other) {
  return compared(one, other, [](const comparison& c) -> judgement {
    const std::string sentence = c.sentence + "; in the paper the same";
    if (c.ratio.middle <= tolerance && c.ratio.middle >= 1 / tolerance)
      return {sentence + '.', agreement::agrees};
    if (c.ratio.low > tolerance || c.ratio.high < 1 / tolerance)
      return {sentence + '.' + c.reason, agreement::differs};
    return undecided(sentence, c.ratio);
  });
}

judge no_slower(const std::string& one, const std::string& other) {
  return compared(one, other,
                  [](const comparison& c) { return with_reason(decide(c.sentence, c.ratio, 1), c.reason); });
}

judge nearly(const std::string& one, const std::string& other, double ratio) {
  return compared(one, other, [=](const comparison& c) {
    return with_reason(
        decide(fmt::format("{}; in the paper {}", c.sentence, times(ratio)), c.ratio, ratio / tolerance),
        c.reason);
  });
}

judge mean_ratio(const std::vector<map_pair>& pairs, double ratio) {
  return [=](const readings& measured, std::uint64_t keys) -> judgement {
    const auto absent = missing_of(measured, keys, maps_of(pairs));
    const auto ratios = ratios_of(measured, keys, pairs);
    if (ratios.empty()) return missing(absent);
    const quotient mean = mean_of(ratios);
    const auto [least, most] = std::ranges::minmax(ratios, {}, [](const auto& r) { return r.ratio.middle; });
    std::string sentence = fmt::format("The geometric mean of {} ratios is {:.2f}, in the paper {:.2f}; ",
                                       ratios.size(), mean.middle, ratio);
    sentence += ratios.size() <= 4
                    ? ratio_list(ratios)
                    : fmt::format("they reach from {:.2f} ({}) to {:.2f} ({})", least.ratio.middle,
                                  least.pair->better, most.ratio.middle, most.pair->better);
    if (!absent.empty())
      return {fmt::format("{}. Not measured: {}.", sentence, fmt::join(absent, ", ")),
              agreement::not_measurable};
    std::vector<const reading*> better;
    std::vector<const reading*> worse;
    for (const map_pair& p : pairs) {
      better.push_back(measured.find(p.better, keys));
      worse.push_back(measured.find(p.worse, keys));
    }
    return unless_too_short(
        with_reason(decide_size(sentence, mean, ratio),
                    difference_between("the maps that should be faster", better, "the others", worse)),
        short_of(measured, keys, maps_of(pairs)));
  };
}

judge best_ratio(const std::vector<map_pair>& pairs, double ratio) {
  return of_measured(maps_of(pairs), [=](const readings& measured, std::uint64_t keys) {
    const auto ratios = ratios_of(measured, keys, pairs);
    const pair_ratio& best =
        *std::ranges::max_element(ratios, {}, [](const pair_ratio& r) { return r.ratio.middle; });
    return decide_size(fmt::format("At best {}; in the paper {:.2f}", ratio_list({best}), ratio), best.ratio,
                       ratio);
  });
}

judge gains_more(const map_pair& one, const map_pair& other) {
  const std::vector<map_pair> pairs{one, other};
  return of_measured(maps_of(pairs), [=](const readings& measured, std::uint64_t keys) {
    const auto ratios = ratios_of(measured, keys, pairs);
    return decide(ratio_list(ratios), divided(ratios.front().ratio, ratios.back().ratio), tolerance);
  });
}

judge crossing_cost(const std::vector<map_pair>& pairs, double ratio) {
  return [=](const readings& measured, std::uint64_t keys) -> judgement {
    const auto [kept, others] = straddling(measured, keys, pairs);
    if (kept.empty()) return {"No map here can lose by it." + others, agreement::not_measurable};
    judgement j = mean_ratio(kept, ratio)(measured, keys);
    j.sentence += others;
    return j;
  };
}

judge no_crossing_cost(const std::vector<map_pair>& pairs) {
  return [=](const readings& measured, std::uint64_t keys) -> judgement {
    const auto [kept, others] = straddling(measured, keys, pairs);
    if (kept.empty()) return {"No map here could lose by it." + others, agreement::not_measurable};
    if (auto absent = missing_of(measured, keys, maps_of(kept)); !absent.empty()) return missing(absent);
    const auto ratios = ratios_of(measured, keys, kept);
    const quotient mean = mean_of(ratios);
    // The inverse condition: the small nodes must be no slower, within the margin of a difference.
    judgement j =
        decide(fmt::format(
                   "Throughput of the large nodes over that of the small: {}; no more than 1.00 in the paper",
                   ratio_list(ratios)),
               {1 / mean.middle, 1 / mean.high, 1 / mean.low}, 1 / order_margin);
    j.sentence += others;
    return unless_too_short(std::move(j), short_of(measured, keys, maps_of(kept)));
  };
}

judge ordered(const std::vector<tier>& tiers) {
  std::vector<std::string> all;
  for (const tier& t : tiers) all.insert(all.end(), t.maps.begin(), t.maps.end());
  return of_measured(all, [=](const readings& measured, std::uint64_t keys) {
    std::string sentence = "Geometric means: ";
    std::string reasons;
    quotient worst{1e9, 1e9, 1e9};
    std::optional<measured_tier> before;
    for (const tier& t : tiers) {
      measured_tier now = measured_of(t, measured, keys);
      sentence += fmt::format("{}{} {}", before ? ", " : "", t.name, millions(now.mean));
      if (before) {
        const quotient q = over(before->mean, now.mean);
        if (q.middle < worst.middle) worst = q;
        if (q.middle < order_margin)
          reasons += fmt::format(" Not apart: {} and {}, {:.2f} times.{}", before->name, now.name, q.middle,
                                 difference_between(before->name, before->maps, now.name, now.maps));
      }
      before = std::move(now);
    }
    std::vector<std::string> maps = all;
    std::ranges::sort(maps, std::greater{},
                      [&](const std::string& m) { return measured.find(m, keys)->median; });
    sentence += fmt::format(". From fast to slow: {}", fmt::join(maps, ", "));
    return with_reason(decide(sentence, worst, order_margin), reasons);
  });
}

judge none_is_best(const std::vector<std::string>& maps, const std::vector<std::string>& field) {
  std::vector<std::string> all = field;
  all.insert(all.end(), maps.begin(), maps.end());
  return of_measured(all, [=](const readings& measured, std::uint64_t keys) {
    const auto best = [&](const std::vector<std::string>& of) {
      return *std::ranges::max_element(of, {}, [&](const auto& m) { return measured.find(m, keys)->median; });
    };
    return faster(best(field), best(maps))(measured, keys);
  });
}

judge slowest(const std::string& map, const std::vector<std::string>& field) {
  std::vector<std::string> all = field;
  all.push_back(map);
  return of_measured(all, [=](const readings& measured, std::uint64_t keys) {
    const auto next = std::ranges::min_element(
        field, {}, [&](const std::string& other) { return measured.find(other, keys)->median; });
    return faster(*next, map)(measured, keys);
  });
}

namespace {

std::vector<std::string> under_all(const std::vector<std::string>& maps, const std::vector<renamed>& loads) {
  std::vector<std::string> all;
  for (const renamed& load : loads) std::ranges::transform(maps, std::back_inserter(all), load);
  return all;
}

std::string here(const std::string& map) { return map; }

/// Of pairs of maps: how many there are, and how many surely and perhaps do what is asked.
struct kept_pairs {
  unsigned all = 0;
  unsigned surely = 0;
  unsigned in_the_median = 0;
  unsigned perhaps = 0;
  std::vector<std::string> lost{};

  /// `change` is to lie between these bounds.
  void add(const std::string& pair, const quotient& change, double least, double most) {
    ++all;
    if (change.low >= least && change.high <= most) ++surely;
    if (change.high >= least && change.low <= most) ++perhaps;
    if (change.middle >= least && change.middle <= most)
      ++in_the_median;
    else
      lost.push_back(pair);
  }
  [[nodiscard]] judgement verdict(const std::string& what, double least) const {
    if (all == 0) return {"No two maps differ.", agreement::not_measurable};
    const auto share = [&](unsigned n) { return static_cast<double>(n) / all; };
    return decide(fmt::format("{} of {} {}{}{}", in_the_median, all, what, lost.empty() ? "" : "; not ",
                              fmt::join(lost, ", ")),
                  {share(in_the_median), share(surely), share(perhaps)}, least);
  }
};

/// Calls visit(names, ratio of two maps, ratio under the other load) for each two maps, the first the faster one.
template <class Visit>
void for_each_pair(const std::vector<std::string>& maps, const renamed& there, const readings& measured,
                   std::uint64_t keys, Visit visit) {
  std::vector<std::string> order = maps;
  std::ranges::sort(order, std::greater{}, [&](const auto& m) { return measured.find(m, keys)->median; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j)
      visit(fmt::format("{} over {}", order[i], order[j]),
            over(*measured.find(order[i], keys), *measured.find(order[j], keys)),
            over(*measured.find(there(order[i]), keys), *measured.find(there(order[j]), keys)));
  }
}

constexpr double any_ratio = 1e9;

}  // namespace

judge order_kept(const std::vector<std::string>& maps, const renamed& there) {
  return of_measured(under_all(maps, {here, there}), [=](const readings& measured, std::uint64_t keys) {
    kept_pairs pairs;
    for_each_pair(maps, there, measured, keys,
                  [&](std::string of, const quotient& first, const quotient& then) {
                    if (first.middle < order_margin) return;
                    of += fmt::format(" ({:.2f}, then {:.2f})", first.middle, then.middle);
                    pairs.add(of, then, 1 / order_margin, any_ratio);
                  });
    return pairs.verdict("pairs that differ have the same order", 0.9);
  });
}

judge ratios_kept(const std::vector<std::string>& maps, const renamed& there) {
  return of_measured(under_all(maps, {here, there}), [=](const readings& measured, std::uint64_t keys) {
    kept_pairs pairs;
    for_each_pair(maps, there, measured, keys,
                  [&](const std::string& of, const quotient& first, const quotient& then) {
                    const quotient change = divided(then, first);
                    pairs.add(fmt::format("{} ({:.2f}, then {:.2f})", of, first.middle, then.middle), change,
                              1 / tolerance, tolerance);
                  });
    return pairs.verdict("ratios of two maps are the same up to a tenth", 0.5);
  });
}

judge scales(const std::vector<std::string>& maps, const std::vector<renamed>& steps) {
  return of_measured(under_all(maps, steps), [=](const readings& measured, std::uint64_t keys) {
    std::vector<std::string> parts;
    quotient least{any_ratio, any_ratio, any_ratio};
    std::string of;
    for (const std::string& map : maps) {
      const reading* before = measured.find(steps.front()(map), keys);
      const reading& last = *measured.find(steps.back()(map), keys);
      parts.push_back(fmt::format("{} {:.1f}", map, last.median / before->median));
      for (const renamed& step : steps) {
        const reading& now = *measured.find(step(map), keys);
        if (now.threads == before->threads) continue;
        const quotient gain = over(now, *before);
        if (gain.middle < least.middle) {
          least = gain;
          of = fmt::format("{} from {} to {} threads", map, before->threads, now.threads);
        }
        before = &now;
      }
    }
    if (of.empty()) return judgement{"There is one number of threads here.", agreement::not_measurable};
    return decide(fmt::format("All threads over the fewest: {}. The least step: {:.2f} times, {}",
                              fmt::join(parts, ", "), least.middle, of),
                  least, order_margin);
  });
}

judge does_not_scale(const std::string& map, const std::vector<renamed>& steps) {
  return of_measured(under_all({map}, steps), [=](const readings& measured, std::uint64_t keys) {
    const reading& first = *measured.find(steps.front()(map), keys);
    const reading& last = *measured.find(steps.back()(map), keys);
    if (first.threads == last.threads)
      return judgement{"There is one number of threads here.", agreement::not_measurable};
    const quotient gain = over(last, first);
    return decide(fmt::format("{} does {} with {} threads, {:.2f} times the {} with {}", map, millions(last),
                              last.threads, gain.middle, millions(first), first.threads),
                  divided({1, 1, 1}, gain), 0.5);
  });
}

namespace {

judgement not_counted() { return {"Not counted here.", agreement::not_measurable}; }

judgement decided(std::string sentence, bool holds) {
  return {std::move(sentence), holds ? agreement::agrees : agreement::differs};
}

constexpr double share_tolerance = 0.1;
bool same_share(double ours, double papers) { return std::abs(ours - papers) <= share_tolerance; }

}  // namespace

judge costs_near(const std::string& map, const std::string& what,
                 std::optional<double> operation_costs::* cost, double papers) {
  return of_measured({map}, [=](const readings& measured, std::uint64_t keys) {
    const auto& costs = measured.find(map, keys)->costs;
    if (!costs || !((*costs).*cost)) return not_counted();
    const double ours = *((*costs).*cost);
    return decided(fmt::format("{}: {:.1f} {}, in the paper {:.1f}.", map, ours, what, papers),
                   ours <= 2 * papers && ours >= papers / 2);
  });
}

judge unused_sets(const std::string& map, double l1, double l2, double llc) {
  return [=](const readings& measured, std::uint64_t keys) {
    const reading* const r = measured.find(map, keys);
    if (r == nullptr) return missing({map});
    if (!r->places) return not_counted();
    const node_places& p = *r->places;
    return decided(
        fmt::format("{}: no node in {:.1f} % of the sets of the L1, {:.1f} % of the L2, {:.1f} % of the last "
                    "level; in the paper {:.1f}, {:.1f} and {:.1f} %. It does {}.",
                    map, 100 * p.unused_l1, 100 * p.unused_l2, 100 * p.unused_llc, 100 * l1, 100 * l2,
                    100 * llc, millions(*r)),
        same_share(p.unused_l1, l1) && same_share(p.unused_l2, l2) && same_share(p.unused_llc, llc));
  };
}

judge leaves_near(const std::string& map, const std::string& what, std::optional<double> node_places::* share,
                  double papers) {
  return [=](const readings& measured, std::uint64_t keys) {
    const reading* const r = measured.find(map, keys);
    if (r == nullptr) return missing({map});
    if (!r->places || !((*r->places).*share)) return not_counted();
    const double ours = *((*r->places).*share);
    return decided(
        fmt::format("{}: {:.0f} % of {}, in the paper {:.0f} %.", map, 100 * ours, what, 100 * papers),
        same_share(ours, papers));
  };
}

std::vector<judged_claim> judge_all(const std::vector<claim>& claims, const readings& measured,
                                    const std::vector<std::uint64_t>& keys) {
  std::vector<judged_claim> findings;
  for (const claim& c : claims) {
    const bool another_machine = !c.machine.empty() && c.machine != measured.machine();
    if (another_machine && !measured.machine().empty()) continue;
    const auto has = [&](std::uint64_t k) {
      return c.keys.empty() || std::ranges::find(c.keys, k) != c.keys.end();
    };
    const bool as_in_the_paper = std::ranges::any_of(keys, has);
    for (const std::uint64_t k : keys) {
      if (as_in_the_paper && !has(k)) continue;
      judgement j = c.holds(measured, k);
      if (!as_in_the_paper) {
        std::vector<std::string> there;
        there.reserve(c.keys.size());
        for (const std::uint64_t p : c.keys) there.push_back(grouped(p));
        j = {fmt::format("{} The paper has it at {} keys.", j.sentence, fmt::join(there, " and ")),
             agreement::not_measurable};
      } else if (another_machine && !c.elsewhere) {
        j = {fmt::format("{} The paper has it on {}, which this machine is not.", j.sentence, c.machine),
             agreement::not_measurable};
      }
      if (j.verdict == agreement::differs && !c.because.empty() && !measured.machine().empty())
        j.sentence += ' ' + c.because;
      findings.push_back({c.paper, std::move(j), true, k});
    }
  }
  return findings;
}

}  // namespace espalier::app
