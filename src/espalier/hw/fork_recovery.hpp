#pragma once

#include <cstdint>

#include "espalier/hw/thread_slot.hpp"

// A child of fork() has one thread, the one that forked. The others stopped between two of their instructions, all at
// one moment: the kernel copies a consistent state. Each object repairs what they had announced, locked or half
// written, before fork() returns in the child. map/map_concept.hpp says what the maps promise then.
//
// A fork takes only the registry's lock: a process forks in any state of its other threads, the forking thread may
// hold guards, and no thread waits for a map's locks. The price is that data under a lock that a lost thread held may
// be half written. Each object knows where such data is, and leaks it.
//
// A fork takes the registry's lock before the locks of handlers that were registered with pthread_atfork earlier:
// before main, in libraries. A thread that holds one of these creates no map. In the child the repair takes O(objects
// times slots in use), and writes only where there is something to repair.

namespace espalier::hw {

/// What a child of fork() knows of its parent's threads.
struct fork_survivor {
  /// Of the thread that forked; max_thread_slots where it has none.
  std::uint32_t slot;

  /// Whether a thread that the child does not have held this slot. What an ended thread left is intact.
  [[nodiscard]] bool lost(std::uint32_t other) const noexcept {
    return other != slot && thread_slot_owner(other) != 0;
  }
};

/// Registers an object for repair in children of fork(). It is the last member of the object, so that what it repairs
/// lives as long as the link.
///
/// Constant-initialised: an object in static storage that joins at its first use may be used before its constructor
/// would run. In simulated programs, which do not fork, it does nothing.
class fork_link {
 public:
  /// The only thread of the child calls it with the object that joined. It may not join, leave, or start threads.
  using recover_function = void (*)(void* object, const fork_survivor& survivor) noexcept;

  constexpr fork_link() noexcept = default;
  /// Joins at once.
  fork_link(void* object, recover_function recover) noexcept { join(object, recover); }
  fork_link(const fork_link&) = delete;
  fork_link& operator=(const fork_link&) = delete;
  ~fork_link() {
    if (recover_ != nullptr) leave();
  }

  /// Any threads may call it any number of times, with the same arguments.
  void join(void* object, recover_function recover) noexcept;
  /// Without a join it does nothing.
  void leave() noexcept;

 private:
  friend struct fork_registry;

  // Under the registry's lock.
  void* object_ = nullptr;
  recover_function recover_ = nullptr;  // null: has not joined
  fork_link* before_ = nullptr;
  fork_link* after_ = nullptr;
};

/// Makes fork() call the registry from the first call on, which comes in this library's static initialisation, or
/// earlier. Only for this layer.
void watch_forks() noexcept;

}  // namespace espalier::hw
