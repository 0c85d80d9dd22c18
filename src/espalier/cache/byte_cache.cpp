#include "espalier/cache/byte_cache.hpp"

#include <sys/random.h>
#include <ctime>

#include <array>
#include <bit>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "espalier/cache/entry.hpp"
#include "espalier/cache/entry_log.hpp"
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
// Locks: the log's mutex before a stripe's lock, never the other way.

namespace espalier {
namespace {

using caching::apart_value;
using caching::entry;
using caching::entry_log;
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

std::uint64_t coarse_seconds() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec);
}

apart_value make_apart(std::size_t bytes) { return {new hw::page_run(hw::map_pages(bytes)), bytes}; }

}  // namespace

struct byte_cache::state {
  state(const cache_options& o, epoch_domain& d)
      : options(o), budget(o.memory_limit), entries(budget), log(budget), evicted(budget), domain(d) {}
  ~state() {
    for (std::size_t bucket = 0; bucket < entries.buckets(); ++bucket) {
      entries.each_in(bucket, [this](location where) {
        const entry& e = log.entry_at(where);
        if ((e.marks() & caching::is_apart) != 0) delete e.apart().pages;
      });
    }
  }

  cache_options options;
  std::uint64_t began = coarse_seconds();
  caching::memory_budget budget;
  table entries;
  entry_log log;
  caching::ghosts evicted;
  epoch_domain& domain;

  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> versions{0};
  /// Entries of this version and before are gone; 0: none is.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> flushed{0};

  alignas(hw::false_sharing_bytes) std::mutex mutex;  // of evictions, and of the order of segments
  std::uint32_t spare = entry_log::none;              // for survivors
  std::uint32_t halfway = entry_log::none;            // a segment that is emptied in part
  std::uint32_t halfway_at = 0;                       // where the rest begins
  std::uint32_t ends_seen = 0;                        // the second in which ended segments were looked for
  std::uint32_t next_to_reclaim = 0;                  // the segment at which reclaim_ended() goes on
  /// Bytes that come back when no reader can be in them any more.
  std::atomic<std::size_t> in_limbo{0};

  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> evicted_unfetched{0};
  std::atomic<std::uint64_t> expired{0};
  std::atomic<std::uint64_t> expired_unfetched{0};
  std::atomic<std::uint64_t> copied{0};
  std::atomic<std::uint64_t> found_expired{0};
  std::atomic<std::uint64_t> found_flushed{0};
  std::atomic<std::size_t> bytes_apart{0};

  static constexpr std::size_t none_is_enough = std::numeric_limits<std::size_t>::max() / 2;

  static void add(std::atomic<std::uint64_t>& count) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
  }

  [[nodiscard]] std::uint32_t now() const noexcept {
    // relaxed: seconds order nothing.
    if (options.clock != nullptr) return options.clock->load(std::memory_order_relaxed);
    return static_cast<std::uint32_t>(coarse_seconds() - began + 1);
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

  /// Without a reader.
  void give(const apart_value& value) noexcept {
    const std::size_t gone = value.pages->size();
    delete value.pages;
    budget.give(gone);
    bytes_apart.fetch_sub(gone, std::memory_order_relaxed);  // relaxed: a count
  }

  /// Under the lock of the key. An entry with a value apart needs a guard with room for one retirement.
  void leave(const entry& e, location where, epoch_domain::guard* guard) noexcept {
    if ((e.marks() & caching::is_apart) != 0) {
      hw::page_run* const pages = e.apart().pages;
      in_limbo.fetch_add(pages->size(), std::memory_order_acq_rel);
      guard->retire({pages, nullptr, this, [](const retired& r) noexcept {
                       auto& owner = *static_cast<state*>(r.owner);
                       auto* const gone = static_cast<hw::page_run*>(r.object);
                       const std::size_t bytes = gone->size();
                       owner.give({gone, bytes});
                       owner.in_limbo.fetch_sub(bytes, std::memory_order_acq_rel);
                     }});
    }
    log.release(where, e.bytes());
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

  // What follows is under the mutex.

  [[nodiscard]] location allocate(std::size_t bytes, queue in, unsigned lifetime);
  [[nodiscard]] bool reserve_apart(std::size_t bytes);
  [[nodiscard]] std::uint32_t obtain();
  void keep_spare() noexcept;
  void drop_ended_of(std::uint32_t index, std::uint32_t second);
  /// How long one request has been at it.
  struct effort {
    unsigned evictions = 0;
    unsigned waits = 0;
  };
  [[nodiscard]] bool make_progress(std::size_t bytes, effort& so_far);
  [[nodiscard]] bool evict(std::size_t bytes, unsigned threshold);
  [[nodiscard]] std::uint32_t next_victim() noexcept;
  /// How an entry of the victim fares.
  struct sentence {
    std::uint32_t victim;
    bool spares_all;
    unsigned threshold;
    std::uint32_t second;
  };
  [[nodiscard]] bool empty(const sentence& how, std::size_t enough);
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
    log.open(index, in, lifetime);
  }
}

