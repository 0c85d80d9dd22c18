#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "espalier/cache/state.hpp"
#include "espalier/hw/pause.hpp"

// How memory is found for an entry. Evictions are S3-FIFO (Yang et al., SOSP 2023), segment by segment. New entries come
// into the queue `fresh`, which keeps two of a hundred segments. Those that were asked for there go on into `proven`, whose
// oldest ones begin again as long as gets ask for them. The rest is evicted. A key that comes back soon after goes into
// `proven` at once. The simulations that led to the numbers: docs/decisions/cache.md.
//
// A large entry lies in an extent, and goes through the same two queues by itself. The older of the oldest segment and the oldest
// large entry of a queue is evicted first. Queues are as long as their bytes.

namespace espalier {
namespace {

using caching::entry;
using caching::entry_log;
using caching::extents;
using caching::hash_of;
using caching::location;
using caching::queue;
using caching::table;

}  // namespace

location byte_cache::state::allocate(std::size_t bytes, queue in, unsigned lifetime) {
  while (true) {
    if (const location where = log.allocate(bytes, in, lifetime); where != 0) return where;
    const std::uint32_t index = obtain();
    if (index == entry_log::none) return 0;
    // Survivors may have opened one.
    if (const location where = log.allocate(bytes, in, lifetime); where != 0) {
      log.reclaim(index);
      return where;
    }
    log.open(index, in, lifetime, next_age());
  }
}

/// An extent for that number of bytes of an entry; none: there is no room.
std::uint32_t byte_cache::state::allocate_large(std::size_t bytes) {
  const std::size_t wanted = large.bytes_for(bytes);
  // Free extents that are too small keep so much memory, for such as fit them: to have it again costs calls of the kernel.
  const std::size_t kept = options.evicts ? budget.limit() / 32 : 0;
  for (effort so_far;;) {
    keep_spare();
    if (const std::uint32_t extent = large.allocate(bytes); extent != extents::none) return extent;
    const bool lacks_memory = budget.used() + wanted > budget.limit();
    if (lacks_memory &&
        (log.shrink_for(wanted) || (large.free_bytes() > kept + wanted && large.discard_for(wanted))))
      continue;
    if (make_progress(wanted, so_far)) continue;
    if (!lacks_memory || !large.discard_for(wanted)) return extents::none;
  }
}

/// From the log, if need be with memory of free extents.
std::uint32_t byte_cache::state::take_free() noexcept {
  if (budget.is_passed()) large.discard_for(0);
  const std::uint32_t backed = log.backed();
  std::uint32_t index = entry_log::none;
  const std::int64_t cost = cost_of(2 * log.segment_bytes(), [&] { index = log.take_free(); });
  if (index != entry_log::none) {
    if (log.backed() > backed) {  // it was not a freed one
      // The first segment of a huge page brings the memory of all.
      cost_of_memory += (cost - cost_of_memory) / 16;
      left_for_copies = std::min(left_for_copies + cost_of_memory, 4 * cost_of_memory);
    }
    return index;
  }
  return large.free_bytes() != 0 && large.discard_for(log.segment_bytes()) ? log.take_free()
                                                                           : entry_log::none;
}

/// The CPU time of some work. Under a clock of the user's, which may stand, this number of bytes.
template <class Work>
std::int64_t byte_cache::state::cost_of(std::size_t bytes, Work&& work) {
  if (options.clock != nullptr) {
    work();
    return static_cast<std::int64_t>(bytes);
  }
  const std::uint64_t before = caching::nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
  work();
  return static_cast<std::int64_t>(caching::nanoseconds_of(CLOCK_THREAD_CPUTIME_ID) - before);
}

/// Memory that was not used before, the kernel has to find and to clear, which takes as long as a copy of as many bytes or
/// forty times that, where a hypervisor has to find it too. So before more of it is used, segments with holes are copied,
/// until that has taken as long: together they cost at most twice what the better of both would. Where the table has
/// passed the limit, what is nearly empty is copied. No thread copies for that while others wait: memory that was not used before
/// is had at once. False: no more now.
bool byte_cache::state::copy_instead() {
  const bool is_cheap = left_for_copies > 0 && log.can_grow() &&
                        waiting.load(std::memory_order_relaxed) == 0;  // relaxed: a hint
  if (!is_cheap && !budget.is_passed()) return false;
  const std::size_t most = log.segment_bytes() / (is_cheap ? 1 : 4);
  std::uint32_t index = log.take_loose(most);
  // Where memory costs much, segments with few holes are worth it, too.
  constexpr std::int64_t much = 16;
  if (index == entry_log::none && is_cheap && cost_of_memory > much * cost_of_copy && log.find_holes())
    index = log.take_loose(most);
  if (index == entry_log::none) return false;
  // relaxed: a count
  const std::size_t bytes = log[index].live.load(std::memory_order_relaxed);
  const std::int64_t cost = cost_of(bytes, [&] {
    static_cast<void>(empty({index, true, 0, now()}));
    domain.collect();
  });
  cost_of_copy += (cost - cost_of_copy) / 16;
  left_for_copies -= cost;
  return true;
}

/// A free segment; one more is spare then.
std::uint32_t byte_cache::state::obtain() {
  for (effort so_far;;) {
    keep_spare();
    // Copies may take the spare one.
    for (bool goes_on = true; spare != entry_log::none && goes_on; keep_spare()) {
      if (const std::uint32_t index = log.take_freed(); index != entry_log::none) return index;
      goes_on = copy_instead() && !budget.is_passed();  // else some returns to the OS first
    }
    if (spare != entry_log::none) {
      if (const std::uint32_t index = take_free(); index != entry_log::none) return index;
    }
    if (!make_progress(log.segment_bytes(), so_far)) return entry_log::none;
  }
}

/// What has holes can be copied as long as there is a spare segment. So the first free one is it, before anything else gets
/// memory and also where the budget is passed. A copy returns a segment for the one that it took.
void byte_cache::state::keep_spare() noexcept {
  if (spare == entry_log::none) spare = log.take_freed();
  if (spare == entry_log::none) spare = take_free();
}

/// Frees memory, or waits for readers of what was freed. False: there is nothing to free, or they take too long.
bool byte_cache::state::make_progress(std::size_t bytes, effort& so_far) {
  const std::size_t limbo = in_limbo.load(std::memory_order_acquire);
  domain.collect();
  if (in_limbo.load(std::memory_order_acquire) < limbo) return true;
  // As much as is asked for, and a little more rather than a wait. A request that goes on for long asks more of entries.
  const auto patience = static_cast<unsigned>(4 + 2 * bytes / log.segment_bytes());
  if (limbo < bytes + log.segment_bytes() + budget.limit() / 64 && evict(so_far.evictions / patience)) {
    ++so_far.evictions;
    ++evicting;
    return true;
  }
  if (limbo == 0) return false;
  constexpr unsigned yields = 100;
  constexpr unsigned sleeps = 1000;
  if (++so_far.waits > yields + sleeps) return false;
  hw::park();
  if (so_far.waits > yields) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return true;
}

/// A step towards the limit. False: there is nothing to free, or readers take too long.
bool byte_cache::state::return_excess(effort& so_far) {
  keep_spare();
  if (log.shrink_for(0) || large.discard_for(0)) return true;
  return make_progress(log.segment_bytes(), so_far);
}

/// Frees a segment, or a large entry.
bool byte_cache::state::evict(unsigned threshold) {
  const std::uint32_t second = now();
  if (second != ends_seen) {
    ends_seen = second;
    // Before versions come round no entry is of before a flush.
    const auto is_flushed = [this](const extents::candidate& c) {
      return c.index != extents::none && c.age < flushed_at;
    };
    const bool large_is_flushed =
        is_flushed(large.oldest(queue::fresh)) || is_flushed(large.oldest(queue::proven));
    if (!log.find_ended(second) && !large_is_flushed)
      flushed.store(0, std::memory_order_relaxed);  // relaxed: no reader sees such an entry
  }
  // An entry that is about to be refused is worth more copies than one for which others go.
  for (const bool is_last : {false, true}) {
    if (is_last && (options.evicts || !log.find_holes())) break;
    unsigned looks = 0;
    // Without a segment for survivors all would be evicted.
    const auto take = [this] { return log.take_loose(spare == entry_log::none ? 0 : log.segment_bytes()); };
    for (std::uint32_t i = take(); i != entry_log::none; i = take()) {
      const auto& s = log[i];
      // relaxed, all of it: a guess of what is worth it
      if (s.look_at.load(std::memory_order_relaxed) <= second) {
        drop_ended_of(i, second);
        ++looks;
      }
      if (entry_log::segment::is_worth_copying(
              s.live.load(std::memory_order_relaxed), s.end,
              is_last ? entry_log::segment::last_holes_one_in : entry_log::segment::holes_one_in) ||
          s.is_flushed.load(std::memory_order_relaxed))
        return empty({i, true, 0, second});
      constexpr unsigned most_looks = 16;
      if (options.evicts && looks == most_looks) break;
    }
  }
  if (!options.evicts) return drop_ended_large(second);
  evicted.fit(entries.entries());
  const oldest_one next = next_victim();
  if (next.segment != entry_log::none) return empty({next.segment, false, threshold, second});
  return next.extent != extents::none && evict_large(large[next.extent].in, threshold, second);
}

byte_cache::state::oldest_one byte_cache::state::next_victim() noexcept {
  constexpr std::size_t fresh_one_in = 50;
  const auto bytes_in = [this](queue q) {
    return log.listed(q) * log.segment_bytes() + large.listed_bytes(q);
  };
  const std::size_t fresh = bytes_in(queue::fresh);
  const std::size_t proven = bytes_in(queue::proven);
  const bool fresh_is_long =
      fresh > log.segment_bytes() + (fresh + proven) / fresh_one_in || proven < 2 * log.segment_bytes();
  const queue first = fresh_is_long ? queue::fresh : queue::proven;
  const queue second = fresh_is_long ? queue::proven : queue::fresh;
  for (const bool all_sealed : {false, true}) {
    if (all_sealed) log.seal_open();
    for (const queue q : {first, second}) {
      const std::uint32_t segment = log.oldest(q);
      const extents::candidate extent = large.oldest(q);
      if (extent.index != extents::none && (segment == entry_log::none || extent.age < log[segment].age))
        return {entry_log::none, extent.index};
      if (segment != entry_log::none) return {segment, extents::none};
    }
  }
  return {};
}

/// Evicts the oldest large entry of a queue that was not asked for. Those before it change their place in the queues. False:
/// there is none.
bool byte_cache::state::evict_large(queue in, unsigned threshold, std::uint32_t second) {
  auto guard = domain.pin();
  guard.reserve(1);
  // A request that comes back is less patient.
  constexpr unsigned most_moves = 64;
  for (unsigned moves = 0; moves < most_moves; ++moves) {
    const std::uint32_t extent = large.oldest(in).index;
    if (extent == extents::none) return moves != 0;
    entry& e = entry_in(extent);
    const location where = log.location_of(reinterpret_cast<std::byte*>(&e));
    const std::uint64_t hash = hash_of(e.key());
    const std::lock_guard held(entries.lock_of(hash));
    const table::found f = entries.find_location(hash, where);
    if (f.at == nullptr) continue;  // it has left
    if (is_gone(e, second)) {
      drop_ended(e, f, hash, &guard);
      return true;
    }
    const unsigned frequency = table::frequency_in(f.word);
    if (frequency > threshold) {
      // As a survivor in move_or_drop(), but for the copy.
      large.unlist(extent);
      large.list(extent, queue::proven, next_age());
      table::replace(*f.at, table::word_of(hash, where, in == queue::fresh ? 0 : frequency - 1));
      continue;
    }
    drop_evicted(e, f, hash, guard);
    return true;
  }
  return true;
}

/// Takes out large entries that have ended or were flushed. False: there are none.
bool byte_cache::state::drop_ended_large(std::uint32_t second) {
  auto guard = domain.pin();
  bool found_one = false;
  for (const queue q : {queue::fresh, queue::proven}) {
    for (std::uint32_t extent = large.oldest(q).index; extent != extents::none;) {
      const std::uint32_t next = large.newer(extent, q).index;
      entry& e = entry_in(extent);
      ++walked;
      if (is_gone(e, second)) {
        guard.reserve(1);
        const std::uint64_t hash = hash_of(e.key());
        const std::lock_guard held(entries.lock_of(hash));
        const table::found f = entries.find_location(hash, log.location_of(reinterpret_cast<std::byte*>(&e)));
        if (f.at != nullptr && is_gone(e, second)) {
          drop_ended(e, f, hash, &guard);
          ++walked_ended;
          found_one = true;
        }
      }
      extent = next;
    }
  }
  return found_one;
}

location byte_cache::state::room_for_survivor(std::size_t bytes, queue in, unsigned lifetime) noexcept {
  while (true) {
    if (const location where = log.allocate(bytes, in, lifetime); where != 0) return where;
    const std::uint32_t fresh =
        spare != entry_log::none ? std::exchange(spare, entry_log::none) : take_free();
    if (fresh == entry_log::none) return 0;
    log.open(fresh, in, lifetime, next_age());
  }
}

/// False: the entry has to stay where it is.
bool byte_cache::state::move_or_drop(const entry& e, location where, std::uint64_t hash, const sentence& how,
                                     epoch_domain::guard& guard) {
  const std::lock_guard held(entries.lock_of(hash));
  const table::found f = entries.find_location(hash, where);
  if (f.at == nullptr) return true;
  const auto& from = log[how.victim];
  const queue in = from.in.load(std::memory_order_relaxed);  // relaxed: under the mutex
  const unsigned frequency = table::frequency_in(f.word);
  const bool gone = is_gone(e, how.second);
  if (!gone && (how.spares_all || frequency > how.threshold)) {
    const std::size_t bytes = e.bytes();
    if (const location to = room_for_survivor(bytes, how.spares_all ? in : queue::proven, from.lifetime);
        to != 0) {
      e.copy_to(log.at(to), bytes);
      log.complete(to, bytes, e.end());
      // What comes into `proven` begins at 0, and what stays there loses one.
      const unsigned left = how.spares_all ? frequency : in == queue::fresh ? 0 : frequency - 1;
      table::replace(*f.at, table::word_of(hash, to, left));
      log.release(where, bytes);
      add(copied);
      return true;
    }
    if (!options.evicts) return false;
  }
  if (gone) {
    drop_ended(e, f, hash, &guard);
    return true;
  }
  drop_evicted(e, f, hash, guard);
  return true;
}

/// Takes out the entries of a segment that have ended or were flushed, and notes when enough of the others will have for a
/// look that is worth it. The tick is found to a factor of two of the time until then: a segment is looked at a few dozen
/// times at most before it is copied, however long its entries live.
void byte_cache::state::drop_ended_of(std::uint32_t index, std::uint32_t second) {
  auto guard = domain.pin();
  std::array<std::size_t, 33> left{};  // bytes of which the end is 2^(i-1) ticks away, and less than 2^i
  const std::uint32_t end = log.written(index);
  if (end == 0) return;
  log.forget_ends(index);
  for (std::uint32_t at = 0; at < end;) {
    const location where = log.begin_of(index) + at / caching::location_unit;
    const entry& e = log.entry_at(where);
    const std::size_t bytes = e.bytes();
    at += static_cast<std::uint32_t>(bytes);
    if ((e.marks() & caching::is_filler) != 0) continue;
    ++walked;
    if (!is_gone(e, second)) {
      if (e.end() != cache_entry::never) left[std::bit_width(e.end() - second)] += bytes;
      continue;
    }
    const std::uint64_t hash = hash_of(e.key());
    const std::lock_guard held(entries.lock_of(hash));
    const table::found f = entries.find_location(hash, where);
    if (f.at == nullptr || !is_gone(e, second)) continue;
    drop_ended(e, f, hash, &guard);
    ++walked_ended;
  }
  const std::size_t one_in =
      options.evicts ? entry_log::segment::holes_one_in : entry_log::segment::last_holes_one_in;
  // relaxed: a count
  const std::size_t live = log[index].live.load(std::memory_order_relaxed);
  const std::size_t most = end / one_in * (one_in - 1);
  const std::size_t enough = live > most ? live - most : 1;
  std::size_t ended = 0;
  for (unsigned i = 1; i < left.size(); ++i) {
    ended += left[i];
    if (ended < enough) continue;
    log.note_end(log.begin_of(index), second + (std::uint32_t{1} << (i - 1)));
    break;
  }
}

/// Frees a segment that is complete. False: some of it has to stay.
bool byte_cache::state::empty(const sentence& how) {
  auto guard = domain.pin();
  guard.reserve(1);
  struct step {
    const entry* what;
    location where;
    std::uint64_t hash;
  };
  std::array<step, 16> steps;
  const std::uint32_t victim = how.victim;
  const location first = log.begin_of(victim);
  const std::uint32_t end = log[victim].end;
  for (std::uint32_t at = 0; at < end;) {
    std::size_t count = 0;
    while (at < end && count < steps.size()) {
      const location where = first + at / caching::location_unit;
      const entry& e = log.entry_at(where);
      at += static_cast<std::uint32_t>(e.bytes());
      if ((e.marks() & caching::is_filler) != 0) continue;
      const std::uint64_t hash = hash_of(e.key());
      entries.request_bucket(hash);
      steps[count++] = {&e, where, hash};
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!move_or_drop(*steps[i].what, steps[i].where, steps[i].hash, how, guard)) return false;
    }
  }
  log.unlist(victim);
  in_limbo.fetch_add(log.segment_bytes(), std::memory_order_acq_rel);
  guard.retire({&log, reinterpret_cast<void*>(std::uintptr_t{victim}), this, [](const retired& r) noexcept {
                  auto& owner = *static_cast<state*>(r.owner);
                  owner.log.reclaim(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(r.aux)));
                  owner.in_limbo.fetch_sub(owner.log.segment_bytes(), std::memory_order_acq_rel);
                }});
  return true;
}

}  // namespace espalier
