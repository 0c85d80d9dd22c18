#include "espalier/reclaim/rcu.hpp"

#include "espalier/hw/thread_slot.hpp"
#include "espalier/sync/backoff.hpp"

namespace espalier {

bool rcu_domain::caller_is_inside() const noexcept {
  const record* const mine = records_.at(hw::try_thread_slot());
  // relaxed: only this thread writes it.
  return mine != nullptr && inside(mine->crossings.load(std::memory_order_relaxed));
}

/// A lost thread has left its section.
void rcu_domain::record::recover_in_child(bool lost) noexcept {
  // relaxed: the child has one thread.
  const std::uint64_t now = crossings.load(std::memory_order_relaxed);
  if (lost && inside(now)) crossings.store(now + 1, std::memory_order_relaxed);
}

void rcu_domain::synchronize() const noexcept {
  assert(!caller_is_inside() && "a read section waits for itself");
  // order (1): synchronize, heavy
  hw::fence_heavy();
  records_.for_each([](std::uint32_t, const record& r) {
    // order (2): look, acquire: both loads, since either may be the one that sees the exit.
    const std::uint64_t seen = r.crossings.load(std::memory_order_acquire);
    if (!inside(seen)) return;
    for (backoff pause; r.crossings.load(std::memory_order_acquire) == seen; pause.wait()) {
    }
  });
}

}  // namespace espalier
