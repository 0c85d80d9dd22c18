// The malloc family. Each function calls the next definition of its own name with its own arguments, so the allocator
// decides where a block lies and how a failure looks. operator new is elsewhere: libstdc++'s calls malloc, and a
// program's own may call anything.

#include <malloc.h>
#include <stdlib.h>

#include <cstddef>

#include "preload/interposed/process.hpp"
#include "preload/interposed/recorded_block.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/next/bootstrap.hpp"
#include "preload/next/next_malloc.hpp"

namespace {

using espalier::preload::aligned_from_bootstrap;
using espalier::preload::array_from_bootstrap;
using espalier::preload::block_record;
using espalier::preload::bootstrap;
using espalier::preload::from_bootstrap;
using espalier::preload::moved_from_bootstrap;
using espalier::preload::next;
using espalier::preload::next_malloc;
using espalier::preload::out_of_memory;
using espalier::preload::page_bytes;
using espalier::preload::pages_from_bootstrap;
using espalier::preload::process_recorder;
using espalier::preload::recorded;
using espalier::preload::recorded_unless_passed_on;
using espalier::preload::this_thread;

}  // namespace

namespace espalier::preload {

void record_block(const next_malloc& of, void* block, std::size_t asked, const caller_state& by) noexcept {
  // operator new may have called malloc before the next allocator was known.
  if (bootstrap.contains(block)) return;
  std::size_t held = asked;
  if (of.malloc_usable_size != nullptr) {
    // tcmalloc's malloc_usable_size allocates.
    const inside_scope scope;
    held = of.malloc_usable_size(block);
  }
  process_recorder.allocated(block, asked, held, by);
  this_thread.latest_block = block;
}

}  // namespace espalier::preload

namespace {

__attribute__((always_inline)) inline void* resized(const next_malloc& of, void* old, std::size_t bytes,
                                                    void* (*call)(const next_malloc&, void*, std::size_t,
                                                                  std::size_t),
                                                    std::size_t count, std::size_t size) noexcept {
  block_record before;  // NOLINT: freeing() fills it where it says so
  const bool known = old != nullptr && process_recorder.listens() && process_recorder.freeing(old, &before);
  this_thread.latest_block = nullptr;
  void* const block = call(of, old, count, size);
  // reallocarray may have called realloc.
  if (block != nullptr) return recorded_unless_passed_on(block, bytes);
  // realloc to zero bytes freed the old block; after a failure it is unchanged.
  if (known && bytes != 0) process_recorder.still_there(before);
  return nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return from_bootstrap(bytes);
  return recorded(*to, to->malloc(bytes), bytes);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return array_from_bootstrap(count, size);
  return recorded(*to, to->calloc(count, size), count * size);
}

void free(void* block) noexcept {
  if (block == nullptr || bootstrap.contains(block)) return;
  const next_malloc* const to = next();
  if (to == nullptr) return;
  // operator delete has removed the block from the record already.
  if (block != this_thread.going_block && process_recorder.listens()) process_recorder.freeing(block);
  to->free(block);
}

void* realloc(void* old, std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (old != nullptr && bootstrap.contains(old)) {
    void* const block = moved_from_bootstrap(to, old, bytes);
    return to == nullptr ? block : recorded(*to, block, bytes);
  }
  if (to == nullptr) return from_bootstrap(bytes);
  return resized(
      *to, old, bytes,
      [](const next_malloc& of, void* block, std::size_t, std::size_t size) {
        return of.realloc(block, size);
      },
      1, bytes);
}

void* reallocarray(void* old, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  const next_malloc* const to = next();
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  if (to == nullptr || to->reallocarray == nullptr || (old != nullptr && bootstrap.contains(old))) {
    if (to == nullptr) return old == nullptr ? from_bootstrap(bytes) : moved_from_bootstrap(to, old, bytes);
    if (old != nullptr && bootstrap.contains(old))
      return recorded(*to, moved_from_bootstrap(to, old, bytes), bytes);
    return resized(
        *to, old, bytes,
        [](const next_malloc& of, void* block, std::size_t n, std::size_t s) {
          return of.realloc(block, n * s);
        },
        count, size);
  }
  return resized(
      *to, old, bytes,
      [](const next_malloc& of, void* block, std::size_t n, std::size_t s) {
        return of.reallocarray(block, n, s);
      },
      count, size);
}

int posix_memalign(void** block, std::size_t align, std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return aligned_from_bootstrap(block, align, bytes);
  const int failure = to->posix_memalign(block, align, bytes);
  if (failure == 0) recorded(*to, *block, bytes);
  return failure;
}

void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return from_bootstrap(bytes, align);
  return recorded(*to, to->aligned_alloc(align, bytes), bytes);
}

void* memalign(std::size_t align, std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return from_bootstrap(bytes, align);
  return recorded(*to, to->memalign(align, bytes), bytes);
}

void* valloc(std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return from_bootstrap(bytes, page_bytes);
  return recorded(*to, to->valloc(bytes), bytes);
}

void* pvalloc(std::size_t bytes) noexcept {
  const next_malloc* const to = next();
  if (to == nullptr) return pages_from_bootstrap(bytes);
  return recorded(*to, to->pvalloc(bytes), bytes);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (block != nullptr && bootstrap.contains(block)) return bootstrap.bytes(block);
  const next_malloc* const to = next();
  return to == nullptr || to->malloc_usable_size == nullptr ? 0 : to->malloc_usable_size(block);
}

}  // extern "C"
#pragma GCC visibility pop
