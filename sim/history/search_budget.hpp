#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// The limits of a check, and the account of its use. The check reads no clock: a time limit is the caller's function.

namespace espalier::sim {

struct check_limits {
  /// A step is an event passed or an operation tried in the order, and takes some tens of nanoseconds.
  std::uint64_t steps = 1'000'000'000;
  /// Bytes for the configurations that one search remembers.
  std::size_t memo_bytes = std::size_t{1} << 30;
  /// Called occasionally; true ends the check. May be empty.
  std::function<bool()> expired;
};

class search_budget {
 public:
  explicit search_budget(const check_limits& limits) : limits_(limits) {}

  /// Spends one step; false if the search must end.
  bool spend() {
    if (!why_.empty() || ++steps_ > limits_.steps) return refuse("the limit of steps is reached");
    if (steps_ % 1024 == 0 && limits_.expired && limits_.expired()) return refuse("the time is over");
    return true;
  }

  /// Charges this many more bytes; false if the search must end.
  bool take(std::size_t bytes) {
    held_ += bytes;
    return held_ <= limits_.memo_bytes || refuse("the limit of memory is reached");
  }
  void give_back(std::size_t bytes) noexcept { held_ -= bytes; }

  /// Ends the search for this reason, unless it has ended; returns false.
  bool refuse(const char* reason) {
    if (why_.empty()) why_ = reason;
    return false;
  }

  [[nodiscard]] bool ended() const noexcept { return !why_.empty(); }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  /// Allows another search: memory and width end one search only, steps and time end all.
  [[nodiscard]] bool renew() {
    if (ended() && (steps_ > limits_.steps || (limits_.expired && limits_.expired()))) return false;
    why_.clear();
    return true;
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  const check_limits& limits_;
  std::uint64_t steps_ = 0;
  std::size_t held_ = 0;
  std::string why_;
};

}  // namespace espalier::sim
