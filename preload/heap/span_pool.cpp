#include "preload/heap/span_pool.hpp"

#include <time.h>

#include <algorithm>
#include <bit>

namespace espalier::preload {
namespace {

using set = span::set;

constexpr set row(std::size_t number, std::size_t regions) noexcept {
  return ((set{1} << regions) - 1) << number;
}

constexpr std::size_t lowest(set of) noexcept {
  const auto low = static_cast<std::uint64_t>(of);
  if (low != 0) return static_cast<std::size_t>(std::countr_zero(low));
  return 64 + static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(of >> 64)));
}

constexpr std::size_t highest(set of) noexcept {
  const auto high = static_cast<std::uint64_t>(of >> 64);
  const std::uint64_t half = high != 0 ? high : static_cast<std::uint64_t>(of);
  return (high != 0 ? 127 : 63) - static_cast<std::size_t>(std::countl_zero(half));
}

constexpr std::size_t size(set of) noexcept {
  const auto low = static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(of)));
  return low + static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(of >> 64)));
}

/// The number at which a row of so many regions begins; 0 where there is none.
constexpr std::size_t row_in(set of, std::size_t regions) noexcept {
  for (std::size_t have = 1; have < regions && of != 0;) {
    const std::size_t step = have < regions - have ? have : regions - have;
    of &= of >> step;
    have += step;
  }
  return of == 0 ? 0 : lowest(of);
}

/// The longest row that ends with the last member of a set.
struct last_row {
  std::size_t number;
  std::size_t regions;

  /// At most `most` regions. `all` is not empty.
  [[nodiscard]] static constexpr last_row of(set all, std::size_t most) noexcept {
    const std::size_t last = highest(all);
    std::size_t first = last;
    while (last - first + 1 < most && (all >> (first - 1) & 1) != 0) --first;
    return {first, last - first + 1};
  }
};

std::uint64_t milliseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace

void span_pool::set_dirty(std::size_t regions) noexcept {
  // relaxed throughout: `dirty_` as in span_pool.hpp.
  dirty_.store(regions, std::memory_order_relaxed);
  idle_ = std::min(idle_, regions);
}

region* span_pool::take_from(span& s, std::size_t number, std::size_t regions, bool& zeroed) noexcept {
  const set taken = row(number, regions);
  const std::size_t dirty = size(s.dirty & taken);
  zeroed = dirty == 0;
  s.free &= ~taken;
  s.dirty &= ~taken;
  free_ -= regions;
  set_dirty(dirty_.load(std::memory_order_relaxed) - dirty);
  return &s.slot(number);
}

region* span_pool::take(std::size_t regions, bool& zeroed) noexcept {
  region* taken = nullptr;
  region* donors = nullptr;
  set wanting = 0;
  {
    const futex_guard guard(lock_);
    if (regions < long_row) {
      taken = find(regions, zeroed);
    } else if ((taken = find_long(regions, zeroed, wanting)) != nullptr && wanting != 0 && !huge_) {
      if (mapping_starts_ < most_mapping_starts) donors = take_donors(size(wanting));
    }
  }
  if (donors != nullptr && !fill(*taken, regions, wanting, donors, zeroed)) return take(regions, zeroed);
  if (dirty_.load(std::memory_order_relaxed) > keep_) discard_idle();
  return taken;
}

/// Chooses the row in which the most regions have memory. `wanting` becomes the set of those without.
region* span_pool::find_long(std::size_t regions, bool& zeroed, set& wanting) noexcept {
  span* best = nullptr;
  std::size_t best_number = 0;
  std::size_t best_dirty = 0;
  for (span* s = spans_; s != nullptr; s = s->next) {
    set starts = s->free;
    for (std::size_t have = 1; have < regions && starts != 0;) {
      const std::size_t step = std::min(have, regions - have);
      starts &= starts >> step;
      have += step;
    }
    for (; starts != 0; starts &= starts - 1) {
      const std::size_t dirty = size(s->dirty & row(lowest(starts), regions));
      if (best != nullptr && dirty <= best_dirty) continue;
      best = s;
      best_number = lowest(starts);
      best_dirty = dirty;
    }
  }
  if (best == nullptr) {
    if (!add_span(regions)) return nullptr;
    best = spans_;
    best_number = 1;
  }
  wanting = row(best_number, regions) & ~best->dirty;
  return take_from(*best, best_number, regions, zeroed);
}

