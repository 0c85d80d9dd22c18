#include "apps/studies/eunomia/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numbers>
#include <numeric>
#include <optional>

#include "apps/common/terminal.hpp"
#include "espalier/measure/distribution.hpp"

namespace espalier::app::eunomia {
namespace {

const std::string htm = baseline;
const std::string euno = eunomia_tree;
const std::string masstree = "masstree";
const std::string htm_masstree = "htm_masstree";

/// The four maps of the paper, and optimistic lock coupling, which it lacks.
const std::vector<std::string> compared_maps{euno, htm, masstree, htm_masstree, "olc_btree"};

/// Exponents of the sweep in figures 1, 2, 8 and 9; and of figure 10.
const std::vector<double> swept_thetas{0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99};
const std::vector<double> scaling_thetas{0.2, 0.6, 0.9, 0.99};
/// Percent of puts in figure 11.
const std::vector<unsigned> put_shares{100, 80, 50, 30};

/// A distribution of figure 12. The hottest tenth of the keys receives the shares that the paper states: 70, 67 and 66 %.
struct named_distribution {
  std::string name;
  std::string text;
  /// The standard deviation as a fraction of the keys, of a bell.
  std::optional<double> deviation{};
};
constexpr double ranges = 215;
const std::vector<named_distribution> distributions{
    {"Poisson", fmt::format("poisson:0.5,{}", ranges), std::sqrt(ranges / 2) / ranges},
    {"Normal", "normal:0.0513", 0.0513},
    {"Self-similar", "self-similar:0.232"},
    {"Zipfian", "zipfian:0.9"}};

constexpr double share_tolerance = 0.1;
// Readings of one load are judged together, so that the number of keys tells nothing apart.
constexpr std::uint64_t any_keys = 0;

judgement not_measured(const std::string& what) {
  return {fmt::format("Not measured: {}.", what), agreement::not_measurable};
}

/// Judges the claims of a page.
class judging {
 public:
  judging(const setting& where, const results& measured) : where_(where), measured_(measured) {}

  /// A claim that is made with this many threads. `form` receives the number that stands for it here.
  template <class Form>
  void claim(const std::string& paper, unsigned with_threads, Form&& form, bool of_paper = true) {
    const unsigned threads = where_.standing_for(with_threads);
    judgement j = form(threads);
    if (threads != with_threads && j.verdict != agreement::not_measurable)
      j = {fmt::format("{} {} {} threads, not {}.", j.sentence,
                       of_paper ? "The paper has it with" : "This is claimed of", with_threads, threads),
           agreement::not_measurable};
    add(paper, std::move(j), of_paper);
  }
  void add(const std::string& paper, judgement j, bool of_paper = true) {
    if (!where_.unjudged.empty() && j.verdict != agreement::not_measurable)
      j = {fmt::format("{} {}", j.sentence, where_.unjudged), agreement::not_measurable};
    j = unless_too_short(std::move(j), std::exchange(too_short_, {}));
    all_.push_back({paper, std::move(j), of_paper});
  }

  /// Says of the last claim, if it differs in a simulation, whether that is the model's doing, our program's or the paper's, and why.
  void because(const std::string& why) {
    judgement& last = all_.back().ours;
    if (where_.simulated && last.verdict == agreement::differs) last.sentence += ' ' + why;
  }

  /// A claim on the throughput of maps under one load.
  [[nodiscard]] judgement speed(const load& l, const judge& holds) const {
    readings there;
    for (const std::string& map : maps_) {
      if (const map_reading* r = measured_.find(l, map)) there.add(map, any_keys, r->speed);
    }
    return holds(there, any_keys);
  }

  struct named_load {
    std::string name;
    load at;
  };
  /// A claim on one map's throughput under several loads, by names such as "htm_btree at theta 0.5".
  [[nodiscard]] judgement speeds(const std::string& map, const std::vector<named_load>& loads,
                                 const judge& holds) const {
    readings there;
    for (const auto& [name, at] : loads) {
      if (const map_reading* r = measured_.find(at, map)) there.add(name, any_keys, r->speed);
    }
    return holds(there, any_keys);
  }

  [[nodiscard]] const map_reading* find(const load& l, const std::string& map) const {
    const map_reading* const r = measured_.find(l, map);
    if (r != nullptr && !r->speed.too_short.empty())
      too_short_ = fmt::format("{} ({}).", r->speed.too_short, map);
    return r;
  }
  /// Which a run that is too short for a speed tells as well.
  [[nodiscard]] std::optional<double> bytes_per_key(const load& l, const std::string& map) const {
    const map_reading* const r = measured_.find(l, map);
    return r != nullptr ? r->bytes_per_key : std::nullopt;
  }
  [[nodiscard]] const abort_counts* aborts(const load& l, const std::string& map) const {
    const map_reading* const r = find(l, map);
    return r != nullptr && r->aborts ? &*r->aborts : nullptr;
  }

