#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/cache/cache_entry.hpp"
#include "espalier/reclaim/epoch.hpp"

// A cache of byte strings with a limit of memory: what espalier::cache (cache.hpp) is typed over, and what `espalier serve`
// serves. Link espalier::cache.
//
// Threads. Any thread may call anything at any time. A get takes no lock. It writes to shared memory only to raise a frequency
// of two bits, until that is full, and to note the time of access, once a minute. Changes of a key take turns; each operation
// on a key takes effect at one moment (linearizable).
//
// Memory. All of it, the table included, stays below the limit. Entries lie in segments, in the order in which they were stored.
// The oldest ones that no get asked for make room for new ones. A visitor of a get keeps the memory of what it sees. A visitor
// that blocks makes changes wait, and finally fail with out_of_memory. A thread's first operation may throw std::bad_alloc, as
// may a change of an entry with a large value: both keep records outside the limit. Nothing has changed then.
//
// A key has at most largest_key bytes.

namespace espalier {

/// Is told of entries that are evicted, while `wants_evictions` is set. evicted() runs while changes of other keys wait: it may not
/// block, nor use the cache.
struct eviction_observer {
  std::atomic<bool> wants_evictions{false};
  virtual void evicted(std::string_view key, const cache_entry& entry) noexcept = 0;

 protected:
  ~eviction_observer() = default;
};

struct cache_options {
  /// Bytes of everything: at least byte_cache::smallest_limit.
  std::size_t memory_limit = std::size_t{64} << 20U;
  /// Bytes to which limit_memory() may raise it; it takes address space. 0: memory_limit.
  std::size_t largest_limit = 0;
  /// Bytes of a key and its value.
  std::size_t largest_entry = std::size_t{1} << 20U;
  /// false: a change fails where there is no room.
  bool evicts = true;
  /// Seconds, from the user, at least 1 and never back; null: sixteenths of a second since the cache was made, and one. The
  /// cache's own clock is good for eight years.
  const std::atomic<std::uint32_t>* clock = nullptr;
  /// From the user, or null.
  eviction_observer* observer = nullptr;
};

struct cache_statistics {
  /// Entries. One that has ended or was flushed counts until a change of its key, reclaim_ended(), or a change that needs
  /// memory unlinks it.
  std::uint64_t entries = 0;
  std::uint64_t entry_bytes = 0;    ///< of these entries: heads, keys and values
  std::uint64_t used_bytes = 0;     ///< of everything
  std::uint64_t table_bytes = 0;    ///< of the hash table
  std::uint64_t segments = 0;       ///< in use
  std::uint64_t segment_bytes = 0;  ///< of one segment
  std::uint64_t stored = 0;         ///< entries, ever
  std::uint64_t evictions = 0;
  std::uint64_t evicted_unfetched = 0;
  std::uint64_t evicted_with_end = 0;  ///< before their end
  std::uint32_t evicted_idle =
      0;                      ///< of the newest eviction: seconds since the entry's last get, to the minute
  std::uint64_t expired = 0;  ///< entries whose memory was reclaimed after their end
  std::uint64_t expired_unfetched = 0;
  std::uint64_t copied = 0;         ///< entries that survived the segment in which they lay
  std::uint64_t found_expired = 0;  ///< gets and changes that found an entry after its end
  std::uint64_t found_flushed = 0;  ///< the same, of a flush
  /// Ticks since the oldest segment or large entry came into its queue: no entry was stored, or survived, before. In a
  /// full cache an entry that no get asks for stays about as long.
  std::uint32_t oldest = 0;
  std::uint64_t evicting = 0;      ///< times that a change evicted or moved entries for memory
  std::uint64_t walks = 0;         ///< rounds of reclaim_ended() that have begun
  std::uint64_t walked = 0;        ///< entries that were examined for their end, unlinked ones included
  std::uint64_t walked_ended = 0;  ///< of these, the entries that had ended and were unlinked
};

class byte_cache {
 public:
  static constexpr std::size_t largest_key = 250;
  static constexpr std::size_t smallest_limit = std::size_t{1} << 20U;

  /// Bytes of memory_limit and largest_limit: a terabyte.
  static constexpr std::size_t highest_limit = std::size_t{1} << 40U;

  /// Throws std::invalid_argument for a limit below smallest_limit or above highest_limit, or a largest entry above half of it;
  /// std::bad_alloc. Where there is no address space for the largest limit, it is memory_limit.
  explicit byte_cache(const cache_options& options = {});
  byte_cache(const byte_cache&) = delete;
  byte_cache& operator=(const byte_cache&) = delete;
  ~byte_cache();

