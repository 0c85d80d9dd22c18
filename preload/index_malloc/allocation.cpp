// The malloc family, with glibc's behaviour where the standards leave it open, and operator new and delete on the same
// heap, also in programs whose allocator library has its own operators. Without memory, new-handlers and exceptions are
// the C++ library's task: its operator is called, which calls malloc again. Nothing here needs that library: a program
// without it does not call these.

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

#include "preload/index_malloc/process_heap.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/next/next_operator.hpp"

namespace {

using namespace espalier::preload;

constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max();

void* or_enomem(void* block) noexcept {
  if (block == nullptr) errno = ENOMEM;
  return block;
}

/// A function of its own, so that malloc needs no stack frame.
__attribute__((noinline)) void* slowly_or_enomem(std::size_t bytes) noexcept {
  return or_enomem(allocate_slowly(bytes));
}

__attribute__((noinline)) void* slowly_zeroed_or_enomem(std::size_t bytes) noexcept {
  return or_enomem(block_of_heap([=](thread_heap& heap) { return heap.allocate_zeroed(bytes); }));
}

/// Does not set errno.
void* aligned(std::size_t bytes, std::size_t align) noexcept {
  return block_of_heap([=](thread_heap& heap) { return heap.allocate_aligned(bytes, align); });
}

void* resized(void* old, std::size_t bytes) noexcept {
  if (old == nullptr) return or_enomem(allocate(bytes));
  if (bytes == 0) {
    deallocate(old);
    return nullptr;
  }
  return or_enomem(block_of_heap([=](thread_heap& heap) { return heap.resize(old, bytes); }));
}

// Blocks of the operators; null where there is no memory.
__attribute__((always_inline)) inline void* block_of(std::size_t n) noexcept { return allocate(n); }
__attribute__((always_inline)) inline void* block_of(std::size_t n, const void*) noexcept {
  return allocate(n);
}
void* block_of(std::size_t n, std::size_t align) noexcept { return aligned(n, align); }
void* block_of(std::size_t n, std::size_t align, const void*) noexcept { return aligned(n, align); }

/// A delete's further arguments do not matter.
template <class... More>
__attribute__((always_inline)) inline void deleted(void* block, More...) noexcept {
  deallocate(block);
}

/// The values saturate: the fields of the narrower structure (mallinfo) are int.
template <class Info>
Info info_of(const thread_heaps::figures& f) noexcept {
  using number = decltype(Info::arena);
  const auto as_number = [](std::size_t n) {
    constexpr std::size_t most = static_cast<std::size_t>(std::numeric_limits<number>::max());
    return static_cast<number>(n < most ? n : most);
  };
  const std::size_t of_regions = f.regions * region_bytes + f.empty_bytes;
  const std::size_t used = f.used_bytes - f.large_bytes;
  Info info{};
  info.arena = as_number(of_regions);
  info.ordblks = as_number(f.regions);
  info.hblks = as_number(f.large_blocks);
  info.hblkhd = as_number(f.large_bytes);
  info.uordblks = as_number(used);
  info.fordblks = as_number(of_regions - used);
  info.keepcost = as_number(f.empty_bytes);
  return info;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t bytes) noexcept {
  void* const block = this_heap->allocate_quickly(bytes);
  return block != nullptr ? block : slowly_or_enomem(bytes);
}

void free(void* block) noexcept { deallocate(block); }

void cfree(void* block) noexcept { deallocate(block); }

void* calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_enomem(nullptr);
  bool zeroed = false;
  void* const block = this_heap->allocate_quickly(bytes, zeroed);
  if (block == nullptr) return slowly_zeroed_or_enomem(bytes);
  return zeroed ? block : std::memset(block, 0, bytes);
}

void* realloc(void* old, std::size_t bytes) noexcept { return resized(old, bytes); }

void* reallocarray(void* old, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_enomem(nullptr);
  return resized(old, bytes);
}

int posix_memalign(void** block, std::size_t align, std::size_t bytes) noexcept {
  if (!std::has_single_bit(align) || align % sizeof(void*) != 0) return EINVAL;
  void* const got = aligned(bytes, align);
  if (got == nullptr) return ENOMEM;
  *block = got;
  return 0;
}

void* memalign(std::size_t align, std::size_t bytes) noexcept {
  if (align > most_bytes / 2 + 1) {
    errno = align > most_bytes + 1 ? EINVAL : ENOMEM;
    return nullptr;
  }
  return or_enomem(aligned(bytes, std::bit_ceil(align)));
}

void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept { return memalign(align, bytes); }

void* valloc(std::size_t bytes) noexcept { return or_enomem(aligned(bytes, page_bytes)); }

void* pvalloc(std::size_t bytes) noexcept {
  if (bytes > most_bytes - page_bytes) return or_enomem(nullptr);
  // As glibc: a request of zero bytes gets a page.
  return or_enomem(aligned(bytes == 0 ? page_bytes : rounded_up(bytes, page_bytes), page_bytes));
}

std::size_t malloc_usable_size(void* block) noexcept { return usable_bytes(process_registry, block); }

int malloc_trim(std::size_t) noexcept { return return_empty_memory() ? 1 : 0; }

int mallopt(int, int) noexcept { return 1; }

struct mallinfo mallinfo() noexcept { return info_of<struct mallinfo>(process_heaps.count()); }

#if __GLIBC_PREREQ(2, 33)
struct mallinfo2 mallinfo2() noexcept { return info_of<struct mallinfo2>(process_heaps.count()); }
#endif

void malloc_stats() noexcept { write_figures(STDERR_FILENO); }

int malloc_info(int options, FILE* to) noexcept {
  if (options != 0) return EINVAL;
  const thread_heaps::figures f = process_heaps.count();
  const std::size_t of_regions = f.regions * region_bytes;
  return fprintf(
             to,
             "<malloc version=\"1\">\n<heaps count=\"%zu\"/>\n<total type=\"rest\" count=\"%zu\" "
             "size=\"%zu\"/>\n<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n<system type=\"current\" "
             "size=\"%zu\"/>\n</malloc>\n",
             f.heaps, f.regions, of_regions - (f.used_bytes - f.large_bytes), f.large_blocks, f.large_bytes,
             of_regions + f.empty_bytes + f.large_bytes) < 0
             ? -1
             : 0;
}

// Not noexcept: bad_alloc passes through.
#define ESPALIER_NEW(label, parameters, arguments)                                      \
  void* espalier##label parameters asm(#label);                                         \
  void* espalier##label parameters {                                                    \
    if (void* const block = block_of arguments) [[likely]]                              \
      return block;                                                                     \
    return reinterpret_cast<void*(*)parameters>(next_operator_named(#label)) arguments; \
  }
#define ESPALIER_DELETE(label, parameters, arguments) \
  void espalier##label parameters asm(#label);        \
  void espalier##label parameters { deleted arguments; }

ESPALIER_OPERATORS(ESPALIER_NEW, ESPALIER_DELETE)

#undef ESPALIER_NEW
#undef ESPALIER_DELETE

}  // extern "C"
#pragma GCC visibility pop
