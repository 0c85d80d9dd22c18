#include "espalier/cache/entry_log.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>

namespace espalier::caching {
namespace {

constexpr std::size_t segment_bytes_for(std::size_t limit) noexcept {
  return std::bit_floor(std::clamp(limit / 1024, std::size_t{32} << 10U, std::size_t{256} << 10U));
}

// Huge pages take fewer entries of the TLB. The last one is filled only in part, which counts for a small cache.
constexpr std::size_t huge_from = std::size_t{64} << 20U;
constexpr std::uint32_t huge_holes_one_in = 64;

// What one change that is about to be refused looks at: all segments of a gigabyte.
constexpr std::uint32_t most_looks = 4096;

// What lives in a segment is copied for its holes. The emptiest of this number is nearly the emptiest of all.
constexpr unsigned most_compared = 16;

}  // namespace

entry_log::entry_log(memory_budget& budget, std::size_t bytes_behind)
    : budget_(budget),
      segment_bytes_(segment_bytes_for(budget.limit())),
      segment_shift_(static_cast<unsigned>(std::countr_zero(segment_bytes_ / location_unit))),
      largest_inside_(std::min(segment_bytes_ / 4, std::size_t{1} << 15U)),
      most_(static_cast<std::uint32_t>(budget.largest() / segment_bytes_)),
      pages_(hw::map_pages(most_ * segment_bytes_ + bytes_behind,
                           {.huge = budget.limit() >= huge_from, .sparse = true})),
      segment_pages_(hw::map_pages(most_ * sizeof(segment), {.sparse = true})),
      segments_(reinterpret_cast<segment*>(segment_pages_.data())),
      open_(writer_groups_for(budget.limit() / segment_bytes_)) {
  newest_.fill(none);
  allow(budget.limit());
  if (pages_.is_huge_advised()) pages_.refuse_huge(most_ * segment_bytes_);
}

void entry_log::allow(std::size_t limit) {
  const auto wanted = static_cast<std::uint32_t>(limit / segment_bytes_);
  if (wanted <= count_) return;
  unbacked_.reserve(wanted);
  loose_taken_.reserve(wanted);
  // The last one of the list is taken first.
  const std::uint32_t more = wanted - count_;
  unbacked_.insert(unbacked_.begin(), more, none);
  for (std::uint32_t i = 0; i < more; ++i) {
    new (&segments_[count_ + i]) segment;
    unbacked_[more - 1 - i] = count_ + i;
  }
  budget_.take(more * sizeof(segment));
  count_ = wanted;
}

location entry_log::allocate(std::size_t bytes, queue in, unsigned lifetime, unsigned group) noexcept {
  // order (2): allocate, acquire
  const std::uint32_t index = open_[group].each[kind_of(in, lifetime)].load(std::memory_order_acquire);
  if (index == none) return 0;
  segment& s = segments_[index];
  // relaxed: the exchange confirms it. One that is sealed has no room.
  std::uint32_t fill = s.fill.load(std::memory_order_relaxed);
  while (fill + bytes <= segment_bytes_) {
    // order (2): allocate, acquire: the segment may have been another one a moment ago
    if (s.fill.compare_exchange_weak(fill, fill + static_cast<std::uint32_t>(bytes),
                                     std::memory_order_acquire, std::memory_order_relaxed)) {
      s.live.fetch_add(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);  // relaxed: a count
      return begin_of(index) + fill / location_unit;
    }
  }
  return 0;
}

void entry_log::note_end(segment& s, std::uint32_t expires) noexcept {
  std::uint32_t first = s.look_at.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
  // order (5): note_end, release
  while (expires < first && !s.look_at.compare_exchange_weak(first, expires, std::memory_order_release,
                                                             std::memory_order_relaxed)) {
  }
}

void entry_log::forget_ends(std::uint32_t index) noexcept {
  // order (5): forget_ends, acquire
  segments_[index].look_at.exchange(cache_entry::never, std::memory_order_acquire);
}

void entry_log::complete(location where, std::size_t bytes, std::uint32_t expires) noexcept {
  segment& s = segment_of(where);
  note_end(s, expires);
  // order (1): complete, release
  s.complete.fetch_add(static_cast<std::uint32_t>(bytes), std::memory_order_release);
}

void entry_log::release(location where, std::size_t bytes) noexcept {
  segment& s = segment_of(where);
  // relaxed: a count, which decides only what is worth a look.
  const std::uint32_t left = s.live.fetch_sub(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed) -
                             static_cast<std::uint32_t>(bytes);
  // relaxed: whether the segment is sealed is looked at again.
  if (segment::is_worth_copying(left, segment_bytes_) &&
      s.fill.load(std::memory_order_relaxed) == segment::is_sealed)
    add_loose(static_cast<std::uint32_t>(&s - segments_));
}

void entry_log::add_loose(std::uint32_t index) noexcept {
  segment& s = segments_[index];
  // relaxed: the flag only keeps a segment from being listed twice.
  if (s.is_loose.load(std::memory_order_relaxed) || s.is_loose.exchange(true, std::memory_order_relaxed))
    return;
  std::uint32_t first = loose_.load(std::memory_order_relaxed);
  do {
    s.next_loose.store(first, std::memory_order_relaxed);  // relaxed: order (3) publishes it
    // order (3): add_loose, release
  } while (!loose_.compare_exchange_weak(first, index, std::memory_order_release, std::memory_order_relaxed));
}

std::uint32_t entry_log::take_loose(std::size_t most_live) noexcept {
  // order (3): take_loose, acquire
  for (std::uint32_t i = loose_.exchange(none, std::memory_order_acquire); i != none;) {
    const std::uint32_t next =
        segments_[i].next_loose.load(std::memory_order_relaxed);  // relaxed: ordered by the exchange
    loose_taken_.push_back(i);
    i = next;
  }
  const auto remove = [this](std::size_t at) {
    const std::uint32_t index = loose_taken_[at];
    loose_taken_[at] = loose_taken_.back();
    loose_taken_.pop_back();
    segments_[index].is_loose.store(false, std::memory_order_relaxed);  // relaxed: as in add_loose
    return index;
  };
  std::optional<std::size_t> best;
  std::uint32_t least = 0;
  unsigned compared = 0;
  for (std::size_t looks = loose_taken_.size(); looks > 0 && compared < most_compared; --looks) {
    if (loose_at_ >= loose_taken_.size()) loose_at_ = 0;
    const segment& s = segments_[loose_taken_[loose_at_]];
    if (!s.is_listed) {
      if (best == loose_taken_.size() - 1) best = loose_at_;
      remove(loose_at_);
      continue;
    }
    const std::size_t at = loose_at_++;
    // One that has writers is looked at again: nothing may come that lists it once more.
    if (!is_complete(loose_taken_[at])) continue;
    // relaxed: a count. One that is dead stays so, and is looked for among all.
    const std::uint32_t live = s.live.load(std::memory_order_relaxed);
    if (most_live != 0) ++compared;
    if (live > most_live || (best && least <= live)) continue;
    best = at;
    least = live;
  }
  return best ? remove(*best) : none;
}

bool entry_log::find_ended(std::uint32_t now) noexcept {
  bool is_flushed = false;
  for (std::uint32_t i = 0; i < count_; ++i) {
    // order (4): find_ended, acquire
    if (segments_[i].is_flushed.load(std::memory_order_acquire)) is_flushed = true;
    if (!segments_[i].is_listed) continue;
    // relaxed: a hint of what is worth a look
    if (segments_[i].look_at.load(std::memory_order_relaxed) <= now && is_complete(i)) add_loose(i);
  }
  return is_flushed;
}

bool entry_log::find_holes() noexcept {
  const auto has_holes = [this](std::uint32_t index, std::size_t of) {
    // relaxed: a guess of what is worth it
    const std::size_t live = segments_[index].live.load(std::memory_order_relaxed);
    return segment::is_worth_copying(live, of, segment::last_holes_one_in);
  };
  bool found = false;
  for (unsigned group = 0; group < open_.size(); ++group) {
    for (auto& open : open_[group].each) {
      const std::uint32_t index = open.load(std::memory_order_relaxed);  // relaxed: under the mutex
      if (index == none || !has_holes(index, segments_[index].fill.load(std::memory_order_relaxed)))
        continue;                                   // relaxed: as above
      open.store(none, std::memory_order_relaxed);  // relaxed: as in seal_open
      seal(index);
    }
  }
  for (std::uint32_t i = 0; i < std::min(count_, most_looks); ++i) {
    holes_at_ = holes_at_ + 1 < count_ ? holes_at_ + 1 : 0;
    const segment& s = segments_[holes_at_];
    if (!s.is_listed || !is_complete(holes_at_) || !has_holes(holes_at_, s.end)) continue;
    add_loose(holes_at_);
    found = true;
  }
  return found;
}

void entry_log::flush() noexcept {
  seal_open();
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (!segments_[i].is_listed) continue;
    // relaxed: it is looked at under the mutex
    segments_[i].is_flushed.store(true, std::memory_order_relaxed);
    add_loose(i);
  }
}

