#pragma once

#include <cstdint>

#include "espalier/workload/random.hpp"

namespace espalier::preload {

struct thread_record;

/// What a thread keeps between its calls. No constructor and no destructor: it is there from the thread's first
/// instruction to its last.
struct thread_state {
  /// The thread is in our code, or in what we call: blocks that come and go are not the program's, and locks of
  /// ours may be held.
  bool inside = false;
  /// The thread copies the process, and holds our locks for it.
  bool forking = false;
  bool random_started = false;
  /// The thread has had its record and given it back, for it ends.
  bool ended = false;
  std::uint32_t calls = 0;
  thread_record* record = nullptr;
  /// The block that the thread was given last, for operator new to see whether malloc was asked.
  const void* latest_block = nullptr;
  /// What operator delete is giving back, already out of the record.
  const void* going_block = nullptr;
  workload::splitmix64 random{0};
};

extern thread_local constinit thread_state this_thread;

/// Marks the thread as inside for as long as it lives. To be made only where it is not.
class inside_scope {
 public:
  inside_scope() noexcept { this_thread.inside = true; }
  ~inside_scope() { this_thread.inside = false; }
  inside_scope(const inside_scope&) = delete;
  inside_scope& operator=(const inside_scope&) = delete;
};

}  // namespace espalier::preload