/// Makes room in the budget for pages of a value.
bool byte_cache::state::reserve_apart(std::size_t bytes) {
  effort so_far;
  for (keep_spare(); !budget.try_take(bytes); keep_spare()) {
    if (!log.shrink_for(bytes) && !make_progress(bytes, so_far)) return false;
  }
  bytes_apart.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: a count
  return true;
}

/// A free segment; one more is spare then.
std::uint32_t byte_cache::state::obtain() {
  for (effort so_far;;) {
    keep_spare();
    if (spare != entry_log::none) {
      if (const std::uint32_t index = log.take_free(); index != entry_log::none) return index;
    }
    if (!make_progress(log.segment_bytes(), so_far)) return entry_log::none;
  }
}

/// What has holes can be copied as long as there is a spare segment. So the first free one is it, before anything else gets
/// memory and also where the budget is passed. A copy returns a segment for the one that it took.
void byte_cache::state::keep_spare() noexcept {
  if (spare == entry_log::none) spare = log.take_freed();
  if (spare == entry_log::none) spare = log.take_free();
}

/// Frees memory, or waits for readers of what was freed. False: there is nothing to free, or they take too long.
bool byte_cache::state::make_progress(std::size_t bytes, effort& so_far) {
  const std::size_t limbo = in_limbo.load(std::memory_order_acquire);
  domain.collect();
  if (in_limbo.load(std::memory_order_acquire) < limbo) return true;
  // As much as is asked for, and a little more rather than a wait. A request that goes on for long asks more of entries.
  constexpr unsigned patience = 4;
  if (limbo < bytes + log.segment_bytes() + budget.limit() / 64 &&
      evict(bytes, so_far.evictions / patience)) {
    ++so_far.evictions;
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

/// Frees a segment, or so many bytes of values that lie apart.
bool byte_cache::state::evict(std::size_t bytes, unsigned threshold) {
  const std::uint32_t second = now();
  if (second != ends_seen) {
    ends_seen = second;
    // Before versions come round no entry is of before a flush.
    if (!log.find_ended(second))
      flushed.store(0, std::memory_order_relaxed);  // relaxed: no reader sees such an entry
  }
  // An entry that is about to be refused is worth more copies than one for which others go.
  for (const bool is_last : {false, true}) {
    if (is_last && (options.evicts || !log.find_holes())) break;
    unsigned looks = 0;
    // Without a segment for survivors all would be evicted.
    const auto take = [this] { return log.take_loose(spare == entry_log::none); };
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
        return empty({i, true, 0, second}, none_is_enough);
      constexpr unsigned most_looks = 16;
      if (options.evicts && looks == most_looks) break;
    }
  }
  if (!options.evicts) return false;
  evicted.fit(entries.entries());
  const std::uint32_t victim = next_victim();
  return victim != entry_log::none && empty({victim, false, threshold, second}, bytes);
}

std::uint32_t byte_cache::state::next_victim() noexcept {
  if (halfway != entry_log::none) return halfway;
  constexpr std::uint32_t fresh_one_in = 50;
  const bool fresh_is_long =
      log.listed(queue::fresh) > 1 + log.backed() / fresh_one_in || log.listed(queue::proven) < 2;
  const queue first = fresh_is_long ? queue::fresh : queue::proven;
  const queue second = fresh_is_long ? queue::proven : queue::fresh;
  for (const bool all_sealed : {false, true}) {
    // Where values lie apart all entries may be in open segments.
    if (all_sealed) log.seal_open();
    for (const queue q : {first, second}) {
      if (const std::uint32_t i = log.oldest(q); i != entry_log::none) return i;
    }
  }
  return entry_log::none;
}

location byte_cache::state::room_for_survivor(std::size_t bytes, queue in, unsigned lifetime) noexcept {
  while (true) {
    if (const location where = log.allocate(bytes, in, lifetime); where != 0) return where;
    const std::uint32_t fresh =
        spare != entry_log::none ? std::exchange(spare, entry_log::none) : log.take_free();
    if (fresh == entry_log::none) return 0;
    log.open(fresh, in, lifetime);
  }
}

/// False: the entry has to stay where it is.
bool byte_cache::state::move_or_drop(const entry& e, location where, std::uint64_t hash, const sentence& how,
                                     epoch_domain::guard& guard) {
  const bool is_apart = (e.marks() & caching::is_apart) != 0;
  if (is_apart) guard.reserve(1);
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
  entries.erase(hash, *f.at);
  entries.count(-1);
  add(evictions);
  if ((e.marks() & caching::is_fetched) == 0) add(evicted_unfetched);
  evicted.add(hash);
  leave(e, where, &guard);
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
    if (!is_gone(e, second)) {
      const std::size_t apart = (e.marks() & caching::is_apart) != 0 ? e.apart().bytes : 0;
      if (e.end() != cache_entry::never) left[std::bit_width(e.end() - second)] += bytes + apart;
      continue;
    }
    if ((e.marks() & caching::is_apart) != 0) guard.reserve(1);
    const std::uint64_t hash = hash_of(e.key());
    const std::lock_guard held(entries.lock_of(hash));
    const table::found f = entries.find_location(hash, where);
    if (f.at != nullptr && is_gone(e, second)) drop_ended(e, f, hash, &guard);
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

/// Frees a segment that is complete. What is evicted one by one may be enough before its end; the rest is left for the next
/// time. False: some of it has to stay.
bool byte_cache::state::empty(const sentence& how, std::size_t enough) {
  auto guard = domain.pin();
  guard.reserve(1);
  struct step {
    const entry* what;
    location where;
    std::uint64_t hash;
  };
  std::array<step, 16> steps;
  const std::size_t limbo = in_limbo.load(std::memory_order_acquire);
  const std::uint32_t victim = how.victim;
  const location first = log.begin_of(victim);
  const std::uint32_t end = log[victim].end;
  for (std::uint32_t at = victim == halfway ? halfway_at : 0; at < end;) {
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
    if (at < end && in_limbo.load(std::memory_order_acquire) >= limbo + enough) {
      halfway = victim;
      halfway_at = at;
      return true;
    }
  }
  if (halfway == victim) halfway = entry_log::none;
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

cache_changed byte_cache::apply(const hashed_key& key, const erased_change& change) {
  if (key.key.size() > largest_key) return {cache_outcome::too_large, cache_change::kind::keep, 0};
  state& s = *state_;

  // Room that is not yet an entry.
  struct room {
    state& of;
    location where = 0;
    std::size_t bytes = 0;
    unsigned lifetime = 0;
    apart_value apart{};

    ~room() { give(); }
    void give() noexcept {
      if (where != 0) {
        entry::make_filler(of.log.at(where), bytes);
        // In this order: what is complete may be emptied, and used again.
        of.log.release(where, bytes);
        of.log.complete(where, bytes, 0);
        where = 0;
      }
      if (apart.pages != nullptr) of.give(std::exchange(apart, {}));
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
      if ((e->marks() & caching::is_apart) == 0 || guard) return;
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
          s.log.note_end(table::location_in(f.word), c.expires);
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
    const bool is_apart = entry::bytes_of(shape) > s.log.largest_inside();
    if (is_apart) shape.marks |= caching::is_apart;
    const std::size_t bytes = entry::bytes_of(shape);
    const unsigned lifetime = caching::lifetime_of(c.expires, second);
    // A new value takes the place of the old one; a new key shows whether it was evicted lately.
    if (e != nullptr) {
      in = s.log.segment_of(table::location_in(f.word))
               .in.load(std::memory_order_relaxed);  // relaxed: the lock orders it
    } else if (!has_asked) {
      has_asked = true;
      in = s.evicted.take(key.hash) ? queue::proven : queue::fresh;
    }
    if (mine.where == 0 || mine.bytes != bytes || mine.apart.bytes != (is_apart ? c.value_bytes : 0)) {
      mine.give();
      mine.bytes = bytes;
      if (!is_apart) mine.where = s.log.allocate(bytes, in, lifetime);
      if (mine.where == 0) {
        held.unlock();
        guard.reset();
        try {
          if (is_apart) {
            {
              const std::lock_guard evicting(s.mutex);
              if (!s.reserve_apart(hw::whole_pages(c.value_bytes)))
                return {cache_outcome::out_of_memory, c.what, 0};
            }
            try {
              mine.apart = make_apart(c.value_bytes);
            } catch (...) {
              s.budget.give(hw::whole_pages(c.value_bytes));
              s.bytes_apart.fetch_sub(hw::whole_pages(c.value_bytes),
                                      std::memory_order_relaxed);  // relaxed: a count
              throw;
            }
          }
          const std::lock_guard evicting(s.mutex);
          mine.where = s.allocate(bytes, in, lifetime);
        } catch (const std::bad_alloc&) {
          return {cache_outcome::out_of_memory, c.what, 0};
        }
        if (mine.where == 0) return {cache_outcome::out_of_memory, c.what, 0};
        continue;
      }
    }
    if (e != nullptr) may_leave();
    if (version == 0) version = s.next_version();
    entry& made = entry::make(s.log.at(mine.where), shape, key.key, c, version, second, mine.apart);
    if (amends)
      seen.value.copy(made.value(), seen.value.size());
    else
      change.fill(change.filler, made.value(), current);
    const location where = std::exchange(mine.where, 0);
    mine.apart = {};
    s.log.complete(where, bytes, c.expires);
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
  s.log.flush();
}

void byte_cache::reclaim_ended(std::size_t segments) noexcept {
  state& s = *state_;
  try {
    for (std::size_t i = 0; i < std::min<std::size_t>(segments, s.log.size()); ++i) {
      const std::lock_guard held(s.mutex);
      s.drop_ended_of(s.next_to_reclaim, s.now());
      s.next_to_reclaim = (s.next_to_reclaim + 1) % s.log.size();
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
  r.entry_bytes += s.bytes_apart.load(std::memory_order_relaxed);
  r.entries = s.entries.entries();
  r.used_bytes = s.budget.used();
  r.table_bytes = s.entries.bytes();
  {
    const std::lock_guard held(s.mutex);
    r.segments = s.log.backed();
  }
  r.segment_bytes = s.log.segment_bytes();
  r.stored = s.versions.load(std::memory_order_relaxed);
  r.evictions = s.evictions.load(std::memory_order_relaxed);
  r.evicted_unfetched = s.evicted_unfetched.load(std::memory_order_relaxed);
  r.expired = s.expired.load(std::memory_order_relaxed);
  r.expired_unfetched = s.expired_unfetched.load(std::memory_order_relaxed);
  r.copied = s.copied.load(std::memory_order_relaxed);
  r.found_expired = s.found_expired.load(std::memory_order_relaxed);
  r.found_flushed = s.found_flushed.load(std::memory_order_relaxed);
  return r;
}

const cache_options& byte_cache::options() const noexcept { return state_->options; }

std::uint32_t byte_cache::now() const noexcept { return state_->now(); }

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
