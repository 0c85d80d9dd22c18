#pragma once

// The functions of the malloc family that pass a request on to the next allocator, or to the bootstrap arena while that is
// unknown. A library includes this file once, after functions of its own:
//
//   requested(bytes, align)       returns the size to request
//   obtained(next, block, bytes)  returns the block that the next allocator has returned
//   freeing(block)                called before the next allocator frees it

#include <malloc.h>
#include <stdlib.h>

#include <cstddef>

#include "preload/kernel/pages.hpp"
#include "preload/next/bootstrap.hpp"
#include "preload/next/next_malloc.hpp"

namespace espalier::preload {

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t bytes) noexcept {
  const auto* const to = next();
  return to == nullptr ? from_bootstrap(bytes) : obtained(*to, to->malloc(requested(bytes, 1)), bytes);
}

void free(void* block) noexcept {
  if (block == nullptr || bootstrap.contains(block)) return;
  const auto* const to = next();
  if (to == nullptr) return;
  freeing(block);
  to->free(block);
}

int posix_memalign(void** block, std::size_t align, std::size_t bytes) noexcept {
  const auto* const to = next();
  if (to == nullptr) return aligned_from_bootstrap(block, align, bytes);
  const int failure = to->posix_memalign(block, align, requested(bytes, align));
  if (failure == 0) obtained(*to, *block, bytes);
  return failure;
}

void* memalign(std::size_t align, std::size_t bytes) noexcept {
  const auto* const to = next();
  return to == nullptr ? from_bootstrap(bytes, align)
                       : obtained(*to, to->memalign(align, requested(bytes, align)), bytes);
}

void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
  const auto* const to = next();
  return to == nullptr ? from_bootstrap(bytes, align)
                       : obtained(*to, to->aligned_alloc(align, requested(bytes, align)), bytes);
}

// Blocks that begin a page begin in one cache set, whatever is added to them.

void* valloc(std::size_t bytes) noexcept {
  const auto* const to = next();
  return to == nullptr ? from_bootstrap(bytes, page_bytes) : obtained(*to, to->valloc(bytes), bytes);
}

void* pvalloc(std::size_t bytes) noexcept {
  const auto* const to = next();
  return to == nullptr ? pages_from_bootstrap(bytes) : obtained(*to, to->pvalloc(bytes), bytes);
}

std::size_t malloc_usable_size(void* block) noexcept {
  if (block != nullptr && bootstrap.contains(block)) return bootstrap.bytes(block);
  const auto* const to = next();
  return to == nullptr || to->malloc_usable_size == nullptr ? 0 : to->malloc_usable_size(block);
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace espalier::preload
