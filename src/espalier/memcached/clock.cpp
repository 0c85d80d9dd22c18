#include "espalier/memcached/clock.hpp"

#include <algorithm>
#include <ctime>

namespace espalier::memcached {
namespace {

constexpr std::int64_t second_us = 1'000'000;

std::int64_t microseconds_of(clockid_t which) noexcept {
  timespec now{};
  clock_gettime(which, &now);
  return std::int64_t{now.tv_sec} * second_us + now.tv_nsec / 1000;
}

}  // namespace

second_clock::second_clock() {
  const std::int64_t calendar = microseconds_of(CLOCK_REALTIME);
  origin_ = calendar / second_us - first;
  origin_us_ = microseconds_of(CLOCK_MONOTONIC) - calendar % second_us - first * second_us;
}

bool second_clock::go_on(std::int64_t origin, std::uint32_t second) noexcept {
  const std::int64_t calendar = origin_ + first;
  const std::int64_t now = std::max<std::int64_t>(calendar - origin, second);
  constexpr std::int64_t most = never / 2;  // there are as many to come
  if (now < first || now > most) return false;
  started_ = static_cast<std::uint32_t>(now);
  origin_ = calendar - now;
  origin_us_ -= (now - first) * second_us;
  seconds_.store(started_, std::memory_order_relaxed);  // relaxed: seconds order nothing
  return true;
}

std::uint64_t second_clock::advance() noexcept {
  const std::int64_t passed = microseconds_of(CLOCK_MONOTONIC) - origin_us_;
  // relaxed, all of it: seconds order nothing
  const auto now = static_cast<std::uint32_t>(passed / second_us) + moved_.load(std::memory_order_relaxed);
  std::uint32_t shown = seconds_.load(std::memory_order_relaxed);
  while (shown < now && !stands_.load(std::memory_order_relaxed) &&
         !seconds_.compare_exchange_weak(shown, now, std::memory_order_relaxed)) {
  }
  return static_cast<std::uint64_t>(second_us - passed % second_us);
}

void second_clock::move(std::uint32_t seconds) noexcept {
  // relaxed, all of it: seconds order nothing
  moved_.fetch_add(seconds, std::memory_order_relaxed);
  if (stands_.load(std::memory_order_relaxed))
    seconds_.fetch_add(seconds, std::memory_order_relaxed);
  else
    advance();
}

std::uint32_t second_clock::end_after(std::int64_t given) const noexcept {
  constexpr std::int64_t longest_delay = std::int64_t{60} * 60 * 24 * 30;
  if (given == 0) return never;
  if (given < 0) return 1;
  const std::int64_t end = given > longest_delay ? given - origin_ : given + now();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(end, 1, never - 1));
}

}  // namespace espalier::memcached
