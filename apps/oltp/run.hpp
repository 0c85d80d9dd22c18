#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/oltp/benchmark.hpp"
#include "apps/oltp/layout.hpp"
#include "espalier/measure/histogram.hpp"
#include "espalier/measure/statistics.hpp"

// Loads a benchmark, runs it in threads, and checks it.

namespace espalier::app::db {

struct run_plan {
  unsigned threads = 1;
  unsigned runs = 1;
  double seconds = 1;
  std::uint64_t each = 0;  ///< transactions of a thread, instead of seconds; 0: none
  std::uint64_t seed = 42;
  std::uint64_t memory_limit = 0;  ///< bytes; 0: three quarters of what is available
  /// After the load, where the blocks lie in these caches. The database records its blocks then.
  const hw::cache_geometry* inspected = nullptr;
  const std::atomic<bool>* interrupted = nullptr;
  /// Of this benchmark: what share is done, and what comes next.
  std::function<void(double done, const std::string& what)> progress;
};

struct kind_result {
  std::string name;
  std::uint64_t committed = 0;
  std::uint64_t rolled_back = 0;
  measure::histogram latency;  ///< in ns, retries included
};

struct measured {
  std::string index;
  std::string protocol;
  unsigned threads = 1;
  std::vector<double> per_second;  ///< of each run
  double cpu_us_each = 0;
  std::vector<double> cpu_us;  ///< the same of each run
  std::vector<kind_result> kinds;
  espalier::oltp::transaction_counts counts;
  std::vector<condition> conditions;
  std::vector<share> shares;
  std::string stopped_because;
  std::uint64_t forecast_bytes = 0;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t row_bytes = 0;               ///< at the end
  std::optional<std::uint64_t> index_bytes;  ///< at the end; none where rows and indexes share a placement
  std::optional<double> bytes_per_key;       ///< of the indexes, after the load; none likewise
  std::vector<kind_of_block> layout;         ///< after the load, where it was wanted

  [[nodiscard]] double throughput() const { return measure::median(per_second).value_or(0); }
  /// Of the processor time of a transaction, what is spent in indexes, in waits for locks, and elsewhere; none where nothing was
  /// sampled.
  struct time_shares {
    double index, waits, rest;
  };
  [[nodiscard]] std::optional<time_shares> shares_of_time() const {
    if (counts.sampled_ticks == 0) return std::nullopt;
    const auto of = [this](std::uint64_t ticks) {
      return static_cast<double>(ticks) / static_cast<double>(counts.sampled_ticks);
    };
    const double in_index = of(counts.sampled_index_ticks);
    const double waits = of(counts.sampled_wait_ticks);
    return time_shares{in_index, waits, 1 - in_index - waits};
  }
  /// Attempts that were repeated.
  [[nodiscard]] std::uint64_t lost_attempts() const {
    return counts.attempts() - counts.commits -
           counts.aborts[static_cast<std::size_t>(espalier::oltp::abort_reason::rolled_back)];
  }
};

/// A loaded benchmark, which runs as often as is asked: so several take turns.
class run_session {
 public:
  /// Loads it. Throws std::runtime_error if the load would not fit the memory limit. After an interrupt there is nothing to run.
  run_session(benchmark& b, run_plan plan);
  void run();
  /// Whether an interrupt or the memory limit has ended a run.
  [[nodiscard]] bool ends_early() const;
  /// Of all runs. Checks the database.
  [[nodiscard]] measured finish();

 private:
  bool load();

  benchmark& runs_;
  run_plan plan_;
  std::vector<unsigned> pus_;
  measured m_;
  std::uint64_t limit_ = 0;
  std::vector<std::unique_ptr<client>> clients_;
  espalier::oltp::transaction_counts before_;
  unsigned runs_done_ = 0;
  std::uint64_t done_ = 0;
  double cpu_ns_ = 0;
};

/// Throws std::runtime_error if the load would not fit the memory limit.
[[nodiscard]] measured measure_benchmark(benchmark& b, const run_plan& plan);

}  // namespace espalier::app::db
