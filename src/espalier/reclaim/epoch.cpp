#include "espalier/reclaim/epoch.hpp"

#include <cassert>
#include <cstddef>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier {

epoch_domain::record::~record() {
  // relaxed: no other thread uses a domain that is being destroyed.
  assert(announced.load(std::memory_order_relaxed) == 0 && "a thread is pinned in a domain that dies");
}

void epoch_domain::record::recover_in_child(bool lost) noexcept {
  // relaxed: the child has one thread.
  if (lost && depth != 0) depth = 0;
  if (lost && announced.load(std::memory_order_relaxed) != 0) announced.store(0, std::memory_order_relaxed);
  waiting.recover_in_child(lost);
}

epoch_domain::~epoch_domain() {
  records_.for_each([](std::uint32_t, record& r) { r.waiting.reclaim_all(); });
}

std::size_t epoch_domain::bytes() const noexcept {
  std::size_t sum = hw::heap_bytes<epoch_domain>() + records_.bytes();
  records_.for_each([&sum](std::uint32_t, record& r) { sum += r.waiting.bytes(); });
  return sum;
}

void epoch_domain::collect_some(record& r) noexcept {
  try_advance();
  r.waiting.collect(epoch_.load(std::memory_order_acquire), grace);  // order (4): collect, acquire
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

void epoch_domain::adopt_one(record& mine) noexcept {
  const std::uint32_t used = hw::thread_slots_used();
  const std::uint32_t slot = ++mine.adopt_next % used;
  record* const other = records_.at(slot);
  // order (4): collect, acquire
  if (other != nullptr && other != &mine)
    other->waiting.collect(epoch_.load(std::memory_order_acquire), grace);
}

void epoch_domain::purge(void* owner) noexcept {
  records_.for_each([owner](std::uint32_t, record& r) { r.waiting.purge(owner); });
}

std::size_t epoch_domain::collect() noexcept {
  for (int i = 0; i < 3; ++i) {
    if (!try_advance()) break;
  }
  // order (4): collect, acquire
  const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  std::size_t waiting = 0;
  records_.for_each([&](std::uint32_t, record& r) {
    r.waiting.collect(epoch, grace);
    waiting += r.waiting.collect_current([epoch](std::uint64_t stamp) { return epoch >= stamp + grace; });
  });
  return waiting;
}

epoch_domain::counters epoch_domain::statistics() const noexcept {
  // order (6): statistics, acquire
  counters sum{epoch_.load(std::memory_order_acquire), 0, 0, 0, std::nullopt};
  records_.for_each([&](std::uint32_t slot, const record& r) {
    const retired_list::counts counted = r.waiting.counted();
    sum.reclaimed += counted.reclaimed;
    sum.retired += counted.retired;
    // relaxed: only reported.
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
