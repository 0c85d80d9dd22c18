#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// The study "Scalable Data-structures with Hierarchical, Distributed Delegation" (Middleware 2019) as data: what its figures
// run, and its claims.

namespace espalier::app::dps {

inline constexpr const char* study_name = "dps";
inline constexpr const char* title = "Scalable data structures with hierarchical, distributed delegation";
/// Of the native part, which has no figure of the paper.
inline constexpr const char* native_title = "The cost of delegation on this machine";
inline constexpr const char* paper =
    "Ren and Parmer, Scalable Data-structures with Hierarchical, Distributed Delegation, Middleware 2019";
inline constexpr const char* papers_machine = "e7_4850";

// The techniques. A map that all threads share has its own name instead; under another technique its name follows (over()).
inline constexpr const char* mcs = "MCS";
/// With pages on all NUMA nodes in turn; else they are where one thread has prepared them, as by default on the paper's machine.
inline constexpr const char* mcs_interleaved = "MCS, interleaved";
inline constexpr const char* delegated = "DPS";
inline constexpr const char* asynchronous = "DPS, 2 in flight";
inline constexpr const char* served_1 = "ffwd-s1";
inline constexpr const char* served_4 = "ffwd-s4";
/// Partitioned like DPS, but each thread executes its own operations.
inline constexpr const char* partitioned = "partitioned";

// Structures that no catalogue has.
inline constexpr const char* lf_s = "shavit_lotan_queue";
inline constexpr const char* sequential_tree = "sequential tree";
inline constexpr const char* sequential_skip_list = "sequential skip list";
/// Clients search it, the server changes it.
inline constexpr const char* served_list = "list that clients search";

/// "DPS over ticket".
[[nodiscard]] std::string over(const std::string& technique, const std::string& structure);
/// What over() was made of. Without a structure: of operations that have none, or of a map that is shared, which is then the
/// technique.
struct approach {
  std::string technique;
  std::string structure;
};
[[nodiscard]] approach approach_of(const std::string& name);

enum class work : std::uint8_t { computation, objects, map, queue, cache };

/// What all threads do.
struct load {
  work what = work::computation;
  unsigned threads = 1;
  /// Cycles of an operation, and between two of one thread.
  std::uint64_t length = 0;
  std::uint64_t delay = 0;
  std::uint64_t objects = 0;
  std::uint64_t lines = 0;
  /// Of a map or queue: the keys at the start, and the percentage of updates, half of which are inserts and half are erases.
  std::uint64_t keys = 0;
  /// Of a cache, which has the same items under each load: the percentage of sets.
  unsigned updates = 0;
  std::size_t value_bytes = 0;
  /// An operation passes half of the keys, as in a list.
  bool linear = false;
  /// Keys are drawn by Zipf's law with exponent .99, else uniformly.
  bool skewed = false;

  [[nodiscard]] std::string name() const;
  [[nodiscard]] load with_skew(bool skew) const {
    load other = *this;
    other.skewed = skew;
    return other;
  }
  friend auto operator<=>(const load&, const load&) = default;
};

/// Per operation.
struct operation_counts {
  double remote_transfers = 0;
  double local_transfers = 0;
  double memory_lines = 0;
  double stall_cycles = 0;
  double accesses = 0;
  /// Of the lines from memory, those of other NUMA nodes.
  double remote_memory = 0;
  /// Requests to write a line that the core has already.
  double upgrades = 0;
  /// Lines that come from another socket's caches.
  [[nodiscard]] double moved() const noexcept { return remote_transfers; }
  /// Lines that no cache of the socket had.
  [[nodiscard]] double misses() const noexcept { return remote_transfers + memory_lines; }
  /// What writes of other cores cost.
  [[nodiscard]] double coherence() const noexcept { return remote_transfers + local_transfers + upgrades; }
  /// Lines that come from another socket's caches or memory.
  [[nodiscard]] double remote() const noexcept { return remote_transfers + remote_memory; }
};

struct load_reading {
  double speed = 0;  ///< operations a second
  operation_counts costs{};
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
  /// Throughputs of the run's halves, where only their difference is the reason: the lower one, and the higher one.
  std::optional<std::pair<double, double>> halves{};
  // Of a cache: the cycles of a request, and the shares of the gets that find a value, and that find one which their own thread
  // had overwritten.
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double hits = 1;
  double overwritten = 0;
};

struct results : readings_at<load_reading, load, std::string> {
  /// Transfers and upgrades of 15 empty requests; nothing if they were not counted.
  std::optional<double> coherence_served;
  std::optional<double> coherence_delegated;
  /// The most nodes on a way to a leaf of a tree that is never rebalanced, by its number of keys, once it is filled.
  std::map<std::uint64_t, unsigned> depth;
};

/// What a chart may show of a reading.
struct shown_count {
  std::string title;
  std::string caption;
  std::string y;
  double (*of)(const load_reading&);
};
[[nodiscard]] const shown_count& shown_misses();

/// A chart of throughput over `x`, and one of each further count. Without `x`, bars of one load.
struct panel {
  std::string title;
  std::vector<std::string> techniques;
  std::vector<load> loads;
  std::string x_title{};
  double (*x)(const load&){};
  std::vector<shown_count> also{};
};

struct page {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<panel> panels;
  std::function<std::vector<judged_claim>(const results&)> judge;
  /// Of what needs no run.
  std::vector<chart> charts{};
  /// Numbers of keys whose results::depth its claims need.
  std::vector<std::uint64_t> depths{};

  /// With its charts of what was measured, on this simulated machine, and its findings.
  [[nodiscard]] charted_figure figure(const results& measured, const std::string& machine) const;
};

struct setting {
  /// Ascending.
  std::vector<unsigned> threads;
  /// Keys of the large tree, whose nodes have 64 bytes a key. The other sizes follow.
  std::uint64_t many_keys = 0;

  [[nodiscard]] unsigned most() const { return threads.back(); }
};

/// In the paper's order.
[[nodiscard]] std::vector<page> pages_of(const setting& where);

}  // namespace espalier::app::dps
