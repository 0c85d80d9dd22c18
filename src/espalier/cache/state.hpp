#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <ratio>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "espalier/cache/byte_cache.hpp"
#include "espalier/cache/entry.hpp"
#include "espalier/cache/entry_log.hpp"
#include "espalier/cache/extents.hpp"
#include "espalier/cache/ghosts.hpp"
#include "espalier/cache/table.hpp"
#include "espalier/cache/writer_groups.hpp"
#include "espalier/hw/cache_line.hpp"

// What a cache is made of, for its operations (byte_cache.cpp) and its evictions (eviction.cpp).
//
// Locks: the log's mutex before a stripe's lock, and that before the lock of the extents; never the other way.

namespace espalier {

namespace caching {

/// Keys come from users that may wish each other ill: none of them can tell which ones collide.
extern const std::uint64_t process_seed;

[[nodiscard]] inline std::uint64_t hash_of(std::string_view key) noexcept {
  return XXH3_64bits_withSeed(key.data(), key.size(), process_seed);
}

[[nodiscard]] inline std::uint64_t nanoseconds_of(clockid_t which) noexcept {
  timespec now;
  clock_gettime(which, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * std::nano::den + static_cast<std::uint64_t>(now.tv_nsec);
}

// Of the cache's own clock.
inline constexpr std::uint64_t tick_nanoseconds = std::nano::den / 16;

}  // namespace caching

struct byte_cache::state {
  using entry = caching::entry;
  using entry_log = caching::entry_log;
  using extents = caching::extents;
  using location = caching::location;
  using queue = caching::queue;
  using table = caching::table;

  state(const cache_options& o, epoch_domain& d)
      : options(o),
        budget(o.memory_limit, o.largest_limit),
        entries(budget),
        log(budget, extents::address_bytes(budget.largest())),
        large(budget, log.behind(), extents::address_bytes(budget.largest())),
        evicted(budget),
        domain(d) {}

  cache_options options;
  std::uint64_t began = caching::nanoseconds_of(CLOCK_MONOTONIC_COARSE);
  caching::memory_budget budget;
  table entries;
  entry_log log;
  extents large;
  caching::ghosts evicted;
  epoch_domain& domain;

  caching::version_source versions{log.writer_groups()};
  std::uint64_t versions_begin = 0;  // the highest one that was put back
  /// Entries of this version and before are gone; 0: none is.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> flushed{0};

  alignas(hw::false_sharing_bytes) std::mutex mutex;  // of evictions, and of the order of segments
  /// Threads that wait for the mutex to get room.
  std::atomic<std::uint32_t> waiting{0};
  std::uint32_t spare = entry_log::none;  // for survivors
  std::uint32_t ends_seen = 0;            // the second in which ended segments were looked for
  std::uint64_t flushed_at = 0;           // the age of what comes after the last flush
  std::uint32_t next_to_reclaim = 0;      // the segment at which reclaim_ended() goes on
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
  std::int64_t cost_of_memory = 0;   // of a segment's that was not used before, of late
  std::int64_t cost_of_copy = 0;     // of a segment's entries
  std::int64_t left_for_copies = 0;  // what copies may cost before the next one
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
    return static_cast<std::uint32_t>(
        (caching::nanoseconds_of(CLOCK_MONOTONIC_COARSE) - began) / caching::tick_nanoseconds + 1);
  }

  [[nodiscard]] bool is_flushed(const entry& e) const noexcept {
    const std::uint64_t until = flushed.load(std::memory_order_acquire);  // order: flush, release
    return until != 0 && (until - e.version()) % entry::version_limit < entry::version_limit / 2;
  }
  [[nodiscard]] bool is_gone(const entry& e, std::uint32_t second) const noexcept {
    return e.end() <= second || is_flushed(e);
  }
  void count_gone(const entry& e) noexcept { add(is_flushed(e) ? found_flushed : found_expired); }

  [[nodiscard]] auto hash_at() const noexcept {
    return [this](location where) { return caching::hash_of(log.entry_at(where).key()); };
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
  /// Unlinks an entry, under the lock of its key. As leave() needs a guard.
  void unlink(const entry& e, const table::found& f, std::uint64_t hash,
              epoch_domain::guard* guard) noexcept {
    const location where = table::location_in(f.word);
    entries.erase(hash, *f.at);
    entries.count(-1);
    leave(e, where, guard);
  }
  void drop_ended(const entry& e, const table::found& f, std::uint64_t hash,
                  epoch_domain::guard* guard) noexcept {
    add(expired);
    if ((e.marks() & caching::is_fetched) == 0) add(expired_unfetched);
    unlink(e, f, hash, guard);
  }
  void drop_evicted(const entry& e, const table::found& f, std::uint64_t hash,
                    epoch_domain::guard& guard) noexcept {
    add(evictions);
    if ((e.marks() & caching::is_fetched) == 0) add(evicted_unfetched);
    if (e.end() != cache_entry::never) add(evicted_with_end);
    const std::uint32_t second = now();
    evicted_idle.store(second - e.seen(second).accessed, std::memory_order_relaxed);  // relaxed: to show
    // relaxed: a setting
    if (options.observer != nullptr && options.observer->wants_evictions.load(std::memory_order_relaxed))
        [[unlikely]]
      options.observer->evicted(e.key(), e.seen(second));
    evicted.add(hash);
    unlink(e, f, hash, &guard);
  }

  /// Visits what a segment, or a large entry's extent, has. False: no more is wanted.
  bool visit_segment(std::uint32_t index, void* context, bool (*visit)(void*, const kept_entry&));
  bool visit_large(std::uint32_t extent, queue in, void* context, bool (*visit)(void*, const kept_entry&));

  // What follows is under the mutex.

  [[nodiscard]] location allocate(std::size_t bytes, queue in, unsigned lifetime);
  [[nodiscard]] std::uint32_t allocate_large(std::size_t bytes);
  [[nodiscard]] std::uint32_t obtain();
  [[nodiscard]] bool copy_instead();
  template <class Work>
  [[nodiscard]] std::int64_t cost_of(std::size_t bytes, Work&& work);
  void keep_spare() noexcept;
  void drop_ended_of(std::uint32_t index, std::uint32_t second);
  /// How long one request has been at it.
  struct effort {
    unsigned evictions = 0;
    unsigned waits = 0;
  };
  [[nodiscard]] bool make_progress(std::size_t bytes, effort& so_far);
  [[nodiscard]] bool return_excess(effort& so_far);
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

}  // namespace espalier
