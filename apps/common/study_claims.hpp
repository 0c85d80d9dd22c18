#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a paper found, as claims that measurements can bear out or not. Nothing here knows how throughput was
// obtained: on a machine, or on a simulated one.

namespace espalier::app {

/// What an operation costs, on average, where it is counted.
struct operation_costs {
  double accesses;
  double memory_lines;  // fetched from memory, not from any cache
  double page_walks;
};

/// Operations per second of one map; the least and the most of its runs.
struct reading {
  double median;
  double least;
  double most;
  std::optional<std::size_t> node_bytes;
  std::optional<operation_costs> costs{};  // NOLINT(readability-redundant-member-init): as below
  /// Round by round, where maps were measured in turns: what slows the machine for a while slows all maps of a
  /// round, so that a ratio within a round says more than one of medians. Comparable in one session only.
  std::vector<double> rounds{};  // NOLINT(readability-redundant-member-init)
  std::size_t session = 0;
};

/// What was measured in one place.
class readings {
 public:
  /// The machine of the paper's that was measured, or simulated; empty for any other.
  explicit readings(std::string machine = {}) : machine_(std::move(machine)) {}

  void add(const std::string& map, std::uint64_t keys, const reading& r) { all_[{map, keys}] = r; }
  [[nodiscard]] const reading* find(const std::string& map, std::uint64_t keys) const {
    const auto found = all_.find({map, keys});
    return found == all_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const std::string& machine() const noexcept { return machine_; }

 private:
  std::string machine_;
  std::map<std::pair<std::string, std::uint64_t>, reading> all_;
};

enum class agreement : unsigned char { agrees, differs, not_measurable };

[[nodiscard]] constexpr std::string_view to_string(agreement verdict) noexcept {
  return verdict == agreement::agrees    ? "agrees"
         : verdict == agreement::differs ? "differs"
                                         : "not measurable here";
}

/// A sentence with the numbers, and what they say of the paper's.
struct judgement {
  std::string sentence;
  agreement verdict;
};
using judge = std::function<judgement(const readings&, std::uint64_t keys)>;

/// A claim that was judged once.
struct judged_claim {
  std::string claim;
  judgement ours;
  /// Whether it is the paper's claim, or what follows from it.
  bool of_paper = true;

  /// With where it is from, for texts that have no place for that.
  [[nodiscard]] std::string source() const { return of_paper ? "The paper" : "Beyond the paper"; }
};

/// Something that the paper says.
struct claim {
  /// In our words, with the place in the paper.
  std::string paper;
  /// Numbers of keys at which the paper has it; empty for any.
  std::vector<std::uint64_t> keys;
  judge holds;
  /// The machine on which the paper has it; empty for all of its machines.
  std::string machine{};  // NOLINT(readability-redundant-member-init): g++ wants it where it is left out
  /// Whether the paper gives reason to expect it of other machines as well.
  bool elsewhere = true;
};

struct finding {
  std::string paper;
  std::uint64_t keys;
  judgement ours;
};

/// Each claim at each number of keys at which the paper has it; where none of those was measured, at all that
/// were, and then undecided. Claims about another machine of the paper's are left out.
[[nodiscard]] std::vector<finding> judge_all(const std::vector<claim>& claims, const readings& measured,
                                             const std::vector<std::uint64_t>& keys);

// What a claim may say. It holds where the difference has the paper's direction and at least half its size; it
// is undecided where a map is missing, or where the runs do not tell. Where it does not hold, the sentence says
// what an operation of either side costs, and how large its nodes are, so far as that is known.

/// `fast` has `ratio` times the throughput of `slow`; without a ratio, more of it.
[[nodiscard]] judge faster(std::string fast, std::string slow, std::optional<double> ratio = std::nullopt);

/// `fast` has twice the throughput of `slow`, or far more: the paper says no number.
[[nodiscard]] judge far_faster(std::string fast, std::string slow);

/// The two differ by a tenth at most.
[[nodiscard]] judge alike(std::string one, std::string other);

struct map_pair {
  std::string better;
  std::string worse;
};
/// The geometric mean of the pairs' ratios is `ratio`.
[[nodiscard]] judge mean_ratio(std::vector<map_pair> pairs, double ratio);

/// As mean_ratio, for what nodes that straddle two lines cost: pairs whose second map has nodes that never do
/// are named, and left out.
[[nodiscard]] judge crossing_cost(std::vector<map_pair> pairs, double ratio);

/// As above, and the paper has no such loss.
[[nodiscard]] judge no_crossing_cost(std::vector<map_pair> pairs);

struct tier {
  std::string name;
  std::vector<std::string> maps;
};
/// Tiers from fast to slow, by the geometric means of their maps. Each is apart from the next.
[[nodiscard]] judge ordered(std::vector<tier> tiers);

/// None of the maps is the fastest of the field.
[[nodiscard]] judge none_is_best(std::vector<std::string> maps, std::vector<std::string> field);

/// Of measurements in turns, one number a round: the rounds' ratios, without those over 0; and their median, nothing
/// where there is none.
[[nodiscard]] std::vector<double> ratios_of_rounds(const std::vector<double>& rounds,
                                                   const std::vector<double>& other_rounds);
[[nodiscard]] std::optional<double> median_of_ratios(const std::vector<double>& rounds,
                                                     const std::vector<double>& other_rounds);

/// "1,000,000".
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace espalier::app
