#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"
#include "espalier/workload/plan.hpp"

// The study "Eunomia: Scaling Concurrent Search Trees under Contention Using HTM" (PPoPP 2017) as data: the workloads of
// its figures, and its claims. This file is independent of how readings are obtained, so that the study runs on this
// machine and on a simulated one alike.

namespace espalier::app::eunomia {

inline constexpr const char* study_name = "eunomia";
inline constexpr const char* title = "Scaling concurrent search trees under contention using HTM";
inline constexpr const char* paper =
    "Wang, Zhang, Wang, Wei, Chen and Zhao, Eunomia: Scaling Concurrent Search Trees under Contention Using "
    "HTM, PPoPP 2017";
inline constexpr const char* papers_machine = "e5_2650_htm";

inline constexpr const char* baseline = "htm_btree";
inline constexpr const char* eunomia_tree = "euno_btree";

/// A column of figure 13: the design choices up to this one.
struct rung {
  const char* map;
  const char* choice;
  /// Throughput over the baseline's in the paper, with much contention and with little. Where the text gives no number,
  /// none.
  std::optional<double> contended;
  double calm;
};
[[nodiscard]] const std::vector<rung>& ladder();

/// What all threads do: gets and puts of keys that are all in the map at first.
struct load {
  std::string distribution = "zipfian:0.9";
  /// In percent.
  unsigned puts = 50;
  unsigned threads = 1;
  /// Half of the puts insert a key and the others erase one. Otherwise all of them overwrite a value.
  bool inserts = false;

  /// Without the number of threads: "zipfian:0.9, 50/50", or "zipfian:0.9, 50/25/25" with inserts.
  [[nodiscard]] std::string name() const;
  friend auto operator<=>(const load&, const load&) = default;
};
/// Zipf's law with this exponent; uniform for 0.
[[nodiscard]] load zipfian(double theta, unsigned puts, unsigned threads);
/// Keys in order of rank lie beside one another, as the paper's consecutive records do.
[[nodiscard]] std::shared_ptr<const workload::workload_plan> plan_of(const load& l, std::uint64_t keys,
                                                                     std::uint64_t seed);

/// Where the study runs.
struct setting {
  std::uint64_t keys = 0;
  /// Numbers of threads, ascending.
  std::vector<unsigned> threads;
  bool simulated = false;
  /// Why throughput and aborts say nothing here; empty where they do.
  std::string unjudged{};

  /// The number that stands for one of the paper: itself, or else the greatest below it, or the least.
  [[nodiscard]] unsigned standing_for(unsigned papers) const;
};
/// Numbers of threads in the paper: of its sweeps over the exponent, and its most.
inline constexpr unsigned sweep_threads = 16;
inline constexpr unsigned most_threads = 20;

using named_counts = std::vector<std::pair<std::string, double>>;

/// Per operation.
struct abort_counts {
  named_counts by_cause;
  /// Conflicts alone.
  named_counts by_region;

  [[nodiscard]] double all() const noexcept;
  /// 0 if there is none of that name.
  [[nodiscard]] double of(const std::string& cause) const noexcept;
};

struct map_reading {
  reading speed;
  /// Unset for a map without transactions, and where there are none.
  std::optional<abort_counts> aborts{};
  /// What stands for instructions: accesses to memory in a simulation. Per operation.
  std::optional<double> work{};
  std::optional<double> bytes_per_key{};
};

using results = readings_at<map_reading, load, std::string>;

/// A page. The workloads of `loads` run on `maps`.
struct page {
  std::string id;
  std::string title;
  /// What the paper shows there, and where.
  std::string summary;
  std::vector<std::string> maps;
  std::vector<load> loads;
  /// Judged over the page's own readings. Those about other numbers of threads than the paper's are undecided, unless the
  /// paper gives reason to expect them with any.
  std::function<std::vector<judged_claim>(const results&)> judge;
};
/// In the paper's order. Memory is measured in simulations only.
[[nodiscard]] std::vector<page> pages_of(const setting& where);

/// What the library must show on a machine with transactions: at this exponent and number of keys, with half of the
/// operations puts, Eunomia's tree aborts at most a fifth as often as the baseline, and is as fast as that and as
/// masstree.
inline constexpr std::uint64_t verdict_keys = 10'000'000;
inline constexpr double verdict_theta = 0.99;
[[nodiscard]] page verdict_page(const setting& where);

/// The charts of a page, and the maps that it lacks. `machine` is empty for this one.
[[nodiscard]] charted_figure figure_of(const page& shown, const results& measured, const setting& where,
                                       const std::string& machine);

}  // namespace espalier::app::eunomia
