#include "espalier/cache/byte_cache.hpp"

#include <sys/random.h>
#include <ctime>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "espalier/cache/entry.hpp"
#include "espalier/cache/entry_log.hpp"
#include "espalier/cache/extents.hpp"
#include "espalier/cache/ghosts.hpp"
#include "espalier/cache/table.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"

// The operations, and evictions: S3-FIFO (Yang et al., SOSP 2023), segment by segment. New entries come into the queue
// `fresh`, which keeps two of a hundred segments. Those that were asked for there go on into `proven`, whose oldest ones begin
// anew as long as they are asked for. The rest is evicted. A key that comes back soon after goes into `proven` at once. The
// simulations that led to the numbers: docs/decisions/cache.md.
//
// A large entry lies in an extent, and goes through the same two queues by itself. The older of the oldest segment and the oldest
// large entry of a queue is evicted first. Queues are as long as their bytes.
//
// Locks: the log's mutex before a stripe's lock, and that before the lock of the extents; never the other way.

namespace espalier {
namespace {

using caching::entry;
using caching::entry_log;
using caching::extents;
using caching::location;
using caching::queue;
using caching::table;

/// Keys come from users that may wish each other ill: none of them can tell which ones collide.
std::uint64_t hash_seed() noexcept {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) seed = 0x9E37'79B9'7F4A'7C15U;
  return seed;
}
const std::uint64_t process_seed = hash_seed();

std::uint64_t hash_of(std::string_view key) noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), process_seed);
}

std::uint64_t nanoseconds_of(clockid_t which) noexcept {
  timespec now;
  clock_gettime(which, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * std::nano::den + static_cast<std::uint64_t>(now.tv_nsec);
}

// Of the cache's own clock.
constexpr std::uint64_t tick_nanoseconds = std::nano::den / 16;

}  // namespace

struct byte_cache::state {
  state(const cache_options& o, epoch_domain& d)
      : options(o),
        budget(o.memory_limit),
        entries(budget),
        log(budget, extents::address_bytes(o.memory_limit)),
        large(budget, log.behind(), extents::address_bytes(o.memory_limit)),
        evicted(budget),
        domain(d) {}

  cache_options options;
  std::uint64_t began = nanoseconds_of(CLOCK_MONOTONIC_COARSE);
  caching::memory_budget budget;
  table entries;
  entry_log log;
  extents large;
  caching::ghosts evicted;
  epoch_domain& domain;

  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> versions{0};
  /// Entries of this version and before are gone; 0: none is.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> flushed{0};

  alignas(hw::false_sharing_bytes) std::mutex mutex;  // of evictions, and of the order of segments
  std::uint32_t spare = entry_log::none;              // for survivors
  std::uint32_t ends_seen = 0;                        // the second in which ended segments were looked for
  std::uint64_t flushed_at = 0;                       // the age of what comes after the last flush
  std::uint32_t next_to_reclaim = 0;                  // the segment at which reclaim_ended() goes on
  /// Bytes that come back when no reader can be in them any more.
  std::atomic<std::size_t> in_limbo{0};

  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> evicted_unfetched{0};
  std::atomic<std::uint64_t> evicted_with_end{0};
  std::atomic<std::uint32_t> evicted_idle{0};
  std::atomic<std::uint64_t> expired{0};
  std::atomic<std::uint64_t> expired_unfetched{0};
  std::atomic<std::uint64_t> copied{0};
  std::atomic<std::uint64_t> found_expired{0};
  std::atomic<std::uint64_t> found_flushed{0};
  /// Of the extents of values that are being received.
  std::atomic<std::size_t> bytes_received{0};
  /// Of the last segment or large entry that came into a queue: the tick, and a number that makes it larger than those before.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> last_age{0};

  // Under the mutex.
  std::uint64_t evicting = 0;
  std::uint64_t walks = 0;
  std::uint64_t walked = 0;
  std::uint64_t walked_ended = 0;

