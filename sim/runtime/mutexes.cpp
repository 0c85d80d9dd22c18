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

/// The first word of a glibc mutex says whether it is locked; a simulated one uses it in the same way.
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

bool take(world& w, pthread_mutex_t* mutex) {
  w.before({reinterpret_cast<std::uintptr_t>(mutex), sizeof(int), access_kind::modify,
            __builtin_return_address(0)});
  order_stores(w);
  if (word_of(mutex) != 0) return false;
  set_word(w, mutex, 1, std::memory_order_acquire);
  return true;
}

}  // namespace

extern "C" {

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  const own_code scope;
  world* const w = scope.running();
  if (w == nullptr) return pthread_mutex_lock(mutex);
  leave_transaction(*w);
  while (!take(*w, mutex)) w->wait(true);
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
  set_word(*w, mutex, 0, std::memory_order_release);
  return 0;
}

}  // extern "C"
