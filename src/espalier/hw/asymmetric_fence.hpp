#pragma once

#include <atomic>

// A StoreLoad fence split in two: the frequent side pays (almost) nothing, the rare side pays for both.
//
// In Dekker's pattern one thread stores x and then reads y, another stores y and then reads x, and at least one
// sees the other's store. It needs a full fence on each side. With fence_light() on the frequent side and
// fence_heavy() on the rare side the guarantee is the same. Linux' membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
// is the heavy side: every running thread of the process passes a full fence at some point during the call.
//
// Where the kernel refuses membarrier (old kernels, seccomp filters, sanitizers that cannot see it), both
// sides are ordinary sequentially consistent fences. The choice is made once, before main.
//
// Orderings
//   (1) fence_light (seq_cst) <-> fence_heavy (seq_cst): of two threads with a store before and a load behind their
//       fence, at least one sees the other's store.

namespace espalier::hw {

namespace detail {
extern const bool membarrier_works;
}

/// The frequent side. A compiler fence where membarrier works, a full fence elsewhere.
inline void fence_light() noexcept {
  // order (1): fence_light, seq_cst
  if (detail::membarrier_works) [[likely]]
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// The rare side. A system call with an interrupt to each processor that runs a thread of this process.
void fence_heavy() noexcept;

/// "membarrier" or "fence".
[[nodiscard]] const char* asymmetric_fence_kind() noexcept;

}  // namespace espalier::hw
