#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "espalier/cache/entry.hpp"
#include "espalier/cache/entry_log.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The hash table: from a key's hash to the place of its entry. A bucket is a cache line of eight slots; the last one leads to
// another line where more are needed. Buckets split one at a time (linear hashing: Litwin, VLDB 1980), so that the table
// grows with what it holds, in place, and no operation waits for it.
//
// A thread that changes a slot holds the lock of the key's stripe, but for its frequency, which any reader may raise. A stripe is made
// of the low bits of the hash: a bucket and all that it will split into are of one stripe.
//
// A slot that exists changes its place only in a split, or when a line of overflow is given up. `shape_` counts those, and is
// odd while one goes on. A reader that finds nothing looks whether the shape is still the same. If not it looks again, and
// under the lock if its own bucket is the one that changes.
//
// Orderings
//   (1) publish (release) -> find (acquire): a reader of a slot sees the entry. And one that sees a slot moved, or cleared
//       after a move, sees in (2) that the shape has changed.
//   (2) begin_move, end_move (release) -> find (acquire): the shape.

namespace espalier::caching {

class table {
 public:
  using slot = std::atomic<std::uint64_t>;
  static constexpr unsigned frequency_limit = 3;
  /// Entries a bucket, on the average, from which on buckets split.
  static constexpr std::size_t split_percent = 650;

  /// Throws std::bad_alloc.
  explicit table(memory_budget& budget);

  // The parts of a slot: a link or an entry, its frequency, 21 bits of the hash, where it lies.
  static constexpr std::uint64_t is_link = std::uint64_t{1} << 63U;
  static constexpr unsigned frequency_shift = 61;
  static constexpr std::uint64_t location_mask = (std::uint64_t{1} << location_bits) - 1;
  static constexpr std::uint64_t tag_mask = ((std::uint64_t{1} << 21U) - 1) << location_bits;

  [[nodiscard]] static constexpr std::uint64_t tag_of(std::uint64_t hash) noexcept {
    return hash >> 43U << location_bits;
  }
  [[nodiscard]] static constexpr location location_in(std::uint64_t word) noexcept {
    return word & location_mask;
  }
  [[nodiscard]] static constexpr unsigned frequency_in(std::uint64_t word) noexcept {
    return static_cast<unsigned>(word >> frequency_shift) & 3U;
  }
  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint64_t hash, location where,
                                                       unsigned frequency) noexcept {
    return std::uint64_t{frequency} << frequency_shift | tag_of(hash) | where;
  }

  struct stripe {
    ttas_lock lock;
  };
  [[nodiscard]] ttas_lock& lock_of(std::uint64_t hash) noexcept { return stripes_[hash & stripe_mask_].lock; }

  struct found {
    slot* at = nullptr;
    std::uint64_t word = 0;
  };

  /// The slot of an entry, and null if there is none. is_it(location) compares its key. Under the epoch of the cache.
  template <class IsIt>
  [[nodiscard]] found find(std::uint64_t hash, IsIt&& is_it) noexcept {
    while (true) {
      const std::uint64_t shape = shape_.load(std::memory_order_acquire);  // order (2): find, acquire
      const std::size_t index = index_of(hash, shape);
      if (const found f = find_in(index, hash, is_it); f.at != nullptr) return f;
      // order (2): find, acquire: one that is newer than the shape comes with a newer shape
      const std::size_t moving = moving_.load(std::memory_order_acquire);
      if (shape_.load(std::memory_order_acquire) == shape) {  // order (2): find, acquire
        if (!is_moving(shape) || moving != index) return {};
        const std::lock_guard held(lock_of(hash));
        return find_locked(hash, is_it);
      }
    }
  }
  /// The same for the holder of the stripe's lock.
  template <class IsIt>
  [[nodiscard]] found find_locked(std::uint64_t hash, IsIt&& is_it) noexcept {
    return find_in(index_of(hash, shape_.load(std::memory_order_acquire)), hash,
                   is_it);  // order (2): find, acquire
  }
  [[nodiscard]] found find_location(std::uint64_t hash, location where) noexcept {
    return find_locked(hash, [where](location l) { return l == where; });
  }

