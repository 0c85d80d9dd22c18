#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"

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

// The techniques. Trees have the names of their maps besides.
inline constexpr const char* mcs = "MCS";
/// With pages on all NUMA nodes in turn; else they are where one thread has prepared them, as by default on the paper's machine.
inline constexpr const char* mcs_interleaved = "MCS, interleaved";
inline constexpr const char* delegated = "DPS";
inline constexpr const char* asynchronous = "DPS, 2 in flight";
inline constexpr const char* served_1 = "ffwd-s1";
inline constexpr const char* served_4 = "ffwd-s4";
/// Partitioned like DPS, but each thread executes its own operations.
inline constexpr const char* partitioned = "partitioned";

enum class work : std::uint8_t { computation, objects, tree };

/// What all threads do.
struct load {
  work what = work::computation;
  unsigned threads = 1;
  /// Cycles of an operation, and between two of one thread.
  std::uint64_t length = 0;
  std::uint64_t delay = 0;
  std::uint64_t objects = 0;
  std::uint64_t lines = 0;
  /// Of a tree: the keys at the start, and the percentage of updates, half of which are inserts and half are erases.
  std::uint64_t keys = 0;
  unsigned updates = 0;

  [[nodiscard]] std::string name() const;
  friend auto operator<=>(const load&, const load&) = default;
};

/// Per operation.
struct operation_counts {
  double remote_transfers = 0;
  double local_transfers = 0;
  double memory_lines = 0;
  double stall_cycles = 0;
  /// Lines that no cache of the socket had.
  [[nodiscard]] double misses() const noexcept { return remote_transfers + memory_lines; }
};

struct load_reading {
  double speed = 0;  ///< operations a second
  operation_counts costs;
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
};

class results {
 public:
  void add(const load& l, const std::string& technique, const load_reading& r) { all_[{l, technique}] = r; }
  [[nodiscard]] const load_reading* find(const load& l, const std::string& technique) const {
    const auto found = all_.find({l, technique});
    return found == all_.end() ? nullptr : &found->second;
  }
  /// Transfers and upgrades of 15 empty requests.
  double coherence_served = 0;
  double coherence_delegated = 0;

 private:
  std::map<std::pair<load, std::string>, load_reading> all_;
};

/// A chart of throughput over `x`, and one of misses if these are wanted. Without `x`, bars of one load.
struct panel {
  std::string title;
  std::vector<std::string> techniques;
  std::vector<load> loads;
  std::string x_title{};
  double (*x)(const load&){};
  bool misses = false;
};

struct page {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<panel> panels;
  std::function<std::vector<judged_claim>(const results&)> judge;
};

struct setting {
  /// Ascending.
  std::vector<unsigned> threads;
  /// Of the small tree and of the large one.
  std::uint64_t few_keys = 0;
  std::uint64_t many_keys = 0;

  [[nodiscard]] unsigned most() const { return threads.back(); }
};

/// In the paper's order.
[[nodiscard]] std::vector<page> pages_of(const setting& where);

}  // namespace espalier::app::dps
