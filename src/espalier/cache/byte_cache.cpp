#include "espalier/cache/byte_cache.hpp"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <utility>

#include "espalier/cache/state.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier {
namespace {

using caching::entry;
using caching::entry_log;
using caching::extents;
using caching::hash_of;
using caching::location;
using caching::nanoseconds_of;
using caching::queue;
using caching::table;
using caching::tick_nanoseconds;

std::uint64_t hash_seed() noexcept {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) seed = 0x9E37'79B9'7F4A'7C15U;
  return seed;
}

}  // namespace

const std::uint64_t caching::process_seed = hash_seed();

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
      s.unlink(*e, f, key.hash, guard ? &*guard : nullptr);
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
