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
  if (std::max(options.memory_limit, options.largest_limit) > highest_limit)
    throw std::invalid_argument("a cache has at most " + std::to_string(highest_limit) + " bytes");
  if (options.largest_entry > options.memory_limit / 2)
    throw std::invalid_argument("the largest entry of a cache is at most half of its memory");
  try {
    state_ = std::make_unique<state>(options, domain_);
  } catch (const std::bad_alloc&) {
    if (options.largest_limit <= options.memory_limit) throw;
    cache_options fixed = options;
    fixed.largest_limit = 0;
    state_ = std::make_unique<state>(fixed, domain_);
  }
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
    if (how == access::counted) s.count_gone(e);
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

/// One change of a key, in steps. All but make_room() run under the lock of the key.
class byte_cache::one_change {
 public:
  one_change(byte_cache& of, const hashed_key& key, const erased_change& asked) noexcept
      : s_(*of.state_), key_(key), asked_(asked) {}
  one_change(const one_change&) = delete;
  one_change& operator=(const one_change&) = delete;
  ~one_change() { free_room(); }

  [[nodiscard]] const cache_changed& result() const noexcept { return result_; }

  /// Finds the entry. One that has ended is unlinked.
  void seek() {
    found_ = s_.entries.find_locked(key_.hash,
                                    [&](location where) { return s_.log.entry_at(where).has_key(key_.key); });
    old_ = found_.at == nullptr ? nullptr : &s_.log.entry_at(table::location_in(found_.word));
    second_ = s_.now();
    before_ = 0;
    if (old_ == nullptr) return;
    if (!s_.is_gone(*old_, second_)) {
      seen_ = old_->seen(second_);
      before_ = old_->version();
      return;
    }
    s_.count_gone(*old_);
    s_.drop_ended(*old_, found_, key_.hash, guard_to_leave());
    old_ = nullptr;
  }

  /// Asks what becomes of the entry, and does so. False: an entry has to be written, which needs room.
  [[nodiscard]] bool decide() {
    wanted_ = asked_.decide(asked_.decider, current());
    result_ = {cache_outcome::done, wanted_.what, old_ == nullptr ? 0 : seen_.version};
    version_ = 0;
    switch (wanted_.what) {
      case cache_change::kind::keep:
        return true;
      case cache_change::kind::erase:
        if (old_ == nullptr) return true;
        s_.unlink(*old_, found_, key_.hash, guard_to_leave());
        result_.version = 0;
        return true;
      case cache_change::kind::amend:
        if (old_ == nullptr || amend_in_place()) return true;
        break;
      case cache_change::kind::store:
        if (asked_.value != nullptr) wanted_.value_bytes = asked_.value->value_bytes_;
        break;
    }
    if (wanted_.value_bytes + key_.key.size() > s_.options.largest_entry) {
      result_.outcome = cache_outcome::too_large;
      return true;
    }
    return false;
  }

  /// False: there is no room without an eviction.
  [[nodiscard]] bool take_room() noexcept {
    plan();
    if (!is_placed() && room_bytes_ == bytes_ && (is_large_ ? extent_ != extents::none : where_ != 0))
      return true;
    free_room();
    room_bytes_ = bytes_;
    if (is_placed()) {
      extent_ = asked_.value->extent_;
      asked_.value->of_ = nullptr;
      // relaxed: a count
      s_.bytes_received.fetch_sub(s_.large.bytes_of(extent_), std::memory_order_relaxed);
    } else if (is_large_) {
      extent_ = s_.large.allocate(entry::longest_head + bytes_);
    } else {
      where_ = s_.log.allocate(bytes_, in_, lifetime_, group_);
    }
    return has_room();
  }

  /// Evicts, without the lock of the key. The change begins again then. False: there is nothing to evict.
  [[nodiscard]] bool make_room() noexcept {
    guard_.reset();
    try {
      // relaxed, both: a hint
      s_.waiting.fetch_add(1, std::memory_order_relaxed);
      const std::lock_guard evicting(s_.mutex);
      s_.waiting.fetch_sub(1, std::memory_order_relaxed);
      if (is_large_)
        extent_ = s_.allocate_large(entry::longest_head + bytes_);
      else
        where_ = s_.allocate(bytes_, in_, lifetime_);
    } catch (const std::bad_alloc&) {  // there is no room
    }
    return has_room();
  }

