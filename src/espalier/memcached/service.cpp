#include "espalier/memcached/service.hpp"

namespace espalier::memcached {

std::uint64_t service::tick() noexcept {
  const std::uint64_t left = clock_.advance();
  // relaxed: the cache orders its flush
  std::uint32_t due = flush_due_.load(std::memory_order_relaxed);
  if (due != 0 && due <= clock_.now() &&
      flush_due_.compare_exchange_strong(due, 0, std::memory_order_relaxed))
    cache_.flush();
  // A minute for a gigabyte, and at most 16 MiB of memory to walk at once.
  cache_.reclaim_ended(64);
  return left;
}

void service::flush(std::int64_t delay) noexcept {
  const std::uint32_t now = clock_.now();
  const std::uint32_t due = delay > 0 ? clock_.end_after(delay) - 1 : now;
  flush_due_.store(due > now ? due : 0, std::memory_order_relaxed);  // relaxed: the cache orders its flush
  if (due != 0 && due <= now) cache_.flush();
}

}  // namespace espalier::memcached