  /// One number over another has at least half of the paper's effect.
  [[nodiscard]] static judgement ratio(const std::string& what, double ours, double other, double papers) {
    std::string sentence =
        fmt::format("{}: {:.3g} and {:.3g}, in the paper {:.3g} times", what, ours, other, papers);
    if (other == 0) return {sentence + '.', ours > 0 ? agreement::agrees : agreement::not_measurable};
    sentence += fmt::format(", here {:.2f}.", ours / other);
    return {std::move(sentence),
            ours / other >= 1 + (papers - 1) / 2 ? agreement::agrees : agreement::differs};
  }

  /// A share lies in the paper's range, or less than ten points outside of it, and not below half of it.
  [[nodiscard]] static judgement share(const std::string& what, double ours, double low, double high) {
    const std::string papers = low == high ? fmt::format("{:.0f} %", low * 100)
                               : high == 1 ? fmt::format("more than {:.0f} %", low * 100)
                                           : fmt::format("{:.0f} to {:.0f} %", low * 100, high * 100);
    return {fmt::format("{}: {:.0f} %, in the paper {}.", what, ours * 100, papers),
            ours >= std::max(low - share_tolerance, low / 2) && ours <= high + share_tolerance
                ? agreement::agrees
                : agreement::differs};
  }

  /// The work of an operation in one map over that in another.
  [[nodiscard]] judgement work(const load& l, const std::string& more, const std::string& less,
                               double papers) const {
    const map_reading* const a = find(l, more);
    const map_reading* const b = find(l, less);
    if (a == nullptr || b == nullptr || !a->work || !b->work) return not_measured("instructions");
    return ratio(fmt::format("{} of an operation in {} and in {}",
                             where_.simulated ? "Accesses to memory" : "Instructions", more, less),
                 *a->work, *b->work, papers);
  }

  /// The greatest throughput is at one of the first of these numbers of threads, and that with the most is less.
  [[nodiscard]] judgement collapses_after(const std::string& map, load l, unsigned papers) const {
    std::vector<std::string> parts;
    double best = 0;
    unsigned best_at = 0;
    double last = 0;
    for (const unsigned threads : where_.threads) {
      l.threads = threads;
      const map_reading* const r = find(l, map);
      if (r == nullptr) return not_measured(map);
      last = r->speed.median;
      parts.push_back(fmt::format("{}: {:.2f}", threads, last / 1e6));
      if (last <= best) continue;
      best = last;
      best_at = threads;
    }
    return {fmt::format("{} does, in Mop/s by threads, {}. It is fastest with {}.", map,
                        fmt::join(parts, ", "), best_at),
            best_at <= papers && last < best ? agreement::agrees : agreement::differs};
  }

  void compare(std::vector<std::string> maps) { maps_ = std::move(maps); }
  std::vector<judged_claim> take() { return std::move(all_); }
  [[nodiscard]] const setting& where() const { return where_; }

