// Blocks of several threads in one line, after E. Berger, K. McKinley, R. Blumofe and P. Wilson, "Hoard: a scalable
// memory allocator for multithreaded applications", ASPLOS 2000. The first thread allocates blocks one after the other
// and passes them to the others in turn. An operation frees one, allocates another and writes to it often. A malloc
// that returns the freed block to the same thread leaves the threads in each other's lines (passive false sharing). A
// malloc that gives blocks of one line to several threads does so too (active).
//
// threads=N; blocks=N of each; size=BYTES; writes=N to every byte.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>

#include "catalog.hpp"
#include "espalier/hw/cache_line.hpp"
#include "outside_memory.hpp"

namespace espalier::bench {
namespace {

constexpr std::uint64_t most_threads = 256;
constexpr std::uint64_t most_blocks = std::uint64_t{1} << 16;

/// A thread's data from round to round.
struct scratcher {
  std::span<unsigned char*> blocks;
  std::size_t next = 0;
  const char* wrong = nullptr;
};

class cache_scratch final : public measured_work {
 public:
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
      if (!is_whole(place, thread)) mine.wrong = "somebody else wrote to a block";
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
        if (!is_whole(block, t)) return "somebody else wrote to a block";
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

}  // namespace

measured_work& make_cache_scratch(const arguments& given) {
  static cache_scratch one(given.number("threads", 1, most_threads), given.number("blocks", 1, most_blocks),
                           given.number("size", 1, std::uint64_t{1} << 20),
                           given.number("writes", 1, std::uint64_t{1} << 20));
  return one;
}

}  // namespace espalier::bench
