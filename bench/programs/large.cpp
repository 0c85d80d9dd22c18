// Large blocks, as in a program that works on images or matrices: one thread holds a few live blocks of many MiB. An
// operation allocates a block of random size, fills it with zeros, and replaces a random live block, which it frees.
//
// blocks=N live; least=BYTES and most=BYTES of a block; seed=N.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "catalog.hpp"
#include "espalier/workload/random.hpp"
#include "outside_memory.hpp"

namespace espalier::bench {
namespace {

constexpr std::uint64_t most_blocks = 4096;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

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
  large(std::uint64_t blocks, std::uint64_t least, std::uint64_t most, std::uint64_t seed)
      : blocks_(outside_malloc<large_block>(blocks)), least_(least), most_(most), random_(seed) {
    std::ranges::fill(blocks_, large_block{});
  }
  ~large() override {
    for (const large_block& block : blocks_) std::free(block.memory);
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 1; }

  void work(unsigned, std::uint64_t operations) override {
    for (std::uint64_t i = 0; i < operations; ++i) {
      large_block fresh;
      fresh.bytes = least_ + random_.below(most_ - least_ + 1);
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
  std::uint64_t least_;
  std::uint64_t most_;
  workload::random_generator random_;
  unsigned marks_ = 0;
  const char* wrong_ = nullptr;
};

}  // namespace

measured_work& make_large(const arguments& given) {
  const std::uint64_t least = given.number("least", 2, most_bytes);
  static large one(given.number("blocks", 1, most_blocks), least, given.number("most", least, most_bytes),
                   given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
