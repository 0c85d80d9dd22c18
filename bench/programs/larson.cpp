// A server's heap, after P. Larson and M. Krishnan, "Memory allocation for long-running server applications", ISMM
// 1998. Each thread has an array of blocks of random sizes, which the first thread allocated in random order. An
// operation frees a random one and allocates another. After a given number of operations the thread ends, and a new one
// continues with the array: most of the blocks that a thread frees were allocated by threads that have ended.
//
// threads=N at once; blocks=N of each; least=BYTES and most=BYTES of a block; generation=N operations of a thread's
// life; seed=N.

#include <pthread.h>

#include <algorithm>
#include <array>
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
constexpr std::uint64_t most_blocks = std::uint64_t{1} << 24;

/// The array, and what else the next thread needs.
struct client {
  std::span<marked_block> blocks;
  workload::random_generator random{0};
  std::uint32_t marks = 0;
  const char* wrong = nullptr;
};

struct sizes {
  std::uint64_t least;
  std::uint64_t most;

  [[nodiscard]] std::uint64_t draw(workload::random_generator& random) const noexcept {
    return least + random.below(most - least + 1);
  }
};

/// The life of a thread.
struct generation {
  client& of;
  sizes draws;
  std::uint64_t operations;

  void live() const noexcept {
    workload::random_generator random = of.random;
    for (std::uint64_t i = 0; i < operations; ++i) {
      marked_block& place = of.blocks[random.below(of.blocks.size())];
      if (!place.is_whole()) of.wrong = "somebody else wrote to a block";
      std::free(place.memory);
      place = marked_block::make(draws.draw(random), of.marks++);
      if (place.memory == nullptr) of.wrong = "malloc had no memory";
    }
    of.random = random;
  }
};

class larson final : public measured_work {
 public:
  larson(std::uint64_t threads, std::uint64_t blocks, sizes draws, std::uint64_t generation,
         std::uint64_t seed)
      : threads_(static_cast<unsigned>(threads)), draws_(draws), generation_(generation) {
    const std::span<marked_block> all = outside_malloc<marked_block>(threads * blocks);
    workload::random_generator random(seed);
    for (marked_block& block : all) block = marked_block::make(draws_.draw(random), 0);
    std::shuffle(all.begin(), all.end(), random);
    for (unsigned t = 0; t < threads_; ++t) {
      clients_[t].value.blocks = all.subspan(t * blocks, blocks);
      clients_[t].value.random = workload::random_generator(seed, t + 1);
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
    return std::ranges::all_of(all(), &marked_block::is_whole) ? nullptr : "somebody else wrote to a block";
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

}  // namespace

measured_work& make_larson(const arguments& given) {
  const std::uint64_t least = given.number("least", marked_block::least_bytes, marked_block::most_bytes);
  static larson one(given.number("threads", 1, most_threads), given.number("blocks", 1, most_blocks),
                    {least, given.number("most", least, marked_block::most_bytes)},
                    given.number("generation", 1, UINT64_MAX), given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
