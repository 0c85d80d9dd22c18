#include "espalier/reclaim/epoch.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <new>
#include <utility>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

/// Entries of a thread, with room for them behind it. Most bags have two KiB: one advance (a system call with interrupts)
/// per bag. Where a guard has kept many of them waiting, the next ones are pages of their own, which return to the OS at
/// once when the guard has ended.
struct epoch_domain::bag {
  bag* next = nullptr;
  std::uint64_t epoch = 0;  // the largest stamp of its entries
  std::size_t count = 0;
  hw::page_run pages;  // none in a small one
  std::size_t capacity;

  static constexpr std::size_t small_bytes = std::size_t{2} << 10U;
  static constexpr std::size_t large_bytes = std::size_t{1} << 20U;
  /// A bag is sealed early when its entries free so much.
  static constexpr std::size_t heavy_bytes = std::size_t{64} << 10U;
  /// So many sealed bags of a thread wait before the next one is large.
  static constexpr std::size_t many = 64;

  [[nodiscard]] static bag* make(bool large) {
    if (large) {
      hw::page_run pages = hw::map_pages(large_bytes);
      void* const room = pages.data();
      return ::new (room) bag(std::move(pages), large_bytes);
    }
    return ::new (::operator new(small_bytes)) bag({}, small_bytes);
  }
  static void destroy(bag* b) noexcept {
    const hw::page_run own = std::move(b->pages);
    b->~bag();
    if (own.data() == nullptr) ::operator delete(b, small_bytes);
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    return is_large() ? large_bytes : hw::heap_bytes(small_bytes, alignof(bag));
  }
  [[nodiscard]] bool is_large() const noexcept { return pages.data() != nullptr; }
  [[nodiscard]] std::size_t room() const noexcept { return capacity - count; }
  [[nodiscard]] retired* entries() noexcept { return std::launder(reinterpret_cast<retired*>(this + 1)); }
  void add(const retired& entry) noexcept { ::new (static_cast<void*>(entries() + count++)) retired(entry); }

  void reclaim_all() noexcept {
    for (std::size_t i = 0; i < count; ++i) entries()[i].reclaim(entries()[i]);
    count = 0;
  }

