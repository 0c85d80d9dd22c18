#pragma once

#include "espalier/hw/cache_line.hpp"
#include "espalier/oltp/engine/row_lock.hpp"

// The gaps between the keys of an index: what the protocols need so that no key comes into a gap that a transaction has read.

namespace espalier::oltp::engine {

/// The keys that rows have left lately. By them a transaction under Silo learns that a row has come into a range and has left
/// it between two looks.
///
/// Orderings
///   (1) note (release) -> count (acquire): a transaction that does not see the row any more sees the key that it has left.
class left_keys {
 public:
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);  // order (1): count, acquire
  }
  void note(std::uint64_t key) noexcept {
    const lock_guard hold(latch_);
    // relaxed: the latch guards writes.
    const std::uint64_t now = count_.load(std::memory_order_relaxed);
    keys_[now % keys_.size()].store(key, std::memory_order_release);
    count_.store(now + 1, std::memory_order_release);  // order (1): note, release
  }
  /// Whether a row may have left a key of the range since the count was this one.
  [[nodiscard]] bool any_since(std::uint64_t count_then, std::uint64_t from,
                               std::uint64_t to) const noexcept {
    const std::uint64_t now = count();
    if (now - count_then >= keys_.size()) return true;
    for (std::uint64_t n = count_then; n != now; ++n) {
      // acquire: a key of a later round comes with a count that shows it.
      const std::uint64_t key = keys_[n % keys_.size()].load(std::memory_order_acquire);
      if (key >= from && key <= to) return true;
    }
    // relaxed: the keys were read before. A key that was overwritten meanwhile makes the count too large.
    return count_.load(std::memory_order_relaxed) - count_then >= keys_.size();
  }

 private:
  ttas_lock latch_;
  std::atomic<std::uint64_t> count_{0};
  std::array<std::atomic<std::uint64_t>, 1024> keys_{};
};

/// Of one index.
class index_gaps {
 public:
  explicit index_gaps(protocol by) noexcept : end_(by) {}

  [[nodiscard]] left_keys& left() noexcept { return left_; }
  /// The lock of the gap after the last key.
  [[nodiscard]] row_lock& end() noexcept { return end_; }

  // Two-phase locking. While a transaction reads gaps of the index, an insert of another one locks the gap.

  void begin_reading() noexcept {
    readers_.value.fetch_add(1, std::memory_order_relaxed);  // relaxed: the fence orders it
    // If an insert does not see this reader, a look into the index after the fence sees the row.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void end_reading() noexcept { readers_.value.fetch_sub(1, std::memory_order_release); }
  /// By other transactions than the calling one.
  [[nodiscard]] bool are_read(bool by_itself) const noexcept {
    // acquire: if a transaction has ended its reading, its locks are free.
    return readers_.value.load(std::memory_order_acquire) != (by_itself ? 1U : 0U);
  }

 private:
  row_lock end_;
  left_keys left_;
  hw::padded<std::atomic<std::uint32_t>> readers_{};
};

}  // namespace espalier::oltp::engine
