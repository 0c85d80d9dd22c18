#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "apps/studies/measured_work.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::bench {
namespace {

/// A block from malloc. Its first word and last byte identify it, so that overlapping blocks are detected.
struct marked_block {
  unsigned char* memory;
  std::uint32_t bytes;
  std::uint32_t mark;

  static constexpr std::uint64_t least_bytes = sizeof(std::uint64_t);
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

  /// `bytes` is at least least_bytes. No memory if malloc has none.
  [[nodiscard]] static marked_block make(std::uint64_t bytes, std::uint32_t mark) noexcept {
    const marked_block made{static_cast<unsigned char*>(std::malloc(bytes)),
                            static_cast<std::uint32_t>(bytes), mark};
    if (made.memory == nullptr) return made;
    const std::uint64_t word = made.word();
    made.memory[bytes - 1] = static_cast<unsigned char>(mark);
    std::memcpy(made.memory, &word, sizeof word);
    return made;
  }

  /// True if there is no block.
  [[nodiscard]] bool is_whole() const noexcept {
    if (memory == nullptr) return true;
    std::uint64_t found = 0;
    std::memcpy(&found, memory, sizeof found);
    // The last byte may be part of the word.
    const bool apart = bytes > least_bytes;
    return found == word() && (!apart || memory[bytes - 1] == static_cast<unsigned char>(mark));
  }

 private:
  [[nodiscard]] std::uint64_t word() const noexcept { return std::uint64_t{bytes} << 32U | mark; }
};

// Larson --------------------------------------------------------------------------------------------------------------

// A server's heap, after P. Larson and M. Krishnan, "Memory allocation for long-running server applications", ISMM
// 1998. Each thread has an array of blocks of random sizes, which the first thread allocated in random order. An
// operation frees a random one and allocates another. After a given number of operations the thread ends, and a new one
// continues with the array: most of the blocks that a thread frees were allocated by threads that have ended.
//
// threads=N at once; blocks=N of each; least=BYTES and most=BYTES of a block; generation=N operations of a thread's
// life; seed=N.

constexpr std::uint64_t most_threads = 256;

/// The array, and what else the next thread needs.
struct client {
  std::span<marked_block> blocks;
  measure::random_generator random{0};
  std::uint32_t marks = 0;
  const char* wrong = nullptr;
};

struct sizes {
  std::uint64_t least;
  std::uint64_t most;

  [[nodiscard]] std::uint64_t draw(measure::random_generator& random) const noexcept {
    return least + random.below(most - least + 1);
  }
};

/// The life of a thread.
struct generation {
  client& of;
  sizes draws;
  std::uint64_t operations;

  void live() const noexcept {
    measure::random_generator random = of.random;
    for (std::uint64_t i = 0; i < operations; ++i) {
      marked_block& place = of.blocks[random.below(of.blocks.size())];
      if (!place.is_whole()) of.wrong = "a block was overwritten";
      std::free(place.memory);
      place = marked_block::make(draws.draw(random), of.marks++);
      if (place.memory == nullptr) of.wrong = "malloc had no memory";
    }
    of.random = random;
  }
};

class larson final : public measured_work {
 public:
  static constexpr std::uint64_t most_blocks = std::uint64_t{1} << 24;

  larson(std::uint64_t threads, std::uint64_t blocks, sizes draws, std::uint64_t generation,
         std::uint64_t seed)
      : threads_(static_cast<unsigned>(threads)), draws_(draws), generation_(generation) {
    const std::span<marked_block> all = outside_malloc<marked_block>(threads * blocks);
    measure::random_generator random(seed);
    for (marked_block& block : all) block = marked_block::make(draws_.draw(random), 0);
    std::shuffle(all.begin(), all.end(), random);
    for (unsigned t = 0; t < threads_; ++t) {
      clients_[t].value.blocks = all.subspan(t * blocks, blocks);
      clients_[t].value.random = measure::random_generator(seed, t + 1);
    }
  }
  ~larson() override {
    for (const marked_block& block : all()) std::free(block.memory);
  }

  [[nodiscard]] unsigned threads() const noexcept override { return threads_; }

