#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

/// Queue lock of Mellor-Crummey and Scott (TOCS 1991): fair, and each waiter spins on a line of its own.
/// The queue node is the caller's: one kept per thread would be corrupted by the second lock held.
class mcs_lock {
 public:
  struct alignas(hw::false_sharing_bytes) queue_node {
    std::atomic<queue_node*> next{nullptr};
    std::atomic<bool> waiting{false};
  };

  void lock(queue_node& node) noexcept {
    node.next.store(nullptr, std::memory_order_relaxed);  // published by the exchange
    node.waiting.store(true, std::memory_order_relaxed);  // published by the store to pred->next
    // order: lock (acquire) <- unlock's compare_exchange (release) when the queue was empty;
    // lock (release) -> unlock's load of tail_ / the next waiter's exchange.
    queue_node* const pred = tail_.exchange(&node, std::memory_order_acq_rel);
    if (pred == nullptr) return;
    // order: lock's store to next (release) -> unlock's load of next (acquire): waiting is set before.
    pred->next.store(&node, std::memory_order_release);
    // order: the spin (acquire) <- unlock's hand-over (release)
    for (std::uint32_t looks = 0; node.waiting.load(std::memory_order_acquire); ++looks) {
      looks < looks_before_park ? hw::cpu_relax() : hw::park();
    }
  }

  [[nodiscard]] bool try_lock(queue_node& node) noexcept {
    node.next.store(nullptr, std::memory_order_relaxed);
    queue_node* empty = nullptr;
    // order: as in lock(). A failure needs no order: nothing is entered.
    return tail_.compare_exchange_strong(empty, &node, std::memory_order_acq_rel, std::memory_order_relaxed);
  }

  void unlock(queue_node& node) noexcept {
    queue_node* succ = node.next.load(std::memory_order_acquire);
    if (succ == nullptr) {
      queue_node* self = &node;
      if (tail_.compare_exchange_strong(self, nullptr, std::memory_order_release, std::memory_order_relaxed))
        return;
      // Somebody has swung the tail and is about to link itself.
      while ((succ = node.next.load(std::memory_order_acquire)) == nullptr) hw::cpu_relax();
    }
    succ->waiting.store(false, std::memory_order_release);
  }

  [[nodiscard]] bool is_locked() const noexcept { return tail_.load(std::memory_order_relaxed) != nullptr; }

 private:
  static constexpr std::uint32_t looks_before_park = 1024;
  std::atomic<queue_node*> tail_{nullptr};
};

static_assert(queue_lockable<mcs_lock> && sizeof(mcs_lock) == 8,
              "the layout of a node, on which the measured figures rest, has changed");

}  // namespace espalier
