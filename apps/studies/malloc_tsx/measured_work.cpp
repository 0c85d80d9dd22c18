#include <pthread.h>

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

#include "apps/studies/malloc_tsx/key_tree.hpp"
#include "apps/studies/measured_work.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::bench {
namespace {

// Ring ----------------------------------------------------------------------------------------------------------------

// Figure 1 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and Lev,
// section 2): nodes that were allocated one by one, in a ring in random order. An operation traverses it under a mutex
// and writes each node. It allocates nothing: only the addresses of the nodes differ.
//
// nodes=N, up to 4096; size=BYTES of each, from 16; seed=N of the order.

constexpr std::uint64_t most_nodes = 4096;

struct ring_node {
  ring_node* next;
  std::uint32_t value;
};

class ring final : public measured_work {
 public:
  ring(std::uint64_t nodes, std::uint64_t size, std::uint64_t seed) : count_(nodes) {
    for (std::uint64_t i = 0; i < nodes; ++i) {
      nodes_[i] = static_cast<ring_node*>(std::malloc(size));
      if (nodes_[i] == nullptr) refuse("no memory for a ring of nodes of", "size");
    }
    measure::random_generator random(seed);
    for (std::uint64_t left = nodes; left > 1; --left)
      std::swap(nodes_[left - 1], nodes_[random.below(left)]);
    for (std::uint64_t i = 0; i < nodes; ++i) *nodes_[i] = {nodes_[(i + 1) % nodes], 1};
  }
  ~ring() override {
    for (std::uint64_t i = 0; i < count_; ++i) std::free(nodes_[i]);
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 1; }

  void work(unsigned, std::uint64_t operations) override {
    for (std::uint64_t i = 0; i < operations; ++i) {
      pthread_mutex_lock(&mutex_);
      ring_node* const first = nodes_[0];
      ring_node* at = first;
      do {
        at = at->next;
        at->value = 0;
      } while (at != first);
      pthread_mutex_unlock(&mutex_);
    }
    worked_ = worked_ || operations > 0;
  }

  [[nodiscard]] const char* check() const override {
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (worked_ && nodes_[i]->value != 0) return "a node was not visited";
    }
    return nullptr;
  }

  void count_blocks(index_loads loads) const override {
    for (std::uint64_t i = 0; i < count_; ++i) count_block(loads, nodes_[i]);
  }

 private:
  std::uint64_t count_;
  bool worked_ = false;
  std::array<ring_node*, most_nodes> nodes_{};
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Locked tree ---------------------------------------------------------------------------------------------------------

// Figure 2 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and Lev,
// section 2): an AVL tree under one mutex, with sections that allocate and free the nodes. Of a hundred operations 30
// insert or overwrite a key, 30 erase one, 40 look one up. Initially it has half of the keys. A node is allocated
// before the search, so that a transaction has to keep its writes to the node while the search reads its path.
//
// threads=N; keys=N that are drawn from; size=BYTES of a node; seed=N. These threads fill the tree, each its part; with
// filled=1 one additional thread does, which only waits for them afterwards.

constexpr unsigned most_threads = 256;

/// A thread's data from round to round.
struct thread_part {
  measure::random_generator random{0};
  std::uint64_t found = 0;
};

class locked_tree final : public measured_work {
 public:
  locked_tree(unsigned threads, std::uint64_t keys, std::uint64_t size, std::uint64_t seed, bool filled)
      : threads_(threads), keys_(static_cast<std::uint32_t>(keys)), size_(size) {
    if (filled) {
      measure::random_generator random(seed);
      fill(random, keys_ / 2);
    }
    for (unsigned t = 0; t < threads; ++t) parts_[t].value.random = measure::random_generator(seed, t + 1);
  }
  ~locked_tree() override {
    tree_.clear([](tree_node* gone) noexcept { std::free(gone); });
  }

  [[nodiscard]] unsigned threads() const noexcept override { return threads_; }

  void prepare(unsigned thread) override {
    fill(parts_[thread].value.random, std::uint64_t{keys_ / 2} * (thread + 1) / threads_);
  }

