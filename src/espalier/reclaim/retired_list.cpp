#include "espalier/reclaim/retired_list.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier {

retired_list::bag::bag(hw::page_run own, std::size_t bytes) noexcept
    : pages(std::move(own)), capacity((bytes - sizeof(bag)) / sizeof(retired)) {}

retired_list::bag* retired_list::bag::make(bool large) {
  if (large) {
    hw::page_run pages = hw::map_pages(large_bytes);
    void* const room = pages.data();
    return ::new (room) bag(std::move(pages), large_bytes);
  }
  return ::new (::operator new(small_bytes)) bag({}, small_bytes);
}

void retired_list::bag::destroy(bag* b) noexcept {
  const hw::page_run own = std::move(b->pages);
  b->~bag();
  if (own.data() == nullptr) ::operator delete(b, small_bytes);
}

std::size_t retired_list::bag::bytes() const noexcept {
  return is_large() ? large_bytes : hw::heap_bytes(small_bytes, alignof(bag));
}

void retired_list::bag::reclaim_all() noexcept {
  for (std::size_t i = 0; i < count; ++i) entries()[i].reclaim(entries()[i]);
  count = 0;
}

std::size_t retired_list::bag::purge(const void* owner) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (entries()[i].owner == owner)
      entries()[i].reclaim(entries()[i]);
    else
      entries()[kept++] = entries()[i];
  }
  const std::size_t purged = count - kept;
  count = kept;
  return purged;
}

retired_list::~retired_list() {
  if (current_ != nullptr) bag::destroy(current_);
  for (bag* const first : {spares_, sealed_first_}) {
    for (bag* b = first; b != nullptr;) bag::destroy(std::exchange(b, b->next));
  }
}

void retired_list::recover_in_child(bool lost) noexcept {
  if (!lock_.is_locked()) return;
  // A lost thread was changing these bags: it is unknown which of their entries are reclaimed.
  sealed_first_ = nullptr;
  sealed_last_ = nullptr;
  sealed_count_ = 0;
  if (lost) {
    room_ = 0;
    current_ = nullptr;
    spares_ = nullptr;
  } else {
    // Other threads only empty the current bag and only add a first spare one. So the room that this thread may have
    // reserved before the fork is still there. order (2): recover_in_child, fork
    if (current_ != nullptr) current_->count = 0;
  }
  // relaxed: the child has one thread.
  retired_.store(reclaimed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  lock_.unlock();
}

std::size_t retired_list::bytes() noexcept {
  const lock_guard hold(lock_);
  std::size_t sum = current_ != nullptr ? current_->bytes() : 0;
  for (const bag* const first : {sealed_first_, spares_}) {
    for (const bag* b = first; b != nullptr; b = b->next) sum += b->bytes();
  }
  return sum;
}

bool retired_list::reserve_more(std::size_t n) {
  const bool has_sealed = current_frees_ >= bag::heavy_bytes && seal_if_heavy();
  const lock_guard hold(lock_);
  if (current_ == nullptr) [[unlikely]]
    current_ = fresh_bag();
  std::size_t room = current_->room();
  for (const bag* b = spares_; room < n && b != nullptr; b = b->next) room += b->capacity;
  while (room < n) {
    bag* const fresh = fresh_bag();
    fresh->next = spares_;
    spares_ = fresh;
    room += fresh->capacity;
  }
  room_ = static_cast<std::uint32_t>(std::min<std::size_t>(room, std::numeric_limits<std::uint32_t>::max()));
  return has_sealed;
}

/// Seals a bag before it is full, since its entries have much memory. Another one replaces it first: what was reserved stays
/// so.
bool retired_list::seal_if_heavy() {
  const lock_guard hold(lock_);
  current_frees_ = 0;
  if (current_ == nullptr || current_->count == 0 || current_->is_large()) return false;
  bag* const fresh = fresh_bag();
  fresh->next = spares_;
  spares_ = fresh;
  seal();
  return true;
}

void retired_list::seal() noexcept {
  current_frees_ = 0;
  bag* const full = current_;
  full->next = nullptr;
  (sealed_last_ != nullptr ? sealed_last_->next : sealed_first_) = full;
  sealed_last_ = full;
  ++sealed_count_;
  current_ = spares_;
  if (spares_ != nullptr) spares_ = std::exchange(spares_->next, nullptr);
}

bool retired_list::retire(const retired& entry, std::size_t bytes, std::uint64_t stamp) noexcept {
  bool is_due = false;
  const lock_guard hold(lock_);
  if (current_->room() == 0) {
    seal();
    is_due = true;
  }
  bag& b = *current_;
  b.stamp = stamp;
  // relaxed: `retired_` changes only under the lock.
  retired_.store(retired_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  b.add(entry);
  --room_;
  current_frees_ += static_cast<std::uint32_t>(std::min(bytes, bag::heavy_bytes));
  return is_due || (b.count % bag::many == 0 && b.is_large());
}

void retired_list::reclaim(bag& b) noexcept {
  // order (1): count_reclaimed, relaxed: written under the lock, read without it.
  reclaimed_.store(reclaimed_.load(std::memory_order_relaxed) + b.count, std::memory_order_relaxed);
  // Under the lock: purge() relies on it that no entry of its owner is still being reclaimed.
  b.reclaim_all();
}

void retired_list::collect(std::uint64_t now, std::uint64_t grace) noexcept {
  const lock_guard hold(lock_);
  while (sealed_first_ != nullptr && now >= sealed_first_->stamp + grace) {
    bag* const b = sealed_first_;
    sealed_first_ = b->next;
    if (sealed_first_ == nullptr) sealed_last_ = nullptr;
    --sealed_count_;
    reclaim(*b);
    if (spares_ == nullptr && !b->is_large()) {
      b->next = nullptr;
      std::atomic_signal_fence(  // order (2): keep_spare, release
          std::memory_order_release);
      spares_ = b;
    } else {
      bag::destroy(b);
    }
  }
}

void retired_list::purge(const void* owner) noexcept {
  const lock_guard hold(lock_);
  std::size_t purged = current_ != nullptr ? current_->purge(owner) : 0;
  for (bag* b = sealed_first_; b != nullptr; b = b->next) purged += b->purge(owner);
  // order (1): count_reclaimed, relaxed
  reclaimed_.store(reclaimed_.load(std::memory_order_relaxed) + purged, std::memory_order_relaxed);
}

void retired_list::reclaim_all() noexcept {
  if (current_ != nullptr) current_->reclaim_all();
  for (bag* b = sealed_first_; b != nullptr; b = b->next) b->reclaim_all();
}

retired_list::counts retired_list::counted() const noexcept {
  // order (1): counts, acquire: reclaimed first, so that the difference is not negative where stores become visible to all
  // other processors at once (x86-64, ARM64).
  const std::uint64_t reclaimed = reclaimed_.load(std::memory_order_acquire);
  // relaxed: only reported.
  return {retired_.load(std::memory_order_relaxed), reclaimed};
}

}  // namespace espalier
