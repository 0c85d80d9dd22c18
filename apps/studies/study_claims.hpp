#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// The findings of a paper as claims that measurements can confirm or not. This file is independent of how throughput
// was obtained: on a machine, or on a simulated one.

namespace espalier::app {

/// The average costs of an operation, where they are counted.
struct operation_costs {
  double accesses;
  double memory_lines;  // fetched from memory, not from any cache
  double page_walks;
  // Lines that a search did not find in its core's L2, and in its socket's last level.
  std::optional<double> l2_misses{};
  std::optional<double> llc_misses{};
};

/// Where the nodes of a map lie, as shares.
struct node_places {
  // Of the sets of a cache: those in which no node lies.
  double unused_l1;
  double unused_l2;
  double unused_llc;
  // Of the nodes with a leaf as a child: those with such a leaf in their line, and in the line before or after. Of the latter:
  // those whose pair of lines, which are fetched together, does not have the leaf. Unset for a map without leaves.
  std::optional<double> leaf_in_line{};
  std::optional<double> leaf_in_next_line{};
  std::optional<double> leaf_in_next_pair{};
};

/// What was measured, by what it is of.
template <class Reading, class... Key>
class readings_at {
 public:
  void add(const Key&... of, Reading r) { all_.insert_or_assign({of...}, std::move(r)); }
  [[nodiscard]] const Reading* find(const Key&... of) const {
    const auto found = all_.find({of...});
    return found == all_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::tuple<Key...>, Reading> all_;
};

/// Operations per second of one map; the minimum and the maximum of its runs.
struct reading {
  double median;
  double least;
  double most;
  std::optional<std::size_t> node_bytes;
  std::optional<operation_costs> costs{};  // g++ wants {} of what may be left out, here and elsewhere
  /// Round by round, if maps were measured in turns. A temporary slowdown of the machine affects all maps of a round,
  /// so that a ratio within a round says more than one of medians. Comparable within one session only.
  std::vector<double> rounds{};
  std::size_t session = 0;
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
  /// With which it was measured; 0 if that does not matter.
  unsigned threads = 0;
  std::optional<node_places> places{};
};

/// The measurements of one machine, by map and number of keys.
class readings : public readings_at<reading, std::string, std::uint64_t> {
 public:
  /// The machine from the paper that was measured or simulated; empty for any other.
  explicit readings(std::string machine = {}) : machine_(std::move(machine)) {}

  [[nodiscard]] const std::string& machine() const noexcept { return machine_; }

 private:
  std::string machine_;
};

enum class agreement : unsigned char { agrees, differs, too_short, not_measurable };

[[nodiscard]] constexpr std::string_view to_string(agreement verdict) noexcept {
  return verdict == agreement::agrees      ? "agrees"
         : verdict == agreement::differs   ? "differs"
         : verdict == agreement::too_short ? "not judged: the run is too short"
                                           : "not measurable here";
}

/// A sentence with the numbers, and the resulting verdict on the paper's claim.
struct judgement {
  std::string sentence;
  agreement verdict;
};
/// With the verdict that the run is too short, if there is a reason to say so and it has been judged.
[[nodiscard]] judgement unless_too_short(judgement j, const std::string& why);
using judge = std::function<judgement(const readings&, std::uint64_t keys)>;

/// A claim that was judged once.
struct judged_claim {
  std::string claim;
  judgement ours;
  /// Whether it is the paper's claim, or a consequence of it.
  bool of_paper = true;
  /// At which it was judged, if the figure has several.
  std::optional<std::uint64_t> keys{};
  /// Of a simulation, if the figure has several.
  std::string machine{};

  /// States the source, for texts that have no other place for it.
  [[nodiscard]] std::string source() const { return of_paper ? "The paper" : "Beyond the paper"; }
};

// A claim in parts, all of which hold. What a part looks at are the results of a study.

/// A sentence with the numbers, and whether the part holds.
template <class Results>
using claim_part = std::function<judgement(const Results&)>;

template <class Results>
struct claim_in_parts {
  std::string paper;
  std::vector<claim_part<Results>> parts;
  bool of_paper = true;
  /// Where it differs on the paper's machine: whether that is the model's doing, our program's or the paper's, and why.
  std::function<std::string(const Results&)> why = {};

