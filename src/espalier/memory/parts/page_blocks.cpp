#include "espalier/memory/parts/page_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <limits>
#include <new>
#include <utility>

#include "espalier/memory/parts/size_class.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

page_blocks::~page_blocks() {
  while (blocks_ != nullptr) {
    // The header lies in the pages that it owns.
    const hw::page_run pages = std::move(blocks_->pages);
    blocks_ = blocks_->after;
  }
}

void* page_blocks::allocate(std::size_t bytes, std::size_t align, std::size_t offset) {
  assert(offset < front_align_ / 2);
  if (align > front_align_ / 2) throw std::bad_alloc();
  const std::size_t begin =
      size_class::round_up(std::max(offset, hw::cache_line_bytes + sizeof(header)), align);
  if (bytes > std::numeric_limits<std::size_t>::max() / 2 - begin - front_align_) throw std::bad_alloc();
  hw::page_options options;
  options.numa_node = numa_node_;
  options.huge = huge_ && bytes >= hw::huge_page_size();
  hw::page_run pages = hw::map_pages(begin + bytes + front_align_, options);
  // The bytes before that line and behind the block are never touched.
  const auto address = std::bit_cast<std::uintptr_t>(pages.data());
  std::byte* const place = pages.data() + (-address & (front_align_ - 1));
  const std::size_t held = size_class::round_up(bytes, hw::cache_line_bytes);
  const std::size_t reserved = hw::whole_pages(begin + held);
  // The end of the block shares a huge page with nothing: it has ordinary ones.
  if (options.huge) {
    const auto whole = (begin + held) & ~(hw::huge_page_size() - 1);
    pages.refuse_huge(static_cast<std::size_t>(place - pages.data()) + whole);
  }
  auto* const fresh =
      ::new (place + hw::cache_line_bytes) header{std::move(pages), held, reserved, nullptr, nullptr};

  const lock_guard hold(lock_);
  fresh->after = blocks_;
  if (blocks_ != nullptr) blocks_->before = fresh;
  // order (1): link, release
  std::atomic_signal_fence(std::memory_order_release);
  blocks_ = fresh;
  usage_ += {1, held, reserved};
  return place + begin;
}

void page_blocks::deallocate(void* memory) noexcept {
  header* const h = header_of(memory);
  hw::page_run pages;
  {
    const lock_guard hold(lock_);
    (h->before == nullptr ? blocks_ : h->before->after) = h->after;
    if (h->after != nullptr) h->after->before = h->before;
    std::atomic_signal_fence(  // order (2): unlink, release
        std::memory_order_release);
    --usage_.blocks;
    usage_.bytes_in_use -= h->block_bytes;
    usage_.bytes_reserved -= h->reserved_bytes;
    pages = std::move(h->pages);
  }
}

void page_blocks::recover_in_child() noexcept {
  if (!lock_.is_locked()) return;
  // Forwards the list is whole: one store links or unlinks a block. The links back, and the sums, may lag.
  // order (1), (2): recover_in_child, fork
  usage_ = {};
  header* before = nullptr;
  for (header* h = blocks_; h != nullptr; before = h, h = h->after) {
    h->before = before;
    usage_ += {1, h->block_bytes, h->reserved_bytes};
  }
  lock_.unlock();
}

std::size_t page_blocks::block_bytes(const void* memory) const noexcept {
  return header_of(memory)->block_bytes;
}

memory_usage page_blocks::usage() const noexcept {
  const lock_guard hold(lock_);
  return usage_;
}

}  // namespace espalier
