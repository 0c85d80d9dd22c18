#include "espalier/delegation/thread_end.hpp"

#include <cxxabi.h>

#include <mutex>

#include "espalier/delegation/runtime.hpp"
#include "espalier/hw/pause.hpp"

namespace espalier::delegation::detail {
namespace {

// The runtimes that there are, linked by live_runtime::next. Constant-initialised, and without memory of its own: threads
// may end after static objects.
constinit std::mutex live_lock;
constinit live_runtime* live = nullptr;

/// The runtime to which the calling thread belongs and which it has not yet left.
live_runtime* one_to_leave() noexcept {
  for (live_runtime* l = live; l != nullptr; l = l->next) {
    if (l->of->is_attached()) return l;
  }
  return nullptr;
}

// Whether leave_all() is registered for the end of this thread.
thread_local constinit bool registered = false;

void leave_all(void*) noexcept {
  // Objects that are older than the registration are destroyed after it runs. If one uses a runtime, it registers again.
  registered = false;
  std::unique_lock hold(live_lock);
  while (live_runtime* const l = one_to_leave()) {
    ++l->leaving;
    // Operations that other threads run meanwhile may use a runtime for the first time.
    hold.unlock();
    l->of->leave();
    hold.lock();
    --l->leaving;
  }
}

// An address in this program or library, for the registration. A thread_local object would not do: it is constructed only
// once in a thread.
int here = 0;

}  // namespace

void leave_at_thread_end(live_runtime& one) {
  // What a thread registers while its objects are destroyed runs next.
  if (!registered) registered = abi::__cxa_thread_atexit(leave_all, nullptr, &here) == 0;
  const std::lock_guard hold(live_lock);
  if (one.known) return;
  one.known = true;
  one.next = live;
  live = &one;
}

void forget_runtime(live_runtime& one) noexcept {
  std::unique_lock hold(live_lock);
  while (one.leaving != 0) {
    hold.unlock();
    hw::park();
    hold.lock();
  }
  for (live_runtime** l = &live; *l != nullptr; l = &(*l)->next) {
    if (*l == &one) {
      *l = one.next;
      break;
    }
  }
  one.known = false;
}

}  // namespace espalier::delegation::detail