  /// Writes the entry into the room, and publishes it. True: its key is new.
  [[nodiscard]] bool write() {
    if (old_ != nullptr) static_cast<void>(guard_to_leave());
    if (version_ == 0) version_ = s_.versions.next(group_, before_);
    std::byte* const at = room();
    entry& made = entry::make(at, shape_, key_.key, wanted_, version_, second_);
    if (wanted_.what == cache_change::kind::amend)
      seen_.value.copy(made.value(), seen_.value.size());
    else if (!is_placed())
      asked_.fill(asked_.filler, made.value(), current());
    const location where = s_.log.location_of(at);
    if (is_large_) {
      s_.large.list(std::exchange(extent_, extents::none), in_, s_.next_age());
    } else {
      where_ = 0;
      s_.log.complete(where, bytes_, wanted_.expires);
    }
    result_.version = wanted_.version != 0 ? wanted_.version : version_;
    if (old_ != nullptr) {
      table::replace(*found_.at, table::word_of(key_.hash, where, table::frequency_in(found_.word)));
      s_.leave(*old_, table::location_in(found_.word), guard_to_leave());
      return false;
    }
    s_.entries.insert(key_.hash, table::word_of(key_.hash, where, 0));
    s_.entries.count(1);
    return true;
  }

 private:
  [[nodiscard]] const cache_entry* current() const noexcept { return old_ == nullptr ? nullptr : &seen_; }
  [[nodiscard]] bool has_room() const noexcept { return where_ != 0 || extent_ != extents::none; }
  /// Whether the value lies where it was received.
  [[nodiscard]] bool is_placed() const noexcept {
    return asked_.value != nullptr && wanted_.what == cache_change::kind::store;
  }

  /// The guard that an old entry in an extent needs to leave; null for others.
  [[nodiscard]] epoch_domain::guard* guard_to_leave() {
    if (!old_->is_in_extent()) return nullptr;
    if (!guard_) {
      guard_.emplace(s_.domain.pin());
      guard_->reserve(1);
    }
    return &*guard_;
  }

  /// False: the entry is written again, with a place for what it lacks.
  [[nodiscard]] bool amend_in_place() noexcept {
    cache_change& c = wanted_;
    if (c.version == 0 && (c.expires == seen_.expires || (old_->marks() & caching::has_end) != 0)) {
      old_->set_marks(c.stale, c.claimed);
      if (c.expires != seen_.expires) {
        // In this order: what walks the segment sees the end, or notes nothing after it.
        old_->set_end(c.expires);
        if (!old_->is_in_extent()) s_.log.note_end(table::location_in(found_.word), c.expires);
      }
      return true;
    }
    c.value_bytes = seen_.value.size();
    c.flags = seen_.flags;
    if (c.version == 0) {
      version_ = before_;
      if ((old_->marks() & caching::has_own_version) != 0) c.version = seen_.version;
    }
    return false;
  }

  /// The shape of the entry to write, and where it belongs.
  void plan() noexcept {
    const cache_change& c = wanted_;
    shape_ = {key_.key.size(), c.value_bytes, 0};
    if (c.stale) shape_.marks |= caching::is_stale;
    if (c.claimed) shape_.marks |= caching::is_claimed;
    if (c.flags != 0) shape_.marks |= caching::has_flags;
    if (c.expires != cache_entry::never) shape_.marks |= caching::has_end;
    if (c.version != 0) shape_.marks |= caching::has_own_version;
    if (c.what == cache_change::kind::amend && seen_.fetched) shape_.marks |= caching::is_fetched;
    is_large_ = is_placed() || entry::bytes_of(shape_) > s_.log.largest_inside();
    if (is_large_) shape_.marks |= caching::is_large | caching::has_end;
    bytes_ = is_large_ ? key_.key.size() + c.value_bytes : entry::bytes_of(shape_);
    lifetime_ = caching::lifetime_of(c.expires, second_);
    // A new value takes the place of the old one; a new key shows whether it was evicted lately.
    if (old_ != nullptr) {
      // relaxed: the lock orders it
      in_ = old_->is_in_extent()
                ? s_.large[s_.large.index_of(old_)].in
                : s_.log.segment_of(table::location_in(found_.word)).in.load(std::memory_order_relaxed);
    } else if (!std::exchange(has_asked_, true)) {
      in_ = s_.evicted.take(key_.hash) ? queue::proven : queue::fresh;
    }
  }

  void free_room() noexcept {
    if (where_ != 0) {
      entry::make_filler(s_.log.at(where_), room_bytes_);
      // In this order: what is complete may be emptied, and used again.
      s_.log.release(where_, room_bytes_);
      s_.log.complete(std::exchange(where_, 0), room_bytes_, 0);
    }
    if (extent_ != extents::none) s_.large.drop(std::exchange(extent_, extents::none));
  }

  /// Where the entry begins in its room. A large value has its place whatever else its entry has.
  [[nodiscard]] std::byte* room() noexcept {
    if (!is_large_) return s_.log.at(where_);
    const std::size_t from = extents::header_bytes + entry::longest_head - entry::head_bytes(shape_.marks);
    s_.large[extent_].entry_at = static_cast<std::uint16_t>(from);
    return s_.large.at(extent_) + from;
  }

