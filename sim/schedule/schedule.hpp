#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::sim {

/// The sequence of agents and their numbers of steps: all decisions of a run, sufficient to repeat it. An agent is a
/// fiber, or (from `fibers` on) the store buffer of one, which makes one store visible per step.
class schedule {
 public:
  struct segment {
    unsigned agent;
    std::uint64_t steps;
    bool operator==(const segment&) const = default;
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
  [[nodiscard]] std::uint64_t steps() const noexcept;
  /// Joins adjacent segments of one agent and drops empty segments.
  void normalise();

  /// "0x12.1x3.0x5": agent x steps.
  [[nodiscard]] std::string to_text() const;
  /// Throws std::invalid_argument that says what is wrong and where.
  static schedule parse(std::string_view text);

  bool operator==(const schedule&) const = default;

 private:
  std::vector<segment> segments_;
};

}  // namespace espalier::sim
