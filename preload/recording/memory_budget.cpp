#include "preload/recording/memory_budget.hpp"

#include <sys/mman.h>

#include "preload/kernel/kept_errno.hpp"
#include "preload/kernel/page_bytes.hpp"

namespace espalier::preload {

void* memory_budget::map(std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() - page_bytes) return nullptr;
  bytes = rounded_up(bytes, page_bytes);
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  const std::size_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= limit && before <= limit - bytes) {
    const kept_errno keep;
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) return pages;
  }
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return nullptr;
}

void memory_budget::unmap(void* pages, std::size_t bytes) noexcept {
  if (pages == nullptr) return;
  bytes = rounded_up(bytes, page_bytes);
  const kept_errno keep;
  munmap(pages, bytes);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace espalier::preload
