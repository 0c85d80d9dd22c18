#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <vector>

#include "apps/studies/cache/engines.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier::app::caches {

/// A lock for a thread that is alone.
struct no_lock {
  void lock() noexcept {}
  void unlock() noexcept {}
};

/// A lock that spins, of the size of a mutex of the C library: so many share a line as in memcached. The locks of items spin
/// in memcached until 1.4; later ones sleep in the kernel.
struct item_lock : ttas_lock {
  std::array<std::byte, 36> rest_of_a_mutex;
};
static_assert(sizeof(item_lock) == sizeof(pthread_mutex_t));

/// What an operation of memcached 1.5 pays in shared memory, written for the study: chains under stripes of locks, a reference
/// count that each get raises and lowers under the item's lock, flags of the first two gets; and a set that takes a chunk, joins
/// and leaves an LRU list, and counts, each under a lock of its own. It lacks what a run without evictions does not reach: the
/// limit of memory, the threads that maintain the lists, and the bump of an item once a minute. All values have one size, so
/// there is one slab class.
///
/// Without Shared all locks are empty and all counts plain: for one thread.
template <bool Shared>
class stock_cache {
  using mutex = std::conditional_t<Shared, item_lock, no_lock>;
  template <class T>
  using counter = std::conditional_t<Shared, std::atomic<T>, T>;

 public:
  explicit stock_cache(const cache_shape& shape)
      : value_bytes_(shape.value_bytes),
        chunk_bytes_((sizeof(item) + shape.value_bytes + alignof(item) - 1) / alignof(item) * alignof(item)),
        // As memcached's, but where there are few items.
        slab_page_bytes_(
            std::clamp(shape.items * chunk_bytes_, std::size_t{4} << 10U, std::size_t{1} << 20U)),
        buckets_(std::bit_ceil(shape.items / shape.partitions * 3 / 2 + 1)),
        // A chain is of one lock. There are as many as memcached has with ten threads; with more it has up to four times as many.
        stripes_(Shared ? std::clamp<std::size_t>(buckets_.size() / 8, 1, most_stripes) : 1) {}

  /// Copies the value. False: there is none.
  bool get(const cache_key& key, std::byte* to) noexcept {
    const std::uint64_t hash = key.words[0];
    item* found = nullptr;
    {
      const std::lock_guard held(stripe_of(hash));
      found = find(key, hash);
      if (found == nullptr) return false;
      ++found->references;
      note_get(*found);
    }
    std::memcpy(to, found->value(), value_bytes_);
    const std::lock_guard held(stripe_of(hash));
    drop(*found);
    return true;
  }

  /// False: there is no memory.
  bool set(const cache_key& key, const std::byte* from) noexcept {
    const std::uint64_t hash = key.words[0];
    item* const made = take_chunk();
    if (made == nullptr) return false;
    made->key = key;
    made->references = 1;
    made->flags = 0;
    made->accessed = now_;
    std::memcpy(made->value(), from, value_bytes_);
    {
      const std::lock_guard held(stripe_of(hash));
      item* const old = find(key, hash);
      made->version = ++versions_;
      if (old != nullptr) {
        ++old->references;
        unlink(*old, hash);
      }
      link(*made, hash);
      if (old != nullptr) drop(*old);
    }
    const std::lock_guard held(stripe_of(hash));
    drop(*made);
    return true;
  }

  [[nodiscard]] std::uint64_t items() const noexcept { return items_; }

 private:
  static constexpr std::size_t most_stripes = 8192;
  enum flag : std::uint8_t { is_linked = 1, is_fetched = 2, is_active = 4 };

  struct item {
    item* newer = nullptr;  ///< in the LRU list; the next free chunk
    item* older = nullptr;
    item* next = nullptr;  ///< in the chain
    std::uint32_t accessed = 0;
    counter<std::uint16_t> references{0};
    std::uint8_t flags = 0;
    std::uint64_t version = 0;
    cache_key key{};

    [[nodiscard]] std::byte* value() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  };

  [[nodiscard]] item*& bucket_of(std::uint64_t hash) noexcept {
    return buckets_[hash & (buckets_.size() - 1)];
  }
  [[nodiscard]] mutex& stripe_of(std::uint64_t hash) noexcept {
    return stripes_[hash & (stripes_.size() - 1)];
  }

  [[nodiscard]] item* find(const cache_key& key, std::uint64_t hash) noexcept {
    item* at = bucket_of(hash);
    while (at != nullptr && at->key != key) at = at->next;
    return at;
  }
  void note_get(item& of) const noexcept {
    if ((of.flags & is_fetched) == 0) {
      of.flags |= is_fetched;
    } else if ((of.flags & is_active) == 0) {
      of.flags |= is_active;
      of.accessed = now_;
    }
  }

  void link(item& one, std::uint64_t hash) noexcept {
    {
      const std::lock_guard held(statistics_lock_);
      ++items_;
      bytes_ += chunk_bytes_;
    }
    item*& first = bucket_of(hash);
    one.next = first;
    first = &one;
    one.flags |= is_linked;
    ++one.references;
    const std::lock_guard held(lru_lock_);
    one.older = newest_;
    one.newer = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = &one;
    newest_ = &one;
  }
  void unlink(item& one, std::uint64_t hash) noexcept {
    {
      const std::lock_guard held(statistics_lock_);
      --items_;
      bytes_ -= chunk_bytes_;
    }
    item** link = &bucket_of(hash);
    while (*link != &one) link = &(*link)->next;
    *link = one.next;
    one.flags = static_cast<std::uint8_t>(one.flags & ~is_linked);
    {
      const std::lock_guard held(lru_lock_);
      (one.older != nullptr ? one.older->newer : oldest_) = one.newer;
      (one.newer != nullptr ? one.newer->older : newest_) = one.older;
    }
    drop(one);
  }
  /// Under the item's lock.
  void drop(item& one) noexcept {
    if (--one.references == 0) return_chunk(one);
  }

  [[nodiscard]] item* take_chunk() noexcept {
    const std::lock_guard held(slab_lock_);
    if (free_ == nullptr && !add_page()) return nullptr;
    item* const taken = free_;
    free_ = taken->newer;
    return taken;
  }
  void return_chunk(item& one) noexcept {
    const std::lock_guard held(slab_lock_);
    one.newer = free_;
    free_ = &one;
  }
  bool add_page() noexcept {
    try {
      hw::page_run& page = pages_.emplace_back(hw::map_pages(slab_page_bytes_));
      for (std::size_t at = 0; at + chunk_bytes_ <= page.size(); at += chunk_bytes_) {
        item* const one = new (page.data() + at) item;
        one->newer = free_;
        free_ = one;
      }
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  const std::size_t value_bytes_;
  const std::size_t chunk_bytes_;
  const std::size_t slab_page_bytes_;
  std::vector<item*> buckets_;
  std::vector<mutex> stripes_;
  std::uint32_t now_ = 1;  // a thread of memcached moves it, once a second
  // Globals of memcached, which share no line here.
  alignas(hw::false_sharing_bytes) mutex slab_lock_;
  item* free_ = nullptr;
  std::vector<hw::page_run> pages_;
  alignas(hw::false_sharing_bytes) mutex lru_lock_;
  item* newest_ = nullptr;
  item* oldest_ = nullptr;
  alignas(hw::false_sharing_bytes) mutex statistics_lock_;
  std::uint64_t items_ = 0;
  std::uint64_t bytes_ = 0;
  alignas(hw::false_sharing_bytes) counter<std::uint64_t> versions_{0};
};

}  // namespace espalier::app::caches