  void work(unsigned thread, std::uint64_t operations) override {
    measure::random_generator& random = parts_[thread].value.random;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < operations; ++i) {
      const auto key = static_cast<std::uint32_t>(random.below(keys_));
      const std::uint64_t kind = random.below(100);
      pthread_mutex_lock(&mutex_);
      if (kind < 30) {
        insert(key, static_cast<std::uint32_t>(i));
      } else if (kind < 60) {
        std::free(tree_.erase(key));
      } else if (const tree_node* const at = tree_.find(key)) {
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
    for (const tree_node& n : tree_.nodes()) count_block(loads, &n);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override { return tree_.size() * size_; }

 private:
  void fill(measure::random_generator& random, std::uint64_t size) noexcept {
    while (tree_.size() < size && !short_of_memory_)
      insert(static_cast<std::uint32_t>(random.below(keys_)), 0);
  }

  void insert(std::uint32_t key, std::uint32_t value) noexcept {
    void* const memory = std::malloc(size_);
    if (memory == nullptr) {
      short_of_memory_ = true;
      return;
    }
    auto* const made = new (memory) tree_node(key, value);
    const auto [at, inserted] = tree_.insert_or_find(key, [made]() noexcept { return made; });
    if (inserted) return;
    at->value = value;
    std::free(made);
  }

  unsigned threads_;
  std::uint32_t keys_;
  std::uint64_t size_;
  bool short_of_memory_ = false;
  std::array<hw::padded<thread_part>, most_threads> parts_{};
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  key_tree tree_;
};

// Fresh ---------------------------------------------------------------------------------------------------------------

// Blocks that were never used before, allocated under a mutex: the sections of a program that grows. A transaction
// cannot map a page that is not present yet.
//
// size=BYTES of a block. Nothing is freed before the end.

struct kept_node {
  kept_node* next;
};

class fresh final : public measured_work {
 public:
  explicit fresh(std::uint64_t size) : size_(size) {}
  ~fresh() override {
    while (last_ != nullptr) {
      kept_node* const gone = last_;
      last_ = gone->next;
      std::free(gone);
    }
  }

  [[nodiscard]] unsigned threads() const noexcept override { return 1; }

  void work(unsigned, std::uint64_t operations) override {
    for (std::uint64_t i = 0; i < operations; ++i) {
      pthread_mutex_lock(&mutex_);
      void* const memory = std::malloc(size_);
      if (memory != nullptr) last_ = new (memory) kept_node{last_};
      pthread_mutex_unlock(&mutex_);
      if (memory == nullptr) refuse("no memory for blocks of", "size");
    }
    blocks_ += operations;
  }

  [[nodiscard]] const char* check() const override {
    std::uint64_t linked = 0;
    for (const kept_node* at = last_; at != nullptr; at = at->next) ++linked;
    return linked == blocks_ ? nullptr : "a block is missing";
  }

  void count_blocks(index_loads loads) const override {
    for (const kept_node* at = last_; at != nullptr; at = at->next) count_block(loads, at);
  }
  [[nodiscard]] std::uint64_t live_bytes() const override { return blocks_ * size_; }

 private:
  std::uint64_t size_;
  std::uint64_t blocks_ = 0;
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  alignas(hw::false_sharing_bytes) kept_node* last_ = nullptr;
};

}  // namespace

measured_work& make_ring(const arguments& given) {
  static ring one(given.number("nodes", 2, most_nodes),
                  given.number("size", sizeof(ring_node), std::uint64_t{1} << 30),
                  given.number("seed", 0, UINT64_MAX));
  return one;
}

measured_work& make_locked_tree(const arguments& given) {
  static locked_tree one(static_cast<unsigned>(given.number("threads", 1, most_threads)),
                         given.number("keys", 2, UINT32_MAX),
                         given.number("size", sizeof(tree_node), std::uint64_t{1} << 30),
                         given.number("seed", 0, UINT64_MAX), given.number_or("filled", 0, 1, 0) != 0);
  return one;
}

measured_work& make_fresh(const arguments& given) {
  static fresh one(given.number("size", sizeof(kept_node), std::uint64_t{1} << 30));
  return one;
}

}  // namespace espalier::bench
