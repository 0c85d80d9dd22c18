#include "espalier/hw/thread_slot.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <system_error>

namespace espalier::hw {
namespace {

constexpr std::uint32_t no_slot = ~std::uint32_t{0};

// Constant-initialised and trivially destructible, so that threads which outlive static destruction may
// still give their slot back.
constinit std::array<std::atomic<bool>, max_thread_slots> taken{};
constinit std::array<std::atomic<std::int32_t>, max_thread_slots> owner{};
constinit std::atomic<std::uint32_t> used{0};

std::uint32_t take_slot() {
  for (std::uint32_t slot = 0; slot < max_thread_slots; ++slot) {
    bool free = false;
    // order: take_slot (acquire) <- slot_holder's destructor (release): the successor sees what the
    // thread before it left in the arrays.
    if (!taken[slot].load(std::memory_order_relaxed) &&
        taken[slot].compare_exchange_strong(free, true, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      owner[slot].store(static_cast<std::int32_t>(gettid()), std::memory_order_relaxed);
      std::uint32_t seen = used.load(std::memory_order_relaxed);
      // seq_cst: an epoch advance that scans too few slots must be ordered before this thread's pin.
      while (seen <= slot && !used.compare_exchange_weak(seen, slot + 1, std::memory_order_seq_cst)) {
      }
      return slot;
    }
  }
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          "espalier: more than 4096 threads use the library at one time");
}

struct slot_holder {
  std::uint32_t slot = no_slot;
  slot_holder() = default;
  slot_holder(const slot_holder&) = delete;
  slot_holder& operator=(const slot_holder&) = delete;
  ~slot_holder();
};

// The plain word is what the fast path reads: it needs no guard for dynamic initialisation.
thread_local constinit std::uint32_t my_slot = no_slot;

slot_holder::~slot_holder() {
  if (slot == no_slot) return;
  my_slot = no_slot;
  owner[slot].store(0, std::memory_order_relaxed);
  taken[slot].store(false, std::memory_order_release);
}

std::uint32_t first_call() {
  thread_local slot_holder holder;
  // A call from a destructor of another thread_local, after the holder's own, takes a slot for good: at
  // most one for such a thread, and safe, which giving it back too early would not be.
  const std::uint32_t slot = take_slot();
  holder.slot = slot;
  my_slot = slot;
  return slot;
}

}  // namespace

std::uint32_t thread_slot() {
  const std::uint32_t slot = my_slot;
  if (slot != no_slot) [[likely]]
    return slot;
  return first_call();
}

std::uint32_t thread_slots_used() noexcept { return used.load(std::memory_order_seq_cst); }

std::int32_t thread_slot_owner(std::uint32_t slot) noexcept {
  return slot < max_thread_slots ? owner[slot].load(std::memory_order_relaxed) : 0;
}

}  // namespace espalier::hw
