#pragma once

#include <atomic>
#include <cstdint>

namespace espalier {

// Orderings
//   (1) leave (release) -> read, try_lock, try_lock_both (acquire): with a version comes the state that it stands for.
//       In a pair, operations on the other half are read-modify-writes of the same word, which continue the release sequence.

/// A version lock in 32 bits (Guerraoui and Trigonakis, "Optimistic Concurrency with OPTIK", PPoPP 2016). An even version is
/// free, an odd one is held. try_lock(seen) succeeds only if the lock still has the version that the caller read before it
/// read what the lock protects: acquiring it *is* the validation. unlock publishes a change by the next even version;
/// revert releases the lock with the version unchanged. A lock that is never released marks its owner as removed.
///
/// A stale try_lock can succeed only after 2^31 changes during one operation.
class version_lock {
 public:
  using version = std::uint32_t;

  [[nodiscard]] static constexpr bool is_held(version v) noexcept { return (v & 1U) != 0; }

  /// Call it before reading what the lock protects.
  [[nodiscard]] version read() const noexcept {
    return word_.load(std::memory_order_acquire);  // order (1): read, acquire
  }

  /// Locks if the version is still the one seen; false if it changed or is held. Never waits.
  [[nodiscard]] bool try_lock(version seen) noexcept {
    // order (1): try_lock, acquire. relaxed: a load that spares the line a transfer, and a failure, whose word is not
    // used.
    return !is_held(seen) && word_.load(std::memory_order_relaxed) == seen &&
           word_.compare_exchange_strong(seen, seen + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  /// After a change. Only by the holder.
  void unlock() noexcept { leave(1); }
  /// With nothing changed: what readers saw with this version stays valid. Only by the holder.
  void revert() noexcept { leave(~version{0}); }

 private:
  void leave(version step) noexcept {
    // relaxed: only the holder writes.
    const version held = word_.load(std::memory_order_relaxed);
    word_.store(held + step, std::memory_order_release);  // order (1): leave, release
  }

  std::atomic<version> word_{0};
};

/// Two version locks in one 64-bit word, 32 bits each (the ticket pair of David, Guerraoui and Trigonakis,
/// ASPLOS 2015; its halves of 16 + 16 bits wrap after 65536 updates).
///
/// An even version is free, an odd one is held. try_lock(side, seen) succeeds only if the side still has
/// the version that the caller read before it read what the side protects: acquiring the lock *is* the
/// validation. unlock publishes a change by moving to the next even version; revert releases the lock
/// with the version unchanged. A side that is never unlocked marks its owner as removed.
///
/// A stale try_lock can succeed only after 2^(VersionBits - 1) updates of one side during one operation;
/// tests shrink VersionBits so that versions wrap.
///
/// Every access is to the whole word: locking one side may retry when only the other side changed.
template <unsigned VersionBits = 32>
class basic_version_lock_pair {
  static_assert(VersionBits >= 2 && VersionBits <= 32, "a version has 2 to 32 bits");

 public:
  enum class side : unsigned { left = 0, right = 32 };
  using version = std::uint32_t;

  [[nodiscard]] static constexpr bool is_held(version v) noexcept { return (v & 1U) != 0; }

  /// The version of one side. Call it before reading what the side protects.
  [[nodiscard]] version read(side s) const noexcept {
    // order (1): read, acquire
    return half(word_.load(std::memory_order_acquire), s);
  }

  /// Locks one side if it still has the version seen; false if it changed or is held. Never waits.
  [[nodiscard]] bool try_lock(side s, version seen) noexcept {
    if (is_held(seen)) return false;
    // relaxed: a guess, which the exchange confirms; a failure of it only brings a newer guess.
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (half(word, s) != seen) return false;
      // order (1): try_lock, acquire. relaxed: as above.
    } while (!word_.compare_exchange_weak(word, word + (std::uint64_t{1} << shift(s)),
                                          std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }

  /// Locks both sides at once if both still have the versions seen.
  [[nodiscard]] bool try_lock_both(version seen_left, version seen_right) noexcept {
    if (is_held(seen_left) || is_held(seen_right)) return false;
    std::uint64_t word = pack(seen_left, seen_right);
    // order (1): try_lock_both, acquire. relaxed at a failure: the caller starts again.
    return word_.compare_exchange_strong(word, pack(seen_left + 1, seen_right + 1), std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  /// Unlocks one side after a change. Only by the holder, with the version it locked.
  void unlock(side s, version locked) noexcept { leave(s, locked + 1, (locked + 2) & mask); }

  /// Unlocks one side with nothing changed: what readers saw with this version stays valid.
  void revert(side s, version locked) noexcept { leave(s, locked + 1, locked); }

 private:
  static constexpr version mask = VersionBits == 32 ? ~version{0} : (version{1} << VersionBits) - 1;

  static constexpr unsigned shift(side s) noexcept { return static_cast<unsigned>(s); }
  static constexpr version half(std::uint64_t word, side s) noexcept {
    return static_cast<version>(word >> shift(s));
  }
  static constexpr std::uint64_t pack(version left, version right) noexcept {
    return std::uint64_t{right} << 32 | left;
  }

  void leave(side s, version held, version next) noexcept {
    // The difference modulo 2^64 replaces exactly this half: the half holds `held`, so no carry or borrow
    // leaves it, even where the version wraps to zero.
    // order (1): leave, release
    word_.fetch_add((std::uint64_t{next} - held) << shift(s), std::memory_order_release);
  }

  std::atomic<std::uint64_t> word_{0};
};

using version_lock_pair = basic_version_lock_pair<>;

static_assert(sizeof(version_lock_pair) == 8 && std::atomic<std::uint64_t>::is_always_lock_free,
              "this processor has no lock-free atomics of that size");

}  // namespace espalier