/// Takes so many regions with memory, or as many as there are. They are rows linked by `next`, each within one mapping.
region* span_pool::take_donors(std::size_t regions) noexcept {
  region* donors = nullptr;
  for (span* s = spans_; s != nullptr && regions != 0; s = s->next) {
    while (s->dirty != 0 && regions != 0) {
      const last_row last = last_row::of(s->dirty, regions);
      const std::size_t end = last.number + last.regions;
      const set starts = s->mapping_starts & row(last.number, last.regions);
      const std::size_t number = starts != 0 ? highest(starts) : last.number;
      bool zeroed = false;
      region* const donor = take_from(*s, number, end - number, zeroed);
      donor->run_regions = static_cast<std::uint32_t>(end - number);
      donor->next = donors;
      donors = donor;
      regions -= end - number;
    }
  }
  return donors;
}

/// Moves the memory of the donors, which are taken and become free, to the regions of a taken row. False where the
/// row cannot be used: it is then free, except for regions in which another mapping may lie.
bool span_pool::fill(region& first, std::size_t regions, set wanting, region* donors, bool& zeroed) noexcept {
  using transferred = page_source::transferred;
  span& s = *span::of(&first);
  const set whole = row(span::number_of(first), regions);
  const set dirty = whole & ~wanting;
  set filled = 0;
  set starts = 0;
  set lost = 0;
  region* donor = donors;
  std::size_t emptied = 0;  // regions of `donor` without memory
  while (donor != nullptr) {
    const std::size_t number = lowest(wanting);
    const std::size_t count = std::min(lowest(~(wanting >> number)), donor->run_regions - emptied);
    const transferred result = pages_.transfer(span::of(donor)->memory(span::number_of(*donor) + emptied),
                                               s.memory(number), count * region_bytes);
    if (result == transferred::lost) lost = row(number, count);
    if (result != transferred::done) break;
    filled |= row(number, count);
    starts |= row(number, 1);
    if (number + count < s.end) starts |= row(number + count, 1);
    wanting &= ~filled;
    emptied += count;
    if (emptied == donor->run_regions) {
      donor = donor->next;
      emptied = 0;
    }
  }
  if (filled != 0) zeroed = false;
  const futex_guard guard(lock_);
  starts |= s.mapping_starts & ~filled;
  mapping_starts_ += size(starts) - size(s.mapping_starts);
  s.mapping_starts = starts;
  // The donors before the first refused one have no memory any more.
  bool refused = false;
  for (region* r = donors; r != nullptr;) {
    region* const after = r->next;
    const std::size_t all = r->run_regions;
    const std::size_t empty = refused ? 0 : r == donor ? emptied : all;
    refused = refused || r == donor;
    if (empty != 0) add_free(*r, empty, false);
    if (empty != all) add_free(span::of(r)->slot(span::number_of(*r) + empty), all - empty, true);
    r = after;
  }
  for (set left = lost != 0 ? whole & ~lost : 0; left != 0; left &= left - 1)
    add_free(s.slot(lowest(left)), 1, (left & -left & (dirty | filled)) != 0);
  return lost == 0;
}

