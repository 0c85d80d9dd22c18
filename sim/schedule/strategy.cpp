#include "sim/schedule/strategy.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>

#include "espalier/measure/random.hpp"

namespace espalier::sim {
namespace {

template <class Number>
Number take_number(std::string_view& rest, std::string_view whole) {
  Number n{};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
  if (error != std::errc{})
    throw std::invalid_argument("a schedule is written AGENTxSTEPS.AGENTxSTEPS..., as in 0x12.1x3; '" +
                                std::string(rest.substr(0, 12)) + "' at character " +
                                std::to_string(whole.size() - rest.size()) + " is not a number");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return n;
}

}  // namespace

void schedule::normalise() {
  std::vector<segment> joined;
  for (const segment& s : segments_) {
    if (s.steps == 0) continue;
    if (!joined.empty() && joined.back().agent == s.agent)
      joined.back().steps += s.steps;
    else
      joined.push_back(s);
  }
  segments_ = std::move(joined);
}

std::string schedule::to_text() const {
  std::string text;
  for (const segment& s : segments_) {
    if (!text.empty()) text += '.';
    text += std::to_string(s.agent) + 'x' + std::to_string(s.steps);
  }
  return text;
}

schedule schedule::parse(std::string_view text) {
  schedule parsed;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto agent = take_number<unsigned>(rest, text);
    if (rest.empty() || rest.front() != 'x')
      throw std::invalid_argument("in a schedule an 'x' stands between agent and steps, as in 0x12.1x3");
    rest.remove_prefix(1);
    parsed.segments_.push_back({agent, take_number<std::uint64_t>(rest, text)});
    if (rest.empty()) break;
    if (rest.front() != '.')
      throw std::invalid_argument("in a schedule a '.' stands between segments, as in 0x12.1x3");
    rest.remove_prefix(1);
  }
  return parsed;
}

namespace {

using measure::random_generator;

unsigned nth_of(agent_set set, std::uint64_t n) {
  for (; n != 0; --n) set &= set - 1;
  return static_cast<unsigned>(std::countr_zero(set));
}

unsigned any_of(agent_set set, random_generator& random) {
  return nth_of(set, random.below(static_cast<std::uint64_t>(std::popcount(set))));
}

constexpr bool has(agent_set set, unsigned agent) { return (set >> agent & 1U) != 0; }

/// At each step, with a probability that is drawn anew for each run, switches to a random ready agent.
class random_choice final : public strategy {
 public:
  void begin(unsigned, std::uint64_t seed, std::uint64_t) override {
    random_ = random_generator(seed, 0);
    // Between one switch in 2 steps and one in 64: with rare switches an operation gets far before another one
    // interferes.
    switch_one_in_ = std::uint64_t{2} << random_.below(6);
  }

  unsigned choose(const situation& now) override {
    const agent_set others = now.ready & ~(agent_set{1} << now.current);
    const bool stays = has(now.ready, now.current) && (others == 0 || random_.below(switch_one_in_) != 0);
    return stays ? now.current : any_of(others, random_);
  }

  [[nodiscard]] std::string name() const override { return "random"; }

 private:
  random_generator random_{0, 0};
  std::uint64_t switch_one_in_ = 1;
};

/// As random, until at some step one agent stops; it continues only when all others have ended. Lock-free code still
/// ends. A lock with a stopped holder is reported as a livelock.
class stalled final : public strategy {
 public:
  void begin(unsigned agents, std::uint64_t seed, std::uint64_t expected_steps) override {
    by_.begin(agents, seed, expected_steps);
    random_generator random(seed, 3);
    victim_ = static_cast<unsigned>(random.below(agents));
    stops_at_ = random.below(expected_steps != 0 ? expected_steps : 64);
  }

  unsigned choose(const situation& now) override {
    const agent_set all_but_victim = ~(agent_set{1} << victim_);
    const agent_set alive = now.alive & all_but_victim;
    if (now.step < stops_at_ || alive == 0) return by_.choose(now);
    // If all other agents wait, they continue to wait.
    const agent_set ready = now.ready & all_but_victim;
    return by_.choose({ready != 0 ? ready : alive, alive, now.current, now.step});
  }

  [[nodiscard]] std::string name() const override { return "stalled"; }

 private:
  random_choice by_;
  unsigned victim_ = 0;
  std::uint64_t stops_at_ = 0;
};

/// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, ASPLOS 2010): random priorities,
/// and depth - 1 random steps at which the running agent falls below all others. Finds a bug of that depth among n
/// agents and k steps with probability at least 1 / (n k^(depth - 1)). An agent that waits is demoted too, so that spin
/// loops end.
class pct final : public strategy {
 public:
  explicit pct(unsigned depth) : depth_(depth) {}

