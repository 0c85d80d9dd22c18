#pragma once

#include <cstdint>

#include "espalier/workload/random.hpp"

namespace espalier::preload {

struct thread_record;

/// A thread's state between its calls. It has no constructor and no destructor, so it exists from the thread's first
/// instruction to its last.
struct thread_state {
  /// The thread is inside the library, or in a function that it called: its blocks are not the program's, and it may
  /// hold locks of the library.
  bool inside = false;
  /// The thread is copying the process, and holds the library's locks meanwhile.
  bool forking = false;
  bool random_started = false;
  /// The thread ends and has released its record.
  bool ended = false;
  std::uint32_t calls = 0;
  thread_record* record = nullptr;
  /// The last block that the thread got: tells operator new whether malloc was called.
  const void* latest_block = nullptr;
  /// The block that operator delete is freeing, already removed from the record.
  const void* going_block = nullptr;
  workload::splitmix64 random{0};
};

extern thread_local constinit thread_state this_thread;

/// Marks the thread as inside during its life. Only where it is not inside yet.
class inside_scope {
 public:
  inside_scope() noexcept { this_thread.inside = true; }
  ~inside_scope() { this_thread.inside = false; }
  inside_scope(const inside_scope&) = delete;
  inside_scope& operator=(const inside_scope&) = delete;
};

}  // namespace espalier::preload
