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

// The schedule explorer. A test says what is there, what two or three threads do, and what must hold:
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
// The scene is set up anew for every schedule. Threads are fibers; before each access to memory that is not
// on its own stack a thread may be interrupted, and a strategy chooses by whom. Nothing else is random: the
// same name, options and program give the same runs. The source file is compiled with the thread sanitizer's
// instrumentation and linked without its runtime (cmake/espalier_simulated.cmake does both).
//
// What is found without being asked for: accesses to freed memory, or to none; blocks freed or retired
// twice; blocks never freed; data races; threads that never end; exceptions and signals. A failing schedule is
// shrunk and printed with the command that repeats it.

namespace espalier::sim {

enum class memory_model : std::uint8_t {
  /// Every load sees the newest store.
  sequential,
  /// Stores of atomics wait in buffers, as on x86 (memory/store_buffers.hpp).
  buffered,
  /// A load sees what C++ lets it see, and data races are found (memory/weak_memory.hpp). Without transactions, which no
  /// such machine has.
  weak,
  /// All three, run by run.
  any,
};

enum class freed_memory : std::uint8_t {
  /// Never used again: whoever touches it is caught.
  quarantined,
  /// Handed out again at once: what breaks when addresses recur is found.
  reused,
  either,
};

struct exploration_options {
  std::uint64_t schedules = 1000;
  std::uint64_t seed = 1;
  /// Taken in turn, run by run; see schedule/strategy.hpp. Empty: random and pct:2 to pct:5, and now and then
  /// the others.
  std::vector<std::string> strategies;
  memory_model model = memory_model::any;
  freed_memory memory = freed_memory::either;
  /// Steps after which a run is called a livelock.
  std::uint64_t step_budget = 50'000;
  /// Whether memory that is allocated in the scene and not freed when it ends is a failure.
  bool leaks_fail = true;
  /// What bounds hardware transactions (transactions/simulated_htm.hpp); nothing: there are none.
  std::optional<transactional_spec> transactions =
      transactional_spec{.write_sets = 64, .write_ways = 12, .read_set_lines = 4096};
  /// Whether, in about every other run, some transactions abort with status 0 for no reason, as on a busy
  /// machine, so that fallbacks are taken.
  bool spurious_aborts = true;
};

enum class failure_kind : std::uint8_t {
  requirement,     // sim::require
  use_after_free,  // or an access to memory that was never allocated
  bad_free,        // twice, or what was not allocated
  bad_retire,      // twice, or freed before
  leak,
  data_race,
  livelock,
  exception,
  signal,
};

[[nodiscard]] std::string_view to_string(failure_kind kind) noexcept;

struct exploration_failure {
  failure_kind kind;
  /// Everything worth printing: what happened, the histories, the schedule, how to repeat it.
  std::string text;
  /// The shrunk schedule, as the environment variable ESPALIER_SCHEDULE wants it.
  std::string schedule;
  /// Which run, from 1; and its strategy.
  std::uint64_t run;
  std::string strategy;
};

class exploration_report {
 public:
  [[nodiscard]] bool passed() const noexcept { return failure == nullptr; }

  /// Runs made, the failing one included, and the steps in all of them.
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  std::uint64_t longest_run = 0;
  /// Of all runs.
  transaction_counts transactions;
  std::shared_ptr<const exploration_failure> failure;
};

std::ostream& operator<<(std::ostream& out, const exploration_report& report);

/// What one run begins with. Everything is made anew for each run, in the simulated program's memory.
class scene {
 public:
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  /// An object that threads share. Destroyed, last one first, when the run has passed.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    T* const object = new T(std::forward<Arguments>(arguments)...);
    add_cleanup([object] { delete object; });
    return *object;
  }

  /// A thread of the program. Names are for reports.
  void thread(std::string_view name, std::function<void()> body);
  /// Checks, in the order given, when all threads have ended.
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

/// Runs the scene under many schedules, until one fails. With ESPALIER_SCHEDULE in the environment, as a
/// report prints it: that schedule alone, or nothing where it names another exploration.
/// Throws std::invalid_argument for options that make no sense, and for a scene without threads or with more
/// than 32 of them.
exploration_report explore(std::string_view name, const exploration_options& options,
                           const std::function<void(scene&)>& build);

// For the bodies of threads and for checks.

/// The run fails with this message unless the condition holds.
void require(bool condition, std::string_view what);
[[noreturn]] void fail(std::string_view what);

/// A position in the one order of events, later at each call: when an operation was called and returned.
[[nodiscard]] std::uint64_t now();

/// Tells the shadow that a block was handed to a reclaimer. Doing so twice is a failure.
void note_retired(const void* memory);

/// The running thread waits for others, as with hw::cpu_relax().
void wait_for_others();

}  // namespace espalier::sim