 private:
  const setting& where_;
  const results& measured_;
  std::vector<std::string> maps_ = compared_maps;
  std::vector<judged_claim> all_;
  /// Of a reading that was looked at since the last claim.
  mutable std::string too_short_;
};

// Why some claims differ on the simulated machine -----------------------------------------------------------------------

constexpr double papers_keys = 1e8;
constexpr double leaf_keys = 15;

constexpr const char* lean_masstree =
    "Program: the masstree here has one layer, for keys of eight bytes, and values in place; the published "
    "program also looks at key lengths, suffixes and blocks of values.";
constexpr const char* no_common_counts =
    "Program: a put of a present key changes nothing but its record in the htm_btree here; a put of the "
    "paper's program changes counts or versions that other records share.";
constexpr const char* own_record =
    "Program: a put of a present key changes nothing but its record here, so few of these transactions "
    "conflict.";
constexpr const char* seldom_conflicts =
    "Model: at this exponent two requests seldom hit the same leaf. So transactions seldom conflict, and "
    "throughput grows with the threads; it also does with ten times the keys.";
constexpr const char* waits_for_lines =
    "Model: an attempt waits for lines that other cores write, many times as long as for the path to the "
    "leaf, which is what this step saves.";
constexpr const char* counted_accesses =
    "Model: accesses cost time, and the arithmetic between them none. So steps that touch more memory are a "
    "greater share of an operation here.";

/// Where keys are drawn from a bell with this standard deviation.
std::string seldom_in_one_leaf(double deviation) {
  const double chance = leaf_keys / (2 * std::sqrt(std::numbers::pi) * deviation);
  return fmt::format(
      "Paper: with the stated share for the hottest tenth of its keys, two requests are for one leaf of {} "
      "keys once in {}; {} threads hardly ever conflict.",
      leaf_keys, grouped(static_cast<std::uint64_t>(1 / chance)), most_threads);
}
/// The hottest key's share of the requests under Zipf's law.
double hottest_key(double theta, double keys) {
  return 1 / (1 + (std::pow(keys + 0.5, 1 - theta) - std::pow(1.5, 1 - theta)) / (1 - theta));
}
std::string fewer_keys(double theta, std::uint64_t keys) {
  return fmt::format(
      "Model: of {} keys the hottest receives {:.1f} % of the requests, of the paper's {:.1f} %.",
      grouped(keys), hottest_key(theta, static_cast<double>(keys)) * 100,
      hottest_key(theta, papers_keys) * 100);
}

// Skew ----------------------------------------------------------------------------------------------------------------

std::vector<load> sweep(const setting& where) {
  std::vector<load> all;
  for (const double theta : swept_thetas)
    all.push_back(zipfian(theta, 50, where.standing_for(sweep_threads)));
  return all;
}

double hottest_tenth(double theta, double keys) {
  // Zipf's law summed as an integral from one half on, which is exact enough for a percentage.
  const auto below = [=](double rank) {
    return (std::pow(rank + 0.5, 1 - theta) - std::pow(0.5, 1 - theta)) / (1 - theta);
  };
  return below(keys / 10) / below(keys);
}

void judge_skew(judging& j) {
  const auto at = [](double theta) {
    return [theta](unsigned threads) { return zipfian(theta, 50, threads); };
  };
  const auto speed = [&](double theta, const judge& holds) {
    return [&j, l = at(theta), holds](unsigned threads) { return j.speed(l(threads), holds); };
  };
  j.claim("Below theta = 0.6 htm_btree has high and stable performance (figure 1, section 2.3)",
          sweep_threads, [&](unsigned threads) {
            return j.speeds(htm,
                            {{"htm_btree at theta 0.5", zipfian(0.5, 50, threads)},
                             {"htm_btree at theta 0", zipfian(0, 50, threads)}},
                            alike("htm_btree at theta 0.5", "htm_btree at theta 0"));
          });
  j.claim("Above theta = 0.6 htm_btree drops sharply: below 3 M at 0.9 (figure 1, section 2.3)",
          sweep_threads, [&](unsigned threads) {
            return j.speeds(htm,
                            {{"htm_btree at theta 0.5", zipfian(0.5, 50, threads)},
                             {"htm_btree at theta 0.9", zipfian(0.9, 50, threads)}},
                            far_faster("htm_btree at theta 0.5", "htm_btree at theta 0.9"));
          });
  j.claim("At theta = 0.9 aborts and retries waste more than 94 % of the cycles (section 2.3)", sweep_threads,
          [&](unsigned threads) {
            const map_reading* const calm = j.find(zipfian(0, 50, threads), htm);
            const map_reading* const hot = j.find(zipfian(0.9, 50, threads), htm);
            if (calm == nullptr || hot == nullptr) return not_measured(htm);
            return judging::share("Cycles of an operation beyond those of one at theta 0, taken as wasted",
                                  std::max(0.0, 1 - hot->speed.median / calm->speed.median), 0.94, 1);
          });
  j.claim("At theta = 0.5 euno_btree is as fast as htm_btree (figure 8, section 5.2)", sweep_threads,
          speed(0.5, alike(euno, htm)));
  j.claim("At theta = 0.5 euno_btree is 36.85 % faster than masstree (figure 8, section 5.2)", sweep_threads,
          speed(0.5, faster(euno, masstree, 1.3685)));
  j.because(lean_masstree);
  j.claim("At theta = 0.5 masstree executes 2.10 times the instructions of euno_btree (section 5.2)",
          sweep_threads,
          [&](unsigned threads) { return j.work(zipfian(0.5, 50, threads), masstree, euno, 2.10); });
  j.because(lean_masstree);
  j.add("A put of masstree checks or changes versions about 15 times (section 5.2)",
        not_measured("checks of versions are not counted"));
  j.claim(
      "At theta = 0.99 euno_btree has 11 times the throughput of htm_btree, 18.6 M against 1.7 M (figure 8)",
      sweep_threads, speed(0.99, faster(euno, htm, 11)));
  j.claim("At theta = 0.99 euno_btree is 65 % faster than masstree (figure 8, section 5.2)", sweep_threads,
          speed(0.99, faster(euno, masstree, 1.65)));
  j.claim("At theta = 0.99 euno_btree executes 40 % fewer instructions than masstree (section 5.2)",
          sweep_threads,
          [&](unsigned threads) { return j.work(zipfian(0.99, 50, threads), masstree, euno, 1 / 0.6); });
  j.because(lean_masstree);
  for (const double theta : {0.5, 0.99})
    j.claim(fmt::format("At theta = {} htm_masstree is slower than masstree (figure 8, section 5.2)", theta),
            sweep_threads, speed(theta, faster(masstree, htm_masstree)));
  const double ours = hottest_tenth(0.99, papers_keys);
  judgement hot = judging::share("By the formula of section 5.1, of 100,000,000 keys", ours, 0.41, 0.41);
  j.add("With theta = 0.99 the hottest tenth of the keys receives 41 % of the requests (section 5.1)",
        std::move(hot));
  j.because(fmt::format("Paper: theta = 0.6 gives {:.0f} %.", hottest_tenth(0.6, papers_keys) * 100));
}

// Aborts --------------------------------------------------------------------------------------------------------------

judgement fewer_aborts(const judging& j, const load& l) {
  const abort_counts* const whole = j.aborts(l, htm);
  const abort_counts* const split = j.aborts(l, euno);
  if (whole == nullptr || split == nullptr) return not_measured("transactions");
  return judging::ratio("Aborts of an operation in htm_btree and euno_btree", whole->all(), split->all(),
                        60.3 / 1.9);
}

void judge_aborts(judging& j) {
  j.claim("htm_btree aborts 47 times as often at theta = 0.9 as at 0.5 (figure 2, section 2.3)",
          sweep_threads, [&](unsigned threads) {
            const abort_counts* const hot = j.aborts(zipfian(0.9, 50, threads), htm);
            const abort_counts* const calm = j.aborts(zipfian(0.5, 50, threads), htm);
            if (hot == nullptr || calm == nullptr) return not_measured("transactions");
            return judging::ratio("Aborts of an operation at theta 0.9 and 0.5", hot->all(), calm->all(), 47);
          });
  j.claim(
      "At theta = 0.99 htm_btree aborts 60.3 times an operation, euno_btree 1.9 times (figure 9, section "
      "5.2)",
      sweep_threads, [&](unsigned threads) { return fewer_aborts(j, zipfian(0.99, 50, threads)); });
  const auto of_conflicts = [&](const char* what, std::vector<std::string> causes, double low, double high) {
    return [&j, what, causes = std::move(causes), low, high](unsigned threads) -> judgement {
      const abort_counts* const a = j.aborts(zipfian(0.9, 50, threads), htm);
      if (a == nullptr) return not_measured("transactions");
      if (!j.where().simulated) return not_measured("a processor does not tell conflicts apart");
      const double all = a->of("true conflict") + a->of("false conflict") + a->of("metadata");
      if (all == 0) return not_measured("there was no conflict");
      double these = 0;
      for (const std::string& cause : causes) these += a->of(cause);
      return judging::share(what, these / all, low, high);
    };
  };
  j.claim(
      "87 to 90 % of the conflicts are between requests for different keys (figure 2, section 2.3)",
      sweep_threads,
      of_conflicts("Of the conflicts of htm_btree at theta 0.9", {"false conflict", "metadata"}, 0.87, 0.90));
  j.because(fewer_keys(0.9, j.where().keys));
  j.claim("6 to 10 % of the conflicts are about shared metadata (figure 2, section 2.3)", sweep_threads,
          of_conflicts("Of the conflicts of htm_btree at theta 0.9", {"metadata"}, 0.06, 0.10));
  j.because(no_common_counts);
  j.claim("9 to 12 % of the conflicts are between requests for the same record (figure 2, section 2.3)",
          sweep_threads,
          of_conflicts("Of the conflicts of htm_btree at theta 0.9", {"true conflict"}, 0.09, 0.12));
  j.because(fewer_keys(0.9, j.where().keys));
  j.claim("More than 90 % of the conflicts occur in leaves (section 2.3)", sweep_threads,
          [&](unsigned threads) -> judgement {
            const abort_counts* const a = j.aborts(zipfian(0.9, 50, threads), "euno_btree/split_htm");
            if (a == nullptr || a->by_region.size() != 2) return not_measured("transactions by region");
            const double upper = a->by_region.front().second;
            const double lower = a->by_region.back().second;
            if (upper + lower == 0) return not_measured("there was no conflict");
            return judging::share(
                "Of the conflicts of euno_btree/split_htm, whose leaves are those of htm_btree, in the "
                "region of the leaf",
                lower / (upper + lower), 0.9, 1);
          });
}

// Inserts and erases --------------------------------------------------------------------------------------------------

load changing(double theta, unsigned threads) {
  load l = zipfian(theta, 50, threads);
  l.inserts = true;
  return l;
}

void judge_changes(judging& j) {
  const auto hot = [](unsigned threads) { return changing(0.99, threads); };
  j.claim(
      "Inserts and erases at theta = 0.99 gain as much as the paper's puts: 11 times the throughput of "
      "htm_btree",
      sweep_threads, [&](unsigned threads) { return j.speed(hot(threads), faster(euno, htm, 11)); }, false);
  j.claim(
      "Inserts and erases at theta = 0.99 gain 65 % over masstree, too", sweep_threads,
      [&](unsigned threads) { return j.speed(hot(threads), faster(euno, masstree, 1.65)); }, false);
  j.claim(
      "Inserts and erases at theta = 0.99 abort 60.3 times in htm_btree for 1.9 times in euno_btree, too",
      sweep_threads, [&](unsigned threads) { return fewer_aborts(j, hot(threads)); }, false);
}

// Threads -------------------------------------------------------------------------------------------------------------

std::vector<load> over_threads(const setting& where, load l) {
  std::vector<load> all;
  for (const unsigned threads : where.threads) {
    l.threads = threads;
    all.push_back(l);
  }
  return all;
}

void judge_threads(judging& j) {
  const auto speed = [&](double theta, const judge& holds) {
    return [&j, theta, holds](unsigned threads) { return j.speed(zipfian(theta, 50, threads), holds); };
  };
  j.claim("At theta = 0.2 euno_btree is very close to htm_btree (figure 10a, section 5.3)", most_threads,
          speed(0.2, alike(euno, htm)));
  j.claim("At theta = 0.2 masstree executes 40 % more instructions than euno_btree (section 5.3)",
          most_threads,
          [&](unsigned threads) { return j.work(zipfian(0.2, 50, threads), masstree, euno, 1.4); });
  j.because(lean_masstree);
  j.claim("At theta = 0.2 htm_masstree does not scale beyond 8 threads (figure 10a, section 5.3)",
          most_threads, [&](unsigned) { return j.collapses_after(htm_masstree, zipfian(0.2, 50, 1), 8); });
  j.because(own_record);
  j.claim("At theta = 0.6 htm_btree collapses after 4 threads (figure 10b, section 5.3)", most_threads,
          [&](unsigned) { return j.collapses_after(htm, zipfian(0.6, 50, 1), 4); });
  j.because(seldom_conflicts);
  j.claim("At theta = 0.9 euno_btree is 52 to 63 % faster than masstree (figure 10c, section 5.3)",
          most_threads, speed(0.9, faster(euno, masstree, 1.52)));
  j.claim("At theta = 0.99 euno_btree does 21.9 M, masstree 13.1 M (figure 10d, section 5.3)", most_threads,
          speed(0.99, faster(euno, masstree, 21.9 / 13.1)));
}

// Gets and puts -------------------------------------------------------------------------------------------------------

void judge_puts(judging& j) {
  j.claim("euno_btree scales nearly linearly with each ratio (figure 11, section 5.4)", most_threads,
          [&](unsigned threads) -> judgement {
            std::vector<std::string> parts;
            bool all = true;
            for (const unsigned puts : put_shares) {
              const map_reading* const one = j.find(zipfian(0.9, puts, 1), euno);
              const map_reading* const many = j.find(zipfian(0.9, puts, threads), euno);
              if (one == nullptr || many == nullptr) return not_measured(euno);
              const double gained = many->speed.median / one->speed.median;
              parts.push_back(fmt::format("{:.1f} at {}/{}", gained, 100 - puts, puts));
              all = all && gained >= 1 + (threads - 1) / 2.0;
            }
            return {fmt::format("Throughput with {} threads over that with one: {}.", threads,
                                fmt::join(parts, ", ")),
                    all ? agreement::agrees : agreement::differs};
          });
  j.claim("The speed-up of euno_btree over htm_btree grows with the share of puts (figure 11, section 5.4)",
          most_threads, [&](unsigned threads) -> judgement {
            std::vector<std::string> parts;
            std::vector<double> ratios;
            for (const unsigned puts : put_shares) {
              const map_reading* const a = j.find(zipfian(0.9, puts, threads), euno);
              const map_reading* const b = j.find(zipfian(0.9, puts, threads), htm);
              if (a == nullptr || b == nullptr) return not_measured(euno);
              ratios.push_back(a->speed.median / b->speed.median);
              parts.push_back(fmt::format("{:.2f} at {}/{}", ratios.back(), 100 - puts, puts));
            }
            return {fmt::format("euno_btree over htm_btree: {}.", fmt::join(parts, ", ")),
                    std::ranges::is_sorted(ratios, std::greater{}) && ratios.front() > ratios.back()
                        ? agreement::agrees
                        : agreement::differs};
          });
  for (const unsigned puts : put_shares)
    j.claim(fmt::format(
                "masstree is 25 % slower than euno_btree on average: here at {}/{} (figure 11, section 5.4)",
                100 - puts, puts),
            most_threads, [&](unsigned threads) {
              return j.speed(zipfian(0.9, puts, threads), faster(euno, masstree, 1 / 0.75));
            });
}

// Distributions -------------------------------------------------------------------------------------------------------

void judge_distributions(judging& j) {
  for (const auto& [name, text, deviation] : distributions) {
    const load l{text, 50, 1};
    const auto with = [l](unsigned threads) { return load{l.distribution, l.puts, threads}; };
    if (name == "Normal")
      j.claim("Normal: htm_btree stays at a low level (figure 12b, section 5.5)", most_threads,
              [&](unsigned threads) {
                return j.speeds(
                    htm, {{"htm_btree with all threads", with(threads)}, {"htm_btree with one", with(1)}},
                    alike("htm_btree with all threads", "htm_btree with one"));
              });
    else
      j.claim(fmt::format("{}: htm_btree collapses after 2 or 4 threads (figure 12, section 5.5)", name),
              most_threads, [&](unsigned) { return j.collapses_after(htm, l, 4); });
    if (deviation) j.because(seldom_in_one_leaf(*deviation * papers_keys));
    j.claim(fmt::format("{}: masstree is 38 to 51 % slower than euno_btree (figure 12, section 5.5)", name),
            most_threads,
            [&](unsigned threads) { return j.speed(with(threads), faster(euno, masstree, 1 / 0.6)); });
    j.because(lean_masstree);
  }
}

// The ladder ----------------------------------------------------------------------------------------------------------

void judge_ladder(judging& j) {
  std::vector<std::string> maps{htm};
  for (const rung& r : ladder()) maps.emplace_back(r.map);
  j.compare(maps);
  for (const rung& r : ladder()) {
    if (!r.contended) continue;
    j.claim(fmt::format("With theta = 0.9, {} has {:.2f} times the baseline's throughput (figure 13)",
                        r.choice, *r.contended),
            most_threads, [&](unsigned threads) {
              return j.speed(zipfian(0.9, 50, threads), faster(r.map, htm, *r.contended));
            });
    j.because(waits_for_lines);
  }
  // Overhead without contention does not rest on the number of threads.
  const load calm = zipfian(0.2, 50, j.where().standing_for(most_threads));
  for (const rung& r : ladder()) {
    j.add(fmt::format(
              "With theta = 0.2, {} has {:.2f} times the baseline's throughput (figure 13, section 5.6)",
              r.choice, r.calm),
          j.speed(calm, nearly(r.map, htm, r.calm)));
    j.because(counted_accesses);
  }
}

// Memory --------------------------------------------------------------------------------------------------------------

void judge_memory(judging& j) {
  const auto overhead = [&](const std::vector<load>& loads, double papers) -> judgement {
    std::vector<double> all;
    for (const load& l : loads) {
      const auto ours = j.bytes_per_key(l, euno);
      const auto baselines = j.bytes_per_key(l, htm);
      if (!ours || !baselines) return not_measured("bytes per key");
      all.push_back(*ours / *baselines - 1);
    }
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    const auto [least, most] = std::ranges::minmax(all);
    return {fmt::format("euno_btree holds {:.1f} % more than htm_btree on average ({:.1f} to {:.1f} %), in "
                        "the paper {:.2f} %.",
                        mean * 100, least * 100, most * 100, papers * 100),
            mean <= papers + 0.05 ? agreement::agrees : agreement::differs};
  };
  const unsigned threads = j.where().standing_for(sweep_threads);
  j.add("Over all exponents the memory overhead is 5.64 % on average, from 2.44 to 7.64 % (section 5.7)",
        overhead(sweep(j.where()), 0.0564));
  std::vector<load> ratios;
  for (const unsigned puts : put_shares) ratios.push_back(zipfian(0.9, puts, threads));
  j.add(
      "Over ratios of gets and puts the memory overhead is 4.21 % on average, from 2.91 to 5.80 % (section "
      "5.7)",
      overhead(ratios, 0.0421));
  for (const auto& [name, papers] :
       {std::pair{"Self-similar", 0.0220}, {"Poisson", 0.0691}, {"Uniform", 0.0225}}) {
    const auto found = std::ranges::find(distributions, name, &named_distribution::name);
    const load l = found == distributions.end() ? zipfian(0, 50, threads) : load{found->text, 50, threads};
    j.add(fmt::format("{}: the memory overhead is {:.2f} % (section 5.7)", name, papers * 100),
          overhead({l}, papers));
  }
}

std::function<std::vector<judged_claim>(const results&)> judged_by(const setting& where,
                                                                   void (*judge)(judging&)) {
  return [where, judge](const results& measured) {
    judging j(where, measured);
    judge(j);
    return j.take();
  };
}

void judge_verdict(judging& j) {
  const load l = zipfian(verdict_theta, 50, j.where().standing_for(sweep_threads));
  const bool other_keys = j.where().keys != verdict_keys;
  const auto add = [&](const std::string& claim, judgement found) {
    if (other_keys && found.verdict != agreement::not_measurable)
      found = {fmt::format("{} This is claimed of {} keys.", found.sentence, grouped(verdict_keys)),
               agreement::not_measurable};
    j.add(claim, std::move(found), false);
  };
  constexpr double most_aborts = 0.2;
  const abort_counts* const ours = j.aborts(l, euno);
  const abort_counts* const theirs = j.aborts(l, htm);
  judgement aborts = not_measured("transactions");
  if (ours != nullptr && theirs != nullptr)
    aborts = {fmt::format("{} aborts {:.4f} times an operation, {} {:.4f} times.", euno, ours->all(), htm,
                          theirs->all()),
              ours->all() <= most_aborts * theirs->all() ? agreement::agrees : agreement::differs};
  add("At theta = 0.99 euno_btree aborts at most a fifth as often as htm_btree", std::move(aborts));
  for (const std::string& other : {htm, masstree})
    add(fmt::format("At theta = 0.99 the throughput of euno_btree is at least that of {}", other),
        j.speed(l, no_slower(euno, other)));
}

}  // namespace

const std::vector<rung>& ladder() {
  // The text gives what each choice costs beside the one before it.
  static const std::vector<rung> all{{"euno_btree/split_htm", "Split HTM", 1.83, 0.97},
                                     {"euno_btree/part_leaf", "+ Part Leaf", 4.58, 0.93},
                                     {"euno_btree/lock_bits", "+ CCM lockbits", 9.68, 0.86},
                                     {"euno_btree/mark_bits", "+ CCM markbits", 11.10, 0.84},
                                     {eunomia_tree, "+ Adaptive", std::nullopt, 0.98}};
  return all;
}

std::string load::name() const {
  return inserts ? fmt::format("{}, {}/{}/{}", distribution, 100 - puts, puts / 2, puts - puts / 2)
                 : fmt::format("{}, {}/{}", distribution, 100 - puts, puts);
}

load zipfian(double theta, unsigned puts, unsigned threads) {
  return {theta == 0 ? "uniform" : fmt::format("zipfian:{}", theta), puts, threads};
}

std::shared_ptr<const workload::workload_plan> plan_of(const load& l, std::uint64_t keys,
                                                       std::uint64_t seed) {
  using namespace workload;
  using namespace measure;
  const distribution_spec spec = distribution_spec::parse(l.distribution);
  const unsigned erases = l.inserts ? l.puts - l.puts / 2 : 0;
  const unsigned inserts = l.inserts ? l.puts / 2 : 0;
  const unsigned overwrites = l.inserts ? 0 : l.puts;
  const std::string name = l.name();
  operation_mix mix(name.substr(name.find(' ') + 1), {100 - l.puts, inserts, erases, overwrites, 0, 0});
  return std::make_shared<const workload_plan>(workload_plan{l.name(),
                                                             std::move(mix),
                                                             key_space(key_order::sequential, keys, seed),
                                                             distribution(spec, keys, seed),
                                                             permutation(keys, seed + 1),
                                                             keys,
                                                             false,
                                                             {}});
}

unsigned setting::standing_for(unsigned papers) const {
  unsigned found = threads.front();
  for (const unsigned n : threads) {
    if (n <= papers) found = n;
  }
  return found;
}

double abort_counts::all() const noexcept {
  double sum = 0;
  for (const auto& [cause, count] : by_cause) sum += count;
  return sum;
}

double abort_counts::of(const std::string& cause) const noexcept {
  const auto found = std::ranges::find(by_cause, cause, &named_counts::value_type::first);
  return found == by_cause.end() ? 0 : found->second;
}

std::vector<page> pages_of(const setting& where) {
  std::vector<page> pages;
  const auto add = [&](std::string id, std::string called, std::string summary, std::vector<std::string> maps,
                       std::vector<load> loads, void (*judge)(judging&)) {
    pages.push_back({std::move(id), std::move(called), std::move(summary), std::move(maps), std::move(loads),
                     judged_by(where, judge)});
  };
  add("skew", "Skew",
      "Throughput as the keys of the requests become fewer, half of them puts. The paper runs 16 threads "
      "(figures 1 and 8).",
      compared_maps, sweep(where), judge_skew);
  add("aborts", "Why transactions abort",
      "Aborts of the same runs, by cause and by region (figures 2 and 9). A conflict is true if both "
      "requests are for one record.",
      {baseline, eunomia_tree, htm_masstree, "euno_btree/split_htm"}, sweep(where), judge_aborts);

  std::vector<load> loads;
  for (const double theta : scaling_thetas)
    loads.push_back(changing(theta, where.standing_for(sweep_threads)));
  add("changes", "Inserts and erases",
      "Instead of puts that overwrite values, inserts and erases, with theta from 0.2 to 0.99. The paper "
      "measures no erases. They show what its text is about: changes of the leaves themselves.",
      compared_maps, loads, judge_changes);

  loads.clear();
  for (const double theta : scaling_thetas)
    std::ranges::copy(over_threads(where, zipfian(theta, 50, 1)), std::back_inserter(loads));
  add("threads", "Threads", "Throughput over threads, with little skew and much (figure 10).", compared_maps,
      loads, judge_threads);
  loads.clear();
  for (const unsigned puts : put_shares)
    std::ranges::copy(over_threads(where, zipfian(0.9, puts, 1)), std::back_inserter(loads));
  add("puts", "Gets and puts",
      "Throughput over threads with other ratios of gets and puts, theta = 0.9 (figure 11).", compared_maps,
      loads, judge_puts);
  loads.clear();
  for (const auto& d : distributions)
    std::ranges::copy(over_threads(where, {d.text, 50, 1}), std::back_inserter(loads));
  add("distributions", "Distributions",
      "Throughput over threads where the hottest tenth of the keys receives 66 to 71 % of the requests, by "
      "four laws (figure 12).",
      compared_maps, loads, judge_distributions);

  std::vector<std::string> rungs{baseline};
  for (const rung& r : ladder()) rungs.emplace_back(r.map);
  const unsigned most = where.standing_for(most_threads);
  add("ladder", "One design choice after the other",
      "The baseline, and the choices of Eunomia in their order, with theta = 0.9 and 0.2 (figure 13); and "
      "where inserts and erases change the leaves.",
      rungs, {zipfian(0.9, 50, most), zipfian(0.2, 50, most), changing(0.99, most)}, judge_ladder);
  if (where.simulated) {
    loads = sweep(where);
    const unsigned threads = where.standing_for(sweep_threads);
    const auto add_once = [&](load l) {
      if (std::ranges::find(loads, l) == loads.end()) loads.push_back(std::move(l));
    };
    for (const unsigned puts : put_shares) add_once(zipfian(0.9, puts, threads));
    for (const auto& d : distributions) add_once({d.text, 50, threads});
    add("memory", "Memory", "Bytes that a map holds after the run, for each key (section 5.7).",
        {baseline, eunomia_tree}, loads, judge_memory);
  }
  return pages;
}

page verdict_page(const setting& where) {
  return {"verdict",
          "What the library claims",
          fmt::format("theta = {}, as many gets as puts, {} keys in the map.", verdict_theta,
                      grouped(where.keys)),
          compared_maps,
          {zipfian(verdict_theta, 50, where.standing_for(sweep_threads))},
          judged_by(where, judge_verdict)};
}

}  // namespace espalier::app::eunomia
