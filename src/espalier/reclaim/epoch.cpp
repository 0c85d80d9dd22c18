#include "espalier/reclaim/epoch.hpp"

#include <array>
#include <cassert>
#include <memory>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

struct epoch_domain::bag {
  // With the three words before it, two KiB: one advance (a system call with interrupts) per bag.
  static constexpr std::size_t capacity = 63;

  bag* next = nullptr;
  std::uint64_t epoch = 0;  // the largest stamp of its entries
  std::size_t count = 0;
  std::array<retired, capacity> entries;

  [[nodiscard]] std::size_t room() const noexcept { return capacity - count; }

  void give_back() noexcept {
    for (std::size_t i = 0; i < count; ++i) entries[i].reclaim(entries[i]);
    count = 0;
  }

  /// Gives back the entries of one owner and closes the gaps.
  std::size_t purge(const void* owner) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (entries[i].owner == owner)
        entries[i].reclaim(entries[i]);
      else
        entries[kept++] = entries[i];
    }
    const std::size_t purged = count - kept;
    count = kept;
    return purged;
  }
};

epoch_domain::record::~record() {
  assert(announced.load(std::memory_order_relaxed) == 0 && "a thread is pinned in a domain that dies");
  delete current;
  delete spare;
  while (sealed_first != nullptr) {
    bag* const b = sealed_first;
    sealed_first = b->next;
    delete b;
  }
}

void epoch_domain::record::recover_in_child(bool lost) noexcept {
  if (lost && depth != 0) depth = 0;
  if (lost && announced.load(std::memory_order_relaxed) != 0) announced.store(0, std::memory_order_relaxed);
  if (!lock.is_locked()) return;
  // A lost thread was in these bags: of each entry it is unknown whether it has been given back.
  sealed_first = nullptr;
  sealed_last = nullptr;
  if (lost) {
    current = nullptr;
    spare = nullptr;
  } else {
    // Others only empty the current bag and only add a spare one: the room is still there that this thread may have
    // reserved before it forked.
    if (current != nullptr) current->count = 0;
    if (spare != nullptr) spare->count = 0;
  }
  retired.store(reclaimed.load(std::memory_order_relaxed), std::memory_order_relaxed);
  lock.unlock();
}

epoch_domain::~epoch_domain() {
  records_.for_each([](std::uint32_t, record& r) {
    if (r.current != nullptr) r.current->give_back();
    for (bag* b = r.sealed_first; b != nullptr; b = b->next) b->give_back();
  });
}

void epoch_domain::reserve(record& r, std::size_t n) {
  assert(n <= max_reserve && max_reserve <= bag::capacity);
  const lock_guard hold(r.lock);
  if (r.current == nullptr) r.current = new bag;
  if (r.current->room() < n && r.spare == nullptr) r.spare = new bag;
}

void epoch_domain::seal(record& r) noexcept {
  bag* const full = r.current;
  full->next = nullptr;
  (r.sealed_last != nullptr ? r.sealed_last->next : r.sealed_first) = full;
  r.sealed_last = full;
  r.current = r.spare;
  r.spare = nullptr;
}

void epoch_domain::retire(record& r, const retired& entry) noexcept {
  bool was_sealed = false;
  {
    const lock_guard hold(r.lock);
    if (r.current->room() == 0) {
      seal(r);
      was_sealed = true;
    }
    bag& b = *r.current;
    // The record's own announcement: this thread is pinned. Later entries of a bag never have a smaller one.
    b.epoch = r.announced.load(std::memory_order_relaxed) >> 1U;
    b.entries[b.count++] = entry;
    r.retired.store(r.retired.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  if (!was_sealed) return;
  try_advance();
  collect_record(r, epoch_.load(std::memory_order_acquire));
  adopt_one(r);
}

bool epoch_domain::try_advance() noexcept {
  // E is read before the fence: a thread which pins without being seen by the scan below then reads an E at
  // least as new, and is at most one epoch behind after the advance.
  std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  hw::fence_heavy();
  bool all_current = true;
  records_.for_each([&](std::uint32_t, const record& r) {
    // order: scan (acquire) <- publish_pin, unpin (release)
    const std::uint64_t announced = r.announced.load(std::memory_order_acquire);
    if (announced != 0 && announced >> 1U != epoch) all_current = false;
  });
  if (!all_current) {
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // A failure means that another thread has advanced: as good.
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
    r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + b->count, std::memory_order_relaxed);
    // Under the lock: purge() relies on it to know that nothing of its owner is still being given back.
    b->give_back();
    if (r.spare == nullptr)
      r.spare = b;
    else
      delete b;
  }
}

void epoch_domain::adopt_one(record& mine) noexcept {
  const std::uint32_t used = hw::thread_slots_used();
  const std::uint32_t slot = ++mine.adopt_next % used;
  record* const other = records_.at(slot);
  if (other != nullptr && other != &mine) collect_record(*other, epoch_.load(std::memory_order_acquire));
}

void epoch_domain::purge(void* owner) noexcept {
  records_.for_each([owner](std::uint32_t, record& r) {
    const lock_guard hold(r.lock);
    std::size_t purged = r.current != nullptr ? r.current->purge(owner) : 0;
    for (bag* b = r.sealed_first; b != nullptr; b = b->next) purged += b->purge(owner);
    r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + purged, std::memory_order_relaxed);
  });
}

std::size_t epoch_domain::collect() noexcept {
  for (int i = 0; i < 3; ++i) {
    if (!try_advance()) break;
  }
  const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  std::size_t waiting = 0;
  records_.for_each([&](std::uint32_t, record& r) {
    collect_record(r, epoch);
    const lock_guard hold(r.lock);
    if (r.current != nullptr && r.current->count != 0 && epoch >= r.current->epoch + 3) {
      r.reclaimed.store(r.reclaimed.load(std::memory_order_relaxed) + r.current->count,
                        std::memory_order_relaxed);
      r.current->give_back();
    }
    if (r.current != nullptr) waiting += r.current->count;
    for (const bag* b = r.sealed_first; b != nullptr; b = b->next) waiting += b->count;
  });
  return waiting;
}

epoch_domain::counters epoch_domain::statistics() const noexcept {
  counters sum{epoch_.load(std::memory_order_acquire), 0, 0, 0, std::nullopt};
  records_.for_each([&](std::uint32_t slot, const record& r) {
    // reclaimed first: the difference is then never negative.
    sum.reclaimed += r.reclaimed.load(std::memory_order_acquire);
    sum.retired += r.retired.load(std::memory_order_relaxed);
    const std::uint64_t announced = r.announced.load(std::memory_order_relaxed);
    if (announced == 0) return;
    ++sum.pinned_threads;
    const std::uint64_t epoch = announced >> 1U;
    const std::uint64_t lag = sum.epoch > epoch ? sum.epoch - epoch : 0;
    if (!sum.oldest || lag > sum.oldest->lag) {
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

}  // namespace espalier
