#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/machine/machine_spec.hpp"
#include "sim/transactions/transaction_counts.hpp"

// The schedule explorer. A test states the objects, what two or three threads do, and what must hold:
//
//     auto report = sim::explore("pops once", {}, [](sim::scene& s) {
//       auto& stack = s.make<treiber_stack>();
//       auto& taken = s.make<std::atomic<int>>(0);
//       s.thread("a", [&] { if (stack.pop()) ++taken; });
//       s.thread("b", [&] { if (stack.pop()) ++taken; });
//       s.at_end([&] { sim::require(taken == 1, "one of the two pops takes the only element"); });
//     });
//     EXPECT_TRUE(report.passed()) << report;
//
// The scene is set up anew for every schedule. Threads are fibers. A thread may be interrupted before each access to
// memory that is not on its own stack, and a strategy chooses the thread that continues. Nothing else is random: the
// same name, options and program give the same runs. The source file is compiled with the thread sanitizer's
// instrumentation and linked without its runtime (cmake/espalier_simulated.cmake does both).
//
// Without a check in the test, the explorer detects: accesses to memory that is freed or was never allocated; blocks
// freed or retired twice; blocks never freed; data races; threads that never end; exceptions and signals. A failing
// schedule is shrunk and printed with the command that repeats it.

namespace espalier::sim {

enum class memory_model : std::uint8_t {
  /// Every load sees the newest store.
  sequential,
  /// Stores of atomics wait in buffers, as on x86 (memory/store_buffers.hpp).
  buffered,
  /// A load sees what C++ permits, and data races are detected (memory/weak_memory.hpp). No transactions, because no
  /// such machine has them.
  weak,
  /// All three, run by run.
  any,
};

enum class freed_memory : std::uint8_t {
  /// Never reused: every later access is detected.
  quarantined,
  /// Reused at once: detects faults that need an address to recur.
  reused,
  either,
};

struct exploration_options {
  std::uint64_t schedules = 1000;
  std::uint64_t seed = 1;
  /// Used in turn, run by run; see schedule/strategy.hpp. Empty: random and pct:2 to pct:5, and occasionally the
  /// others.
  std::vector<std::string> strategies{};
  memory_model model = memory_model::any;
  freed_memory memory = freed_memory::either;
  /// A run with more steps counts as a livelock.
  std::uint64_t step_budget = 50'000;
  /// Whether it is a failure if memory allocated in the scene is not freed when the scene ends.
  bool leaks_fail = true;
  /// The limits of hardware transactions (transactions/simulated_htm.hpp). nullopt: there are none.
  std::optional<transactional_spec> transactions =
      transactional_spec{.write_sets = 64, .write_ways = 12, .read_set_lines = 4096};
  /// Whether in about every other run some transactions abort with status 0 for no reason, as on a busy machine, so
  /// that fallbacks are exercised.
  bool spurious_aborts = true;
};

enum class failure_kind : std::uint8_t {
  requirement,     // sim::require
  use_after_free,  // or an access to memory that was never allocated
  bad_free,        // freed twice, or never allocated
  bad_retire,      // retired twice, or freed before
  leak,
  data_race,
  livelock,
  exception,
  signal,
  no_end,  // of a part that has no steps: the scene's set-up or end, or a loop without an access to memory
};

[[nodiscard]] std::string_view to_string(failure_kind kind) noexcept;

struct exploration_failure {
  failure_kind kind;
  /// The full report: what happened, the histories, the schedule, how to repeat it.
  std::string text;
  /// The shrunk schedule, as the environment variable ESPALIER_SCHEDULE expects it.
  std::string schedule;
  /// The number of the run, from 1, and its strategy.
  std::uint64_t run;
  std::string strategy;
};

class exploration_report {
 public:
  [[nodiscard]] bool passed() const noexcept { return failure == nullptr; }

  /// The number of runs, including the failing one, and the steps in all of them.
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  std::uint64_t longest_run = 0;
  /// Of all runs.
  transaction_counts transactions;
  std::shared_ptr<const exploration_failure> failure;
};

std::ostream& operator<<(std::ostream& out, const exploration_report& report);

/// The start of a run. Everything is constructed anew for each run, in the simulated program's memory.
class scene {
 public:
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  /// An object that threads share. When the run has passed, objects are destroyed in reverse order.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    T* const object = new T(std::forward<Arguments>(arguments)...);
    add_cleanup([object] { delete object; });
    return *object;
  }

  /// A thread of the program. Names are for reports.
  void thread(std::string_view name, std::function<void()> body);
  /// Checks that run, in the given order, when all threads have ended.
  void at_end(std::function<void()> check);

 protected:
  scene() = default;
  ~scene() = default;

 private:
  friend class exploration;
  struct contents;
  void add_cleanup(std::function<void()> cleanup);
  contents* contents_ = nullptr;
};

/// Runs the scene under many schedules until one fails. If the environment has ESPALIER_SCHEDULE, as a report prints
/// it, runs that schedule alone, or nothing if it names another exploration. Throws std::invalid_argument for invalid
/// options, and for a scene without threads or with more than 32 of them.
exploration_report explore(std::string_view name, const exploration_options& options,
                           const std::function<void(scene&)>& build);

// For the bodies of threads and for checks.

/// The run fails with this message unless the condition holds.
void require(bool condition, std::string_view what);
[[noreturn]] void fail(std::string_view what);

/// A position in the single order of events, later at each call: the moment when an operation is called or returns.
[[nodiscard]] std::uint64_t now();

/// Records in the shadow that a block was passed to a reclaimer. A second call for the block is a failure.
void note_retired(const void* memory);

/// The running thread waits for others, as with hw::cpu_relax().
void wait_for_others();

}  // namespace espalier::sim
