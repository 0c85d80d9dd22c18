#include "preload/elision/section_counts.hpp"

namespace espalier::preload {

bool section_counts::start() noexcept {
  names_ = budget_.map_array<name>(most_sections);
  stripes_ = names_ == nullptr ? nullptr : budget_.map_array<stripe_counters>(stripes);
  return counting();
}

section_counts::index section_counts::find(std::uint64_t key, std::uintptr_t mutex,
                                           std::uintptr_t site) noexcept {
  if (!counting()) return nowhere;
  for (unsigned probe = 0; probe < most_probes; ++probe) {
    const auto at = static_cast<index>((key / 2 + probe) % most_sections);
    std::uint64_t present = names_[at].key.load(std::memory_order_relaxed);
    if (present == 0 && names_[at].key.compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      names_[at].mutex.store(mutex, std::memory_order_relaxed);
      names_[at].site.store(site, std::memory_order_relaxed);
      return at;
    }
    if (present == key) return at;
  }
  return most_sections;
}

counted_section section_counts::sum(index at) const noexcept {
  counted_section sums{};
  if (at < most_sections) {
    sums.mutex = names_[at].mutex.load(std::memory_order_relaxed);
    sums.site = names_[at].site.load(std::memory_order_relaxed);
  }
  for (std::size_t s = 0; s < stripes; ++s) {
    const auto& of = stripes_[s].of[at].sums;
    for (std::size_t e = 0; e < elision_events; ++e)
      sums.elided.of_event[e] += of[e].load(std::memory_order_relaxed);
    sums.taken += of[taken].load(std::memory_order_relaxed);
    sums.waited += of[waited].load(std::memory_order_relaxed);
  }
  return sums;
}

void section_counts::clear() noexcept {
  if (!counting()) return;
  for (std::size_t s = 0; s < stripes; ++s) {
    for (counters& of : stripes_[s].of) {
      for (auto& event : of.sums) {
        // Most pages were never written, and need not be.
        if (event.load(std::memory_order_relaxed) != 0) event.store(0, std::memory_order_relaxed);
      }
    }
  }
}

}  // namespace espalier::preload
