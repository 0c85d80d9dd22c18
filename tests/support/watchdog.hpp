#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "support/subject.hpp"

namespace espalier::test {

/// Watches threads that work on a map. If none of them has begun a further operation in so many seconds of processor
/// time (ESPALIER_WATCHDOG_SECONDS, by default 60), or all have slept for as long, it prints on stderr the map, the last
/// operation of each thread and the reclaimer's state, and ends the process with stalled_exit_code: threads that hang in
/// a map cannot be joined.
class watchdog {
 public:
  static constexpr int stalled_exit_code = 86;
  static constexpr std::size_t max_threads = 16;

  watchdog(const subject_type& type, subject& map);
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog();

  /// Thread number `thread` is about to do this.
  void begin(std::size_t thread, map_operation o, key k) noexcept { set(thread, o, k); }
  void done(std::size_t thread) noexcept { set(thread, std::nullopt, 0); }

 private:
  struct report {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<key> at{0};
    std::atomic<std::optional<map_operation>> doing{std::nullopt};
  };

  void set(std::size_t thread, std::optional<map_operation> doing, key at) noexcept {
    report& mine = reports_[thread].value;
    mine.at.store(at, std::memory_order_relaxed);
    mine.doing.store(doing, std::memory_order_relaxed);
    mine.begun.store(mine.begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void watch();
  [[nodiscard]] std::uint64_t begun_by_all() const noexcept;
  [[noreturn]] void give_up() const;

  const subject_type& type_;
  subject& map_;
  const std::chrono::milliseconds limit_;
  std::array<hw::padded<report>, max_threads> reports_{};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace espalier::test
