#include "preload/recording/peak_watch.hpp"

#include <algorithm>

#include "preload/kernel/futex_lock.hpp"

namespace espalier::preload {
namespace {

using std::int64_t;
using std::uint64_t;

constexpr auto relaxed = std::memory_order_relaxed;

/// For the case that nothing is watched: no drift becomes so large.
constexpr int64_t no_limit = int64_t{1} << 60U;

/// A crest is over when a 64th of it is gone.
constexpr int64_t over = 64;
/// A snapshot must show at least a 50th more than the one before.
constexpr int64_t gain = 50;

/// A snapshot costs some 100 ns a block, plus a fixed cost of so many blocks. At most a quarter of the recorded
/// blocks are copied, plus so many at first.
constexpr uint64_t blocks_a_snapshot = 1000;
constexpr uint64_t copied_at_first = 16'000;
constexpr uint64_t recorded_a_copy = 4;
/// Alternatively, less than a 16th of the time is spent on snapshots.
constexpr uint64_t share_of_time = 16;
constexpr uint64_t ns_a_block = 200;
/// After a snapshot was not affordable, the next check follows so many reports later.
constexpr std::uint32_t patience = 64;

void raise(std::atomic<int64_t>& to, int64_t bytes) noexcept {
  for (int64_t seen = to.load(relaxed); bytes > seen && !to.compare_exchange_weak(seen, bytes, relaxed);) {
  }
}

}  // namespace

int64_t peak_watch::change(int64_t bytes) noexcept {
  if (!watched_) return 0;
  int64_t sum = 0;
  if (alone_in_process()) {
    sum = bytes_.load(relaxed) + bytes;
    bytes_.store(sum, relaxed);
  } else {
    sum = bytes_.fetch_add(bytes, relaxed) + bytes;
  }
  if (sum > crest_.load(relaxed)) raise(crest_, sum);
  return sum;
}

// The unreported drift of all threads together is at most a 256th of the heap. It is more for many threads and a
// small heap, so that the threads do not contend for one word with every block.
int64_t peak_watch::least_slack(int64_t bytes) const noexcept {
  const int64_t threads = threads_.load(relaxed);
  if (threads <= 1) return std::max<int64_t>(bytes / 256, 16);
  return std::max(bytes / (256 * threads), 64 * threads);
}

// For a thread that allocates and frees in turn.
int64_t peak_watch::most_slack(int64_t bytes) const noexcept {
  const int64_t threads = threads_.load(relaxed);
  if (threads <= 1) return std::max<int64_t>(bytes / 64, 64);
  return std::max(bytes / (16 * threads), 1024 * threads);
}

int64_t peak_watch::tell(byte_drift& mine) noexcept {
  if (!watched_) {
    mine.room_ = no_limit;
    mine.most_room_ = 2 * no_limit;
    return 0;
  }
  const int64_t drift = mine.bytes();
  const bool shrank = drift < 0;
  const int64_t slack = mine.most_room_ / 2;
  if (slack == 0) threads_.fetch_add(1, relaxed);
  const int64_t bytes = change(drift);
  const bool turned = slack != 0 && shrank != mine.shrank_;
  const int64_t least = least_slack(bytes);
  mine.room_ = turned ? std::clamp(2 * slack, least, most_slack(bytes)) : least;
  mine.most_room_ = 2 * mine.room_;
  mine.shrank_ = shrank;
  return bytes;
}

void peak_watch::tell_last(byte_drift& mine) noexcept {
  change(mine.bytes());
  if (watched_ && mine.most_room_ != 0) threads_.fetch_sub(1, relaxed);
  mine = {};
}

peak_watch::verdict peak_watch::judge(int64_t bytes) noexcept {
  if (!watched_) return verdict::none;
  const int64_t crest = crest_.load(relaxed);
  const int64_t latest = latest_.load(relaxed);
  const int64_t fall = crest - bytes;
  if (fall < crest / over || crest <= latest + latest / gain) return verdict::none;
  // Due at any cost, and the sooner the higher the crest is above the last snapshot. So a heap that falls a little
  // each time that it grows is not copied each time.
  if (crest >= 4 * latest) return verdict::due;
  if (crest >= 2 * latest && fall >= crest / (over / 2)) return verdict::due;
  if (crest >= latest + latest / 2 && fall >= crest / (over / 4)) return verdict::due;
  if (crest >= latest + latest / 4 && fall >= crest / (over / 8)) return verdict::due;
  if (const std::uint32_t left = patience_.load(relaxed); left != 0) {
    patience_.store(left - 1, relaxed);
    return verdict::none;
  }
  return verdict::if_affordable;
}

bool peak_watch::affordable(uint64_t blocks, uint64_t recorded, uint64_t now_ns) noexcept {
  blocks += blocks_a_snapshot;
  if (copied_ + blocks <= copied_at_first + recorded / recorded_a_copy) return true;
  const uint64_t price = copied_ == 0 ? ns_a_block : spent_ns_ / copied_ + 1;
  if (spent_ns_ + price * blocks <= (now_ns - begun_ns_) / share_of_time) return true;
  patience_.store(patience, relaxed);
  return false;
}

void peak_watch::taken(int64_t bytes, uint64_t blocks, uint64_t from_ns, uint64_t to_ns) noexcept {
  raise(highest_, std::max(bytes, crest_.load(relaxed)));
  latest_.store(bytes, relaxed);
  crest_.store(bytes_.load(relaxed), relaxed);
  copied_ += blocks + blocks_a_snapshot;
  spent_ns_ += to_ns - from_ns;
}

int64_t peak_watch::highest() const noexcept {
  return std::max(highest_.load(relaxed), crest_.load(relaxed));
}

void peak_watch::begin_anew(uint64_t now_ns) noexcept {
  const int64_t bytes = bytes_.load(relaxed);
  crest_.store(bytes, relaxed);
  highest_.store(bytes, relaxed);
  latest_.store(0, relaxed);
  patience_.store(0, relaxed);
  begun_ns_ = now_ns;
  spent_ns_ = copied_ = 0;
}

}  // namespace espalier::preload
