#pragma once

// When the heap of a process is at its peak, by the bytes that were asked for.
//
// Each thread counts what it puts into the heap and takes out of it, and tells the sum only now and then. A heap is
// worth a snapshot when it begins to fall: one for each crest rather than one for each step up. A crest is what the heap
// came to since the last snapshot.

#include <atomic>
#include <cstdint>

namespace espalier::preload {

/// By how many bytes a thread has changed the heap since it last told. The owner's alone. All bytes zero is its first
/// state, in which the first block is told.
class byte_drift {
 public:
  /// False where the drift is to be told.
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

  std::int64_t room_;       // for growth until the drift is told
  std::int64_t most_room_;  // twice what there was at first; 0: the thread has told nothing yet
  bool shrank_;             // when it told last
};

class peak_watch {
 public:
  constexpr peak_watch() noexcept = default;
  peak_watch(const peak_watch&) = delete;
  peak_watch& operator=(const peak_watch&) = delete;

  /// Before any thread tells.
  void start(bool watched, std::uint64_t now_ns) noexcept {
    watched_ = watched;
    begun_ns_ = now_ns;
  }
  [[nodiscard]] bool watched() const noexcept { return watched_; }

  /// Adds what a thread has to tell; gives the bytes of the heap. Where nothing is watched a thread tells once.
  std::int64_t tell(byte_drift& mine) noexcept;
  /// The same for a thread that tells no more.
  void tell_last(byte_drift& mine) noexcept;
  /// What no thread's drift has.
  std::int64_t change(std::int64_t bytes) noexcept;

  enum class verdict : std::uint8_t { none, if_affordable, due };
  /// Whether the heap is worth a snapshot before it has only so many bytes.
  [[nodiscard]] verdict judge(std::int64_t bytes) noexcept;

  // The snapshots' own, under a lock of theirs.

  /// Whether a snapshot of so many blocks costs little beside what was done so far: so many blocks were recorded.
  [[nodiscard]] bool affordable(std::uint64_t blocks, std::uint64_t recorded, std::uint64_t now_ns) noexcept;
  /// A snapshot was taken, or failed.
  void taken(std::int64_t bytes, std::uint64_t blocks, std::uint64_t from_ns, std::uint64_t to_ns) noexcept;

  /// The most bytes at once.
  [[nodiscard]] std::int64_t highest() const noexcept;

  /// In a child of fork(): the highest is what there is now. The drifts of threads that are lost are told.
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
  std::uint64_t copied_ = 0;  // blocks, each snapshot counted for some more
};

}  // namespace espalier::preload