region* span_pool::find(std::size_t regions, bool& zeroed) noexcept {
  if (dirty_.load(std::memory_order_relaxed) >= regions) {
    for (span* s = spans_; s != nullptr; s = s->next) {
      if (const std::size_t number = row_in(s->dirty, regions)) return take_from(*s, number, regions, zeroed);
    }
  }
  if (free_ >= regions) {
    for (span* s = spans_; s != nullptr; s = s->next) {
      if (const std::size_t number = row_in(s->free, regions)) return take_from(*s, number, regions, zeroed);
    }
  }
  return add_span(regions) ? take_from(*spans_, 1, regions, zeroed) : nullptr;
}

/// The span has at least so many regions.
bool span_pool::add_span(std::size_t regions) noexcept {
  // The kernel assigns addresses downwards.
  void* const near = spans_ == nullptr ? nullptr : reinterpret_cast<std::byte*>(spans_) - span::bytes;
  const std::size_t least = (1 + regions) * region_bytes;
  std::size_t bytes = span::bytes;
  span* s = nullptr;
  // A limit of addresses, or of memory that is locked when it is mapped, may leave room for less.
  while ((s = static_cast<span*>(pages_.map(bytes, span::bytes, near))) == nullptr) {
    if (bytes == least) return false;
    bytes = std::max(bytes * 3 / 4 & ~(region_bytes - 1), least);
  }
  if (huge_) page_source::advise_huge(s, bytes);
  s->next = spans_;
  s->end = bytes / region_bytes;
  s->free = row(1, s->regions_held());
  registry_.enter(s, span::bytes, address_registry::span);
  spans_ = s;
  free_ += s->regions_held();
  return true;
}

bool span_pool::extend(region& first, std::size_t regions, std::size_t by) noexcept {
  const futex_guard guard(lock_);
  span& s = *span::of(&first);
  const std::size_t behind = span::number_of(first) + regions;
  if (by > s.end - behind || (s.free & row(behind, by)) != row(behind, by)) return false;
  bool zeroed = false;
  take_from(s, behind, by, zeroed);
  return true;
}

void span_pool::release(region& first, std::size_t regions) noexcept {
  span& s = *span::of(&first);
  const std::size_t number = span::number_of(first);
  // Before the regions are free, while no other thread can take them. relaxed: the bound may be missed by a little.
  const bool within = dirty_.load(std::memory_order_relaxed) + regions <= keep_;
  const bool keep = within || period_ != 0;
  // Regions that the OS does not take keep their memory and are not zero.
  const bool dirty = keep || !page_source::discard(s.memory(number), regions * region_bytes);
  std::size_t beyond = 0;
  {
    const futex_guard guard(lock_);
    add_free(first, regions, dirty);
    const std::size_t most = keep_ + most_behind_rows;
    if (regions >= bounding_row && dirty_.load(std::memory_order_relaxed) > most)
      beyond = dirty_.load(std::memory_order_relaxed) - most;
  }
  if (beyond != 0) discard(beyond);
  if (keep && !within) discard_idle();
}

/// The caller holds the lock.
void span_pool::add_free(region& first, std::size_t regions, bool dirty) noexcept {
  span& s = *span::of(&first);
  const set added = row(span::number_of(first), regions);
  s.free |= added;
  free_ += regions;
  if (!dirty) return;
  s.dirty |= added;
  set_dirty(dirty_.load(std::memory_order_relaxed) + regions);
}

/// At the end of a period, returns to the OS the memory that was idle throughout, as far as it exceeds the bound. The
/// regions are taken meanwhile, so that no thread waits for the OS.
void span_pool::discard_idle() noexcept {
  const std::uint64_t now = milliseconds();
  std::size_t left = 0;
  {
    const futex_guard guard(lock_);
    if (now - idle_since_ < period_) return;
    left = idle_ > keep_ ? idle_ - keep_ : 0;
    idle_since_ = now;
    idle_ = dirty_.load(std::memory_order_relaxed);
  }
  discard(left);
}

