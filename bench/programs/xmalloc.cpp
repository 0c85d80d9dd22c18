// Blocks that one thread allocates and another gives back, after C. Lever and D. Boreham, "malloc() performance in a
// multithreaded Linux environment", USENIX 2000. Each thread allocates a batch of blocks of random sizes, sends it to the
// next thread, and gives back all batches that the one before sent. Nobody waits: with two threads they are as fast as
// each other, and a batch that finds the queue full is given back by who allocated it. An operation allocates one block.
//
// threads=N, in a circle; batch=N blocks; least=BYTES and most=BYTES of a block; seed=N.

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

constexpr std::uint64_t most_threads = 256;
constexpr std::uint64_t most_batch = 4096;

/// Batches on their way from one thread to one other. The two touch each other's lines once a batch.
class batch_queue {
 public:
  static constexpr std::size_t places = 32;

  void be_made(std::uint64_t batch) noexcept {
    batch_ = batch;
    blocks_ = outside_malloc<marked_block>(places * batch);
  }

  /// Where the sender puts its next batch; empty while the queue is full.
  [[nodiscard]] std::span<marked_block> vacant() noexcept {
    const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
    // order: vacant (acquire) -> received (release)
    return sent - received_.load(std::memory_order_acquire) == places ? std::span<marked_block>{}
                                                                      : batch(sent);
  }
  // order: send (release) -> next (acquire)
  void send() noexcept { sent_.store(sent_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  /// The oldest batch; empty where there is none.
  [[nodiscard]] std::span<marked_block> next() noexcept {
    const std::uint64_t received = received_.load(std::memory_order_relaxed);
    return received == sent_.load(std::memory_order_acquire) ? std::span<marked_block>{} : batch(received);
  }
  void received() noexcept {
    received_.store(received_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// All that are on their way. While nobody sends.
  template <class Visitor>
  void for_each(Visitor&& visitor) const {
    for (std::uint64_t b = received_; b != sent_; ++b) std::ranges::for_each(batch(b), visitor);
  }

 private:
  [[nodiscard]] std::span<marked_block> batch(std::uint64_t number) const noexcept {
    return blocks_.subspan(number % places * batch_, batch_);
  }

  std::span<marked_block> blocks_;
  std::uint64_t batch_ = 0;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> sent_{0};
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> received_{0};
};

/// What a thread keeps from round to round.
struct sender {
  workload::random_generator random{0};
  std::uint32_t marks = 0;
  const char* wrong = nullptr;
  std::span<marked_block> kept;  ///< a batch that found the queue full

  void give_back(std::span<const marked_block> batch) noexcept {
    for (const marked_block& block : batch) {
      if (!block.is_whole()) wrong = "somebody else wrote to a block";
      std::free(block.memory);
    }
  }
};

class xmalloc final : public measured_work {
 public:
  xmalloc(std::uint64_t threads, std::uint64_t batch, std::uint64_t least, std::uint64_t most,
          std::uint64_t seed)
      : threads_(static_cast<unsigned>(threads)), batch_(batch), least_(least), most_(most) {
    for (unsigned t = 0; t < threads_; ++t) {
      to_[t].be_made(batch);
      senders_[t].value.random = workload::random_generator(seed, t + 1);
      senders_[t].value.kept = outside_malloc<marked_block>(batch);
    }
  }
  ~xmalloc() override {
    for (unsigned t = 0; t < threads_; ++t)
      to_[t].for_each([](const marked_block& block) { std::free(block.memory); });
  }

  [[nodiscard]] unsigned threads() const noexcept override { return threads_; }

  void work(unsigned thread, std::uint64_t operations) override {
    sender& mine = senders_[thread].value;
    batch_queue& out = to_[(thread + 1) % threads_];
    batch_queue& in = to_[thread];
    // Whole batches: a part of one is one.
    for (std::uint64_t done = 0; done < operations; done += batch_) {
      const std::span<marked_block> place = out.vacant();
      const std::span<marked_block> batch = place.empty() ? mine.kept : place;
      for (marked_block& block : batch) {
        block = marked_block::make(least_ + mine.random.below(most_ - least_ + 1), mine.marks++);
        if (block.memory == nullptr) mine.wrong = "malloc had no memory";
      }
      if (place.empty())
        mine.give_back(batch);
      else
        out.send();
      for (auto got = in.next(); !got.empty(); got = in.next()) {
        mine.give_back(got);
        in.received();
      }
    }
  }

  [[nodiscard]] const char* check() const override {
    for (unsigned t = 0; t < threads_; ++t) {
      if (senders_[t].value.wrong != nullptr) return senders_[t].value.wrong;
    }
    return nullptr;
  }

  void count_blocks(index_loads loads) const override {
    for_each_block([&](const marked_block& block) { count_block(loads, block.memory); });
  }
  [[nodiscard]] std::uint64_t live_bytes() const override {
    std::uint64_t bytes = 0;
    for_each_block([&](const marked_block& block) { bytes += block.memory == nullptr ? 0 : block.bytes; });
    return bytes;
  }

 private:
  template <class Visitor>
  void for_each_block(Visitor&& visitor) const {
    for (unsigned t = 0; t < threads_; ++t) to_[t].for_each(visitor);
  }

  unsigned threads_;
  std::uint64_t batch_;
  std::uint64_t least_;
  std::uint64_t most_;
  std::array<hw::padded<sender>, most_threads> senders_{};
  std::array<batch_queue, most_threads> to_{};
};

}  // namespace

measured_work& make_xmalloc(const arguments& given) {
  const std::uint64_t least = given.number("least", marked_block::least_bytes, marked_block::most_bytes);
  static xmalloc one(given.number("threads", 1, most_threads), given.number("batch", 1, most_batch), least,
                     given.number("most", least, marked_block::most_bytes),
                     given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
