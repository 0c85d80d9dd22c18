#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/studies/cache/engines.hpp"
#include "apps/studies/study_claims.hpp"

// The study of memcached in section 5.3 of "Scalable Data-structures with Hierarchical, Distributed Delegation" as data: what
// figure 13 runs, and its claims.

namespace espalier::app::caches {

inline constexpr const char* study_name = "cache";
inline constexpr const char* title = "Five caches, from memcached to delegation";
/// Of the native part, which has no figure of the paper.
inline constexpr const char* native_title = "Five caches on two processors of this machine";
inline constexpr const char* paper =
    "Ren and Parmer, Scalable Data-structures with Hierarchical, Distributed Delegation, Middleware 2019, "
    "section "
    "5.3";
inline constexpr const char* papers_machine = "e7_4850";
/// YCSB's own; the paper names none.
inline constexpr double zipf_exponent = 0.99;

inline constexpr std::array all_engines{engine::stock, engine::ffwd,       engine::parsec,
                                        engine::dps,   engine::dps_parsec, engine::dps_parsec_fenced};
[[nodiscard]] std::string_view name_of(engine e) noexcept;

struct load {
  unsigned threads = 1;
  unsigned sets = 0;  ///< percent
  std::size_t value_bytes = 0;

  [[nodiscard]] std::string name() const;
  friend auto operator<=>(const load&, const load&) = default;
};

/// Of one engine under one load.
struct load_reading {
  double speed = 0;  ///< requests a second
  // Lines that a request moves, and cycles for which it stalls.
  double remote_transfers = 0;
  double local_transfers = 0;
  double memory_lines = 0;
  double stall_cycles = 0;
  // Of requests, in cycles.
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  /// Shares of the gets: those that found a value, and those that found one which their own thread had overwritten.
  double hits = 1;
  double overwritten = 0;
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
};

class results {
 public:
  void add(const load& l, engine e, const load_reading& r) { all_[{l, e}] = r; }
  [[nodiscard]] const load_reading* find(const load& l, engine e) const {
    const auto found = all_.find({l, e});
    return found == all_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::pair<load, engine>, load_reading> all_;
};

/// A chart of one number of each reading.
struct shown_number {
  std::string title;
  std::string caption;
  std::string unit;
  double (*value)(const load_reading&);
};

struct page {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<engine> engines;
  std::vector<load> loads;
  std::string x_title;
  double (*x)(const load&);
  std::vector<shown_number> numbers;
  std::function<std::vector<judged_claim>(const results&)> judge;
};

/// The load of figure 13a.
[[nodiscard]] load few_sets_of(unsigned threads);

/// Throws std::logic_error if an engine returned `wrong` values, or `lost` keys have not their last value.
void check_contents(engine e, const load& l, std::uint64_t wrong, std::uint64_t lost);

// Beyond the paper. How many gets find a value, over all engines; and how often a get of DPS ParSec does not see what its own
// thread has set.
[[nodiscard]] judged_claim equal_hits(const results& measured, const std::vector<load>& loads);
[[nodiscard]] judged_claim misses_of_own_sets(const results& measured, const load& at);

/// In the paper's order. `threads` ascend.
[[nodiscard]] std::vector<page> pages_of(const std::vector<unsigned>& threads);

}  // namespace espalier::app::caches
