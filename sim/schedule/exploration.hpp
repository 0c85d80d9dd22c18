#pragma once

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/explore.hpp"
#include "sim/memory/heap.hpp"
#include "sim/memory/store_buffers.hpp"
#include "sim/memory/weak_memory.hpp"
#include "sim/runtime/fibers.hpp"
#include "sim/runtime/world.hpp"
#include "sim/schedule/strategy.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

/// The raw result of a failed run, before it is formatted for people.
struct run_failure {
  failure_kind kind;
  std::string what;
  unsigned fiber;  // fibers::none: while the scene was set up or taken down
  std::uint64_t step;
  std::vector<const void*> callers;  // innermost first
  std::optional<block_record> block;
  std::optional<weak_memory::race> race;
};

/// How a run treats memory. Chosen run by run; a repetition needs the same.
struct run_conditions {
  memory_model model;
  bool reuse_memory;
  /// Seed of stale loads, for the weak model.
  std::uint64_t stale_loads = 0;
  /// Seed of transactions that abort for no reason; 0 for none.
  std::uint64_t spurious_aborts = 0;
};

/// Executes a scene once under a strategy.
class exploration final : public world {
 public:
  exploration(const exploration_options& options, const std::function<void(scene&)>& build);
  exploration(const exploration&) = delete;
  exploration& operator=(const exploration&) = delete;
  ~exploration();

  /// Null if the run passed.
  std::optional<run_failure> run(strategy& choose, const run_conditions& conditions, std::uint64_t seed,
                                 std::uint64_t expected_steps);

  [[nodiscard]] const schedule& decisions() const noexcept { return decisions_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] const transaction_counts& transactions_of_run() const noexcept {
    return transactions_.counts();
  }
  [[nodiscard]] const std::vector<std::string>& thread_names() const noexcept;
  /// The stale loads of a run under the weak model.
  [[nodiscard]] const std::vector<weak_memory::stale_load>& stale_loads() const noexcept {
    return weak_memory_.stale_loads();
  }
  /// For each segment of the decisions, the last known place of its agent; null for store buffers.
  [[nodiscard]] const std::vector<const void*>& last_seen() const noexcept { return last_seen_; }

  // Called by the program.
  void before(const access& a) override;
  void fence(std::memory_order order) override;
  void fence_all() override;
  void wait(bool long_wait) override;
  void sleep_on(const void* word) override;
  void wake_sleepers(const void* word, bool all) override;
  void step(transaction_step what, const void* where) override;
  [[nodiscard]] std::uint32_t slot() const noexcept override;
  [[nodiscard]] std::uint32_t slots() const noexcept override { return fibers_.count() + 1; }
  void fault(const char* what, const block_record* block) override;
  [[nodiscard]] block_event event() const noexcept override;
  [[nodiscard]] std::uint64_t moment() noexcept override { return ++moments_; }
  [[nodiscard]] std::uint64_t first_step() const noexcept override {
    return in_program() ? first_steps_[fibers_.current()] : 0;
  }
  void forget_first_step() noexcept override {
    if (in_program()) first_steps_[fibers_.current()] = 0;
  }
  void operation_ends(bool changed) override;
  void before_free(const void* block) override;

  void fail(failure_kind kind, std::string what, const block_record* block = nullptr);
  void retired(const void* detached);
  [[noreturn]] void crashed(int signal);
  /// The run has used more processor time than it may, or says so itself (SIGPROF).
  [[noreturn]] void has_no_end();
  [[nodiscard]] bool in_program() const noexcept { return fibers_.current() != fibers::none; }

 private:
  class open_scene;

  void set_up(scene& s);
  void take_down(scene& s);
  /// Runs a part of the program that belongs to no thread. What it throws is a failure of this part.
  void run_outside_threads(const char* part, const std::function<void()>& body);
  unsigned finished(unsigned id);
  /// Lets the strategy choose among the ready agents until it chooses a fiber; returns that fiber's number.
  unsigned choose();
  /// A step of the running fiber. When it returns, the fiber performs the step.
  void take_turn(const void* where, unsigned time);
  void check(const access& a);
  void fail_by_race(std::string_view verb, std::uintptr_t address, const weak_memory::race& with);

  const exploration_options& options_;
  const std::function<void(scene&)>& build_;
  sim::heap heap_;
  sim::fibers fibers_;
  store_buffers stores_;
  sim::weak_memory weak_memory_;
  sim::transactions transactions_{*this};
  std::unique_ptr<scene::contents> contents_;

  strategy* strategy_ = nullptr;
  schedule decisions_;
  std::vector<const void*> last_seen_;
  std::uint64_t steps_ = 0;
  std::uint64_t moments_ = 0;
  std::vector<std::uint64_t> first_steps_;  // by fiber
  agent_set alive_ = 0;
  agent_set waiting_ = 0;
  struct sleeper {
    unsigned fiber;
    const void* word;
  };
  std::vector<sleeper> sleepers_;  // the earliest first
  agent_set asleep_ = 0;           // the same
  std::uint64_t sleeps_ = 0;       // in this run
  std::optional<run_failure> failure_;
  std::optional<weak_memory::race> raced_with_;
  std::jmp_buf outside_;  ///< where such a part is left that has no end
};

}  // namespace espalier::sim
