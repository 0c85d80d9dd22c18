#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier::oltp {

/// What a transaction has of a lock.
enum class lock_mode : std::uint8_t { none, shared, exclusive };

/// Of the one transaction that has precedence under WAIT_DIE: older than all others. precedence.hpp has the ages of those.
inline constexpr std::uint64_t age_of_precedence = 0;
/// Younger than all.
inline constexpr std::uint64_t no_age = std::numeric_limits<std::uint64_t>::max();

/// What a request for a lock under WAIT_DIE comes to.
enum class lock_answer : std::uint8_t { granted, wait, die };

/// The lock of a row, or of the end of an index. A database uses one of its three parts.
///
/// Orderings
///   (1) release (release) -> try (acquire): under two-phase locking a transaction sees what those before it wrote to the row.
///   (2) install (release) -> stable (acquire): under Silo a reader sees the data of the number that it has read.
class row_lock {
 public:
  // NO_WAIT, by one word.

  [[nodiscard]] bool try_shared() noexcept {
    std::uint32_t now = holders_.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
    while ((now & (writer | reserved)) == 0) {
      // order (1): try, acquire
      if (holders_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  /// From nothing, or from the calling transaction's shared lock.
  [[nodiscard]] bool try_exclusive(lock_mode held) noexcept {
    std::uint32_t now = held == lock_mode::shared ? 1 : 0;
    // order (1): try, acquire
    return holders_.compare_exchange_strong(now, writer, std::memory_order_acquire,
                                            std::memory_order_relaxed);
  }
  /// The same of the transaction that has precedence, which asks until it gets the lock. From its first request on the lock
  /// has no new holders, but for a moment after a writer.
  [[nodiscard]] bool try_reserving(lock_mode wanted, lock_mode held) noexcept {
    // relaxed: the exchange confirms it.
    std::uint32_t now = holders_.fetch_or(reserved, std::memory_order_relaxed) | reserved;
    const bool free = wanted == lock_mode::shared
                          ? (now & writer) == 0
                          : now == (held == lock_mode::shared ? reserved + 1 : reserved);
    const std::uint32_t then = wanted == lock_mode::shared ? now - reserved + 1 : writer;
    // order (1): try, acquire
    return free &&
           holders_.compare_exchange_strong(now, then, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void release(lock_mode held) noexcept {
    // order (1): release, release
    if (held == lock_mode::exclusive)
      holders_.store(0, std::memory_order_release);
    else
      holders_.fetch_sub(1, std::memory_order_release);
  }
  void downgrade() noexcept { holders_.store(1, std::memory_order_release); }  // order (1): release, release

  // WAIT_DIE: a transaction waits only for younger ones, and so for no circle. A reader that wants to write waits for the
  // other readers if it is the oldest of them. No younger one comes in while it waits. `oldest_` may be that of a holder that
  // has left: then some die that might have waited. So that readers which take the row from each other do not hold it for
  // ever, those that are younger than one that died then do not come in before all have left.

  [[nodiscard]] lock_answer request(lock_mode wanted, lock_mode held, std::uint64_t age) noexcept {
    const lock_guard hold(latch_);
    // relaxed throughout: the latch orders it.
    const std::uint32_t now = holders_.load(std::memory_order_relaxed);
    const bool upgrades = held == lock_mode::shared;
    const bool free = wanted == lock_mode::shared ? (now & writer) == 0 : now == (upgrades ? 1U : 0U);
    // A reader may not overtake an older transaction that waits.
    const bool behind_older = !upgrades && std::min(waiting_, turned_away_) < age;
    if (free && !behind_older) {
      holders_.store(wanted == lock_mode::exclusive ? writer : now + 1, std::memory_order_relaxed);
      if (oldest_ > age || now == 0) oldest_ = age;
      if (waiting_ == age) waiting_ = no_age;
      return lock_answer::granted;
    }
    // All other holders are younger. The age of precedence may be there of one that had it before.
    const bool oldest = age == age_of_precedence || (upgrades ? age == oldest_ : age < oldest_);
    if (!behind_older && oldest) {
      waiting_ = std::min(waiting_, age);
      return lock_answer::wait;
    }
    if (waiting_ == age) waiting_ = no_age;
    if (some_left_) turned_away_ = std::min(turned_away_, age);
    return lock_answer::die;
  }
  void release_requested(lock_mode held) noexcept {
    const lock_guard hold(latch_);
    // relaxed: the latch orders it.
    const std::uint32_t now = held == lock_mode::exclusive ? 0 : holders_.load(std::memory_order_relaxed) - 1;
    holders_.store(now, std::memory_order_relaxed);
    some_left_ = now != 0;
    if (now == 0) oldest_ = turned_away_ = no_age;
  }
  void downgrade_requested() noexcept {
    const lock_guard hold(latch_);
    holders_.store(1, std::memory_order_relaxed);  // relaxed: the latch orders it
  }

  // Silo: the number of the transaction that wrote the row last, with two flags.

  static constexpr std::uint64_t locked = 1;
  static constexpr std::uint64_t absent = 2;
  static constexpr std::uint64_t one_number = 4;

  [[nodiscard]] std::uint64_t number() const noexcept {
    return number_.load(std::memory_order_acquire);  // order (2): stable, acquire
  }
  [[nodiscard]] bool try_lock_number() noexcept {
    std::uint64_t now = number_.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
    return (now & locked) == 0 &&
           number_.compare_exchange_strong(now, now | locked, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void unlock_number() noexcept {
    // relaxed: only the holder writes it.
    number_.store(number_.load(std::memory_order_relaxed) & ~locked, std::memory_order_release);
  }
  /// Unlocks.
  void install(std::uint64_t number) noexcept {
    number_.store(number, std::memory_order_release);
  }  // order (2): install, release

 private:
  using lock_guard = espalier::lock_guard<ttas_lock>;
  static constexpr std::uint32_t writer = std::uint32_t{1} << 31;
  static constexpr std::uint32_t reserved = std::uint32_t{1} << 30;

  std::atomic<std::uint32_t> holders_{0};
  ttas_lock latch_;
  std::uint64_t oldest_ = no_age;   ///< of the holders
  std::uint64_t waiting_ = no_age;  ///< the oldest that waits
  std::atomic<std::uint64_t> number_{0};
  /// The oldest that died while `oldest_` may have been that of a holder that had left.
  std::uint64_t turned_away_ = no_age;
  bool some_left_ = false;  ///< of the holders, while others stay
};

static_assert(sizeof(row_lock) == 48);

class table_base;

/// The wrapper.
struct stored_row {
  row_lock* lock;
  std::byte* data;
  table_base* of;
  /// Under two-phase locking: false before its insert and after its erase. Its lock guards it.
  std::atomic<bool> live{false};
  /// It could not leave an index, for want of memory: it is freed with the database.
  std::atomic<bool> left_over{false};
  stored_row* next_left_over = nullptr;
};

/// While no transaction runs: false for a row that was erased and could not leave its index.
[[nodiscard]] inline bool is_there_at_rest(const stored_row& r) noexcept {
  const std::uint64_t number = r.lock->number();  // 0 under locks
  return number != 0 ? (number & row_lock::absent) == 0 : r.live.load(std::memory_order_relaxed);
}

}  // namespace espalier::oltp
