#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/cache/entry.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"

// Threads that write form groups, each with a line for what every set changes: where the next entry lies, and its version. So
// threads of different groups do not meet there. A thread stays in its group. A cache that one thread writes is as if there were
// no groups.

namespace espalier::caching {

inline constexpr unsigned most_writer_groups = 32;

/// A power of two. Segments that groups have open are not full: so there is a group for 64 segments at most.
[[nodiscard]] constexpr unsigned writer_groups_for(std::size_t segments) noexcept {
  return static_cast<unsigned>(std::bit_floor(std::clamp<std::size_t>(segments / 64, 1, most_writer_groups)));
}

/// A T for each group, in lines of its own.
template <class T>
class by_writer_group {
 public:
  explicit by_writer_group(unsigned groups)
      : each_(std::make_unique<hw::padded<T>[]>(groups)), mask_(groups - 1) {}

  [[nodiscard]] unsigned size() const noexcept { return mask_ + 1; }
  /// Of the calling thread. One without a slot belongs to the first group.
  [[nodiscard]] unsigned here() const noexcept { return hw::try_thread_slot() & mask_; }
  [[nodiscard]] T& operator[](unsigned group) noexcept { return each_[group].value; }
  [[nodiscard]] const T& operator[](unsigned group) const noexcept { return each_[group].value; }

 private:
  std::unique_ptr<hw::padded<T>[]> each_;
  unsigned mask_;
};

/// The versions of a cache's changes. A group takes numbers in blocks, so that their order is not that of all changes. But none
/// comes twice, and those of one entry increase, by which clients tell an older version from a newer one.
class version_source {
 public:
  static constexpr std::uint64_t block = 32;

  explicit version_source(unsigned groups) : last_(groups) {}

  // relaxed, all of it: only uniqueness counts, and the versions of an entry are drawn under its lock. flush() comes between draws,
  // which the locks of keys order.

  /// For a thread of a group: a version after `before`, that of the entry until now, if it is not 0. Never 0, and none that came
  /// lately: in the last 2^39 changes, or 2^34 where groups change the same entry in turns, and so leave most of each block.
  [[nodiscard]] std::uint64_t next(unsigned group, std::uint64_t before = 0) noexcept {
    std::atomic<std::uint64_t>& last = last_[group];
    while (true) {
      const std::uint64_t drawn = draw(last) % entry::version_limit;
      if (drawn != 0 && (before == 0 || is_after(drawn, before))) return drawn;
      // A block that begins now is after all that were drawn.
      unused_.fetch_add(1, std::memory_order_relaxed);
      if (drawn != 0) drop_rest(last);
    }
  }
  /// For the calling thread.
  [[nodiscard]] std::uint64_t next(std::uint64_t before = 0) noexcept { return next(last_.here(), before); }
  [[nodiscard]] static constexpr bool is_after(std::uint64_t version, std::uint64_t before) noexcept {
    return (before - version) % entry::version_limit >= entry::version_limit / 2;
  }

  /// What comes later is larger than the result, and what came is not. 0 if nothing came. While no thread draws.
  [[nodiscard]] std::uint64_t flush() noexcept {
    drop_rests();
    const std::uint64_t all = blocks_.load(std::memory_order_relaxed) * block;
    // The version 0 stands for no flush.
    return all != 0 && all % entry::version_limit == 0 ? entry::version_limit - 1
                                                       : all % entry::version_limit;
  }

  /// What comes later is after this one. While no thread draws, and before the first one.
  void begin_after(std::uint64_t version) noexcept {
    blocks_.store(version / block + 1, std::memory_order_relaxed);
    unused_.store((version / block + 1) * block, std::memory_order_relaxed);
  }

  /// How many versions came. Exact while no thread draws.
  [[nodiscard]] std::uint64_t drawn() const noexcept {
    std::uint64_t left = unused_.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < last_.size(); ++i) left += rest_of(last_[i].load(std::memory_order_relaxed));
    return blocks_.load(std::memory_order_relaxed) * block - left;
  }

 private:
  /// A group that draws nothing for so long loses its block, before the same versions come again.
  static constexpr std::uint64_t blocks_between_drops = std::uint64_t{1} << 20U;

  /// How many numbers are left in the block of the last one.
  [[nodiscard]] static constexpr std::uint64_t rest_of(std::uint64_t last) noexcept {
    return (0 - last) % block;
  }

  std::uint64_t draw(std::atomic<std::uint64_t>& last) noexcept {
    std::uint64_t first = 0;  // of a block of the caller's
    std::uint64_t now = last.load(std::memory_order_relaxed);
    while (true) {
      std::uint64_t next = now + 1;
      if (rest_of(now) == 0) [[unlikely]]
        next = first = first != 0 ? first : first_of_block();
      if (!last.compare_exchange_weak(now, next, std::memory_order_relaxed)) continue;
      // Another thread of the group has brought a block meanwhile.
      if (first != 0 && next != first) unused_.fetch_add(block, std::memory_order_relaxed);
      return next;
    }
  }
  [[gnu::noinline]] std::uint64_t first_of_block() noexcept {
    const std::uint64_t before = blocks_.fetch_add(1, std::memory_order_relaxed);
    if (before % blocks_between_drops == blocks_between_drops - 1) drop_rests();
    return before * block + 1;
  }
  void drop_rests() noexcept {
    for (unsigned i = 0; i < last_.size(); ++i) drop_rest(last_[i]);
  }
  void drop_rest(std::atomic<std::uint64_t>& last) noexcept {
    std::uint64_t now = last.load(std::memory_order_relaxed);
    while (!last.compare_exchange_weak(now, now + rest_of(now), std::memory_order_relaxed)) {
    }
    unused_.fetch_add(rest_of(now), std::memory_order_relaxed);
  }

  by_writer_group<std::atomic<std::uint64_t>> last_;  ///< drawn by each group; 0 at first
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> blocks_{0};
  std::atomic<std::uint64_t> unused_{0};  ///< numbers of blocks that were dropped
};

}  // namespace espalier::caching
