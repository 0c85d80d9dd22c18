#pragma once

// Detects when the heap of a process is at its peak, by the requested bytes.
//
// Each thread counts the bytes that it allocates and frees, and reports the sum only now and then. A heap is worth a
// snapshot when it begins to fall: one for each crest rather than one for each step up. A crest is the highest value
// since the last snapshot.

#include <atomic>
#include <cstdint>

namespace espalier::preload {

/// The bytes by which a thread changed the heap since its last report. Only the owner uses it. Its initial state is
/// all zero, in which the first block is reported.
class byte_drift {
 public:
  /// False where the drift must be reported.
  [[nodiscard]] bool grow(std::int64_t bytes) noexcept {
    room_ -= bytes;
    return room_ >= 0;
  }
  [[nodiscard]] bool shrink(std::int64_t bytes) noexcept {
    room_ += bytes;
    return room_ <= most_room_;
  }
  [[nodiscard]] std::int64_t bytes() const noexcept { return most_room_ / 2 - room_; }

 private:
  friend class peak_watch;

  std::int64_t room_;       // growth that is left until the next report
  std::int64_t most_room_;  // twice the room after the last report; 0: the thread has not reported yet
  bool shrank_;             // in the last report
};

class peak_watch {
 public:
  constexpr peak_watch() noexcept = default;
  peak_watch(const peak_watch&) = delete;
  peak_watch& operator=(const peak_watch&) = delete;

  /// Called before any thread reports.
  void start(bool watched, std::uint64_t now_ns) noexcept {
    watched_ = watched;
    begun_ns_ = now_ns;
  }
  [[nodiscard]] bool watched() const noexcept { return watched_; }

  /// Adds a thread's drift and returns the bytes of the heap. Where nothing is watched a thread reports once.
  std::int64_t tell(byte_drift& mine) noexcept;
  /// The same for a thread that reports no more.
  void tell_last(byte_drift& mine) noexcept;
  /// Adds a change that is in no thread's drift.
  std::int64_t change(std::int64_t bytes) noexcept;

  enum class verdict : std::uint8_t { none, if_affordable, due };
  /// Whether the heap is worth a snapshot before it shrinks to so many bytes.
  [[nodiscard]] verdict judge(std::int64_t bytes) noexcept;

  // For snapshots, under their lock.

  /// Whether a snapshot of so many blocks is cheap compared with the work so far, in which `recorded` blocks were
  /// recorded.
  [[nodiscard]] bool affordable(std::uint64_t blocks, std::uint64_t recorded, std::uint64_t now_ns) noexcept;
  /// Called after a snapshot was taken or failed.
  void taken(std::int64_t bytes, std::uint64_t blocks, std::uint64_t from_ns, std::uint64_t to_ns) noexcept;

  /// The most bytes that existed at once.
  [[nodiscard]] std::int64_t highest() const noexcept;

  /// In a child of fork(): the highest value is the current one. The drifts of threads that do not exist there were
  /// reported.
  void begin_anew(std::uint64_t now_ns) noexcept;

 private:
  [[nodiscard]] std::int64_t least_slack(std::int64_t bytes) const noexcept;
  [[nodiscard]] std::int64_t most_slack(std::int64_t bytes) const noexcept;

  // relaxed throughout: estimates that guard no data.
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> crest_{0};
  std::atomic<std::int64_t> latest_{0};  // bytes of the last snapshot
  std::atomic<std::int64_t> threads_{0};
  std::atomic<std::uint32_t> patience_{0};
  bool watched_ = false;

  std::atomic<std::int64_t> highest_{0};
  std::uint64_t begun_ns_ = 0;
  std::uint64_t spent_ns_ = 0;
  std::uint64_t copied_ = 0;  // blocks, with a surcharge for each snapshot
};

}  // namespace espalier::preload
