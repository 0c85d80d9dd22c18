#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/measure/histogram.hpp"
#include "espalier/workload/plan.hpp"
#include "espalier/workload/subject.hpp"

// A benchmark: plans x thread counts x maps. The maps are interleaved run by run, so that other load on the machine
// affects all of them alike.

namespace espalier::workload {

struct session_request {
  std::vector<std::shared_ptr<const workload_plan>> plans;
  std::vector<registration> maps;
  std::vector<unsigned> threads{1};
  unsigned runs = 5;
  /// The time of one run; not for traces. If operations is set, it replaces the time.
  std::chrono::nanoseconds time = std::chrono::seconds(1);
  std::optional<std::uint64_t> operations;
  hw::pin_policy pinning = hw::pin_policy::cores;
  std::uint64_t seed = 42;
  /// A further run of each map, in which every n-th operation is timed; 0 for none.
  unsigned latency_every = 16;
  /// Walk each map at the end and count the bytes it leaked.
  bool check_leaks = true;
  /// Called for each map after its last run, when no thread uses it; empty for not.
  std::function<void(const subject&)> at_end;
  /// Records the first run of the first map. The caller owns it.
  trace_recorder* recorder = nullptr;
  /// Once it is true the session ends, with the completed runs; null for never.
  const std::atomic<bool>* interrupted = nullptr;

  [[nodiscard]] bool is_interrupted() const noexcept { return is_set(interrupted); }
};

/// One map under one plan with one number of threads.
struct measurement {
  subject_facts facts;
  std::shared_ptr<const workload_plan> plan;
  unsigned threads = 0;
  std::vector<run_outcome> runs;
  /// By kind of operation; empty where latency was not measured.
  std::vector<measure::histogram> latency;
  std::optional<double> bytes_per_key;
  std::optional<std::uint64_t> leaked_bytes;

  /// Operations per second of each run.
  [[nodiscard]] std::vector<double> throughput() const;
  /// CPU nanoseconds per operation of each run that has executed some.
  [[nodiscard]] std::vector<double> cpu_ns_per_operation() const;
  [[nodiscard]] double median_throughput() const;
};

/// Receives the events of a session.
class session_observer {
 public:
  virtual ~session_observer() = default;
  /// `done` of `total` steps are complete; `what` comes next.
  virtual void step(std::size_t done, std::size_t total, const std::string& what) = 0;
  virtual void skipped(const subject_facts& map, const workload_plan& plan, const std::string& why) = 0;
  /// All maps under one plan with one number of threads.
  virtual void finished(const std::vector<measurement>& group) = 0;
};

/// Throws std::invalid_argument if this many keys will not fit in memory.
void check_room(std::uint64_t keys, double bytes_per_key);

/// All maps of a plan exist at once. Throws std::invalid_argument if memory will not suffice for that, or if the
/// request has no maps, plans, threads or runs.
void check_session(const session_request& request);

/// Throws as check_session() does, before anything is built. In an interrupted session each measurement has the
/// completed runs, at least one.
[[nodiscard]] std::vector<measurement> run_session(const session_request& request,
                                                   session_observer& observer);

}  // namespace espalier::workload
