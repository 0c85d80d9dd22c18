#include "espalier/hw/thread_slot.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/slot_table.hpp"

namespace espalier::hw {

thread_local constinit std::uint32_t detail::slot_of_thread = max_thread_slots;

namespace {

using table = slot_table<max_thread_slots>;
static_assert(table::none == max_thread_slots);
using detail::slot_of_thread;

constinit table slots;

// The thread has released a slot, or nothing will call release_at_end() at its end.
thread_local constinit bool is_late = false;

bool is_gone(std::int32_t thread) noexcept {
  return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

void release_at_end(void*) noexcept {
  const std::uint32_t slot = slot_of_thread;
  slot_of_thread = table::none;
  is_late = true;
  if (slot != table::none) slots.release(slot);  // none for a thread that was refused one
}

// Orderings
//   (1) make (release) -> announce, make, unmake (acquire): what uses key_ sees it made, and a second attempt to make it
//       comes after a failed one.

/// Makes a thread call release_at_end() at its end. It is a pthread key, not a thread_local object. Keys are destroyed
/// after all thread_local objects, which may use the library in their destructors. And a key needs no memory, so that
/// lack of memory does not end the process. The process makes the key once; threads that come while it is being made
/// take late slots, and so do those that come after its end.
class end_of_thread {
 public:
  [[nodiscard]] bool announce() noexcept {
    // order (1): announce, acquire
    if (state_.load(std::memory_order_acquire) != ready) make();
    // Any value but null.
    return state_.load(std::memory_order_acquire) == ready && pthread_setspecific(key_, this) == 0;
  }

  /// No thread calls release_at_end() any more.
  void unmake() noexcept {
    // order (1): unmake, acquire
    if (state_.exchange(ended, std::memory_order_acquire) == ready) pthread_key_delete(key_);
  }

 private:
  enum step : std::uint8_t { unmade, being_made, ready, ended };

  void make() noexcept {
    step seen = unmade;
    // order (1): make, acquire; order (1): make, release
    if (!state_.compare_exchange_strong(seen, being_made, std::memory_order_acquire)) return;
    const bool made = pthread_key_create(&key_, release_at_end) == 0;
    state_.store(made ? ready : unmade, std::memory_order_release);
  }

  std::atomic<step> state_{unmade};
  pthread_key_t key_{};
};

constinit end_of_thread ending;

/// A plug-in that contains the library may be closed before its threads end: release_at_end() is then no longer mapped.
/// It runs after the destructors of static objects, at the end of a process too. There it changes nothing: a thread that
/// ends later keeps its slot.
[[gnu::destructor]] void unload() noexcept { ending.unmake(); }

}  // namespace

namespace detail {

std::uint32_t held_thread_slot() noexcept { return slot_of_thread; }

void forget_other_threads() noexcept { slots.keep_only(slot_of_thread, gettid()); }

std::uint32_t try_first_thread_slot() noexcept {
  watch_forks();
  if (!is_late) is_late = !ending.announce();
  const auto how = is_late ? table::tenure::late : table::tenure::ends_with_thread;
  const int before = errno;
  slot_of_thread = slots.take(gettid(), how, is_gone);
  errno = before;
  return slot_of_thread;
}

std::uint32_t first_thread_slot() {
  const std::uint32_t slot = try_first_thread_slot();
  if (slot == table::none)
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "espalier: more than 4096 threads use the library at one time");
  return slot;
}

}  // namespace detail

std::uint32_t thread_slots_used() noexcept { return slots.used(); }

std::int32_t thread_slot_owner(std::uint32_t slot) noexcept {
  return slot < max_thread_slots ? slots.holder_of(slot) : 0;
}

}  // namespace espalier::hw