  /// Reclaims the entries of one owner and closes the gaps.
  std::size_t purge(const void* owner) noexcept {
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

 private:
  bag(hw::page_run own, std::size_t bytes) noexcept
      : pages(std::move(own)), capacity((bytes - sizeof(bag)) / sizeof(retired)) {}
};

epoch_domain::record::~record() {
  // relaxed: no other thread uses a domain that is being destroyed.
  assert(announced.load(std::memory_order_relaxed) == 0 && "a thread is pinned in a domain that dies");
  if (current != nullptr) bag::destroy(current);
  for (bag* const first : {spares, sealed_first}) {
    for (bag* b = first; b != nullptr;) bag::destroy(std::exchange(b, b->next));
  }
}

void epoch_domain::record::recover_in_child(bool lost) noexcept {
  // relaxed: the child has one thread.
  if (lost && depth != 0) depth = 0;
  if (lost && announced.load(std::memory_order_relaxed) != 0) announced.store(0, std::memory_order_relaxed);
  if (!lock.is_locked()) return;
  // A lost thread was changing these bags: it is unknown which of their entries are reclaimed.
  sealed_first = nullptr;
  sealed_last = nullptr;
  sealed_count = 0;
  if (lost) {
    current = nullptr;
    spares = nullptr;
  } else {
    // Other threads only empty the current bag and only add a first spare one. So the room that this thread may have
    // reserved before the fork is still there. order (8): recover_in_child, fork
    if (current != nullptr) current->count = 0;
  }
  // relaxed: as above.
  retired.store(reclaimed.load(std::memory_order_relaxed), std::memory_order_relaxed);
  lock.unlock();
}

epoch_domain::~epoch_domain() {
  records_.for_each([](std::uint32_t, record& r) {
    if (r.current != nullptr) r.current->reclaim_all();
    for (bag* b = r.sealed_first; b != nullptr; b = b->next) b->reclaim_all();
  });
}

std::size_t epoch_domain::bytes() const noexcept {
  std::size_t sum = hw::heap_bytes<epoch_domain>() + records_.bytes();
  records_.for_each([&sum](std::uint32_t, record& r) {
    const lock_guard hold(r.lock);
    if (r.current != nullptr) sum += r.current->bytes();
    for (const bag* const first : {r.sealed_first, r.spares}) {
      for (const bag* b = first; b != nullptr; b = b->next) sum += b->bytes();
    }
  });
  return sum;
}

void epoch_domain::reserve(record& r, std::size_t n) {
  if (r.current_frees >= bag::heavy_bytes) [[unlikely]]  // written by this thread alone
    seal_if_heavy(r);
  const lock_guard hold(r.lock);
  const auto fresh_bag = [&r] { return bag::make(r.sealed_count >= bag::many); };
  if (r.current == nullptr) [[unlikely]]
    r.current = fresh_bag();
  std::size_t room = r.current->room();
  for (const bag* b = r.spares; room < n && b != nullptr; b = b->next) room += b->capacity;
  while (room < n) {
    bag* const fresh = fresh_bag();
    fresh->next = r.spares;
    r.spares = fresh;
    room += fresh->capacity;
  }
}

/// Seals a bag before it is full, since its entries have much memory. Another one replaces it first: what was reserved stays
/// so.
void epoch_domain::seal_if_heavy(record& r) {
  {
    const lock_guard hold(r.lock);
    r.current_frees = 0;
    if (r.current == nullptr || r.current->count == 0 || r.current->is_large()) return;
    bag* const fresh = bag::make(r.sealed_count >= bag::many);
    fresh->next = r.spares;
    r.spares = fresh;
    seal(r);
  }
  advance_and_collect(r);
}

void epoch_domain::seal(record& r) noexcept {
  r.current_frees = 0;
  bag* const full = r.current;
  full->next = nullptr;
  (r.sealed_last != nullptr ? r.sealed_last->next : r.sealed_first) = full;
  r.sealed_last = full;
  ++r.sealed_count;
  r.current = r.spares;
  if (r.spares != nullptr) r.spares = std::exchange(r.spares->next, nullptr);
}

void epoch_domain::retire(record& r, const retired& entry, std::size_t bytes) noexcept {
  bool is_due = false;
  {
    const lock_guard hold(r.lock);
    if (r.current->room() == 0) {
      seal(r);
      is_due = true;
    }
    bag& b = *r.current;
    // This thread is pinned. Later entries of a bag never have a smaller stamp. relaxed: only this thread writes its
    // announcement, and `retired` changes only under the lock.
    b.epoch = r.announced.load(std::memory_order_relaxed) >> 1U;
    r.retired.store(r.retired.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    b.add(entry);
    r.current_frees += static_cast<std::uint32_t>(std::min(bytes, bag::heavy_bytes));
    if (b.count % bag::many == 0 && b.is_large()) is_due = true;
  }
  if (is_due) advance_and_collect(r);
}

void epoch_domain::advance_and_collect(record& r) noexcept {
  try_advance();
  collect_record(r, epoch_.load(std::memory_order_acquire));  // order (4): collect, acquire
  adopt_one(r);
}

bool epoch_domain::try_advance() noexcept {
  // E is read before the fence: if the scan below misses a pin, its thread then reads an E at least as new, and is
  // at most one epoch behind after the advance.
  // order (5): advance, acquire; order (1): scan, heavy
  std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  hw::fence_heavy();
  bool all_current = true;
  records_.for_each([&](std::uint32_t, const record& r) {
    // order (2): scan, acquire
    const std::uint64_t announced = r.announced.load(std::memory_order_acquire);
    if (announced != 0 && announced >> 1U != epoch) all_current = false;
  });
  if (!all_current) {
    // relaxed: a count for statistics().
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // order (3), (4), (5), (6): advance, acq_rel. relaxed at a failure: another thread has advanced, which is as good,
  // and the value is not used. refusals_ is relaxed because it only counts.
  if (epoch_.compare_exchange_strong(epoch, epoch + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
    refusals_.store(0, std::memory_order_relaxed);
  return true;
}

void epoch_domain::collect_record(record& r, std::uint64_t epoch) noexcept {
  const lock_guard hold(r.lock);
  while (r.sealed_first != nullptr && epoch >= r.sealed_first->epoch + 3) {
    bag* const b = r.sealed_first;
    r.sealed_first = b->next;
    if (r.sealed_first == nullptr) r.sealed_last = nullptr;
    --r.sealed_count;
    // order (7): count_reclaimed, relaxed: written under the lock, read without it.
    r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + b->count, std::memory_order_relaxed);
    // Under the lock: purge() relies on it that no entry of its owner is still being reclaimed.
    b->reclaim_all();
    if (r.spares == nullptr && !b->is_large()) {
      b->next = nullptr;
      std::atomic_signal_fence(  // order (8): keep_spare, release
          std::memory_order_release);
      r.spares = b;
    } else {
      bag::destroy(b);
    }
  }
}

void epoch_domain::adopt_one(record& mine) noexcept {
  const std::uint32_t used = hw::thread_slots_used();
  const std::uint32_t slot = ++mine.adopt_next % used;
  record* const other = records_.at(slot);
  // order (4): collect, acquire
  if (other != nullptr && other != &mine) collect_record(*other, epoch_.load(std::memory_order_acquire));
}

void epoch_domain::purge(void* owner) noexcept {
  records_.for_each([owner](std::uint32_t, record& r) {
    const lock_guard hold(r.lock);
    std::size_t purged = r.current != nullptr ? r.current->purge(owner) : 0;
    for (bag* b = r.sealed_first; b != nullptr; b = b->next) purged += b->purge(owner);
    // order (7): count_reclaimed, relaxed
    r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + purged, std::memory_order_relaxed);
  });
}

std::size_t epoch_domain::collect() noexcept {
  for (int i = 0; i < 3; ++i) {
    if (!try_advance()) break;
  }
  // order (4): collect, acquire
  const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  std::size_t waiting = 0;
  records_.for_each([&](std::uint32_t, record& r) {
    collect_record(r, epoch);
    const lock_guard hold(r.lock);
    if (r.current != nullptr && r.current->count != 0 && epoch >= r.current->epoch + 3) {
      // order (7): count_reclaimed, relaxed
      r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + r.current->count,
                        std::memory_order_relaxed);
      r.current->reclaim_all();
    }
    if (r.current != nullptr) waiting += r.current->count;
    for (const bag* b = r.sealed_first; b != nullptr; b = b->next) waiting += b->count;
  });
  return waiting;
}

epoch_domain::counters epoch_domain::statistics() const noexcept {
  // order (6): statistics, acquire
  counters sum{epoch_.load(std::memory_order_acquire), 0, 0, 0, std::nullopt};
  records_.for_each([&](std::uint32_t slot, const record& r) {
    // order (7): statistics, acquire: reclaimed first, so that the difference is not negative where stores become
    // visible to all other processors at once (x86-64, ARM64). relaxed: the other words are only reported.
    sum.reclaimed += r.reclaimed.load(std::memory_order_acquire);
    sum.retired += r.retired.load(std::memory_order_relaxed);
    const std::uint64_t announced = r.announced.load(std::memory_order_relaxed);
    if (announced == 0) return;
    ++sum.pinned_threads;
    const std::uint64_t epoch = announced >> 1U;
    const std::uint64_t lag = sum.epoch > epoch ? sum.epoch - epoch : 0;
    if (!sum.oldest || lag > sum.oldest->lag) {
      // relaxed: only reported.
      sum.oldest = stall{slot, hw::thread_slot_owner(slot), lag, refusals_.load(std::memory_order_relaxed)};
    }
  });
  return sum;
}

#if defined(ESPALIER_ADDRESS_SANITIZER)
const char espalier_needs_map_source_with_address_sanitizer = 0;
#elif defined(ESPALIER_THREAD_SANITIZER)
const char espalier_needs_map_source_with_thread_sanitizer = 0;
#endif
#if defined(_LIBCPP_VERSION)
const char espalier_needs_map_source_with_libcxx = 0;
#endif

}  // namespace espalier