std::uint32_t entry_log::written(std::uint32_t index) const noexcept {
  const segment& s = segments_[index];
  if (!s.is_listed) return 0;
  // In this order: what was handed out by the time of the second load was complete by the first one.
  const std::uint32_t complete = s.complete.load(std::memory_order_acquire);  // order (1): written, acquire
  const std::uint32_t fill = s.fill.load(std::memory_order_relaxed);          // relaxed: as said
  return complete == (fill == segment::is_sealed ? s.end : fill) ? complete : 0;
}

bool entry_log::is_complete(std::uint32_t index) const noexcept {
  const segment& s = segments_[index];
  return s.fill.load(std::memory_order_relaxed) == segment::is_sealed &&  // relaxed: sealed under the mutex
         s.complete.load(std::memory_order_acquire) == s.end;             // order (1): is_complete, acquire
}

std::uint32_t entry_log::take_freed() noexcept {
  // order (4): take_freed, acquire. Only the holder of the mutex takes: the first segment cannot leave and come back between.
  std::uint32_t first = free_.load(std::memory_order_acquire);
  while (first != none &&
         !free_.compare_exchange_weak(first, segments_[first].next_free.load(std::memory_order_relaxed),
                                      std::memory_order_acquire, std::memory_order_acquire)) {
  }
  return first;
}

