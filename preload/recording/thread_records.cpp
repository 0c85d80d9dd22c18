#include "preload/recording/thread_records.hpp"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

bool barrier(int command) noexcept {
  const saved_errno keep;
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

bool thread_records::start(void (*ended)(void*)) noexcept {
  // glibc stores the values of the first 32 keys in the thread itself; it would allocate others.
  constexpr pthread_key_t keys_in_place = 32;
  pthread_key_t key = 0;
  if (!barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) || pthread_key_create(&key, ended) != 0)
    return false;
  if (key >= keys_in_place) {
    pthread_key_delete(key);
    return false;
  }
  key_ = key;
  return started_ = true;
}

thread_record* thread_records::acquire() noexcept {
  if (!started_) return nullptr;
  // A thread that holds all records must not miss a new one.
  const futex_guard guard(gate_);
  thread_record* mine = nullptr;
  for_each([&](thread_record& each) {
    // order: acquire() (acquire) <- release() (release)
    if (mine == nullptr && !each.owned.load(std::memory_order_acquire)) mine = &each;
  });
  if (mine == nullptr) {
    mine = budget_.map_array<thread_record>(1);
    if (mine == nullptr) return nullptr;
    mine->next = first_.load(std::memory_order_relaxed);
    first_.store(mine, std::memory_order_release);
  }
  mine->owned.store(true, std::memory_order_relaxed);
  if (pthread_setspecific(key_, mine) == 0) return mine;
  release(*mine);
  return nullptr;
}

void thread_records::release(thread_record& record) noexcept {
  record.stacks.clear();
  record.no_young.store(0, std::memory_order_relaxed);
  record.owned.store(false, std::memory_order_release);
}

void thread_records::freeze() noexcept {
  if (!started_) return;
  constexpr timespec moment{0, 20'000};
  const saved_errno keep;
  gate_.lock();
  frozen_.store(true);
  barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  for_each([&](thread_record& each) {
    // order: freeze (acquire) <- ~working (release)
    while (each.busy.load(std::memory_order_acquire)) nanosleep(&moment, nullptr);
  });
}

void thread_records::thaw() noexcept {
  if (!started_) return;
  frozen_.store(false);
  gate_.unlock();
}

void thread_records::wait(thread_record& mine) noexcept {
  do {
    mine.busy.store(false, std::memory_order_release);
    {
      const futex_guard guard(gate_);
    }
    mine.busy.store(true);
  } while (frozen_.load());
}

void thread_records::forget_other_threads(const thread_record* mine) noexcept {
  for_each([mine](thread_record& each) {
    if (&each == mine) return;
    each.busy.store(false, std::memory_order_relaxed);
    release(each);
  });
  // The registration belongs to the process that made it.
  if (started_) barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

}  // namespace espalier::preload
