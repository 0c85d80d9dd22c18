#pragma once

// A thread leaves the runtimes that it used when it ends. These are ordinary functions, because the simulator, whose threads
// are fibers, links versions that do nothing.

namespace espalier::delegation {
class runtime;
}

namespace espalier::delegation::detail {

/// A runtime as ending threads find it.
struct live_runtime {
  runtime* of;
  live_runtime* next = nullptr;
  unsigned leaving = 0;  ///< threads
  bool known = false;
};

/// The calling thread will call leave() at its end, if the runtime is there then and the thread belongs to it.
void leave_at_thread_end(live_runtime& one);
/// No thread will call it any more. Waits for those that are leaving.
void forget_runtime(live_runtime& one) noexcept;

}  // namespace espalier::delegation::detail
