#include "espalier/memory/parts/live_blocks.hpp"

#include <atomic>
#include <bit>
#include <cassert>
#include <memory>
#include <new>

namespace espalier {

live_blocks::live_blocks() : records_(sizeof(record)) {}

std::uint64_t live_blocks::hash(const void* memory) noexcept {
  // Fibonacci hashing: the high bits, which depend on every bit of the address, choose the shard. Folded down, they
  // choose the bucket as well.
  const std::uint64_t spread = std::bit_cast<std::uintptr_t>(memory) * 0x9E3779B97F4A7C15U;
  return spread ^ (spread >> 29U);
}

void live_blocks::insert(record* room, void* memory, const block& asked) noexcept {
  const std::uint64_t hashed = hash(memory);
  shard& s = shard_of(hashed);
  const lock_guard hold(s.lock);
  if (s.blocks >= s.buckets) grow(s);
  record*& head = s.table[bucket_of(s, hashed)];
  ::new (room)
      record{head, memory, asked.bytes, static_cast<std::uint8_t>(std::countr_zero(asked.align)), asked.role};
  // order (1): insert, release
  std::atomic_signal_fence(std::memory_order_release);
  head = room;
  ++s.blocks;
}

void live_blocks::remove(void* memory) noexcept {
  const std::uint64_t hashed = hash(memory);
  shard& s = shard_of(hashed);
  record* found = nullptr;
  {
    const lock_guard hold(s.lock);
    record** link = &s.table[bucket_of(s, hashed)];
    while (*link != nullptr && (*link)->memory != memory) link = &(*link)->next;
    found = *link;
    assert((found != nullptr || s.has_lost) && "the freed block is not in use");
    if (found == nullptr) return;
    *link = found->next;
    --s.blocks;
  }
  records_.deallocate(found);
}

void live_blocks::grow(shard& s) noexcept {
  hw::page_run pages;
  try {
    // Rounded up to whole pages, so still a power of two.
    pages = hw::map_pages(s.buckets * 2 * sizeof(record*));
  } catch (const std::bad_alloc&) {
    return;
  }
  auto** const table = reinterpret_cast<record**>(pages.data());
  const std::size_t buckets = pages.size() / sizeof(record*);
  // order (2): grow, seq_cst
  s.grows = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < s.buckets; ++i) {
    while (s.table[i] != nullptr) {
      record* const moved = s.table[i];
      s.table[i] = moved->next;
      record*& head = table[hash(moved->memory) & (buckets - 1)];
      moved->next = head;
      head = moved;
    }
  }
  s.table = table;
  s.buckets = buckets;
  s.pages = std::move(pages);
  // order (2): grow, seq_cst
  std::atomic_signal_fence(std::memory_order_seq_cst);
  s.grows = false;
}

void live_blocks::recover_in_child() noexcept {
  for (shard& s : shards_) {
    if (!s.lock.is_locked()) continue;
    // order (2): recover_in_child, fork
    if (s.grows) {
      std::construct_at(&s.pages);  // the pages are leaked: the table may be the old or the new one
      s.first = {};
      s.table = s.first.data();
      s.buckets = first_buckets;
      s.grows = false;
      s.has_lost = true;
    }
    s.blocks = 0;
    // order (1): recover_in_child, fork
    for (std::size_t i = 0; i < s.buckets; ++i) {
      for (const record* r = s.table[i]; r != nullptr; r = r->next) ++s.blocks;
    }
    s.lock.unlock();
  }
}

std::uint64_t live_blocks::bytes() const noexcept {
  std::uint64_t sum = records_.usage().bytes_reserved;
  for (const shard& s : shards_) {
    const lock_guard hold(s.lock);
    sum += s.pages.size();
  }
  return sum;
}

}  // namespace espalier