  static void add(std::atomic<std::uint64_t>& count) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
  }

  [[nodiscard]] std::uint32_t now() const noexcept {
    // relaxed: seconds order nothing.
    if (options.clock != nullptr) return options.clock->load(std::memory_order_relaxed);
    return static_cast<std::uint32_t>((nanoseconds_of(CLOCK_MONOTONIC_COARSE) - began) / tick_nanoseconds +
                                      1);
  }

  [[nodiscard]] bool is_flushed(const entry& e) const noexcept {
    const std::uint64_t until = flushed.load(std::memory_order_acquire);  // order: flush, release
    return until != 0 && (until - e.version()) % entry::version_limit < entry::version_limit / 2;
  }
  [[nodiscard]] bool is_gone(const entry& e, std::uint32_t second) const noexcept {
    return e.end() <= second || is_flushed(e);
  }
  void count_gone(const entry& e) noexcept { add(is_flushed(e) ? found_flushed : found_expired); }

  std::uint64_t next_version() noexcept {
    std::uint64_t v = 0;
    do {
      // relaxed: only its uniqueness counts, and that one after a flush is larger, which the flush's own version orders.
      v = (versions.fetch_add(1, std::memory_order_relaxed) + 1) % entry::version_limit;
    } while (v == 0);
    return v;
  }

  [[nodiscard]] auto hash_at() const noexcept {
    return [this](location where) { return hash_of(log.entry_at(where).key()); };
  }

  static constexpr unsigned age_shift = 32;
  std::uint64_t next_age() noexcept {
    const std::uint64_t tick = std::uint64_t{now()} << age_shift;
    // relaxed, both: a number that only grows
    std::uint64_t last = last_age.load(std::memory_order_relaxed);
    std::uint64_t next = 0;
    do {
      next = std::max(last + 1, tick);
    } while (!last_age.compare_exchange_weak(last, next, std::memory_order_relaxed));
    return next;
  }
  /// The tick at which the oldest segment or large entry came into its queue; `second` if there is none. Under the mutex.
  [[nodiscard]] std::uint32_t oldest_tick(std::uint32_t second) noexcept {
    std::uint64_t oldest = std::uint64_t{second} << age_shift;
    for (const queue q : {queue::fresh, queue::proven}) {
      if (const std::uint32_t i = log.first(q); i != entry_log::none) oldest = std::min(oldest, log[i].age);
      if (const extents::candidate c = large.oldest(q); c.index != extents::none)
        oldest = std::min(oldest, c.age);
    }
    return static_cast<std::uint32_t>(oldest >> age_shift);
  }

  [[nodiscard]] entry& entry_in(std::uint32_t extent) const noexcept {
    return *std::launder(reinterpret_cast<entry*>(large.at(extent) + large[extent].entry_at));
  }

  /// Under the lock of the key. A large entry needs a guard with room for one retirement.
  void leave(const entry& e, location where, epoch_domain::guard* guard) noexcept {
    if (!e.is_in_extent()) return log.release(where, e.bytes());
    const std::uint32_t extent = large.index_of(&e);
    large.unlist(extent);
    in_limbo.fetch_add(large.bytes_of(extent), std::memory_order_acq_rel);
    guard->retire(
        {&large, reinterpret_cast<void*>(std::uintptr_t{extent}), this, [](const retired& r) noexcept {
           auto& owner = *static_cast<state*>(r.owner);
           const auto gone = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(r.aux));
           const std::size_t bytes = owner.large.bytes_of(gone);
           owner.large.drop(gone);
           owner.in_limbo.fetch_sub(bytes, std::memory_order_acq_rel);
         }});
  }
  /// Takes out an entry, under the lock of its key. As leave() needs a guard.
  void drop_ended(const entry& e, const table::found& f, std::uint64_t hash,
                  epoch_domain::guard* guard) noexcept {
    const location where = table::location_in(f.word);
    entries.erase(hash, *f.at);
    entries.count(-1);
    add(expired);
    if ((e.marks() & caching::is_fetched) == 0) add(expired_unfetched);
    leave(e, where, guard);
  }

  void drop_evicted(const entry& e, const table::found& f, std::uint64_t hash,
                    epoch_domain::guard& guard) noexcept {
    entries.erase(hash, *f.at);
    entries.count(-1);
    add(evictions);
    if ((e.marks() & caching::is_fetched) == 0) add(evicted_unfetched);
    if (e.end() != cache_entry::never) add(evicted_with_end);
    const std::uint32_t second = now();
    evicted_idle.store(second - e.seen(second).accessed, std::memory_order_relaxed);  // relaxed: to show
    evicted.add(hash);
    leave(e, table::location_in(f.word), &guard);
  }

  // What follows is under the mutex.

  [[nodiscard]] location allocate(std::size_t bytes, queue in, unsigned lifetime);
  [[nodiscard]] std::uint32_t allocate_large(std::size_t bytes);
  [[nodiscard]] std::uint32_t obtain();
  void copy_a_little();
  void keep_spare() noexcept;
  void drop_ended_of(std::uint32_t index, std::uint32_t second);
  /// How long one request has been at it.
  struct effort {
    unsigned evictions = 0;
    unsigned waits = 0;
  };
  [[nodiscard]] bool make_progress(std::size_t bytes, effort& so_far);
  [[nodiscard]] bool evict(unsigned threshold);
  [[nodiscard]] std::uint32_t take_free() noexcept;
  /// A segment or an extent; or neither.
  struct oldest_one {
    std::uint32_t segment = entry_log::none;
    std::uint32_t extent = extents::none;
  };
  [[nodiscard]] oldest_one next_victim() noexcept;
  [[nodiscard]] bool evict_large(queue in, unsigned threshold, std::uint32_t second);
  [[nodiscard]] bool drop_ended_large(std::uint32_t second);
  /// How an entry of the victim fares.
  struct sentence {
    std::uint32_t victim;
    bool spares_all;
    unsigned threshold;
    std::uint32_t second;
  };
  [[nodiscard]] bool empty(const sentence& how);
  [[nodiscard]] bool move_or_drop(const entry& e, location where, std::uint64_t hash, const sentence& how,
                                  epoch_domain::guard& guard);
  [[nodiscard]] location room_for_survivor(std::size_t bytes, queue in, unsigned lifetime) noexcept;
};

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

