#include "espalier/delegation/departures.hpp"

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

// The thread will call depart().
thread_local constinit bool departs = false;

void depart(void*) noexcept {
  // Objects that are older than the departure are destroyed after it. Those that use a runtime then bring about another one.
  departs = false;
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

// Of this file. A departure is not a thread_local object, because that is constructed once in a thread.
int here = 0;

}  // namespace

void leave_at_thread_end(live_runtime& one) {
  // What a thread registers while its objects are destroyed comes next.
  if (!departs) departs = abi::__cxa_thread_atexit(depart, nullptr, &here) == 0;
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