std::uint32_t entry_log::take_free() noexcept {
  if (budget_.is_passed()) shrink_for(0);
  if (const std::uint32_t index = take_freed(); index != none) return index;
  if (unbacked_.empty() || !budget_.try_take(segment_bytes_)) return none;
  const std::uint32_t index = unbacked_.back();
  unbacked_.pop_back();
  most_backed_ = std::max(most_backed_, ++backed_);
  if (index == untouched_) {
    ++untouched_;
    keep_huge_within_limit(index);
  }
  hw::request_pages(at(begin_of(index)), segment_bytes_);
  return index;
}

void entry_log::keep_huge_within_limit(std::uint32_t index) noexcept {
  if (!pages_.is_huge_advised()) return;
  // The first segment of a huge page brings all of it. The rest of the budget may go to the table, and not to segments.
  const std::size_t begin = std::size_t{index} * segment_bytes_;
  const std::size_t huge = hw::huge_page_size();
  if (begin % huge == 0 && budget_.used() + huge - segment_bytes_ > budget_.limit())
    pages_.refuse_huge(begin);
}

bool entry_log::shrink_for(std::size_t bytes) noexcept {
  while (budget_.used() + bytes > budget_.limit()) {
    const std::uint32_t index = take_freed();
    if (index == none) return false;
    hw::discard_pages(at(begin_of(index)), segment_bytes_);
    unbacked_.push_back(index);
    --backed_;
    budget_.give(segment_bytes_);
    // The kernel may fill holes up to huge pages, which the budget does not see.
    if (may_be_huge_ && most_backed_ - backed_ > count_ / huge_holes_one_in) {
      pages_.refuse_huge();
      may_be_huge_ = false;
    }
  }
  return true;
}

