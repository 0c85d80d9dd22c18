// A stack that is wrong in a well-known way, and the number of schedules that finds it: the explorer's own control.

#include <gtest/gtest.h>

#include <atomic>

#include "sim/explore.hpp"

namespace {

/// Treiber's stack (IBM RJ 5118, 1986) without protection: pop reads next from a node that another thread may
/// have popped and pushed again meanwhile, with another node below.
class treiber_stack {
 public:
  struct node {
    std::atomic<node*> next{nullptr};
    int value = 0;
  };

  void push(node* fresh) {
    node* top = head_.load();
    do {
      fresh->next.store(top);
    } while (!head_.compare_exchange_weak(top, fresh));
  }

  node* pop() {
    node* top = head_.load();
    while (top != nullptr && !head_.compare_exchange_weak(top, top->next.load())) {
    }
    return top;
  }

 private:
  std::atomic<node*> head_{nullptr};
};

struct shared_stack {
  treiber_stack stack;
  treiber_stack::node nodes[3];
  std::atomic<int> owners[3]{};

  shared_stack() {
    for (int i = 2; i >= 0; --i) {
      nodes[i].value = i;
      stack.push(&nodes[i]);
    }
  }
  treiber_stack::node* take() {
    treiber_stack::node* const n = stack.pop();
    if (n != nullptr) espalier::sim::require(owners[n->value].fetch_add(1) == 0, "a node is popped by two");
    return n;
  }
  void give(treiber_stack::node* n) {
    if (n == nullptr) return;
    owners[n->value].fetch_sub(1);
    stack.push(n);
  }
};

/// Three threads, each four times: pops two nodes, pushes two.
void rounds(espalier::sim::scene& s) {
  auto& all = s.make<shared_stack>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&all] {
      for (int round = 0; round < 4; ++round) {
        treiber_stack::node* const first = all.take();
        treiber_stack::node* const second = all.take();
        all.give(first);
        all.give(second);
      }
    });
  }
}

espalier::sim::exploration_report explore_with(const char* strategy, std::uint64_t schedules,
                                               std::uint64_t seed) {
  espalier::sim::exploration_options options;
  options.schedules = schedules;
  options.seed = seed;
  options.strategies = {strategy};
  // The fault exists under every model.
  options.model = espalier::sim::memory_model::sequential;
  return espalier::sim::explore("treiber", options, rounds);
}

TEST(treiber, aba_is_found_by_random_schedules) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto report = explore_with("random", 100, seed);
    EXPECT_FALSE(report.passed()) << "seed " << seed;
  }
}

TEST(treiber, aba_is_found_by_pct) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto report = explore_with("pct:3", 4000, seed);
    EXPECT_FALSE(report.passed()) << "seed " << seed;
  }
}

}  // namespace
