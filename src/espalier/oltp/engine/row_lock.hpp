#pragma once

#include <memory>

#include "espalier/oltp/engine/shared_state.hpp"
#include "espalier/oltp/options.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The lock of a row, or of the gap after the last row of an index: one type for each protocol.

namespace espalier::oltp::engine {

/// How a transaction holds a lock.
enum class lock_mode : std::uint8_t { none, shared, exclusive };

/// NO_WAIT: one word, which counts the readers or says that there is a writer.
///
/// Orderings
///   (1) release (release) -> try (acquire): a transaction sees what earlier holders wrote to the row.
class no_wait_lock {
 public:
  [[nodiscard]] bool try_shared() noexcept {
    std::uint32_t now = holders_.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
    while ((now & (writer | reserved)) == 0) {
      // order (1): try, acquire
      if (holders_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  /// From no lock, or from the shared lock of the calling transaction.
  [[nodiscard]] bool try_exclusive(lock_mode held) noexcept {
    std::uint32_t now = held == lock_mode::shared ? 1 : 0;
    // order (1): try, acquire
    return holders_.compare_exchange_strong(now, writer, std::memory_order_acquire,
                                            std::memory_order_relaxed);
  }
  /// For the transaction that has precedence, which asks until it gets the lock. Its first request reserves the lock: no other
  /// transaction gets it, except for a moment after a writer.
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
  /// From exclusive to shared.
  void downgrade() noexcept { holders_.store(1, std::memory_order_release); }  // order (1): release, release

 private:
  static constexpr std::uint32_t writer = std::uint32_t{1} << 31;
  static constexpr std::uint32_t reserved = std::uint32_t{1} << 30;

  std::atomic<std::uint32_t> holders_{0};
};

/// What a request for a lock under WAIT_DIE leads to.
enum class lock_answer : std::uint8_t { granted, wait, die };

/// WAIT_DIE: a transaction waits only for younger ones. So transactions cannot wait in a circle.
///
/// A reader that wants to write waits if it is the oldest reader. While a transaction waits, no younger one gets the lock.
///
/// The lock knows the age of its oldest holder, but not the next one. If the oldest releases it and others still hold it, a
/// request may die that is older than all remaining holders. Readers that replace one another would exclude it for ever. So
/// the lock notes the age of such a request, and younger transactions get the lock only after all holders have released it.
class wait_die_lock {
 public:
  [[nodiscard]] lock_answer request(lock_mode wanted, lock_mode held, std::uint64_t age) noexcept {
    const lock_guard hold(latch_);
    const bool upgrades = held == lock_mode::shared;
    const bool free =
        wanted == lock_mode::shared ? (holders_ & writer) == 0 : holders_ == (upgrades ? 1U : 0U);
    // A reader may not overtake an older transaction that waits.
    const bool after_older = !upgrades && std::min(waiting_, turned_away_) < age;
    if (free && !after_older) {
      if (oldest_ > age || holders_ == 0) oldest_ = age;
      holders_ = wanted == lock_mode::exclusive ? writer : holders_ + 1;
      if (waiting_ == age) waiting_ = no_age;
      return lock_answer::granted;
    }
    // All other holders are younger. An age of precedence in the lock may be that of an earlier transaction.
    const bool oldest = age == age_of_precedence || (upgrades ? age == oldest_ : age < oldest_);
    if (!after_older && oldest) {
      waiting_ = std::min(waiting_, age);
      return lock_answer::wait;
    }
    if (waiting_ == age) waiting_ = no_age;
    if (some_left_) turned_away_ = std::min(turned_away_, age);
    return lock_answer::die;
  }
  void release(lock_mode held) noexcept {
    const lock_guard hold(latch_);
    holders_ = held == lock_mode::exclusive ? 0 : holders_ - 1;
    some_left_ = holders_ != 0;
    if (holders_ == 0) oldest_ = turned_away_ = no_age;
  }
  /// From exclusive to shared.
  void downgrade() noexcept {
    const lock_guard hold(latch_);
    holders_ = 1;
  }

 private:
  using lock_guard = espalier::lock_guard<ttas_lock>;
  static constexpr std::uint32_t writer = std::uint32_t{1} << 31;

  ttas_lock latch_;  ///< guards the rest
  std::uint32_t holders_ = 0;
  std::uint64_t oldest_ = no_age;       ///< of the holders, or of one that has released the lock
  std::uint64_t waiting_ = no_age;      ///< the oldest that waits
  std::uint64_t turned_away_ = no_age;  ///< the oldest that died after some_left_ became true
  bool some_left_ = false;              ///< a holder has released the lock, and others have not
};

/// Silo: the number of the transaction that wrote the row last, with two flags.
///
/// Orderings
///   (2) install (release) -> number (acquire): a reader sees the data of the number that it has read.
class silo_lock {
 public:
  static constexpr std::uint64_t locked = 1;
  static constexpr std::uint64_t absent = 2;  ///< not inserted yet, or erased
  static constexpr std::uint64_t one_number = 4;

  [[nodiscard]] std::uint64_t number() const noexcept {
    return number_.load(std::memory_order_acquire);  // order (2): number, acquire
  }
  [[nodiscard]] bool try_lock() noexcept {
    std::uint64_t now = number_.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
    return (now & locked) == 0 &&
           number_.compare_exchange_strong(now, now | locked, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  /// With the number unchanged.
  void unlock() noexcept {
    // relaxed: only the holder writes it.
    number_.store(number_.load(std::memory_order_relaxed) & ~locked, std::memory_order_release);
  }
  /// Unlocks, with a number and perhaps `absent`.
  void install(std::uint64_t number) noexcept {
    number_.store(number, std::memory_order_release);  // order (2): install, release
  }

 private:
  std::atomic<std::uint64_t> number_{0};
};

/// The lock of the database's protocol.
union row_lock {
  explicit row_lock(protocol by) noexcept {
    if (by == protocol::no_wait) std::construct_at(&no_wait);
    if (by == protocol::wait_die) std::construct_at(&wait_die);
    if (by == protocol::silo) std::construct_at(&silo);
  }

  no_wait_lock no_wait;
  wait_die_lock wait_die;
  silo_lock silo;
};

static_assert(sizeof(row_lock) <= least_lock_bytes && alignof(row_lock) == 8);

}  // namespace espalier::oltp::engine