  state& s_;
  const hashed_key& key_;
  const erased_change& asked_;
  cache_changed result_;
  // What is found.
  table::found found_;
  entry* old_ = nullptr;
  std::uint32_t second_ = 0;
  cache_entry seen_;          // the old one
  std::uint64_t before_ = 0;  // the cache's own version of it; 0: there is none
  std::optional<epoch_domain::guard> guard_;
  // What is to be written.
  cache_change wanted_;
  std::uint64_t version_ = 0;
  caching::entry_shape shape_;
  bool is_large_ = false;
  bool has_asked_ = false;  // whether the key was evicted lately
  std::size_t bytes_ = 0;
  unsigned lifetime_ = 0;
  queue in_ = queue::fresh;
  const unsigned group_ = s_.log.writer_group();
  // Room that is no entry yet, in a segment or an extent.
  location where_ = 0;
  std::uint32_t extent_ = extents::none;
  std::size_t room_bytes_ = 0;
};

// flatten: each step has this one caller.
[[gnu::flatten]] cache_changed byte_cache::apply(const hashed_key& key, const erased_change& asked) {
  if (key.key.size() > largest_key) return {cache_outcome::too_large, cache_change::kind::keep, 0};
  state& s = *state_;
  one_change change(*this, key, asked);
  while (true) {
    std::unique_lock held(s.entries.lock_of(key.hash));
    change.seek();
    if (change.decide()) return change.result();
    if (!change.take_room()) {
      held.unlock();
      if (!change.make_room()) return {cache_outcome::out_of_memory, change.result().what, 0};
      continue;
    }
    if (change.write()) {
      held.unlock();
      s.entries.grow(s.hash_at());
    }
    return change.result();
  }
}

void byte_cache::flush() noexcept {
  state& s = *state_;
  const std::lock_guard held(s.mutex);
  // A change that began from an entry ends before its flush, or sees it.
  s.entries.between_changes([&s] {
    s.flushed.store(s.versions.flush(), std::memory_order_release);  // order: flush, release
  });
  s.flushed_at = s.next_age();
  s.log.flush();
}

void byte_cache::reclaim_ended(std::size_t segments) noexcept {
  state& s = *state_;
  try {
    for (std::size_t i = 0; i < segments; ++i) {
      const std::lock_guard held(s.mutex);
      if (i == s.log.size()) return;
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
  r.entry_bytes += s.large.listed_bytes(queue::fresh) + s.large.listed_bytes(queue::proven);
  r.entries = s.entries.entries();
  r.used_bytes = s.budget.used();
  r.table_bytes = s.entries.bytes();
  {
    const std::lock_guard held(s.mutex);
    for (std::uint32_t i = 0; i < s.log.size(); ++i)
      r.entry_bytes += s.log[i].live.load(std::memory_order_relaxed);
    r.segments = s.log.backed();
    const std::uint32_t second = s.now();
    r.oldest = second - s.oldest_tick(second);
    r.evicting = s.evicting;
    r.walks = s.walks;
    r.walked = s.walked;
    r.walked_ended = s.walked_ended;
  }
  r.segment_bytes = s.log.segment_bytes();
  r.stored = s.versions.drawn();
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

std::size_t byte_cache::memory_limit() const noexcept { return state_->budget.limit(); }

byte_cache::limit_range byte_cache::possible_limits() const noexcept {
  const state& s = *state_;
  // As many segments as the smallest cache has.
  constexpr std::size_t segments = 32;
  const std::size_t least = std::max(
      {smallest_limit, segments * s.log.segment_bytes(), 2 * s.options.largest_entry, 2 * s.entries.bytes()});
  return {least, s.budget.largest()};
}

bool byte_cache::limit_memory(std::size_t bytes) {
  state& s = *state_;
  const std::lock_guard held(s.mutex);
  const limit_range range = possible_limits();
  if (bytes < range.least || bytes > range.most) return false;
  try {
    s.log.allow(bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  s.entries.allow(bytes);
  s.budget.set_limit(bytes);
  return true;
}

bool byte_cache::keep_limit(std::size_t bytes) {
  state& s = *state_;
  const std::size_t before = s.budget.used();
  std::size_t least = before;
  for (state::effort so_far; s.budget.is_passed();) {
    const std::lock_guard held(s.mutex);
    if (!s.return_excess(so_far)) return false;
    const std::size_t used = s.budget.used();
    if (used >= least) continue;
    least = used;
    if (before - used >= bytes) break;
    so_far = {};
  }
  return !s.budget.is_passed();
}

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
    // Entries end by the coarse clock, which is never ahead of the precise one.
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