  /// What get() and change() take instead of the key's hash: computed once, for both and for request().
  struct hashed_key {
    std::string_view key;
    std::uint64_t hash;
  };
  [[nodiscard]] static hashed_key hashed(std::string_view key) noexcept;

  /// Requests the memory that a get of this key reads first, for look-ups that come soon: the table at stage 0, the entry at
  /// stage 1, when stage 0 has arrived.
  void request(const hashed_key& key, unsigned stage) const noexcept;

  enum class access : std::uint8_t { counted, peek };

  /// Calls visit(const cache_entry&) if the key is there. peek: it counts as no access, and as no find of what has ended. Constant
  /// expected time; lock-free, except for a key that a growing table is moving. The visitor may not change the same cache.
  template <class Visitor>
  bool get(const hashed_key& key, Visitor&& visit, access how = access::counted) {
    const auto guard = domain_.pin();
    cache_entry seen;
    if (!find(key, how, seen)) return false;
    visit(static_cast<const cache_entry&>(seen));
    return true;
  }
  template <class Visitor>
  bool get(std::string_view key, Visitor&& visit, access how = access::counted) {
    return get(hashed(key), visit, how);
  }

  /// The one way to change a key, as one step: decide(const cache_entry* now) returns a cache_change, from the entry or null;
  /// fill(char* value, const cache_entry* now) writes the value_bytes of a store. decide may be called several times, and its
  /// last answer counts; fill at most once. Both run while other changes of the key wait: they may not block, nor use the
  /// cache. Amortised constant time, a step of eviction included.
  template <class Decide, class Fill>
  cache_changed change(const hashed_key& key, Decide&& decide, Fill&& fill) {
    const erased_change erased{address_of(decide), call_decide<std::remove_reference_t<Decide>>,
                               address_of(fill), [](void* context, char* value, const cache_entry* now) {
                                 (*static_cast<std::remove_reference_t<Fill>*>(context))(value, now);
                               }};
    return apply(key, erased);
  }

  /// The room of a large value that comes in parts, in the place where its entry will lie. It counts against the limit, and is
  /// freed with the object, which may not outlive the cache.
  class incoming {
   public:
    incoming() noexcept = default;
    incoming(incoming&& other) noexcept { *this = std::move(other); }
    incoming& operator=(incoming&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(extent_, other.extent_);
      std::swap(key_bytes_, other.key_bytes_);
      std::swap(value_bytes_, other.value_bytes_);
      return *this;
    }
    incoming(const incoming&) = delete;
    incoming& operator=(const incoming&) = delete;
    ~incoming() { free(); }

    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return value_bytes_; }
    /// size() bytes to write to.
    [[nodiscard]] char* value() const noexcept;

   private:
    friend class byte_cache;
    void free() noexcept;

    byte_cache* of_ = nullptr;
    std::uint32_t extent_ = 0;
    std::size_t key_bytes_ = 0;
    std::size_t value_bytes_ = 0;
  };
  /// Whether receive() takes a value of this size.
  [[nodiscard]] bool is_large(std::size_t key_bytes, std::size_t value_bytes) const noexcept;
  /// Room for a value that is large. Empty if there is none, or if half of the limit is such room already.
  [[nodiscard]] incoming receive(std::size_t key_bytes, std::size_t value_bytes);
  /// As the change above. A store has the value that was received, whatever value_bytes decide() returns; `value` is empty
  /// afterwards. With another decision it stays with the caller.
  template <class Decide>
  cache_changed change(const hashed_key& key, Decide&& decide, incoming& value) {
    const erased_change erased{address_of(decide), call_decide<std::remove_reference_t<Decide>>, nullptr,
                               nullptr, &value};
    return apply(key, erased);
  }

  /// Keeps a large value readable, and its memory, after its entry is gone. It may not outlive the cache.
  class hold {
   public:
    hold() noexcept = default;
    hold(hold&& other) noexcept { *this = std::move(other); }
    hold& operator=(hold&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(extent_, other.extent_);
      return *this;
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;
    ~hold();

    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }

   private:
    friend class byte_cache;
    byte_cache* of_ = nullptr;
    std::uint32_t extent_ = 0;
  };
  /// Of what a visitor or a decision sees, while it runs; empty if the value is not large.
  [[nodiscard]] hold hold_value(const cache_entry& seen) noexcept;

  /// Forgets every entry that was stored before, at one moment; their memory is reclaimed later.
  void flush() noexcept;