  [[nodiscard]] judged_claim judged(const Results& measured) const {
    judgement all{"", agreement::agrees};
    bool differs = false;
    for (const claim_part<Results>& p : parts) {
      const judgement found = p(measured);
      if (all.sentence.find(found.sentence) == std::string::npos)
        all.sentence += (all.sentence.empty() ? "" : " ") + found.sentence;
      all.verdict = std::max(all.verdict, found.verdict);  // in the order of their weight
      differs = differs || found.verdict == agreement::differs;
    }
    // Whatever the other parts would say.
    if (differs) all.verdict = agreement::differs;
    if (differs && why) all.sentence += " " + why(measured);
    return {paper, std::move(all), of_paper};
  }
};

/// Judges each of them.
template <class Results>
[[nodiscard]] std::function<std::vector<judged_claim>(const Results&)> judged(
    std::vector<claim_in_parts<Results>> claims) {
  return [claims = std::move(claims)](const Results& measured) {
    std::vector<judged_claim> found;
    for (const claim_in_parts<Results>& one : claims) found.push_back(one.judged(measured));
    return found;
  };
}

/// A statement of the paper.
struct claim {
  /// Paraphrased, with the place in the paper.
  std::string paper;
  /// Numbers of keys for which the paper makes it; empty for any.
  std::vector<std::uint64_t> keys;
  judge holds;
  /// The machine for which the paper makes it; empty for all of its machines.
  std::string machine{};
  /// Whether the paper gives reason to expect it on other machines as well.
  bool elsewhere = true;
  /// Where it differs on a simulated machine of the paper: whether that is the model's doing, our program's or the paper's, and
  /// why.
  std::string because{};
};

/// Judges each claim at each number of keys for which the paper makes it. If none of those was measured, at all that
/// were, and then as undecided. Claims about another machine of the paper are left out.
[[nodiscard]] std::vector<judged_claim> judge_all(const std::vector<claim>& claims, const readings& measured,
                                                  const std::vector<std::uint64_t>& keys);

// The forms of a claim. A claim holds if the difference has the paper's direction and at least half its size. It is
// undecided if a map is missing, or if the runs vary too much. If it does not hold, the sentence states the costs of an
// operation on either side, and the sizes of the nodes, as far as they are known.

/// `fast` has `ratio` times the throughput of `slow`; without a ratio, more throughput.
[[nodiscard]] judge faster(const std::string& fast, const std::string& slow,
                           std::optional<double> ratio = std::nullopt);

/// `fast` has twice the throughput of `slow`, or far more: the paper gives no number.
[[nodiscard]] judge far_faster(const std::string& fast, const std::string& slow);

/// The two differ by at most a tenth.
[[nodiscard]] judge alike(const std::string& one, const std::string& other);

/// `one` has at least as much throughput as `other`.
[[nodiscard]] judge no_slower(const std::string& one, const std::string& other);

/// `one` has `ratio` times the throughput of `other`, or at most a tenth less: `ratio` is near 1.
[[nodiscard]] judge nearly(const std::string& one, const std::string& other, double ratio);

struct map_pair {
  std::string better;
  std::string worse;
};
/// The geometric mean of the pairs' ratios is `ratio`.
[[nodiscard]] judge mean_ratio(const std::vector<map_pair>& pairs, double ratio);

/// The greatest of the pairs' ratios is `ratio`.
[[nodiscard]] judge best_ratio(const std::vector<map_pair>& pairs, double ratio);

/// The ratio of one pair is greater than that of the other, by more than a tenth.
[[nodiscard]] judge gains_more(const map_pair& one, const map_pair& other);

/// As mean_ratio, for the cost of nodes that straddle two lines. Pairs whose second map has no such nodes are named and
/// left out.
[[nodiscard]] judge crossing_cost(const std::vector<map_pair>& pairs, double ratio);

/// As above, where the paper reports no such loss.
[[nodiscard]] judge no_crossing_cost(const std::vector<map_pair>& pairs);

struct tier {
  std::string name;
  std::vector<std::string> maps;
};
/// Tiers from fast to slow, by the geometric means of their maps. Each differs from the next.
[[nodiscard]] judge ordered(const std::vector<tier>& tiers);

/// None of the maps is the fastest of the field.
[[nodiscard]] judge none_is_best(const std::vector<std::string>& maps, const std::vector<std::string>& field);

/// This map is slower than each of the field.
[[nodiscard]] judge slowest(const std::string& map, const std::vector<std::string>& field);

/// The same maps under another load have other names.
using renamed = std::function<std::string(const std::string& map)>;
/// Of the pairs of maps that differ, nine in ten have the same order under another load.
[[nodiscard]] judge order_kept(const std::vector<std::string>& maps, const renamed& there);
/// The ratios of most pairs of maps are the same under another load, up to a tenth.
[[nodiscard]] judge ratios_kept(const std::vector<std::string>& maps, const renamed& there);

/// Each map has more throughput the more threads there are. `steps` are its names by ascending number of threads.
[[nodiscard]] judge scales(const std::vector<std::string>& maps, const std::vector<renamed>& steps);
/// With the most threads a map has at most twice the throughput that it has with the fewest.
[[nodiscard]] judge does_not_scale(const std::string& map, const std::vector<renamed>& steps);

/// A count of an operation is the paper's, up to a factor of two.
[[nodiscard]] judge costs_near(const std::string& map, const std::string& what,
                               std::optional<double> operation_costs::* cost, double papers);

/// The shares of the sets that no node uses are the paper's, up to ten points.
[[nodiscard]] judge unused_sets(const std::string& map, double l1, double l2, double llc);

/// So many of the nodes with leaves have one there as in the paper, up to ten points.
[[nodiscard]] judge leaves_near(const std::string& map, const std::string& what,
                                std::optional<double> node_places::* share, double papers);

/// For measurements in turns, one number per round: the ratios of the rounds, without those with a zero denominator;
/// and their median, nullopt if there is none.
[[nodiscard]] std::vector<double> ratios_of_rounds(const std::vector<double>& rounds,
                                                   const std::vector<double>& other_rounds);
[[nodiscard]] std::optional<double> median_of_ratios(const std::vector<double>& rounds,
                                                     const std::vector<double>& other_rounds);

/// "1,000,000".
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace espalier::app
