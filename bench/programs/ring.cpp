// Figure 1 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and Lev,
// section 2): nodes that were allocated one by one, in a ring in random order. An operation traverses it under a mutex
// and writes each node. It allocates nothing: only the addresses of the nodes differ.
//
// nodes=N, up to 4096; size=BYTES of each, from 16; seed=N of the order.

#include <pthread.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "catalog.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/workload/random.hpp"

namespace espalier::bench {
namespace {

constexpr std::uint64_t most_nodes = 4096;

struct node {
  node* next;
  std::uint32_t value;
};

class ring final : public measured_work {
 public:
  ring(std::uint64_t nodes, std::uint64_t size, std::uint64_t seed) : count_(nodes) {
    for (std::uint64_t i = 0; i < nodes; ++i) {
      nodes_[i] = static_cast<node*>(std::malloc(size));
      if (nodes_[i] == nullptr) refuse("no memory for a ring of nodes of", "size");
    }
    workload::random_generator random(seed);
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
      node* const first = nodes_[0];
      node* at = first;
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
  std::array<node*, most_nodes> nodes_{};
  alignas(hw::false_sharing_bytes) pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace

measured_work& make_ring(const arguments& given) {
  static ring one(given.number("nodes", 2, most_nodes),
                  given.number("size", sizeof(node), std::uint64_t{1} << 30),
                  given.number("seed", 0, UINT64_MAX));
  return one;
}

}  // namespace espalier::bench
