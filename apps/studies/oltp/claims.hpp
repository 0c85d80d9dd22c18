#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/oltp/layout.hpp"
#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// Section 4 of the ATC 2018 study, its database, as data: what its figures run, and its claims.

namespace espalier::app::dbx {

inline constexpr const char* study_name = "oltp";
inline constexpr const char* title = "Ten search trees as the indexes of a database";
inline constexpr const char* paper =
    "Arbel-Raviv, Brown and Morrison, Getting to the Root of Concurrent Binary Search Tree Performance, "
    "USENIX ATC 2018, section 4";
inline constexpr const char* papers_machine = "haswell";
/// Rows of its YCSB.
inline constexpr std::uint64_t papers_rows = 10'000'000;
inline constexpr unsigned papers_threads = 48;

/// What the threads do: look-ups in the map alone, or transactions.
enum class work : std::uint8_t { alone, ycsb, tpcc };
/// Whether the rows and the indexes share a heap, or each role of the indexes has memory of its own.
enum class memory : std::uint8_t { shared, segregated };

/// A measured database.
struct configuration {
  work what = work::ycsb;
  std::string index;  ///< "ticket", "ticket/published"
  memory where = memory::shared;
  unsigned lock_bytes = 192;

  [[nodiscard]] std::string name() const;
  friend auto operator<=>(const configuration&, const configuration&) = default;
};

/// What accesses cost on a simulated machine.
struct access_costs {
  double accesses = 0;
  double page_walks = 0;
  double memory_lines = 0;  ///< fetched from memory, not from any cache
  double stalls = 0;        ///< cycles
};

/// Of a transaction, as far as it is known. Times are processor time in nanoseconds, or cycles of a simulated machine; all attempts
/// count.
struct database_reading {
  double speed = 0;  ///< transactions a second; natively a second of processor time
  std::optional<double> index_time{}, rest_time{}, wait_time{};
  /// Of all of it, of the operations of its indexes, and of the blocks of each kind ("node", "row").
  std::optional<access_costs> all{}, in_index{};
  std::map<std::string, access_costs> by_block{};
  /// Transfers of lines with row locks: because other threads used other locks, or the same one.
  std::optional<double> false_transfers{}, true_transfers{};
  /// Of the nodes: the share of the sets of the last level that they do not use, pages of 4 KiB, runs of those, and huge pages.
  std::optional<double> unused_llc{};
  std::optional<double> chunks{}, runs{}, huge_pages{};
  /// Where the first chunks of nodes lie, in chunks from the first one, in the order of addresses.
  std::vector<std::uint64_t> first_chunks{};
  /// Round by round, if configurations were measured in turns: nanoseconds of processor time a transaction.
  std::vector<double> rounds{};
  /// Rounds of one session were measured in turns.
  std::size_t session = 0;
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
};

/// Notes where the nodes lie.
void note_nodes(database_reading& r, const std::vector<db::kind_of_block>& layout);

class results {
 public:
  void add(const configuration& c, database_reading r) { all_[c] = std::move(r); }
  [[nodiscard]] const database_reading* find(const configuration& c) const {
    const auto found = all_.find(c);
    return found == all_.end() ? nullptr : &found->second;
  }
  /// Why a configuration was not measured; empty for another reason than one that was noted.
  void miss(const configuration& c, const std::string& why) { missing_[c] = why; }
  [[nodiscard]] std::string why_missing(const configuration& c) const {
    const auto found = missing_.find(c);
    return found == missing_.end() ? std::string() : found->second;
  }

 private:
  std::map<configuration, database_reading> all_;
  std::map<configuration, std::string> missing_;
};

/// TPC-C with about as many rows as YCSB has, and a warehouse for each thread.
struct tpcc_size {
  unsigned warehouses, items, customers;
};
[[nodiscard]] tpcc_size tpcc_of(std::uint64_t rows, unsigned threads);

/// A number of a reading.
struct metric {
  std::string name;  ///< "cycles in the index"
  std::function<std::optional<double>(const database_reading&)> of;
};

/// Bars of one number.
struct panel {
  std::string title;
  metric shown;
  std::vector<configuration> bars;
  bool more_is_better = false;
};

struct page {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<panel> panels;
  /// Configurations of which no bar is shown.
  std::vector<configuration> besides;
  /// Whose chunks of nodes are shown.
  std::vector<configuration> mapped;
  std::function<std::vector<judged_claim>(const results&)> judge;

  [[nodiscard]] std::vector<configuration> configurations() const;
  /// With its charts, of what was measured, and its findings.
  [[nodiscard]] charted_figure figure(const results& measured, const std::string& machine) const;
};

struct setting {
  bool simulated = true;
  std::uint64_t rows = papers_rows;
  unsigned threads = papers_threads;
};

/// In the paper's order.
[[nodiscard]] std::vector<page> pages_of(const setting& where);

/// Leaves what has one of these trees as its index; all of it if none is named. Throws usage_error that lists the trees.
void leave_trees(std::vector<page>& pages, const std::vector<std::string>& trees);

}  // namespace espalier::app::dbx