  void work(unsigned thread, std::uint64_t operations) override {
    client& mine = clients_[thread].value;
    while (operations > 0) {
      generation next{mine, draws_, std::min(operations, generation_)};
      operations -= next.operations;
      pthread_t fresh{};
      const auto live = [](void* of) -> void* {
        static_cast<const generation*>(of)->live();
        return nullptr;
      };
      if (pthread_create(&fresh, nullptr, live, &next) != 0) {
        mine.wrong = "no thread could be made";
        return;
      }
      pthread_join(fresh, nullptr);
    }
  }

  [[nodiscard]] const char* check() const override {
    for (unsigned t = 0; t < threads_; ++t) {
      if (clients_[t].value.wrong != nullptr) return clients_[t].value.wrong;
    }
    return std::ranges::all_of(all(), &marked_block::is_whole) ? nullptr : "a block was overwritten";
  }

  void count_blocks(index_loads loads) const override {
    for (const marked_block& block : all()) count_block(loads, block.memory);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override {
    std::uint64_t bytes = 0;
    for (const marked_block& block : all()) bytes += block.memory == nullptr ? 0 : block.bytes;
    return bytes;
  }

 private:
  /// The arrays are contiguous.
  [[nodiscard]] std::span<const marked_block> all() const noexcept {
    const std::span<const marked_block> first = clients_[0].value.blocks;
    return {first.data(), first.size() * threads_};
  }

  unsigned threads_;
  sizes draws_;
  std::uint64_t generation_;
  std::array<hw::padded<client>, most_threads> clients_{};
};

// Xmalloc -------------------------------------------------------------------------------------------------------------

// Blocks that one thread allocates and another frees, after C. Lever and D. Boreham, "malloc() performance in a
// multithreaded Linux environment", USENIX 2000. In each pair of threads one allocates blocks of random sizes and sends
// them in batches; the other frees them. An operation is a block allocated, or one freed. A thread without work sleeps
// until half of the queue is full, or empty: processor time is measured, not which thread waited.
//
// pairs=N; batch=N blocks; least=BYTES and most=BYTES of a block; seed=N.

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

  void reserve(std::uint64_t batch) noexcept {
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
  measure::random_generator random{0};
  std::uint32_t marks = 0;
  const char* wrong_to_send = nullptr;
  alignas(hw::false_sharing_bytes) const char* wrong_to_free = nullptr;
};

class xmalloc final : public measured_work {
 public:
  xmalloc(std::uint64_t pairs, std::uint64_t batch, sizes drawn, std::uint64_t seed)
      : pair_count_(static_cast<unsigned>(pairs)), batch_(batch), draws_(drawn) {
    for (unsigned p = 0; p < pair_count_; ++p) {
      pairs_[p].queue.reserve(batch);
      pairs_[p].random = measure::random_generator(seed, p + 1);
    }
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 2 * pair_count_; }

  void work(unsigned thread, std::uint64_t operations) override {
    pair& mine = pairs_[thread / 2];
    if (thread % 2 == 0)
      send(mine, operations);
    else
      free_batches(mine, operations);
  }

  [[nodiscard]] const char* check() const override {
    for (unsigned p = 0; p < pair_count_; ++p) {
      if (pairs_[p].wrong_to_send != nullptr) return pairs_[p].wrong_to_send;
      if (pairs_[p].wrong_to_free != nullptr) return pairs_[p].wrong_to_free;
    }
    return nullptr;
  }

 private:
  void send(pair& mine, std::uint64_t operations) const noexcept {
    measure::random_generator random = mine.random;
    while (operations > 0) {
      const std::span<marked_block> batch = mine.queue.vacant();
      // The last batch of a round may be smaller.
      const std::size_t blocks = std::min(operations, batch_);
      for (marked_block& block : batch.first(blocks)) {
        block = marked_block::make(draws_.draw(random), mine.marks++);
        if (block.memory == nullptr) mine.wrong_to_send = "malloc had no memory";
      }
      std::ranges::fill(batch.subspan(blocks), marked_block{});
      operations -= blocks;
      mine.queue.send();
    }
    mine.queue.finish();
    mine.random = random;
  }

  void free_batches(pair& mine, std::uint64_t operations) const noexcept {
    for (std::uint64_t left = (operations + batch_ - 1) / batch_; left > 0; --left) {
      for (const marked_block& block : mine.queue.next()) {
        if (!block.is_whole()) mine.wrong_to_free = "a block was overwritten";
        std::free(block.memory);
      }
      mine.queue.received();
    }
  }

