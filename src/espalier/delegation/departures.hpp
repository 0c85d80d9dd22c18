#pragma once

// Threads leave the runtimes that they used when they end. Ordinary functions: the simulator, whose threads are fibers, has
// versions that do nothing.

namespace espalier::delegation {
class runtime;
}

namespace espalier::delegation::detail {

/// The calling thread will call leave() at its end, if the runtime is there then. Throws std::bad_alloc.
void leave_at_thread_end(runtime& one);
/// No thread will call it any more. Waits for those that are leaving.
void forget_runtime(runtime& one) noexcept;

}  // namespace espalier::delegation::detail
