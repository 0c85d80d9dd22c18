#pragma once

#include <algorithm>
#include <atomic>
#include <limits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/oltp/options.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/per_thread.hpp"

// What the tables, the indexes and the transactions of a database share. Among it, which transaction goes first: the older
// one and, of all, the one that has precedence.

namespace espalier::oltp::engine {

struct stored_row;

/// The age of a transaction that begins at this time in the thread with this slot, after one of this age. A smaller age is
/// older, and no two are equal. 52 bits have the time in 256 ticks: they last for 12 years at 3 GHz.
[[nodiscard]] constexpr std::uint64_t age_at(std::uint64_t ticks, std::uint32_t slot,
                                             std::uint64_t former) noexcept {
  return std::max(ticks / 256 * hw::max_thread_slots + slot, former + hw::max_thread_slots);
}
/// Older than all others: the transaction that has precedence.
inline constexpr std::uint64_t age_of_precedence = 0;
/// Younger than all others.
inline constexpr std::uint64_t no_age = std::numeric_limits<std::uint64_t>::max();

/// Of one database: at most one transaction has it.
///
/// Orderings
///   (1) release (release) -> try_take (acquire): the next transaction with precedence comes after this one.
class precedence {
 public:
  [[nodiscard]] bool is_taken() const noexcept {
    return taken_.load(std::memory_order_relaxed);  // relaxed: a hint
  }
  /// For a transaction that asks until it gets it. False while another one has it, or an older one asks.
  [[nodiscard]] bool try_take(std::uint64_t age) noexcept {
    // relaxed: the oldest one asks again.
    std::uint64_t oldest = asks_.load(std::memory_order_relaxed);
    while (age < oldest && !asks_.compare_exchange_weak(oldest, age, std::memory_order_relaxed)) {
    }
    // order (1): try_take, acquire
    if (oldest < age || taken_.load(std::memory_order_relaxed) ||
        taken_.exchange(true, std::memory_order_acquire))
      return false;
    asks_.compare_exchange_strong(age, no_age, std::memory_order_relaxed);
    return true;
  }
  void release() noexcept { taken_.store(false, std::memory_order_release); }  // order (1): release, release
  /// In a child of fork(), which lacks the threads that ask.
  void forget_requests() noexcept { asks_.store(no_age, std::memory_order_relaxed); }  // relaxed: it is alone

 private:
  std::atomic<std::uint64_t> asks_{no_age};  ///< the age of the oldest that asks
  std::atomic<bool> taken_{false};
};

/// Rows, linked by stored_row::next_listed.
struct row_list {
  stored_row* first = nullptr;
};

struct shared_state {
  /// Throws std::invalid_argument for an unknown placement.
  explicit shared_state(const database_options& o)
      : chosen(o),
        rows(o.row_placement, o.recording),
        indexes(o.one_placement ? rows : any_placement(o.index_placement, o.recording)) {}

  database_options chosen;
  any_placement rows;
  any_placement indexes;
  /// In a child of fork(): another thread of the parent ran a transaction. Its rows stay locked, and may be half changed.
  bool torn = false;
  epoch_domain domain;
  /// Silo: the number of a row contains it, from bit `epoch_bit` on. A transaction that depends on another one has the same
  /// epoch or a later one. After 2^30 epochs it begins again at 0. The numbers of one row grow even then.
  static constexpr unsigned epoch_bit = 34;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> epoch{1};
  precedence first;
  /// Rows that could not leave an index.
  alignas(hw::false_sharing_bytes) std::atomic<stored_row*> left_over{nullptr};
  /// Rows that no index has.
  per_thread<row_list> appended;
};

}  // namespace espalier::oltp::engine
