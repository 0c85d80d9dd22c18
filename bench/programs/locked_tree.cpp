// Figure 2 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and Lev,
// section 2): an AVL tree under one mutex, with sections that allocate and free the nodes. Of a hundred operations 30
// insert or overwrite a key, 30 erase one, 40 look one up. Initially it has half of the keys. A node is allocated
// before the search, so that a transaction has to keep its writes to the node while the search reads its path.
//
// threads=N; keys=N that are drawn from; size=BYTES of a node; seed=N. These threads fill the tree, each its part; with
// filled=1 one additional thread does, which only waits for them afterwards.

#include <pthread.h>

#include <array>
#include <cstdlib>
#include <new>

#include "catalog.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/intrusive/avl_tree.hpp"
#include "espalier/workload/random.hpp"

namespace espalier::bench {
namespace {

constexpr unsigned most_threads = 256;

struct node : avl_hook {
  explicit node(std::uint32_t k, std::uint32_t v) noexcept : key(k), value(v) {}
  std::uint32_t key;
  std::uint32_t value;
};

/// A thread's data from round to round.
struct thread_part {
  workload::random_generator random{0};
  std::uint64_t found = 0;
};

class locked_tree final : public measured_work {
 public:
  locked_tree(unsigned threads, std::uint64_t keys, std::uint64_t size, std::uint64_t seed, bool filled)
      : threads_(threads), keys_(static_cast<std::uint32_t>(keys)), size_(size) {
    if (filled) {
      workload::random_generator random(seed);
      fill(random, keys_ / 2);
    }
    for (unsigned t = 0; t < threads; ++t) parts_[t].value.random = workload::random_generator(seed, t + 1);
  }
  ~locked_tree() override {
    tree_.clear([](node& gone) noexcept { std::free(&gone); });
  }

  [[nodiscard]] unsigned threads() const noexcept override { return threads_; }

  void prepare(unsigned thread) override {
    fill(parts_[thread].value.random, std::uint64_t{keys_ / 2} * (thread + 1) / threads_);
  }

  void work(unsigned thread, std::uint64_t operations) override {
    workload::random_generator& random = parts_[thread].value.random;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < operations; ++i) {
      const auto key = static_cast<std::uint32_t>(random.below(keys_));
      const std::uint64_t kind = random.below(100);
      pthread_mutex_lock(&mutex_);
      if (kind < 30) {
        insert(key, static_cast<std::uint32_t>(i));
      } else if (kind < 60) {
        std::free(tree_.erase(key));
      } else if (const node* const at = tree_.find(key)) {
        found += at->value != 0 ? 1 : 0;
      }
      pthread_mutex_unlock(&mutex_);
    }
    parts_[thread].value.found += found;
  }

  [[nodiscard]] const char* check() const override {
    if (short_of_memory_) return "malloc had no memory";
    return tree_.check_invariants();
  }

  void count_blocks(index_loads loads) const override {
    for (const node* at = tree_.first(); at != nullptr; at = tree_.next(*at)) count_block(loads, at);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override { return tree_.size() * size_; }

 private:
  void fill(workload::random_generator& random, std::uint64_t size) noexcept {
    while (tree_.size() < size && !short_of_memory_)
      insert(static_cast<std::uint32_t>(random.below(keys_)), 0);
  }

  void insert(std::uint32_t key, std::uint32_t value) noexcept {
    void* const memory = std::malloc(size_);
    if (memory == nullptr) {
      short_of_memory_ = true;
      return;
    }
    auto* const fresh = new (memory) node(key, value);
    const auto [at, inserted] = tree_.insert_or_find(key, [fresh]() noexcept { return fresh; });
    if (inserted) return;
    at->value = value;
    std::free(fresh);
  }

  unsigned threads_;
  std::uint32_t keys_;
  std::uint64_t size_;
  bool short_of_memory_ = false;
  std::array<hw::padded<thread_part>, most_threads> parts_{};
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  alignas(hw::false_sharing_bytes) avl_tree<node, &node::key> tree_;
};

}  // namespace

measured_work& make_locked_tree(const arguments& given) {
  static locked_tree one(static_cast<unsigned>(given.number("threads", 1, most_threads)),
                         given.number("keys", 2, UINT32_MAX),
                         given.number("size", sizeof(node), std::uint64_t{1} << 30),
                         given.number("seed", 0, UINT64_MAX), given.number_or("filled", 0, 1, 0) != 0);
  return one;
}

}  // namespace espalier::bench
