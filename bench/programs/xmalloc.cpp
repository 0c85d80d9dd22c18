// Blocks that one thread allocates and another frees, after C. Lever and D. Boreham, "malloc() performance in a
// multithreaded Linux environment", USENIX 2000. In each pair of threads one allocates blocks of random sizes and sends
// them in batches; the other frees them. An operation is a block allocated, or one freed. A thread without work sleeps
// until half of the queue is full, or empty: processor time is measured, not which thread waited.
//
// pairs=N; batch=N blocks; least=BYTES and most=BYTES of a block; seed=N.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <span>

#include "catalog.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/workload/random.hpp"
#include "marked_block.hpp"
#include "outside_memory.hpp"

namespace espalier::bench {
namespace {

constexpr std::uint64_t most_pairs = 128;
constexpr std::uint64_t most_batch = 4096;

/// One end of a queue, asleep or not. seq_cst throughout: a thread that falls asleep announces it and then checks the
/// queue again; a waking thread changes the queue and then checks whether the other one sleeps.
class sleeper {
 public:
  template <class Condition>
  void sleep_until(Condition&& met) noexcept {
    while (!met()) {
      asleep_ = true;
      if (!met()) asleep_.wait(true);
      asleep_ = false;
    }
  }
  void wake() noexcept {
    if (!asleep_) return;
    asleep_ = false;
    asleep_.notify_one();
  }

 private:
  std::atomic<bool> asleep_{false};
};

/// Batches in transit. The two threads touch each other's lines once per batch.
class batch_queue {
 public:
  static constexpr std::uint64_t places = 64;

  void be_made(std::uint64_t batch) noexcept {
    batch_ = batch;
    blocks_ = outside_malloc<marked_block>(places * batch);
  }

  /// The place for the sender's next batch.
  [[nodiscard]] std::span<marked_block> vacant() noexcept {
    sender_.sleep_until([this] { return sent_ - received_ < places; });
    return batch(sent_);
  }
  void send() noexcept {
    ++sent_;
    if (sent_ - received_ >= places / 2) receiver_.wake();
  }
  /// No more batches are sent for a while.
  void finish() noexcept { receiver_.wake(); }

  /// The oldest batch.
  [[nodiscard]] std::span<const marked_block> next() noexcept {
    receiver_.sleep_until([this] { return sent_ != received_; });
    return batch(received_);
  }
  void received() noexcept {
    ++received_;
    if (sent_ - received_ <= places / 2) sender_.wake();
  }

 private:
  [[nodiscard]] std::span<marked_block> batch(std::uint64_t number) const noexcept {
    return blocks_.subspan(number % places * batch_, batch_);
  }

  std::span<marked_block> blocks_;
  std::uint64_t batch_ = 0;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> sent_{0};
  sleeper receiver_;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> received_{0};
  sleeper sender_;
};

/// A pair of threads.
struct pair {
  batch_queue queue;
  workload::random_generator random{0};
  std::uint32_t marks = 0;
  const char* wrong_to_send = nullptr;
  alignas(hw::false_sharing_bytes) const char* wrong_to_give_back = nullptr;
};

class xmalloc final : public measured_work {
 public:
  xmalloc(std::uint64_t pairs, std::uint64_t batch, std::uint64_t least, std::uint64_t most,
          std::uint64_t seed)
      : pair_count_(static_cast<unsigned>(pairs)), batch_(batch), least_(least), most_(most) {
    for (unsigned p = 0; p < pair_count_; ++p) {
      pairs_[p].queue.be_made(batch);
      pairs_[p].random = workload::random_generator(seed, p + 1);
    }
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 2 * pair_count_; }

  void work(unsigned thread, std::uint64_t operations) override {
    pair& mine = pairs_[thread / 2];
    if (thread % 2 == 0)
      send(mine, operations);
    else
      give_back(mine, operations);
  }

  [[nodiscard]] const char* check() const override {
    for (unsigned p = 0; p < pair_count_; ++p) {
      if (pairs_[p].wrong_to_send != nullptr) return pairs_[p].wrong_to_send;
      if (pairs_[p].wrong_to_give_back != nullptr) return pairs_[p].wrong_to_give_back;
    }
    return nullptr;
  }

 private:
  void send(pair& mine, std::uint64_t operations) const noexcept {
    workload::random_generator random = mine.random;
    while (operations > 0) {
      const std::span<marked_block> batch = mine.queue.vacant();
      // The last batch of a round may be smaller.
      const std::size_t blocks = std::min(operations, batch_);
      for (marked_block& block : batch.first(blocks)) {
        block = marked_block::make(least_ + random.below(most_ - least_ + 1), mine.marks++);
        if (block.memory == nullptr) mine.wrong_to_send = "malloc had no memory";
      }
      std::ranges::fill(batch.subspan(blocks), marked_block{});
      operations -= blocks;
      mine.queue.send();
    }
    mine.queue.finish();
    mine.random = random;
  }

  void give_back(pair& mine, std::uint64_t operations) const noexcept {
    for (std::uint64_t left = (operations + batch_ - 1) / batch_; left > 0; --left) {
      for (const marked_block& block : mine.queue.next()) {
        if (!block.is_whole()) mine.wrong_to_give_back = "somebody else wrote to a block";
        std::free(block.memory);
      }
      mine.queue.received();
    }
  }

  unsigned pair_count_;
  std::uint64_t batch_;
  std::uint64_t least_;
  std::uint64_t most_;
  std::array<pair, most_pairs> pairs_{};
};

}  // namespace

measured_work& make_xmalloc(const arguments& given) {
  const std::uint64_t least = given.number("least", marked_block::least_bytes, marked_block::most_bytes);
  static xmalloc one(given.number("pairs", 1, most_pairs), given.number("batch", 1, most_batch), least,
                     given.number("most", least, marked_block::most_bytes),
                     given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
