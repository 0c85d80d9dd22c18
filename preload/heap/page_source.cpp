#include "preload/heap/page_source.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "preload/kernel/pages.hpp"
#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

bool is_aligned(const void* pages, std::size_t align) noexcept { return (address(pages) & (align - 1)) == 0; }

void* mapped(void* near, std::size_t bytes) noexcept {
  void* const pages = mmap(near, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void* aligned(std::size_t bytes, std::size_t align, void* near) noexcept {
  void* pages = mapped(near, bytes);
  if (pages == nullptr || is_aligned(pages, align)) return pages;
  munmap(pages, bytes);
  // The kernel assigns the highest free addresses, below the program's libraries. Slightly lower ones are mostly free
  // too. Trying them avoids a temporary mapping larger than needed, which an address-space limit may forbid.
  constexpr unsigned tries = 8;
  std::uintptr_t lower = address(pages) & ~(align - 1);
  for (unsigned i = 0; i < tries && lower >= align; ++i, lower -= align) {
    pages = mapped(reinterpret_cast<void*>(lower), bytes);  // NOLINT(performance-no-int-to-ptr)
    if (pages == nullptr || is_aligned(pages, align)) return pages;
    munmap(pages, bytes);
  }
  const std::size_t more = align - page_bytes;
  if (bytes > std::numeric_limits<std::size_t>::max() - more) return nullptr;
  pages = mapped(nullptr, bytes + more);
  if (pages == nullptr) return nullptr;
  const std::size_t before = -address(pages) & (align - 1);
  auto* const begin = static_cast<std::byte*>(pages) + before;
  if (before != 0) munmap(pages, before);
  if (before != more) munmap(begin + bytes, more - before);
  return begin;
}

/// The pattern that page_source::move() writes at its destination; no other mapping contains it.
using mark = std::array<std::uintptr_t, 2>;

/// Returns false also where the system call is forbidden.
bool holds(const void* pages, const mark& expected) noexcept {
  mark there{};
  const iovec into{there.data(), sizeof there};
  const iovec out_of{const_cast<void*>(pages), sizeof there};
  return process_vm_readv(getpid(), &into, 1, &out_of, 1, 0) == static_cast<ssize_t>(sizeof there) &&
         there == expected;
}

}  // namespace

bool page_source::count(std::size_t bytes) noexcept {
  // relaxed throughout: figures and a switch that guard no data.
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  const std::size_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= limit && before <= limit - bytes) return true;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void* page_source::map(std::size_t bytes, std::size_t align, void* near) noexcept {
  const saved_errno keep;
  if (!count(bytes)) return nullptr;
  void* const pages = aligned(bytes, align, near);
  if (pages == nullptr) bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return pages;
}

bool page_source::grow(void* pages, std::size_t bytes, std::size_t to_bytes) noexcept {
  const saved_errno keep;
  if (!count(to_bytes - bytes)) return false;
  if (mremap(pages, bytes, to_bytes, 0) != MAP_FAILED) return true;
  bytes_.fetch_sub(to_bytes - bytes, std::memory_order_relaxed);
  return false;
}

bool page_source::move(void* from, std::size_t bytes, void* to, std::size_t to_bytes) noexcept {
  const saved_errno keep;
  // The kernel may refuse before or after it unmaps the pages at `to`. If after, another thread may have
  // mapped something there, which must stay.
  const mark ours{~address(to), address(from)};
  std::memcpy(to, &ours, sizeof ours);
  if (mremap(from, bytes, to_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return true;
  }
  if (holds(to, ours)) munmap(to, to_bytes);
  bytes_.fetch_sub(to_bytes, std::memory_order_relaxed);
  return false;
}

page_source::transferred page_source::transfer(void* from, void* to, std::size_t bytes) noexcept {
#if defined(MREMAP_DONTUNMAP)
  if (!transfers_.load(std::memory_order_relaxed)) return transferred::refused;
  const saved_errno keep;
  // A move would unlock the whole mapping that contains the pages, other blocks included, and the pages would
  // arrive unlocked. MADV_DONTNEED fails on locked pages and so detects them.
  if (madvise(from, page_bytes, MADV_DONTNEED) != 0 || madvise(to, page_bytes, MADV_DONTNEED) != 0) {
    transfers_.store(false, std::memory_order_relaxed);
    return transferred::refused;
  }
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != MAP_FAILED)
    return transferred::done;
  transfers_.store(false, std::memory_order_relaxed);
  // The kernel rejects unknown flags before it changes anything. After any other error the pages at `to` may
  // be unmapped.
  if (errno == EINVAL) return transferred::refused;
  void* const again =
      mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (again == to) return transferred::refused;
  if (again != MAP_FAILED) munmap(again, bytes);
  return transferred::lost;
#else
  static_cast<void>(from);
  static_cast<void>(to);
  static_cast<void>(bytes);
  return transferred::refused;
#endif
}

bool page_source::unmap(void* pages, std::size_t bytes) noexcept {
  const saved_errno keep;
  if (munmap(pages, bytes) != 0) return false;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return true;
}

bool page_source::discard(void* pages, std::size_t bytes) noexcept {
  const saved_errno keep;
  return madvise(pages, bytes, MADV_DONTNEED) == 0;
}

void page_source::touch(void* pages, std::size_t bytes) noexcept {
  const saved_errno keep;
#if defined(MADV_POPULATE_WRITE)
  if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  auto* const begin = static_cast<volatile unsigned char*>(pages);
  for (std::size_t at = 0; at < bytes; at += page_bytes) begin[at] = begin[at];
}

void page_source::advise_huge(void* pages, std::size_t bytes) noexcept {
  const saved_errno keep;
  madvise(pages, bytes, MADV_HUGEPAGE);
}

}  // namespace espalier::preload
