#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.hpp"

// Who takes the next step.

namespace espalier::sim {

/// Agents are numbered from 0, at most 64; sets of them are bit masks.
using agent_set = std::uint64_t;

/// What a strategy knows when it is asked.
struct situation {
  /// Who can go on. Never empty.
  agent_set ready;
  /// Who has not ended: the ready, and threads that said they wait for others. They may be chosen too.
  agent_set alive;
  /// Who took the last step; may not be among them.
  unsigned current;
  /// Steps taken so far in this run.
  std::uint64_t step;
};

/// Deterministic: the same seed and the same situations give the same choices.
class strategy {
 public:
  strategy() = default;
  strategy(const strategy&) = delete;
  strategy& operator=(const strategy&) = delete;
  virtual ~strategy() = default;

  /// A new run. `expected_steps` is how long the runs before it were, 0 for the first.
  virtual void begin(unsigned agents, std::uint64_t seed, std::uint64_t expected_steps) = 0;
  virtual unsigned choose(const situation& now) = 0;
  /// The agent says that it waits for others.
  virtual void waits(unsigned) {}
  /// The agent did a step that took this long on a simple machine; for lowest_clock.
  virtual void took(unsigned, unsigned) {}

  [[nodiscard]] virtual std::string name() const = 0;
};

/// At each step, with a probability that is drawn anew for each run, somebody else: any of the ready.
[[nodiscard]] std::unique_ptr<strategy> random_strategy();

/// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, ASPLOS 2010): random
/// priorities, and depth - 1 random steps at which the running agent falls below all others. Finds a bug of
/// that depth among n agents and k steps with probability 1 / (n k^(depth - 1)) at least. An agent that
/// waits is demoted too, so that spin loops end.
[[nodiscard]] std::unique_ptr<strategy> pct_strategy(unsigned depth);

/// One step each, in turn.
[[nodiscard]] std::unique_ptr<strategy> round_robin_strategy();

/// Whoever has used least time so far, as on a machine where all run at once: one unit a plain step, more
/// for atomic ones. The seed shifts the starting times.
[[nodiscard]] std::unique_ptr<strategy> lowest_clock_strategy();

/// As random, until at some step one agent stops for good: it goes on only when all others have ended. What
/// is lock-free ends so too; a lock whose holder stops is called a livelock.
[[nodiscard]] std::unique_ptr<strategy> stalled_strategy();

/// What a schedule says; where it does not fit the run (any more), the current agent goes on, else the first
/// that can.
[[nodiscard]] std::unique_ptr<strategy> replay_strategy(schedule what);

/// random, pct:2 to pct:5, round-robin, lowest-clock, stalled. Throws std::invalid_argument naming them.
[[nodiscard]] std::unique_ptr<strategy> make_strategy(std::string_view name);

}  // namespace espalier::sim
