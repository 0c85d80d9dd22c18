#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

// Orderings
//   (1) unlock (release) -> lock, try_lock (acquire): through tail_, where the queue was empty: what the last holder
//       wrote is visible to the next.
//   (2) lock, try_lock (acq_rel) -> lock (acq_rel): through tail_: a node's `next` is cleared before the successor
//       links itself there. Otherwise the clearing may come later and lose the successor.
//   (3) link (release) -> await_link (acquire): the successor sets `waiting` before the holder clears it.
//   (4) hand_over (release) -> spin (acquire): what the holder wrote is visible to the successor.

/// Queue lock of Mellor-Crummey and Scott (TOCS 1991): fair, and each waiter spins on a line of its own.
/// The caller provides the queue node: a second lock that a thread holds would corrupt one kept per thread.
class mcs_lock {
 public:
  struct alignas(hw::false_sharing_bytes) queue_node {
    std::atomic<queue_node*> next{nullptr};
    std::atomic<bool> waiting{false};
  };

  void lock(queue_node& node) noexcept {
    // relaxed: no other thread knows the node yet.
    node.next.store(nullptr, std::memory_order_relaxed);  // published by the exchange
    node.waiting.store(true, std::memory_order_relaxed);  // published by the store to pred->next
    // order (1), (2): lock, acq_rel
    queue_node* const pred = tail_.exchange(&node, std::memory_order_acq_rel);
    if (pred == nullptr) return;
    // order (3): link, release
    pred->next.store(&node, std::memory_order_release);
    // order (4): spin, acquire
    for (std::uint32_t looks = 0; node.waiting.load(std::memory_order_acquire); ++looks) {
      looks < looks_before_park ? hw::cpu_relax() : hw::park();
    }
  }

  [[nodiscard]] bool try_lock(queue_node& node) noexcept {
    node.next.store(nullptr, std::memory_order_relaxed);  // relaxed: as in lock()
    queue_node* empty = nullptr;
    // order (1), (2): try_lock, acq_rel. relaxed at a failure: the caller does not enter.
    return tail_.compare_exchange_strong(empty, &node, std::memory_order_acq_rel, std::memory_order_relaxed);
  }

  void unlock(queue_node& node) noexcept {
    queue_node* succ = node.next.load(std::memory_order_acquire);  // order (3): await_link, acquire
    if (succ == nullptr) {
      queue_node* self = &node;
      // order (1): unlock, release. relaxed at a failure: the loads of `next` below acquire.
      if (tail_.compare_exchange_strong(self, nullptr, std::memory_order_release, std::memory_order_relaxed))
        return;
      // Another thread has swung the tail and is about to link itself. order (3): await_link, acquire
      while ((succ = node.next.load(std::memory_order_acquire)) == nullptr) hw::cpu_relax();
    }
    // order (4): hand_over, release
    succ->waiting.store(false, std::memory_order_release);
  }

  // relaxed: what is read under the lock is ordered by taking it.
  [[nodiscard]] bool is_locked() const noexcept { return tail_.load(std::memory_order_relaxed) != nullptr; }

 private:
  static constexpr std::uint32_t looks_before_park = 1024;
  std::atomic<queue_node*> tail_{nullptr};
};

static_assert(queue_lockable<mcs_lock> && sizeof(mcs_lock) == 8,
              "the layout of a node, on which the measured figures rest, has changed");

}  // namespace espalier