  /// Calls visit(std::string_view key, const cache_entry&) for entries that are there all the time, and perhaps for others.
  /// The visitor runs while changes of other keys wait: it may not block, nor use the cache. It may return a bool, of
  /// which false ends the visits.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    bool goes_on = true;
    for (std::size_t bucket = 0; goes_on && bucket < buckets(); ++bucket)
      goes_on = each_of(bucket, address_of(visit), call<std::remove_reference_t<Visitor>>);
  }
  /// One part of for_each, of a few entries, for visits with pauses between them. `place` is 0 at first, and passed again.
  /// False: there is no further part. An entry that moves in a growing table meanwhile may be visited twice.
  template <class Visitor>
  bool visit_part(std::size_t& place, Visitor&& visit) {
    if (place >= buckets()) return false;
    each_of(place++, address_of(visit), call<std::remove_reference_t<Visitor>>);
    return true;
  }

  /// Unlinks the entries that have ended in the next `segments` segments, or in all if there are fewer: statistics count them
  /// no longer. A segment to which another thread writes is left for the next call. A change that needs memory does this itself.
  void reclaim_ended(std::size_t segments = std::numeric_limits<std::size_t>::max()) noexcept;

  /// The limit now.
  [[nodiscard]] std::size_t memory_limit() const noexcept;
  /// What limit_memory() takes. The table never shrinks: it has half of the limit at most.
  struct limit_range {
    std::size_t least;
    std::size_t most;
  };
  [[nodiscard]] limit_range possible_limits() const noexcept;
  /// Changes the limit. What is above the new one goes with keep_limit(); until then changes take no more memory. False, and
  /// nothing has changed, if it is none of the possible ones, or if there is no memory for records of more segments.
  bool limit_memory(std::size_t bytes);
  /// Evicts, in the usual order, until everything is within the limit, or about this number of bytes has been returned to the
  /// OS. False: some is left, for the next call, or since nothing may be evicted.
  bool keep_limit(std::size_t bytes = std::numeric_limits<std::size_t>::max());

  // A cache that outlives its process: drain() in the old one, put_back() of each entry in the new one. One thread calls these
  // while no other one uses the cache.

  /// Calls visit(const kept_entry&) for each entry that has not ended, the oldest first, and returns its memory to the OS soon
  /// after. A visitor that returns false ends it. The cache is of no more use then.
  template <class Visitor>
  void drain(Visitor&& visit) {
    drain_to(address_of(visit), [](void* context, const kept_entry& entry) -> bool {
      return (*static_cast<std::remove_reference_t<Visitor>*>(context))(entry);
    });
  }
  /// Adds an entry, whose key is new; in the order in which they were drained, before any other change. False: there is no room, or it is too large.
  bool put_back(const kept_entry& entry);

  /// The sums are exact while no thread changes anything.
  [[nodiscard]] cache_statistics statistics() const;
  [[nodiscard]] const cache_options& options() const noexcept;
  /// Ticks of the cache's clock.
  [[nodiscard]] std::uint32_t now() const noexcept;
  /// The end of an entry that is to live for `lives`. It lives no shorter, and less than one tick longer; less than two if the
  /// clock is the user's. An entry that lives for no time has ended.
  [[nodiscard]] std::uint32_t end_after(std::chrono::milliseconds lives) const noexcept;

 private:
  struct erased_change {
    void* decider;
    cache_change (*decide)(void*, const cache_entry*);
    void* filler;
    void (*fill)(void*, char*, const cache_entry*);
    incoming* value = nullptr;
  };
  struct state;
  class one_change;

  template <class Function>
  static void* address_of(Function& function) noexcept {
    return const_cast<void*>(static_cast<const void*>(std::addressof(function)));
  }
  template <class Decide>
  static cache_change call_decide(void* context, const cache_entry* now) {
    return (*static_cast<Decide*>(context))(now);
  }
  template <class Visitor>
  static bool call(void* context, std::string_view key, const cache_entry& entry) {
    auto& visitor = *static_cast<Visitor*>(context);
    if constexpr (std::is_void_v<decltype(visitor(key, entry))>) {
      visitor(key, entry);
      return true;
    } else {
      return static_cast<bool>(visitor(key, entry));
    }
  }

  bool find(const hashed_key& key, access how, cache_entry& seen) noexcept;
  cache_changed apply(const hashed_key& key, const erased_change& change);
  [[nodiscard]] std::size_t buckets() const noexcept;
  void drain_to(void* context, bool (*visit)(void*, const kept_entry&));
  bool each_of(std::size_t bucket, void* context, bool (*visit)(void*, std::string_view, const cache_entry&));

  epoch_domain domain_;
  std::unique_ptr<state> state_;
};

}  // namespace espalier
