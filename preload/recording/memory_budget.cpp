#include "preload/recording/memory_budget.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace espalier::preload {
namespace {

constexpr std::size_t page = 4096;

constexpr std::size_t whole_pages(std::size_t bytes) noexcept { return (bytes + page - 1) & ~(page - 1); }

}  // namespace

void* memory_budget::map(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() - page) return nullptr;
  bytes = whole_pages(bytes);
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  const std::size_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= limit && before <= limit - bytes) {
    const int kept = errno;
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = kept;
    if (pages != MAP_FAILED) return pages;
  }
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return nullptr;
}

void memory_budget::unmap(void* pages, std::size_t bytes) noexcept {
  if (pages == nullptr) return;
  const int kept = errno;
  munmap(pages, whole_pages(bytes));
  errno = kept;
  bytes_.fetch_sub(whole_pages(bytes), std::memory_order_relaxed);
}

}  // namespace espalier::preload