void entry_log::reclaim(std::uint32_t index) noexcept {
  segments_[index].is_flushed.store(false, std::memory_order_release);  // order (4): reclaim, release
  std::uint32_t first = free_.load(std::memory_order_relaxed);  // relaxed: the exchange below confirms it
  do {
    segments_[index].next_free.store(first, std::memory_order_relaxed);  // relaxed: order (4) publishes it
    // order (4): reclaim, release
  } while (!free_.compare_exchange_weak(first, index, std::memory_order_release, std::memory_order_relaxed));
}

std::uint32_t entry_log::oldest(queue in) noexcept {
  std::uint32_t i = order_[index_of(in)].oldest;
  for (; i != none; i = segments_[i].newer) {
    if (newest_[kind_of(in, segments_[i].lifetime)] != i) seal_left_open(i);
    if (is_complete(i)) break;
  }
  return i;
}

void entry_log::seal_left_open(std::uint32_t index) noexcept {
  const segment& s = segments_[index];
  // relaxed, both: under the mutex
  if (s.fill.load(std::memory_order_relaxed) == segment::is_sealed) return;
  const queue in = s.in.load(std::memory_order_relaxed);
  open_[s.group].each[kind_of(in, s.lifetime)].store(none,
                                                     std::memory_order_relaxed);  // relaxed: as in seal_open
  seal(index);
}

void entry_log::open(std::uint32_t index, queue in, unsigned lifetime, std::uint64_t age) noexcept {
  segment& s = segments_[index];
  order& o = order_[index_of(in)];
  s.older = o.newest;
  s.newer = none;
  (o.newest == none ? o.oldest : segments_[o.newest].newer) = index;
  o.newest = index;
  ++o.count;
  s.age = age;
  s.lifetime = static_cast<std::uint8_t>(lifetime);
  s.group = static_cast<std::uint8_t>(writer_group());
  s.is_listed = true;
  newest_[kind_of(in, lifetime)] = index;
  // relaxed, all of it: the fill publishes it.
  s.in.store(in, std::memory_order_relaxed);
  s.complete.store(0, std::memory_order_relaxed);
  s.live.store(0, std::memory_order_relaxed);
  s.look_at.store(cache_entry::never, std::memory_order_relaxed);
  std::uint32_t fill = 0;
  // Location 0 is no entry.
  if (index == 0) {
    entry::make_filler(at(0), sizeof(entry));
    fill = sizeof(entry);
    s.complete.store(fill, std::memory_order_relaxed);
  }
  s.fill.store(fill, std::memory_order_release);  // order (2): open, release
  std::atomic<std::uint32_t>& open = open_[s.group].each[kind_of(in, lifetime)];
  // relaxed: under the mutex, as every store to it
  if (const std::uint32_t full = open.load(std::memory_order_relaxed); full != none) seal(full);
  open.store(index, std::memory_order_release);  // order (2): open, release
}

void entry_log::seal(std::uint32_t index) noexcept {
  segment& s = segments_[index];
  // relaxed: it takes the segment from the threads that allocate, which are counted in `complete`.
  s.end = s.fill.exchange(segment::is_sealed, std::memory_order_relaxed);
  // A segment may have become loose while it was open.
  // relaxed: as in release
  if (segment::is_worth_copying(s.live.load(std::memory_order_relaxed), segment_bytes_)) add_loose(index);
}

void entry_log::seal_open() noexcept {
  for (unsigned group = 0; group < open_.size(); ++group) {
    for (auto& open : open_[group].each) {
      // relaxed: an allocation that still finds the segment finds it sealed
      if (const std::uint32_t index = open.exchange(none, std::memory_order_relaxed); index != none)
        seal(index);
    }
  }
}

void entry_log::unlist(std::uint32_t index) noexcept {
  segment& s = segments_[index];
  order& o = order_[index_of(s.in.load(std::memory_order_relaxed))];  // relaxed: under the mutex
  (s.older == none ? o.oldest : segments_[s.older].newer) = s.newer;
  (s.newer == none ? o.newest : segments_[s.newer].older) = s.older;
  --o.count;
  s.is_listed = false;
}

}  // namespace espalier::caching