/// An extent for so many bytes of an entry; none: there is no room.
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
  if (const std::uint32_t index = log.take_free(); index != entry_log::none) return index;
  return large.free_bytes() != 0 && large.discard_for(log.segment_bytes()) ? log.take_free()
                                                                           : entry_log::none;
}

/// Frees a segment that is nearly empty, for one of the next requests: that costs less than memory that was not used before,
/// which the kernel has to find and to clear. Not where the copies cost more than a third of what that would.
void byte_cache::state::copy_a_little() {
  const std::uint64_t held = entries.entries();
  if (held == 0) return;
  constexpr std::size_t copy_of_an_entry = 512;  // costs as much as so many bytes
  const std::size_t most = log.segment_bytes() / (4 + 3 * copy_of_an_entry * held / budget.used());
  const std::uint32_t index = log.take_loose(most);
  if (index == entry_log::none) return;
  static_cast<void>(empty({index, true, 0, now()}));
  domain.collect();
}

/// A free segment; one more is spare then.
std::uint32_t byte_cache::state::obtain() {
  for (effort so_far;;) {
    keep_spare();
    if (spare != entry_log::none) {
      if (const std::uint32_t index = log.take_freed(); index != entry_log::none) return index;
      copy_a_little();
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

byte_cache::byte_cache(const cache_options& options) {
  if (options.memory_limit < smallest_limit)
    throw std::invalid_argument("a cache needs a limit of at least " + std::to_string(smallest_limit) +
                                " bytes");
  if (options.largest_entry > options.memory_limit / 2)
    throw std::invalid_argument("the largest entry of a cache is at most half of its memory");
  state_ = std::make_unique<state>(options, domain_);
}

byte_cache::~byte_cache() { domain_.purge(state_.get()); }

byte_cache::hashed_key byte_cache::hashed(std::string_view key) noexcept { return {key, hash_of(key)}; }

void byte_cache::request(const hashed_key& key, unsigned stage) const noexcept {
  if (stage == 0) {
    state_->entries.request_bucket(key.hash);
  } else if (const location where = state_->entries.guess(key.hash); where != 0) {
    hw::request_lines(state_->log.at(where), 2 * hw::cache_line_bytes);
  }
}

bool byte_cache::find(const hashed_key& key, access how, cache_entry& seen) noexcept {
  state& s = *state_;
  const table::found f =
      s.entries.find(key.hash, [&](location where) { return s.log.entry_at(where).has_key(key.key); });
  if (f.at == nullptr) return false;
  entry& e = s.log.entry_at(table::location_in(f.word));
  const std::uint32_t second = s.now();
  if (s.is_gone(e, second)) {
    s.count_gone(e);
    return false;
  }
  seen = e.seen(second);
  if (how == access::counted) {
    e.note_get(second);
    table::raise(f);
  }
  return true;
}

bool byte_cache::is_large(std::size_t key_bytes, std::size_t value_bytes) const noexcept {
  return entry::longest_head + key_bytes + value_bytes > state_->log.largest_inside();
}

byte_cache::incoming byte_cache::receive(std::size_t key_bytes, std::size_t value_bytes) {
  state& s = *state_;
  incoming made;
  const std::size_t bytes = s.large.bytes_for(entry::longest_head + key_bytes + value_bytes);
  // relaxed, here and below: a count
  if (s.bytes_received.fetch_add(bytes, std::memory_order_relaxed) + bytes <= s.budget.limit() / 2) {
    try {
      const std::lock_guard evicting(s.mutex);
      made.extent_ = s.allocate_large(entry::longest_head + key_bytes + value_bytes);
      if (made.extent_ != extents::none) made.of_ = this;
    } catch (const std::bad_alloc&) {  // there is no room
    }
  }
  if (!made) {
    s.bytes_received.fetch_sub(bytes, std::memory_order_relaxed);
    return {};
  }
  made.key_bytes_ = key_bytes;
  made.value_bytes_ = value_bytes;
  return made;
}

char* byte_cache::incoming::value() const noexcept {
  return reinterpret_cast<char*>(of_->state_->large.at(extent_)) + extents::header_bytes +
         entry::longest_head + key_bytes_;
}

void byte_cache::incoming::free() noexcept {
  if (of_ == nullptr) return;
  state& s = *std::exchange(of_, nullptr)->state_;
  s.bytes_received.fetch_sub(s.large.bytes_of(extent_), std::memory_order_relaxed);
  s.large.drop(extent_);
}

byte_cache::hold byte_cache::hold_value(const cache_entry& seen) noexcept {
  state& s = *state_;
  hold made;
  const auto* const at = reinterpret_cast<const std::byte*>(seen.value.data());
  if (!s.large.contains(at)) return made;
  made.of_ = this;
  made.extent_ = s.large.index_of(at);
  s.large.hold(made.extent_);
  return made;
}

byte_cache::hold::~hold() {
  if (of_ != nullptr) of_->state_->large.drop(extent_);
}

cache_changed byte_cache::apply(const hashed_key& key, const erased_change& change) {
  if (key.key.size() > largest_key) return {cache_outcome::too_large, cache_change::kind::keep, 0};
  state& s = *state_;

  // Room that is not yet an entry.
  struct room {
    state& of;
    location where = 0;
    std::size_t bytes = 0;
    unsigned lifetime = 0;
    std::uint32_t extent = extents::none;

    ~room() { give(); }
    void give() noexcept {
      if (where != 0) {
        entry::make_filler(of.log.at(where), bytes);
        // In this order: what is complete may be emptied, and used again.
        of.log.release(where, bytes);
        of.log.complete(where, bytes, 0);
        where = 0;
      }
      if (extent != extents::none) of.large.drop(std::exchange(extent, extents::none));
    }
  } mine{s};

  queue in = queue::fresh;
  bool has_asked = false;
  while (true) {
    std::unique_lock held(s.entries.lock_of(key.hash));
    table::found f = s.entries.find_locked(
        key.hash, [&](location where) { return s.log.entry_at(where).has_key(key.key); });
    entry* e = f.at == nullptr ? nullptr : &s.log.entry_at(table::location_in(f.word));
    std::optional<epoch_domain::guard> guard;
    const auto may_leave = [&] {
      if (!e->is_in_extent() || guard) return;
      guard.emplace(domain_.pin());
      guard->reserve(1);
    };
    const auto leave = [&] { s.leave(*e, table::location_in(f.word), guard ? &*guard : nullptr); };
    const std::uint32_t second = s.now();
    if (e != nullptr && s.is_gone(*e, second)) {
      s.count_gone(*e);
      may_leave();
      s.drop_ended(*e, f, key.hash, guard ? &*guard : nullptr);
      e = nullptr;
      f = {};
    }
    const cache_entry seen = e == nullptr ? cache_entry{} : e->seen(second);
    const cache_entry* const current = e == nullptr ? nullptr : &seen;
    cache_change c = change.decide(change.decider, current);
    cache_changed result{cache_outcome::done, c.what, current == nullptr ? 0 : seen.version};

    if (c.what == cache_change::kind::keep) return result;
    if (c.what == cache_change::kind::erase) {
      if (e == nullptr) return result;
      may_leave();
      s.entries.erase(key.hash, *f.at);
      s.entries.count(-1);
      leave();
      result.version = 0;
      return result;
    }
    const bool amends = c.what == cache_change::kind::amend;
    std::uint64_t version = 0;
    if (amends) {
      if (e == nullptr) return result;
      if (c.version == 0 && (c.expires == seen.expires || (e->marks() & caching::has_end) != 0)) {
        e->set_marks(c.stale, c.claimed);
        if (c.expires != seen.expires) {
          // In this order: what walks the segment sees the end, or notes nothing after it.
          e->set_end(c.expires);
          if (!e->is_in_extent()) s.log.note_end(table::location_in(f.word), c.expires);
        }
        return result;
      }
      // The entry is written once more, with a place for what it lacks.
      c.value_bytes = seen.value.size();
      c.flags = seen.flags;
      if (c.version == 0) {
        version = e->version();
        if ((e->marks() & caching::has_own_version) != 0) c.version = seen.version;
      }
    }
    const bool is_placed = change.value != nullptr && c.what == cache_change::kind::store;
    if (is_placed) c.value_bytes = change.value->value_bytes_;
    if (c.value_bytes + key.key.size() > s.options.largest_entry) {
      result.outcome = cache_outcome::too_large;
      return result;
    }

    caching::entry_shape shape{key.key.size(), c.value_bytes, 0};
    if (c.stale) shape.marks |= caching::is_stale;
    if (c.claimed) shape.marks |= caching::is_claimed;
    if (c.flags != 0) shape.marks |= caching::has_flags;
    if (c.expires != cache_entry::never) shape.marks |= caching::has_end;
    if (c.version != 0) shape.marks |= caching::has_own_version;
    if (amends && seen.fetched) shape.marks |= caching::is_fetched;
    const bool is_large = is_placed || entry::bytes_of(shape) > s.log.largest_inside();
    if (is_large) shape.marks |= caching::is_large | caching::has_end;
    const std::size_t bytes = is_large ? key.key.size() + c.value_bytes : entry::bytes_of(shape);
    const unsigned lifetime = caching::lifetime_of(c.expires, second);
    // A new value takes the place of the old one; a new key shows whether it was evicted lately.
    if (e != nullptr) {
      const location there = table::location_in(f.word);
      // relaxed: the lock orders it
      in = e->is_in_extent() ? s.large[s.large.index_of(e)].in
                             : s.log.segment_of(there).in.load(std::memory_order_relaxed);
    } else if (!has_asked) {
      has_asked = true;
      in = s.evicted.take(key.hash) ? queue::proven : queue::fresh;
    }
    if (is_placed && mine.extent == extents::none) {
      mine.give();
      mine.bytes = bytes;
      mine.extent = change.value->extent_;
      // relaxed: a count
      s.bytes_received.fetch_sub(s.large.bytes_of(mine.extent), std::memory_order_relaxed);
      change.value->of_ = nullptr;
    }
    const bool has_room = is_large ? mine.extent != extents::none : mine.where != 0;
    if (!has_room || mine.bytes != bytes) {
      mine.give();
      mine.bytes = bytes;
      if (is_large)
        mine.extent = s.large.allocate(entry::longest_head + bytes);
      else
        mine.where = s.log.allocate(bytes, in, lifetime);
      if (mine.where == 0 && mine.extent == extents::none) {
        held.unlock();
        guard.reset();
        try {
          const std::lock_guard evicting(s.mutex);
          if (is_large)
            mine.extent = s.allocate_large(entry::longest_head + bytes);
          else
            mine.where = s.allocate(bytes, in, lifetime);
        } catch (const std::bad_alloc&) {
          return {cache_outcome::out_of_memory, c.what, 0};
        }
        if (mine.where == 0 && mine.extent == extents::none) return {cache_outcome::out_of_memory, c.what, 0};
        continue;
      }
    }
    if (e != nullptr) may_leave();
    if (version == 0) version = s.next_version();
    std::byte* at = nullptr;
    if (is_large) {
      // The value has its place whatever else the entry has.
      const std::size_t from = extents::header_bytes + entry::longest_head - entry::head_bytes(shape.marks);
      s.large[mine.extent].entry_at = static_cast<std::uint16_t>(from);
      at = s.large.at(mine.extent) + from;
    } else {
      at = s.log.at(mine.where);
    }
    entry& made = entry::make(at, shape, key.key, c, version, second);
    if (amends)
      seen.value.copy(made.value(), seen.value.size());
    else if (!is_placed)
      change.fill(change.filler, made.value(), current);
    const location where = s.log.location_of(at);
    if (is_large) {
      s.large.list(std::exchange(mine.extent, extents::none), in, s.next_age());
    } else {
      mine.where = 0;
      s.log.complete(where, bytes, c.expires);
    }
    result.version = c.version != 0 ? c.version : version;
    if (e != nullptr) {
      table::replace(*f.at, table::word_of(key.hash, where, table::frequency_in(f.word)));
      leave();
      return result;
    }
    s.entries.insert(key.hash, table::word_of(key.hash, where, 0));
    s.entries.count(1);
    held.unlock();
    s.entries.grow(s.hash_at());
    return result;
  }
}

void byte_cache::flush() noexcept {
  state& s = *state_;
  const std::lock_guard held(s.mutex);
  // A change that began from an entry ends before its flush, or sees it.
  s.entries.between_changes([&s] {
    s.flushed.store(s.next_version(), std::memory_order_release);  // order: flush, release
  });
  s.flushed_at = s.next_age();
  s.log.flush();
}

void byte_cache::reclaim_ended(std::size_t segments) noexcept {
  state& s = *state_;
  try {
    for (std::size_t i = 0; i < std::min<std::size_t>(segments, s.log.size()); ++i) {
      const std::lock_guard held(s.mutex);
      if (s.next_to_reclaim == 0) ++s.walks;
      s.drop_ended_of(s.next_to_reclaim, s.now());
      s.next_to_reclaim = (s.next_to_reclaim + 1) % s.log.size();
      if (s.next_to_reclaim == 0) static_cast<void>(s.drop_ended_large(s.now()));
    }
  } catch (const std::exception&) {  // the next call goes on
  }
}

cache_statistics byte_cache::statistics() const {
  state& s = *state_;
  cache_statistics r;
  // relaxed, all of it: counts
  for (std::uint32_t i = 0; i < s.log.size(); ++i)
    r.entry_bytes += s.log[i].live.load(std::memory_order_relaxed);
  r.entry_bytes += s.large.listed_bytes(queue::fresh) + s.large.listed_bytes(queue::proven);
  r.entries = s.entries.entries();
  r.used_bytes = s.budget.used();
  r.table_bytes = s.entries.bytes();
  {
    const std::lock_guard held(s.mutex);
    r.segments = s.log.backed();
    const std::uint32_t second = s.now();
    r.oldest = second - s.oldest_tick(second);
    r.evicting = s.evicting;
    r.walks = s.walks;
    r.walked = s.walked;
    r.walked_ended = s.walked_ended;
  }
  r.segment_bytes = s.log.segment_bytes();
  r.stored = s.versions.load(std::memory_order_relaxed);
  r.evictions = s.evictions.load(std::memory_order_relaxed);
  r.evicted_unfetched = s.evicted_unfetched.load(std::memory_order_relaxed);
  r.evicted_with_end = s.evicted_with_end.load(std::memory_order_relaxed);
  r.evicted_idle = s.evicted_idle.load(std::memory_order_relaxed);
  r.expired = s.expired.load(std::memory_order_relaxed);
  r.expired_unfetched = s.expired_unfetched.load(std::memory_order_relaxed);
  r.copied = s.copied.load(std::memory_order_relaxed);
  r.found_expired = s.found_expired.load(std::memory_order_relaxed);
  r.found_flushed = s.found_flushed.load(std::memory_order_relaxed);
  return r;
}

const cache_options& byte_cache::options() const noexcept { return state_->options; }

std::uint32_t byte_cache::now() const noexcept { return state_->now(); }

std::uint32_t byte_cache::end_after(std::chrono::milliseconds lives) const noexcept {
  const state& s = *state_;
  if (lives.count() <= 0) return 0;
  // Above this it is out of reach, and no sum below overflows.
  if (lives >= std::chrono::years(200)) return cache_entry::never;
  const auto left = static_cast<std::uint64_t>(lives.count());
  std::uint64_t end = 0;
  if (s.options.clock != nullptr) {
    // The second that the clock shows may be over in a moment.
    end = s.now() + 1 + (left + 999) / 1000;
  } else {
    // The precise clock is never behind the coarse one, by which entries end.
    const std::uint64_t until = nanoseconds_of(CLOCK_MONOTONIC) - s.began + left * std::micro::den;
    end = (until + tick_nanoseconds - 1) / tick_nanoseconds + 1;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(end, cache_entry::never));
}

std::size_t byte_cache::buckets() const noexcept { return state_->entries.buckets(); }

bool byte_cache::each_of(std::size_t bucket, void* context,
                         bool (*visit)(void*, std::string_view, const cache_entry&)) {
  state& s = *state_;
  const std::uint32_t second = s.now();
  bool goes_on = true;
  s.entries.each_in(bucket, [&](location where) {
    const entry& e = s.log.entry_at(where);
    if (goes_on && !s.is_gone(e, second)) goes_on = visit(context, e.key(), e.seen(second));
  });
  return goes_on;
}

}  // namespace espalier
