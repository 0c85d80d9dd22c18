#pragma once

#include <cstddef>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/thread_heap.hpp"
#include "preload/heap/thread_heaps.hpp"

namespace espalier::preload {

/// The heap of this process. There is one, as there is one malloc. It exists before the first constructor and is
/// never destroyed.
extern constinit address_registry process_registry;
extern constinit thread_heaps process_heaps;

/// A thread's heap before its first block and after its last destructor.
extern constinit thread_heap no_heap;
extern thread_local constinit thread_heap* this_heap;

/// Gets this thread a heap. Null where the thread is ending or there is no memory.
thread_heap* begin_thread() noexcept;

/// Returns to the OS the empty memory of this thread's heap and of those without a thread. True where there was any.
bool return_empty_memory() noexcept;

/// Calls work(heap) with this thread's heap, or with the shared heap of threads that have none.
template <class Work>
auto with_heap(Work&& work) noexcept {
  thread_heap* mine = this_heap;
  if (mine == &no_heap) [[unlikely]]
    mine = begin_thread();
  return mine != nullptr ? work(*mine) : process_heaps.with_shared(work);
}

/// The same for work that returns a block. If that is null, empty memory and addresses are returned to the OS, and
/// work is called once more.
template <class Work>
void* block_of_heap(Work&& work) noexcept {
  void* const block = with_heap(work);
  if (block != nullptr) [[likely]]
    return block;
  return_empty_memory();
  return with_heap(work);
}

/// Null where there is no memory; errno is preserved.
void* allocate_slowly(std::size_t bytes) noexcept;

[[nodiscard]] __attribute__((always_inline)) inline void* allocate(std::size_t bytes) noexcept {
  void* const block = this_heap->allocate_quickly(bytes);
  if (block != nullptr) [[likely]]
    return block;
  return allocate_slowly(bytes);
}

__attribute__((always_inline)) inline void deallocate(void* block) noexcept {
  thread_heap& mine = *this_heap;
  if (!mine.deallocate_quickly(process_registry, block)) [[unlikely]]
    mine.deallocate(block);
}

/// Writes the heap's figures as lines to an open file.
void write_figures(int to) noexcept;

}  // namespace espalier::preload
