// Blocks that were never used before, allocated under a mutex: the sections of a program that grows. A transaction
// cannot map a page that is not present yet.
//
// size=BYTES of a block. Nothing is freed before the end.

#include <pthread.h>

#include <cstdlib>
#include <new>

#include "catalog.hpp"
#include "espalier/hw/cache_line.hpp"

namespace espalier::bench {
namespace {

struct node {
  node* next;
};

class fresh final : public measured_work {
 public:
  explicit fresh(std::uint64_t size) : size_(size) {}
  ~fresh() override {
    while (last_ != nullptr) {
      node* const gone = last_;
      last_ = gone->next;
      std::free(gone);
    }
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 1; }

  void work(unsigned, std::uint64_t operations) override {
    for (std::uint64_t i = 0; i < operations; ++i) {
      pthread_mutex_lock(&mutex_);
      void* const memory = std::malloc(size_);
      if (memory != nullptr) last_ = new (memory) node{last_};
      pthread_mutex_unlock(&mutex_);
      if (memory == nullptr) refuse("no memory for blocks of", "size");
    }
    blocks_ += operations;
  }

  [[nodiscard]] const char* check() const override {
    std::uint64_t linked = 0;
    for (const node* at = last_; at != nullptr; at = at->next) ++linked;
    return linked == blocks_ ? nullptr : "a block is missing";
  }

  void count_blocks(index_loads loads) const override {
    for (const node* at = last_; at != nullptr; at = at->next) count_block(loads, at);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override { return blocks_ * size_; }

 private:
  std::uint64_t size_;
  std::uint64_t blocks_ = 0;
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  alignas(hw::false_sharing_bytes) node* last_ = nullptr;
};

}  // namespace

measured_work& make_fresh(const arguments& given) {
  static fresh one(given.number("size", sizeof(node), std::uint64_t{1} << 30));
  return one;
}

}  // namespace espalier::bench
