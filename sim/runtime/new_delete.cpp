// operator new and delete of programs that contain simulated code. Inside a world they use its heap.

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "sim/memory/heap.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

void world::deallocate(void* block, const block_event& by) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (transactional != nullptr) transactional->forget(address, memory->usable_bytes(block));
  if (weak != nullptr) weak->forget(address, memory->usable_bytes(block));
  if (const char* const wrong = memory->deallocate(block, by))
    fault(wrong, memory->remembers() ? memory->find(address) : nullptr);
}

}  // namespace espalier::sim

namespace {

using espalier::sim::own_code;

void* allocate(std::size_t bytes, std::size_t align) noexcept {
  const own_code scope;
  if (espalier::sim::world* const w = scope.allocating()) {
    void* const memory = w->memory->allocate(bytes, align, w->event());
    if (memory != nullptr && scope.running() != nullptr && in_transaction(*w))
      w->transactional->allocated(w->slot() - 1, memory);
    return memory;
  }
  if (align <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(align, (bytes + align - 1) / align * align);
}

void* allocate_or_throw(std::size_t bytes, std::size_t align) {
  void* const memory = allocate(bytes, align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void deallocate(void* memory) noexcept {
  if (memory == nullptr) return;
  const own_code scope;
  if (!espalier::sim::arena::contains(reinterpret_cast<std::uintptr_t>(memory))) return std::free(memory);
  // A block that outlives its world disappeared with the world's heap.
  espalier::sim::world* const w = scope.allocating();
  if (w == nullptr) return;
  if (scope.running() != nullptr && in_transaction(*w))
    return w->transactional->free_at_commit(w->slot() - 1, memory, w->event());
  // The thread that receives the block next has seen what this thread wrote there: allocators synchronise.
  if (scope.running() != nullptr) {
    if (w->buffers != nullptr) w->buffers->drain(w->slot() - 1);
    w->before_free(memory);
  }
  w->deallocate(memory, w->event());
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(align));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, usual); }
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { deallocate(memory); }
void operator delete[](void* memory) noexcept { deallocate(memory); }
void operator delete(void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { deallocate(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { deallocate(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { deallocate(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { deallocate(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { deallocate(memory); }

extern "C" std::size_t __wrap_malloc_usable_size(void* memory) {
  const own_code scope;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (!espalier::sim::arena::contains(address)) return malloc_usable_size(memory);
  espalier::sim::world* const w = scope.allocating();
  return w == nullptr ? 0 : w->memory->usable_bytes(memory);
}