  void begin(unsigned agents, std::uint64_t seed, std::uint64_t expected_steps) override {
    random_generator random(seed, 1);
    priority_.resize(agents);
    for (unsigned a = 0; a < agents; ++a) priority_[a] = std::int64_t{depth_} + a;
    for (unsigned a = agents; a > 1; --a) std::swap(priority_[a - 1], priority_[random.below(a)]);
    changes_.clear();
    for (unsigned i = 1; i < depth_; ++i)
      changes_.push_back({1 + random.below(expected_steps != 0 ? expected_steps : 64), depth_ - i});
    std::sort(changes_.begin(), changes_.end(),
              [](const change& x, const change& y) { return x.step < y.step; });
    next_change_ = 0;
    lowest_ = 0;
  }

  unsigned choose(const situation& now) override {
    while (next_change_ < changes_.size() && changes_[next_change_].step <= now.step)
      priority_[now.current] = static_cast<std::int64_t>(changes_[next_change_++].priority);
    unsigned best = nth_of(now.ready, 0);
    for (agent_set left = now.ready; left != 0; left &= left - 1) {
      const auto agent = static_cast<unsigned>(std::countr_zero(left));
      if (priority_[agent] > priority_[best]) best = agent;
    }
    return best;
  }

  void waits(unsigned agent) override { priority_[agent] = --lowest_; }

  [[nodiscard]] std::string name() const override { return "pct:" + std::to_string(depth_); }

 private:
  struct change {
    std::uint64_t step;
    unsigned priority;
  };
  unsigned depth_;
  std::vector<std::int64_t> priority_;
  std::vector<change> changes_;
  std::size_t next_change_ = 0;
  std::int64_t lowest_ = 0;
};

/// One step each, in turn.
class round_robin final : public strategy {
 public:
  void begin(unsigned, std::uint64_t, std::uint64_t) override {}
  unsigned choose(const situation& now) override {
    const agent_set behind = now.current >= 63 ? 0 : now.ready & ~((agent_set{2} << now.current) - 1);
    return nth_of(behind != 0 ? behind : now.ready, 0);
  }
  [[nodiscard]] std::string name() const override { return "round-robin"; }
};

/// The agent that has used the least time so far, as on a machine that runs all at once: one unit for a plain step,
/// more for atomic ones. The seed shifts the starting times.
class lowest_clock final : public strategy {
 public:
  void begin(unsigned agents, std::uint64_t seed, std::uint64_t) override {
    random_generator random(seed, 2);
    clock_.resize(agents);
    for (auto& c : clock_) c = random.below(64);
  }
  unsigned choose(const situation& now) override {
    unsigned best = nth_of(now.ready, 0);
    for (agent_set left = now.ready; left != 0; left &= left - 1) {
      const auto agent = static_cast<unsigned>(std::countr_zero(left));
      if (clock_[agent] < clock_[best]) best = agent;
    }
    return best;
  }
  void took(unsigned agent, unsigned time) override { clock_[agent] += time; }
  [[nodiscard]] std::string name() const override { return "lowest-clock"; }

 private:
  std::vector<std::uint64_t> clock_;
};

class replay final : public strategy {
 public:
  explicit replay(schedule what) : what_(std::move(what)) {}

  void begin(unsigned, std::uint64_t, std::uint64_t) override { at_ = taken_ = 0; }

  unsigned choose(const situation& now) override {
    const auto& segments = what_.segments();
    // Waiting agents count too: "stalled" lets them continue to wait.
    while (at_ < segments.size() && (taken_ == segments[at_].steps || !has(now.alive, segments[at_].agent))) {
      ++at_;
      taken_ = 0;
    }
    if (at_ < segments.size()) {
      ++taken_;
      return segments[at_].agent;
    }
    return has(now.ready, now.current) ? now.current : nth_of(now.ready, 0);
  }

  [[nodiscard]] std::string name() const override { return "replay"; }

 private:
  schedule what_;
  std::size_t at_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<strategy> replay_strategy(schedule what) { return std::make_unique<replay>(std::move(what)); }

std::unique_ptr<strategy> make_strategy(std::string_view name) {
  if (name == "random") return std::make_unique<random_choice>();
  if (name == "round-robin") return std::make_unique<round_robin>();
  if (name == "lowest-clock") return std::make_unique<lowest_clock>();
  if (name == "stalled") return std::make_unique<stalled>();
  if (name.starts_with("pct:") && name.size() == 5 && name[4] >= '2' && name[4] <= '5')
    return std::make_unique<pct>(static_cast<unsigned>(name[4] - '0'));
  throw std::invalid_argument("there is no strategy '" + std::string(name) +
                              "'; there are random, pct:2 to pct:5, round-robin, lowest-clock and stalled");
}

}  // namespace espalier::sim
