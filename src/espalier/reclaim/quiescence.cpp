#include "espalier/reclaim/quiescence.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier {
namespace {

/// A bag is reclaimed at a look at which the oldest thread has entered so much after its time.
constexpr std::uint64_t later = 1;

}  // namespace

quiescence_domain::record::~record() {
  // relaxed: no other thread uses a domain that is being destroyed.
  assert(entered.load(std::memory_order_relaxed) == 0 && "a thread is inside of a domain that dies");
}

void quiescence_domain::record::recover_in_child(bool lost) noexcept {
  // relaxed: the child has one thread.
  if (lost && depth != 0) depth = 0;
  if (lost && entered.load(std::memory_order_relaxed) != 0) entered.store(0, std::memory_order_relaxed);
  waiting.recover_in_child(lost);
}

quiescence_domain::~quiescence_domain() {
  records_.for_each([](std::uint32_t, record& r) { r.waiting.reclaim_all(); });
}

std::size_t quiescence_domain::bytes() const noexcept {
  std::size_t sum = hw::heap_bytes<quiescence_domain>() + records_.bytes();
  records_.for_each([&sum](std::uint32_t, record& r) { sum += r.waiting.bytes(); });
  return sum;
}

/// The time of what was unlinked before the call.
std::uint64_t quiescence_domain::next_time() noexcept {
  hw::fence_heavy();                                      // order (1): stamp, heavy
  return clock_.fetch_add(1, std::memory_order_acq_rel);  // order (3), (4): tick, acq_rel
}

/// No later than the call: a bag that gets its time after this look keeps its entries, though no thread was inside then.
std::uint64_t quiescence_domain::oldest_entry() const noexcept {
  // order (4): look, acquire: the look comes after the fence of each bag with an earlier time.
  std::uint64_t oldest = clock_.load(std::memory_order_acquire);
  records_.for_each([&oldest](std::uint32_t, const record& r) {
    const std::uint64_t entered = r.entered.load(std::memory_order_acquire);  // order (2): look, acquire
    if (entered != 0) oldest = std::min(oldest, entered);
  });
  return oldest;
}

void quiescence_domain::collect_some(record& r) noexcept {
  r.waiting.stamp_sealed([this] { return next_time(); });
  const std::uint64_t oldest = oldest_entry();
  // A refusal: another thread has been inside for longer than this one. relaxed: a count for statistics().
  if (oldest < r.entered.load(std::memory_order_relaxed))
    refusals_.fetch_add(1, std::memory_order_relaxed);
  else
    refusals_.store(0, std::memory_order_relaxed);
  r.waiting.collect(oldest, later);
  // The bags of an ended thread are taken over.
  record* const other = records_.at(++r.adopt_next % hw::thread_slots_used());
  if (other != nullptr && other != &r) other->waiting.collect(oldest, later);
}

void quiescence_domain::purge(void* owner) noexcept {
  records_.for_each([owner](std::uint32_t, record& r) { r.waiting.purge(owner); });
}

std::size_t quiescence_domain::collect() noexcept {
  std::size_t waiting = 0;
  records_.for_each([&](std::uint32_t, record& r) {
    // Its thread may be between the two steps, or was lost there by a fork.
    r.waiting.stamp_sealed([this] { return next_time(); });
    r.waiting.collect(oldest_entry(), later);
    // The bag that is being filled has no time. The one that it gets here lasts until another entry is added.
    waiting += r.waiting.collect_current([this](std::uint64_t& time) {
      if (time == retired_list::no_stamp) time = next_time();
      return oldest_entry() >= time + later;
    });
  });
  // relaxed: a count for statistics().
  if (waiting != 0)
    refusals_.fetch_add(1, std::memory_order_relaxed);
  else
    refusals_.store(0, std::memory_order_relaxed);
  return waiting;
}

quiescence_domain::counters quiescence_domain::statistics() const noexcept {
  // relaxed: only reported, as the other words.
  counters sum{clock_.load(std::memory_order_relaxed), 0, 0, 0, std::nullopt};
  records_.for_each([&](std::uint32_t slot, const record& r) {
    const retired_list::counts counted = r.waiting.counted();
    sum.reclaimed += counted.reclaimed;
    sum.retired += counted.retired;
    // relaxed: likewise.
    const std::uint64_t entered = r.entered.load(std::memory_order_relaxed);
    if (entered == 0) return;
    ++sum.pinned_threads;
    const std::uint64_t lag = sum.time > entered ? sum.time - entered : 0;
    // relaxed: likewise.
    if (!sum.oldest || lag > sum.oldest->lag)
      sum.oldest = stall{slot, hw::thread_slot_owner(slot), lag, refusals_.load(std::memory_order_relaxed)};
  });
  return sum;
}

}  // namespace espalier