  // order (1), all of them: publish, release. Under the stripe's lock.

  static void replace(slot& at, std::uint64_t word) noexcept { at.store(word, std::memory_order_release); }
  void insert(std::uint64_t hash, std::uint64_t word) noexcept;
  void erase(std::uint64_t hash, slot& at) noexcept;
  // insert and erase do not count: their callers do, for many at a time.
  // relaxed: a count.
  void count(std::int64_t more) noexcept {
    entries_.fetch_add(static_cast<std::uint64_t>(more), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_.load(std::memory_order_relaxed); }

  /// Any thread, without a lock of the table: a get found the entry.
  static void raise(const found& f) noexcept {
    if (frequency_in(f.word) >= frequency_limit) return;
    std::uint64_t word = f.word;
    // relaxed: a hint. A slot that has changed is another entry's, and stays.
    f.at->compare_exchange_strong(word, word + (std::uint64_t{1} << frequency_shift),
                                  std::memory_order_relaxed);
  }

  /// Splits a bucket if there are too many entries. hash_at(location) is the hash of an entry's key. Without a lock.
  template <class HashAt>
  void grow(HashAt&& hash_at) noexcept {
    if (!is_crowded() || !mover_.try_lock()) return;
    const std::lock_guard moving(mover_, std::adopt_lock);
    split(hash_at);
  }

  /// Buckets for the entries of a limit; those that there are stay.
  void allow(std::size_t limit) noexcept;

  [[nodiscard]] std::size_t buckets() const noexcept {
    return count_in(shape_.load(std::memory_order_acquire));  // order (2): find, acquire
  }
  /// Calls visit(location) for each entry of a bucket, under its stripe's lock. One call for each bucket, by rising
  /// index, visits what is there all the time: entries move to higher buckets only.
  template <class Visit>
  void each_in(std::size_t index, Visit&& visit) {
    const std::lock_guard held(lock_of(index));
    for (const bucket* b = &buckets_[index]; b != nullptr;) {
      const bucket* next = nullptr;
      for (const slot& s : b->slots) {
        const std::uint64_t word = s.load(std::memory_order_relaxed);  // relaxed: the lock orders it
        if ((word & is_link) != 0)
          next = &overflow_at(word);
        else if (word != 0)
          visit(location_in(word));
      }
      b = next;
    }
  }
  /// Calls f while no thread holds a stripe's lock.
  template <class F>
  void between_changes(F&& f) {
    for (std::uint64_t i = 0; i <= stripe_mask_; ++i) stripes_[i].lock.lock();
    f();
    for (std::uint64_t i = 0; i <= stripe_mask_; ++i) stripes_[i].lock.unlock();
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    // relaxed: a count
    return (buckets() + overflow_used_.load(std::memory_order_relaxed)) * sizeof(bucket);
  }

  void request_bucket(std::uint64_t hash) const noexcept {
    __builtin_prefetch(
        &buckets_[index_of(hash, shape_.load(std::memory_order_relaxed))]);  // relaxed: only a request
  }
  /// The place of what may be the entry; 0: there seems to be none.
  [[nodiscard]] location guess(std::uint64_t hash) const noexcept {
    for (const slot& s :
         buckets_[index_of(hash, shape_.load(std::memory_order_relaxed))].slots) {  // relaxed: as above
      const std::uint64_t word = s.load(std::memory_order_relaxed);                 // relaxed: as above
      if ((word & (tag_mask | is_link)) == tag_of(hash) && word != 0) return location_in(word);
    }
    return 0;
  }

 private:
  static constexpr std::size_t slots_each = 8;
  static constexpr unsigned moves_bits = 24;
  struct alignas(hw::cache_line_bytes) bucket {
    std::array<slot, slots_each> slots;
  };
  static_assert(sizeof(bucket) == hw::cache_line_bytes, "a bucket is a line");

  // The shape: how many buckets, and how often slots have changed their places.
  [[nodiscard]] static constexpr std::size_t count_in(std::uint64_t shape) noexcept {
    return shape >> moves_bits;
  }
  [[nodiscard]] static constexpr bool is_moving(std::uint64_t shape) noexcept { return (shape & 1U) != 0; }
  [[nodiscard]] static constexpr std::uint64_t moved(std::uint64_t shape) noexcept {
    constexpr std::uint64_t moves = (std::uint64_t{1} << moves_bits) - 1;
    return (shape & ~moves) | ((shape + 1) & moves);
  }
  [[nodiscard]] static constexpr std::size_t index_of(std::uint64_t hash, std::uint64_t shape) noexcept {
    const std::size_t count = count_in(shape);
    const std::size_t whole = std::bit_floor(count);  // buckets at the start of this doubling
    const std::size_t index = hash & (2 * whole - 1);
    return index < count ? index : index - whole;
  }

  [[nodiscard]] bucket& overflow_at(std::uint64_t link) const noexcept {
    return overflow_[link & location_mask];
  }

  template <class IsIt>
  [[nodiscard]] found find_in(std::size_t index, std::uint64_t hash, IsIt&& is_it) const noexcept {
    const std::uint64_t tag = tag_of(hash);
    for (bucket* b = &buckets_[index]; b != nullptr;) {
      bucket* next = nullptr;
      for (slot& s : b->slots) {
        const std::uint64_t word = s.load(std::memory_order_acquire);  // order (1): find, acquire
        if ((word & is_link) != 0) {
          next = &overflow_at(word);
        } else if ((word & tag_mask) == tag && word != 0 && is_it(location_in(word))) {
          return {&s, word};
        }
      }
      b = next;
    }
    return {};
  }

  [[nodiscard]] std::size_t buckets_for(std::size_t limit) const noexcept;
  [[nodiscard]] bool is_crowded() const noexcept { return entries() * 100 > buckets() * split_percent; }
  void begin_move(std::size_t index) noexcept;
  void end_move(std::size_t more_buckets) noexcept;
  [[nodiscard]] std::uint32_t take_overflow() noexcept;
  void give_overflow(std::uint32_t index) noexcept;
  /// Into the first empty slot, or into a new line of overflow.
  void add(bucket& first, std::uint64_t word) noexcept;
  /// True if the entries of a bucket's last line of overflow fit before it.
  [[nodiscard]] bool has_gaps(const bucket& first) const noexcept;
  /// Gives up the lines of overflow that are not needed. Within a move.
  void close_gaps(bucket& first) noexcept;

  template <class HashAt>
  void split(HashAt&& hash_at) noexcept {
    const std::size_t count = buckets();
    if (count == bucket_limit_) return;
    const std::size_t whole = std::bit_floor(count);
    const std::size_t index = count - whole;
    const std::lock_guard held(lock_of(index));
    begin_move(index);
    for (bucket* b = &buckets_[index]; b != nullptr;) {
      bucket* next = nullptr;
      for (slot& s : b->slots) {
        const std::uint64_t word = s.load(std::memory_order_relaxed);  // relaxed: the lock orders it
        if ((word & is_link) != 0) {
          next = &overflow_at(word);
        } else if (word != 0 && (hash_at(location_in(word)) & whole) != 0) {
          add(buckets_[count], word);
          s.store(0, std::memory_order_release);  // order (1): publish, release
        }
      }
      b = next;
    }
    close_gaps(buckets_[index]);
    if (count * sizeof(bucket) % hw::page_size() == 0) budget_.take(hw::page_size());
    end_move(1);
  }

  memory_budget& budget_;
  std::uint64_t stripe_mask_;
  std::size_t bucket_limit_;  ///< under the mover's lock
  std::unique_ptr<stripe[]> stripes_;
  hw::page_run bucket_pages_;
  hw::page_run overflow_pages_;
  hw::page_run overflow_free_pages_;
  bucket* buckets_;
  bucket* overflow_;

  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> shape_;
  std::atomic<std::size_t> moving_{0};
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> entries_{0};
  alignas(hw::false_sharing_bytes) ttas_lock mover_;
  ttas_lock overflow_lock_;
  std::uint32_t* overflow_free_;  // a stack
  std::size_t overflow_free_count_ = 0;
  std::atomic<std::size_t> overflow_used_{1};  // ever
};

}  // namespace espalier::caching
