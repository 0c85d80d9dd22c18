#include "preload/heap/page_source.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "preload/kernel/kept_errno.hpp"
#include "preload/kernel/page_bytes.hpp"

namespace espalier::preload {
namespace {

constexpr int readable = PROT_READ | PROT_WRITE;

std::uintptr_t address(const void* pages) noexcept { return reinterpret_cast<std::uintptr_t>(pages); }

bool is_aligned(const void* pages, std::size_t align) noexcept { return (address(pages) & (align - 1)) == 0; }

void* mapped(void* near, std::size_t bytes, int access) noexcept {
  void* const pages = mmap(near, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void* aligned(std::size_t bytes, std::size_t align, int access, void* near) noexcept {
  void* pages = mapped(near, bytes, access);
  if (pages == nullptr || is_aligned(pages, align)) return pages;
  munmap(pages, bytes);
  // The kernel gives the highest addresses that it has: a little lower it has them too, mostly, and then no more need
  // be had for a while than is wanted, which a limit of addresses may forbid. Below the program's libraries, that is.
  constexpr unsigned tries = 8;
  std::uintptr_t lower = address(pages) & ~(align - 1);
  for (unsigned i = 0; i < tries && lower >= align; ++i, lower -= align) {
    pages = mapped(reinterpret_cast<void*>(lower), bytes, access);  // NOLINT(performance-no-int-to-ptr)
    if (pages == nullptr || is_aligned(pages, align)) return pages;
    munmap(pages, bytes);
  }
  const std::size_t more = align - page_bytes;
  if (bytes > std::numeric_limits<std::size_t>::max() - more) return nullptr;
  pages = mapped(nullptr, bytes + more, access);
  if (pages == nullptr) return nullptr;
  const std::size_t before = -address(pages) & (align - 1);
  auto* const begin = static_cast<std::byte*>(pages) + before;
  if (before != 0) munmap(pages, before);
  if (before != more) munmap(begin + bytes, more - before);
  return begin;
}

}  // namespace

void* page_source::take(std::size_t bytes, std::size_t align, int access, void* near) noexcept {
  const kept_errno keep;
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  const std::size_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= limit && before <= limit - bytes) {
    if (void* const pages = aligned(bytes, align, access, near)) return pages;
  }
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return nullptr;
}

void* page_source::map(std::size_t bytes, std::size_t align, void* near) noexcept {
  return take(bytes, align, readable, near);
}

void* page_source::reserve(std::size_t bytes, std::size_t align) noexcept {
  return take(bytes, align, PROT_NONE, nullptr);
}

bool page_source::make_usable(void* pages, std::size_t bytes) noexcept {
  const kept_errno keep;
  return mprotect(pages, bytes, readable) == 0;
}

bool page_source::move(void* from, std::size_t bytes, void* to, std::size_t to_bytes) noexcept {
  const kept_errno keep;
  return mremap(from, bytes, to_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

void page_source::unmap(void* pages, std::size_t bytes) noexcept {
  const kept_errno keep;
  munmap(pages, bytes);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void page_source::discard(void* pages, std::size_t bytes) noexcept {
  const kept_errno keep;
  madvise(pages, bytes, MADV_DONTNEED);
}

void page_source::touch(void* pages, std::size_t bytes) noexcept {
  const kept_errno keep;
#if defined(MADV_POPULATE_WRITE)
  if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  auto* const begin = static_cast<volatile unsigned char*>(pages);
  for (std::size_t at = 0; at < bytes; at += page_bytes) begin[at] = begin[at];
}

void page_source::advise_huge(void* pages, std::size_t bytes) noexcept {
  const kept_errno keep;
  madvise(pages, bytes, MADV_HUGEPAGE);
}

}  // namespace espalier::preload