/// Returns the memory of so many empty regions to the OS, or of as many as there are.
void span_pool::discard(std::size_t left) noexcept {
  // Rows that the OS refuses are freed at the end: earlier they would be the next ones tried. After several refusals
  // the OS would refuse the others too.
  constexpr unsigned most_refused = 8;
  region* refused = nullptr;
  for (unsigned count = 0; left != 0 && count < most_refused;) {
    lock_.lock();
    // The span that take() searches last.
    span* from = nullptr;
    for (span* s = spans_; s != nullptr; s = s->next) {
      if (s->dirty != 0) from = s;
    }
    if (from == nullptr) {
      lock_.unlock();
      break;
    }
    const last_row gone = last_row::of(from->dirty, left);
    bool zeroed = false;
    region* const first = take_from(*from, gone.number, gone.regions, zeroed);
    lock_.unlock();
    left -= gone.regions;
    if (page_source::discard(from->memory(gone.number), gone.regions * region_bytes)) {
      const futex_guard guard(lock_);
      add_free(*first, gone.regions, false);
    } else {
      first->next = refused;
      first->run_regions = static_cast<std::uint32_t>(gone.regions);
      refused = first;
      ++count;
    }
  }
  const futex_guard guard(lock_);
  while (refused != nullptr) {
    region& first = *refused;
    refused = first.next;
    add_free(first, first.run_regions, true);
  }
}

std::size_t span_pool::discard_empty() noexcept {
  const futex_guard guard(lock_);
  std::size_t given = unmap_empty();
  for (span* s = spans_; s != nullptr; s = s->next) {
    for (set left = s->dirty; left != 0;) {
      const std::size_t number = lowest(left);
      std::size_t regions = 1;
      while (number + regions < s->end && (left >> (number + regions) & 1) != 0) ++regions;
      left &= ~row(number, regions);
      if (!page_source::discard(s->memory(number), regions * region_bytes)) continue;
      s->dirty &= ~row(number, regions);
      given += regions;
    }
  }
  std::size_t dirty = 0;
  for (const span* s = spans_; s != nullptr; s = s->next) dirty += size(s->dirty);
  set_dirty(dirty);
  return given * region_bytes;
}

/// The caller holds the lock, and then counts the regions with memory anew. The result is how many of these the
/// unmapped spans had. No field of a free region is read: it contains no block, and no notification about it is
/// pending.
std::size_t span_pool::unmap_empty() noexcept {
  std::size_t given = 0;
  for (span** link = &spans_; *link != nullptr;) {
    span* const s = *link;
    span* const after = s->next;
    const std::size_t dirty = size(s->dirty);
    const std::size_t starts = size(s->mapping_starts);
    const std::size_t held = s->regions_held();
    bool gone = s->free == row(1, held);
    if (gone) {
      // Before it is unmapped: another thread may then map something there.
      registry_.enter(s, span::bytes, address_registry::foreign);
      gone = pages_.unmap(s, s->mapped_bytes());
      if (!gone) registry_.enter(s, span::bytes, address_registry::span);
    }
    if (!gone) {
      link = &s->next;
      continue;
    }
    *link = after;
    free_ -= held;
    mapping_starts_ -= starts;
    given += dirty;
  }
  return given;
}

span_pool::figures span_pool::count() noexcept {
  const futex_guard guard(lock_);
  return count_locked();
}

span_pool::figures span_pool::count_locked() const noexcept {
  figures all;
  for (const span* s = spans_; s != nullptr; s = s->next) ++all.spans;
  all.free_regions = free_;
  all.dirty_regions = dirty_.load(std::memory_order_relaxed);
  return all;
}

void span_pool::unmap_all() noexcept {
  while (spans_ != nullptr) {
    span* const gone = spans_;
    spans_ = gone->next;
    registry_.enter(gone, span::bytes, address_registry::foreign);
    pages_.unmap(gone, gone->mapped_bytes());
  }
  free_ = 0;
  mapping_starts_ = 0;
  set_dirty(0);
}

}  // namespace espalier::preload
