#include "preload/elision/section_counts.hpp"

#include <sys/mman.h>

#include "preload/kernel/kept_errno.hpp"

namespace espalier::preload {

bool section_counts::start() noexcept {
  table_ = budget_.map_array<table>(1);
  if (table_ == nullptr) return false;
  table_->begun.store(true, std::memory_order_relaxed);
  return true;
}

void section_counts::wipe_in_children() noexcept {
#if defined(MADV_WIPEONFORK)
  const kept_errno keep;
  // Where the kernel does not support it, clear() resets the table.
  if (counting()) static_cast<void>(madvise(table_, sizeof *table_, MADV_WIPEONFORK));
#endif
}

section_counts::index section_counts::find(std::uint64_t key, std::uintptr_t mutex,
                                           std::uintptr_t site) noexcept {
  if (!counting()) return nowhere;
  for (unsigned probe = 0; probe < most_probes; ++probe) {
    const auto at = static_cast<index>((key / 2 + probe) % most_sections);
    name& named = table_->names[at];
    std::uint64_t present = named.key.load(std::memory_order_relaxed);
    if (present == 0 && named.key.compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      named.mutex.store(mutex, std::memory_order_relaxed);
      named.site.store(site, std::memory_order_relaxed);
      return at;
    }
    if (present == key) return at;
  }
  return most_sections;
}

/// The first count of an event: marks the stripe as used, and adds the place to the list if it is not in it.
void section_counts::enlist(index at, std::size_t stripe) noexcept {
  name& named = table_->names[at];
  if (named.stripes.fetch_or(1U << stripe, std::memory_order_relaxed) != 0) return;
  std::uint32_t before = table_->latest.load(std::memory_order_relaxed);
  do {
    named.after = before;
    // order: enlist (release) -> first (acquire)
  } while (!table_->latest.compare_exchange_weak(before, at + 1, std::memory_order_release,
                                                 std::memory_order_relaxed));
}

template <class Visitor>
void section_counts::for_each_stripe_of(index at, Visitor&& visit) const noexcept {
  const std::uint32_t used = table_->names[at].stripes.load(std::memory_order_relaxed);
  for (std::size_t s = 0; s < stripes; ++s) {
    if ((used >> s & 1U) != 0) visit(table_->of_stripe[s][at].sums);
  }
}

counted_section section_counts::sum(index at) const noexcept {
  counted_section sums{};
  if (at < most_sections) {
    sums.mutex = table_->names[at].mutex.load(std::memory_order_relaxed);
    sums.site = table_->names[at].site.load(std::memory_order_relaxed);
  }
  for_each_stripe_of(at, [&](const auto& of) {
    for (std::size_t e = 0; e < elision_events; ++e)
      sums.elided.of_event[e] += of[e].load(std::memory_order_relaxed);
    sums.taken += of[taken].load(std::memory_order_relaxed);
    sums.waited += of[waited].load(std::memory_order_relaxed);
  });
  return sums;
}

void section_counts::clear() noexcept {
  if (!counting() || !table_->begun.exchange(true, std::memory_order_relaxed)) return;
  for (index at = first(); at != end_of_list;) {
    for_each_stripe_of(at, [](auto& of) {
      for (auto& event : of) event.store(0, std::memory_order_relaxed);
    });
    name& named = table_->names[at];
    at = named.after - 1;
    named.after = 0;
    named.stripes.store(0, std::memory_order_relaxed);
  }
  table_->latest.store(0, std::memory_order_relaxed);
}

}  // namespace espalier::preload
