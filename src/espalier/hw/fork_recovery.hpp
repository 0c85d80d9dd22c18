#pragma once

#include <cstdint>

#include "espalier/hw/thread_slot.hpp"

// A child of fork() has one thread, the one that forked. The others stopped between two of their instructions, at one
// moment for all of them: the kernel copies a consistent state. What they had announced, locked or half written is
// repaired before fork() returns in the child, by the objects themselves. map/map_concept.hpp says what the maps
// promise then.
//
// Only the registry's lock is taken for a fork: a process forks while its other threads do whatever they do, the
// forking thread may hold guards, and no thread waits for a map's locks. The price is that data under a lock which a
// lost thread held may be half written. Each object knows where such data is, and leaves it behind.
//
// The registry's lock is taken before the locks of handlers that were registered with pthread_atfork earlier: before
// main, in libraries. A thread that holds one of these creates no map. In the child the repair takes O(objects times
// slots in use), and writes only where there is something to repair.

namespace espalier::hw {

/// What a child of fork() knows of its parent's threads.
struct fork_survivor {
  /// Of the thread that forked; max_thread_slots where it has none.
  std::uint32_t slot;

  /// Whether a thread held this slot that the child has not. What an ended thread left is intact.
  [[nodiscard]] bool lost(std::uint32_t other) const noexcept {
    return other != slot && thread_slot_owner(other) != 0;
  }
};

/// Has an object repaired in children of fork(): for a member of the object, its last, so that what it repairs is
/// there for as long as the link is.
///
/// Constant-initialised; an object in static storage that joins at its first use may be used before its constructor
/// would have run. In simulated programs, which do not fork, it does nothing.
class fork_link {
 public:
  /// Called in the child, by the one thread there is, with the object that was joined. It may not join, leave, or
  /// start threads.
  using recover_function = void (*)(void* object, const fork_survivor& survivor) noexcept;

  constexpr fork_link() noexcept = default;
  /// Joins at once.
  fork_link(void* object, recover_function recover) noexcept { join(object, recover); }
  fork_link(const fork_link&) = delete;
  fork_link& operator=(const fork_link&) = delete;
  ~fork_link() {
    if (recover_ != nullptr) leave();
  }

  /// Any number of times, by any threads, with the same arguments.
  void join(void* object, recover_function recover) noexcept;
  /// Also where it has not joined.
  void leave() noexcept;

 private:
  friend struct fork_registry;

  // Under the registry's lock.
  void* object_ = nullptr;
  recover_function recover_ = nullptr;  // null: has not joined
  fork_link* before_ = nullptr;
  fork_link* after_ = nullptr;
};

/// Has fork() call the registry, from the first call on: that of this library's static initialisation, or of what
/// comes before it. Only in this layer.
void watch_forks() noexcept;

}  // namespace espalier::hw