  unsigned pair_count_;
  std::uint64_t batch_;
  sizes draws_;
  std::array<pair, most_pairs> pairs_{};
};

// Cache scratch -------------------------------------------------------------------------------------------------------

// Blocks of several threads in one line, after E. Berger, K. McKinley, R. Blumofe and P. Wilson, "Hoard: a scalable
// memory allocator for multithreaded applications", ASPLOS 2000. The first thread allocates blocks one after the other
// and passes them to the others in turn. An operation frees one, allocates another and writes to it often. A malloc
// that returns the freed block to the same thread leaves the threads in each other's lines (passive false sharing). A
// malloc that gives blocks of one line to several threads does so too (active).
//
// threads=N; blocks=N of each; size=BYTES; writes=N to every byte.

/// A thread's data from round to round.
struct scratcher {
  std::span<unsigned char*> blocks;
  std::size_t next = 0;
  const char* wrong = nullptr;
};

class cache_scratch final : public measured_work {
 public:
  static constexpr std::uint64_t most_blocks = std::uint64_t{1} << 16;

  cache_scratch(std::uint64_t threads, std::uint64_t blocks, std::uint64_t size, std::uint64_t writes)
      : threads_(static_cast<unsigned>(threads)), size_(size), writes_(writes) {
    const std::span<unsigned char*> all = outside_malloc<unsigned char*>(threads * blocks);
    for (unsigned t = 0; t < threads_; ++t) parts_[t].value.blocks = all.subspan(t * blocks, blocks);
    for (std::uint64_t b = 0; b < blocks; ++b) {
      for (unsigned t = 0; t < threads_; ++t) parts_[t].value.blocks[b] = allocated(t);
    }
  }
  ~cache_scratch() override {
    for (unsigned t = 0; t < threads_; ++t) std::ranges::for_each(parts_[t].value.blocks, std::free);
  }

  [[nodiscard]] unsigned threads() const noexcept override { return threads_; }

  void work(unsigned thread, std::uint64_t operations) override {
    scratcher& mine = parts_[thread].value;
    for (std::uint64_t i = 0; i < operations; ++i) {
      unsigned char*& place = mine.blocks[mine.next];
      if (++mine.next == mine.blocks.size()) mine.next = 0;
      if (!is_whole(place, thread)) mine.wrong = "a block was overwritten";
      std::free(place);
      place = allocated(thread);
      if (place == nullptr) continue;
      for (std::uint64_t w = writes_; w-- > 0;) {
        for (std::uint64_t at = 0; at < size_; ++at)
          static_cast<volatile unsigned char*>(place)[at] = static_cast<unsigned char>(of(thread) + w);
      }
    }
  }

  [[nodiscard]] const char* check() const override {
    for (unsigned t = 0; t < threads_; ++t) {
      const scratcher& part = parts_[t].value;
      if (part.wrong != nullptr) return part.wrong;
      for (const unsigned char* block : part.blocks) {
        if (block == nullptr) return "malloc had no memory";
        if (!is_whole(block, t)) return "a block was overwritten";
      }
    }
    return nullptr;
  }

  void count_blocks(index_loads loads) const override {
    for (unsigned t = 0; t < threads_; ++t) {
      for (const unsigned char* block : parts_[t].value.blocks) count_block(loads, block);
    }
  }
  [[nodiscard]] std::uint64_t live_bytes() const override {
    std::uint64_t blocks = 0;
    for (unsigned t = 0; t < threads_; ++t)
      blocks += static_cast<std::uint64_t>(
          std::ranges::count_if(parts_[t].value.blocks, [](const void* block) { return block != nullptr; }));
    return blocks * size_;
  }

 private:
  /// The contents of a thread's blocks between operations.
  [[nodiscard]] static unsigned char of(unsigned thread) noexcept {
    return static_cast<unsigned char>(thread + 1);
  }
  [[nodiscard]] unsigned char* allocated(unsigned thread) const noexcept {
    auto* const block = static_cast<unsigned char*>(std::malloc(size_));
    if (block != nullptr) std::memset(block, of(thread), size_);
    return block;
  }
  [[nodiscard]] bool is_whole(const unsigned char* block, unsigned thread) const noexcept {
    return block == nullptr ||
           std::all_of(block, block + size_, [=](unsigned char byte) { return byte == of(thread); });
  }

