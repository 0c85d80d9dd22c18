// std::mutex inside simulated programs, through the linker's --wrap: a blocked fiber lets others run. A blocked
// operating-system thread would stop all fibers.

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "sim/runtime/access.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace {

using namespace espalier::sim;

/// The first word of a glibc mutex says whether it is locked; a simulated one uses it in the same way. Where threads sleep, it
/// says also whether one may sleep for the mutex, as glibc's does: then unlock wakes one.
constexpr int locked = 1;
constexpr int awaited = 2;
int& word_of(pthread_mutex_t* mutex) noexcept { return mutex->__data.__lock; }

/// An atomic read-modify-write of the word.
void set_word(const world& w, pthread_mutex_t* mutex, int to, std::memory_order order) {
  if (w.weak != nullptr)
    w.weak->modify(w.slot() - 1, {reinterpret_cast<std::uintptr_t>(mutex), sizeof(int)},
                   static_cast<std::uint64_t>(word_of(mutex)), static_cast<std::uint64_t>(to), order,
                   __builtin_return_address(0));
  word_of(mutex) = to;
}

/// What other threads see of it: everything on the machines that order all stores.
void order_stores(world& w) {
  if (w.weak == nullptr) w.fence(std::memory_order_seq_cst);
}

/// False: it is locked, and `waits` says so in the word.
bool take(world& w, pthread_mutex_t* mutex, bool waits = false) {
  w.before({reinterpret_cast<std::uintptr_t>(mutex), sizeof(int), access_kind::modify,
            __builtin_return_address(0)});
  order_stores(w);
  const bool was_free = word_of(mutex) == 0;
  if (was_free || waits) set_word(w, mutex, waits ? awaited : locked, std::memory_order_acquire);
  return was_free;
}

}  // namespace

extern "C" {

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  const own_code scope;
  world* const w = scope.running();
  if (w == nullptr) return pthread_mutex_lock(mutex);
  leave_transaction(*w);
  if (take(*w, mutex)) return 0;
  if (w->mutexes_sleep()) {
    while (!take(*w, mutex, true)) w->sleep_on(mutex);
  } else {
    while (!take(*w, mutex)) w->wait(true);
  }
  return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  const own_code scope;
  world* const w = scope.running();
  if (w == nullptr) return pthread_mutex_trylock(mutex);
  leave_transaction(*w);
  return take(*w, mutex) ? 0 : EBUSY;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  const own_code scope;
  world* const w = scope.running();
  if (w == nullptr) return pthread_mutex_unlock(mutex);
  leave_transaction(*w);
  w->before({reinterpret_cast<std::uintptr_t>(mutex), sizeof(int), access_kind::modify,
             __builtin_return_address(0)});
  order_stores(*w);
  const bool wakes = word_of(mutex) == awaited;
  set_word(*w, mutex, 0, std::memory_order_release);
  if (wakes) w->wake_sleepers(mutex, false);
  return 0;
}

}  // extern "C"
