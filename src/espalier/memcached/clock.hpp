#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace espalier::memcached {

/// The seconds of the cache. The first is 62, as memcached's is: a minute before the start is in the past, and what lies
/// before that is second 1. They follow the machine's monotonic clock, and a second begins when one of the calendar does.
class second_clock {
 public:
  /// The end of an entry without one.
  static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

  second_clock();

  [[nodiscard]] const std::atomic<std::uint32_t>& seconds() const noexcept { return seconds_; }
  [[nodiscard]] std::uint32_t now() const noexcept {
    return seconds_.load(std::memory_order_relaxed);  // relaxed: seconds order nothing
  }
  /// The calendar's time of second 0.
  [[nodiscard]] std::int64_t origin() const noexcept { return origin_; }
  [[nodiscard]] std::uint32_t uptime() const noexcept { return now() - started_; }

  /// Goes on where another clock was at this second, or at the calendar's time now if that is later. False, and nothing has
  /// changed, if so many seconds do not fit. Before anything has read the clock.
  [[nodiscard]] bool go_on(std::int64_t origin, std::uint32_t second) noexcept;

  /// Reads the machine's clock. Returns the microseconds until the next second begins.
  std::uint64_t advance() noexcept;
  /// Sets the clock ahead, in addition to earlier calls.
  void move(std::uint32_t seconds) noexcept;
  /// From now on only move() advances it.
  void stand() noexcept { stands_.store(true, std::memory_order_relaxed); }  // relaxed: seconds order nothing

  /// The end of an entry, as the protocol gives it: 0 for never, a negative number for at once, up to 30 days from now,
  /// else a time of the calendar.
  [[nodiscard]] std::uint32_t end_after(std::int64_t given) const noexcept;

 private:
  static constexpr std::uint32_t first = 62;

  std::atomic<std::uint32_t> seconds_{first};
  std::atomic<std::uint32_t> moved_{0};
  std::atomic<bool> stands_{false};
  std::uint32_t started_ = first;
  std::int64_t origin_;
  std::int64_t origin_us_;  // the monotonic clock's at second 0
};

}  // namespace espalier::memcached
