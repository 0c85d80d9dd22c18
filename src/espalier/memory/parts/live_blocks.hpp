#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// A block in use: its address and the request for it.
struct live_block {
  void* memory;
  block asked;
};

// Orderings
//   (1) insert (release) -> recover_in_child (fork): a child finds chains with complete links, wherever the fork
//       stopped the thread.
//   (2) grow (seq_cst) -> recover_in_child (fork): entries move between tables only while `grows` is set; without it
//       a child would take a torn table for a whole one.
// These fences bind the compiler only; the locks of the shards order the threads.

/// The set of blocks in use, by address: a hash table with chains, in shards with a lock each. Its memory
/// comes from pages of its own, so that it does not disturb the layout that it describes.
///
/// A caller gets an entry before the block, and committing it cannot fail. A shard that has no memory for a
/// larger table continues with longer chains.
///
/// A child of fork() forgets the entries of a shard if a lost thread was moving them to a larger table.
///
/// Expected O(1) an operation, amortised over the growth of the tables. Blocking.
class live_blocks {
 private:
  struct record {
    record* next;
    void* memory;
    std::size_t bytes;
    std::uint8_t align_exponent;
    memory_role role;
  };

 public:
  live_blocks();
  live_blocks(const live_blocks&) = delete;
  live_blocks& operator=(const live_blocks&) = delete;

  /// Room for one block. Freed at the end of the scope unless it was committed.
  class [[nodiscard]] entry {
   public:
    /// Throws std::bad_alloc with nothing changed.
    explicit entry(live_blocks& all) : all_(all), room_(static_cast<record*>(all.records_.allocate())) {}
    entry(const entry&) = delete;
    entry& operator=(const entry&) = delete;
    ~entry() {
      if (room_ != nullptr) all_.records_.deallocate(room_);
    }

    /// At most once. No other block in use has this address.
    void commit(void* memory, const block& asked) noexcept {
      all_.insert(std::exchange(room_, nullptr), memory, asked);
    }

   private:
    live_blocks& all_;
    record* room_;
  };

  /// Forgets a block that was committed.
  void remove(void* memory) noexcept;

  /// As recorded::for_each_live.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (const shard& s : shards_) {
      const lock_guard hold(s.lock);
      for (std::size_t i = 0; i < s.buckets; ++i) {
        for (const record* r = s.table[i]; r != nullptr; r = r->next) {
          visit(live_block{r->memory, {r->bytes, std::size_t{1} << r->align_exponent, r->role}});
        }
      }
    }
  }

  /// Bytes of memory of the entries and the tables.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  static constexpr unsigned shard_count = 64;
  static constexpr std::size_t first_buckets = 8;

  struct alignas(hw::false_sharing_bytes) shard {
    mutable ttas_lock lock;
    std::array<record*, first_buckets> first{};
    hw::page_run pages;  // of the table, once it has outgrown the first
    record** table = first.data();
    std::size_t buckets = first_buckets;
    std::size_t blocks = 0;
    bool grows = false;     // under the lock, while entries are moved to a larger table
    bool has_lost = false;  // in a child of fork(): entries that were being moved are not there
  };

  static std::uint64_t hash(const void* memory) noexcept;
  static std::size_t bucket_of(const shard& s, std::uint64_t hashed) noexcept {
    return hashed & (s.buckets - 1);
  }
  shard& shard_of(std::uint64_t hashed) noexcept { return shards_[hashed >> 58U]; }
  void insert(record* room, void* memory, const block& asked) noexcept;
  static void grow(shard& s) noexcept;
  void recover_in_child() noexcept;

  slab records_;
  std::array<shard, shard_count> shards_{};
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor&) noexcept {
                              static_cast<live_blocks*>(one)->recover_in_child();
                            }};
};

}  // namespace espalier
