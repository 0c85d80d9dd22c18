#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Which agent takes the next step.

namespace espalier::sim {

/// The sequence of agents and their numbers of steps: all decisions of a run, sufficient to repeat it. An agent is a
/// fiber, or (from `fibers` on) the store buffer of one, which makes one store visible per step.
class schedule {
 public:
  struct segment {
    unsigned agent;
    std::uint64_t steps;
  };

  void clear() noexcept { segments_.clear(); }
  void append(unsigned agent) {
    if (!segments_.empty() && segments_.back().agent == agent)
      ++segments_.back().steps;
    else
      segments_.push_back({agent, 1});
  }

  [[nodiscard]] const std::vector<segment>& segments() const noexcept { return segments_; }
  [[nodiscard]] std::vector<segment>& segments() noexcept { return segments_; }
  /// Joins adjacent segments of one agent and drops empty segments.
  void normalise();

  /// "0x12.1x3.0x5": agent x steps.
  [[nodiscard]] std::string to_text() const;
  /// Throws std::invalid_argument that says what is wrong and where.
  static schedule parse(std::string_view text);

 private:
  std::vector<segment> segments_;
};

/// Agents are numbered from 0, at most 64; sets of them are bit masks.
using agent_set = std::uint64_t;

/// The information that a strategy receives for a choice.
struct situation {
  /// The agents that can continue. Never empty.
  agent_set ready;
  /// The agents that have not ended: the ready ones, and threads that said they wait for others. They may be chosen
  /// too.
  agent_set alive;
  /// The agent that took the last step; may not be among them.
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

  /// A new run. `expected_steps` is the length of the previous runs, 0 for the first.
  virtual void begin(unsigned agents, std::uint64_t seed, std::uint64_t expected_steps) = 0;
  virtual unsigned choose(const situation& now) = 0;
  /// The agent states that it waits for others.
  virtual void waits(unsigned) {}
  /// The agent performed a step that took this long on a simple machine; for lowest_clock.
  virtual void took(unsigned, unsigned) {}

  [[nodiscard]] virtual std::string name() const = 0;
};

/// Follows a schedule. Where it does not fit the run (any more), the current agent continues, else the first that can.
[[nodiscard]] std::unique_ptr<strategy> replay_strategy(schedule what);

/// random, pct:2 to pct:5, round-robin, lowest-clock, stalled: strategy.cpp says what each does. Throws
/// std::invalid_argument that names them.
[[nodiscard]] std::unique_ptr<strategy> make_strategy(std::string_view name);

}  // namespace espalier::sim