  unsigned threads_;
  std::uint64_t size_;
  std::uint64_t writes_;
  std::array<hw::padded<scratcher>, most_threads> parts_{};
};

// Large ---------------------------------------------------------------------------------------------------------------

// Large blocks, as in a program that works on images or matrices: one thread holds a few live blocks of many MiB. An
// operation allocates a block of random size, fills it with zeros, and replaces a random live block, which it frees.
//
// blocks=N live; least=BYTES and most=BYTES of a block; seed=N.

struct large_block {
  unsigned char* memory = nullptr;
  std::uint64_t bytes = 0;
  unsigned char mark = 0;

  /// The first and the last byte identify the block; the rest is unchanged since it was filled.
  [[nodiscard]] bool is_whole() const noexcept {
    return memory == nullptr || (memory[0] == mark && memory[bytes - 1] == mark && memory[bytes / 2] == 0);
  }
};

class large final : public measured_work {
 public:
  static constexpr std::uint64_t most_blocks = 4096;
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

  large(std::uint64_t blocks, sizes drawn, std::uint64_t seed)
      : blocks_(outside_malloc<large_block>(blocks)), draws_(drawn), random_(seed) {
    std::ranges::fill(blocks_, large_block{});
  }
  ~large() override {
    for (const large_block& block : blocks_) std::free(block.memory);
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 1; }

  void work(unsigned, std::uint64_t operations) override {
    for (std::uint64_t i = 0; i < operations; ++i) {
      large_block fresh;
      fresh.bytes = draws_.draw(random_);
      fresh.memory = static_cast<unsigned char*>(std::malloc(fresh.bytes));
      if (fresh.memory == nullptr) {
        wrong_ = "malloc had no memory";
        return;
      }
      // Keeps the compiler from merging both into calloc(), which does not touch new pages.
      asm volatile("" : "+r"(fresh.memory));
      std::memset(fresh.memory, 0, fresh.bytes);
      fresh.mark = static_cast<unsigned char>(++marks_);
      fresh.memory[0] = fresh.memory[fresh.bytes - 1] = fresh.mark;
      large_block& place = blocks_[random_.below(blocks_.size())];
      if (!place.is_whole()) wrong_ = "a block was overwritten";
      std::free(place.memory);
      place = fresh;
    }
  }

  [[nodiscard]] const char* check() const override {
    if (wrong_ != nullptr) return wrong_;
    return std::ranges::all_of(blocks_, &large_block::is_whole) ? nullptr : "a block was overwritten";
  }

  void count_blocks(index_loads loads) const override {
    for (const large_block& block : blocks_) count_block(loads, block.memory);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override {
    std::uint64_t bytes = 0;
    for (const large_block& block : blocks_) bytes += block.bytes;
    return bytes;
  }

 private:
  std::span<large_block> blocks_;
  sizes draws_;
  measure::random_generator random_;
  unsigned marks_ = 0;
  const char* wrong_ = nullptr;
};

sizes sizes_of(const arguments& given, std::uint64_t least, std::uint64_t most) {
  const std::uint64_t smallest = given.number("least", least, most);
  return {smallest, given.number("most", smallest, most)};
}
sizes sizes_of_marked(const arguments& given) {
  return sizes_of(given, marked_block::least_bytes, marked_block::most_bytes);
}

}  // namespace

measured_work& make_larson(const arguments& given) {
  const sizes drawn = sizes_of_marked(given);
  static larson one(given.number("threads", 1, most_threads), given.number("blocks", 1, larson::most_blocks),
                    drawn, given.number("generation", 1, UINT64_MAX), given.number("seed", 0, UINT64_MAX));
  return one;
}

measured_work& make_xmalloc(const arguments& given) {
  const sizes drawn = sizes_of_marked(given);
  static xmalloc one(given.number("pairs", 1, most_pairs), given.number("batch", 1, most_batch), drawn,
                     given.number("seed", 0, UINT64_MAX));
  return one;
}

measured_work& make_cache_scratch(const arguments& given) {
  static cache_scratch one(
      given.number("threads", 1, most_threads), given.number("blocks", 1, cache_scratch::most_blocks),
      given.number("size", 1, std::uint64_t{1} << 20), given.number("writes", 1, std::uint64_t{1} << 20));
  return one;
}

measured_work& make_large(const arguments& given) {
  static large one(given.number("blocks", 1, large::most_blocks), sizes_of(given, 2, large::most_bytes),
                   given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
