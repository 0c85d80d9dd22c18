#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/cache/entry.hpp"
#include "espalier/cache/writer_groups.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"

// The memory of entries: segments of equal size that are filled one after the other. What leaves a segment leaves a hole that
// nothing fills; a segment comes back as a whole, when what still lives in it has been copied or evicted. Each group of writers
// (writer_groups.hpp) fills segments of its own.
//
// Orderings
//   (1) complete (release) -> is_complete, written (acquire): what walks a segment sees each entry in it.
//   (2) open (release) -> allocate (acquire): a segment that is found open has been reset.
//   (3) add_loose (release) -> take_loose (acquire): the links of the list.
//   (4) reclaim (release) -> take_freed, find_ended (acquire): the walker of a segment is done with it, and no reader is
//       in it.
//   (5) note_end (release) -> forget_ends (acquire): what walks a segment sees the ends that were noted before.

namespace espalier::caching {

/// What everything takes, against the limit, which may change up to the largest one.
class memory_budget {
 public:
  explicit memory_budget(std::size_t limit, std::size_t largest = 0) noexcept
      : largest_(std::max(limit, largest)), limit_(limit) {}

  [[nodiscard]] bool try_take(std::size_t bytes) noexcept {
    // relaxed: the count stands alone.
    std::size_t used = used_.load(std::memory_order_relaxed);
    while (used + bytes <= limit()) {
      if (used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  /// Of what cannot wait: it may pass the limit, until segments are given up.
  void take(std::size_t bytes) noexcept {
    used_.fetch_add(bytes, std::memory_order_relaxed);
  }  // relaxed: as above
  void give(std::size_t bytes) noexcept {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  }  // relaxed: as above
  [[nodiscard]] std::size_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }  // relaxed: as above
  [[nodiscard]] std::size_t limit() const noexcept {
    return limit_.load(std::memory_order_relaxed);
  }  // relaxed: as above
  void set_limit(std::size_t bytes) noexcept {
    limit_.store(bytes, std::memory_order_relaxed);
  }  // relaxed: as above
  /// What address space is for.
  [[nodiscard]] std::size_t largest() const noexcept { return largest_; }
  [[nodiscard]] bool is_passed() const noexcept { return used() > limit(); }

 private:
  std::size_t largest_;
  std::atomic<std::size_t> limit_;
  alignas(hw::false_sharing_bytes) std::atomic<std::size_t> used_{0};
};

/// The entries of a segment end at about the same time, so that it often ends as a whole.
inline constexpr unsigned lifetimes = 5;
/// 0: no end; else by the seconds left: below a minute, a quarter of an hour, four hours, more.
[[nodiscard]] constexpr unsigned lifetime_of(std::uint32_t expires, std::uint32_t now) noexcept {
  if (expires == cache_entry::never) return 0;
  const std::uint32_t left = expires > now ? expires - now : 0;
  return left <= 60 ? 1 : left <= 900 ? 2 : left <= 14'400 ? 3 : 4;
}

/// Segments form two queues, by age: of entries that are new, and of those that have proved worth it.
enum class queue : std::uint8_t { fresh, proven };
inline constexpr std::size_t queues = 2;

class entry_log {
 public:
  static constexpr std::uint32_t none = 0xFFFF'FFFFU;

  /// A line of its own: groups fill neighbours.
  struct alignas(hw::cache_line_bytes) segment {
    static constexpr std::uint32_t is_sealed = none;

    std::atomic<std::uint32_t> fill{is_sealed};  ///< bytes handed out, while it is open
    std::atomic<std::uint32_t> complete{0};      ///< bytes whose writers are done
    std::atomic<std::uint32_t> live{0};          ///< bytes of entries that are still found
    /// No later than the tick at which enough of its entries have ended for it to be worth copying.
    std::atomic<std::uint32_t> look_at{cache_entry::never};
    std::atomic<bool> is_loose{false};    ///< in the list of segments of which little lives
    std::atomic<bool> is_flushed{false};  ///< what was in it at the last flush may still be found
    std::atomic<std::uint32_t> next_loose{none};
    std::atomic<std::uint32_t> next_free{none};

    // Under the owner's mutex.
    std::uint32_t end = 0;  ///< bytes handed out, once sealed
    std::uint32_t older = none;
    std::uint32_t newer = none;
    std::uint64_t age = 0;  ///< its place among all that came into its queue
    bool is_listed = false;
    std::uint8_t lifetime = 0;
    std::uint8_t group = 0;  ///< of the writers for which it was opened
    /// Read without the mutex too, by a change of an entry in it.
    std::atomic<queue> in{queue::fresh};

    /// What may be copied for the memory of its holes: a segment of which one byte in this number is a hole. A cache that would
    /// have to refuse an entry copies more for it.
    static constexpr std::size_t holes_one_in = 4;
    static constexpr std::size_t last_holes_one_in = 16;
    [[nodiscard]] static constexpr bool is_worth_copying(std::size_t live, std::size_t of,
                                                         std::size_t one_in = holes_one_in) noexcept {
      return live * one_in <= of * (one_in - 1);
    }
  };

  /// Throws std::bad_alloc.
  explicit entry_log(memory_budget& budget, std::size_t bytes_behind = 0);

  [[nodiscard]] std::size_t segment_bytes() const noexcept { return segment_bytes_; }
  /// A larger entry lies in an extent, in the memory after the segments.
  [[nodiscard]] std::size_t largest_inside() const noexcept { return largest_inside_; }
  [[nodiscard]] std::byte* at(location where) const noexcept { return pages_.data() + where * location_unit; }
  [[nodiscard]] location location_of(const std::byte* at) const noexcept {
    return static_cast<location>(at - pages_.data()) / location_unit;
  }
  [[nodiscard]] std::byte* behind() const noexcept { return at(begin_of(most_)); }
  [[nodiscard]] entry& entry_at(location where) const noexcept {
    return *std::launder(reinterpret_cast<entry*>(at(where)));
  }
  [[nodiscard]] segment& segment_of(location where) const noexcept {
    return segments_[where >> segment_shift_];
  }
  [[nodiscard]] segment& operator[](std::uint32_t index) const noexcept { return segments_[index]; }
  [[nodiscard]] unsigned writer_groups() const noexcept { return open_.size(); }
  /// Of the calling thread.
  [[nodiscard]] unsigned writer_group() const noexcept { return open_.here(); }
  [[nodiscard]] location begin_of(std::uint32_t index) const noexcept {
    return location{index} << segment_shift_;
  }

  /// Room in the open segment of a lifetime of the thread's group, which counts as live; 0 if a new one has to be opened. Lock-free.
  [[nodiscard]] location allocate(std::size_t bytes, queue in, unsigned lifetime, unsigned group) noexcept;
  [[nodiscard]] location allocate(std::size_t bytes, queue in, unsigned lifetime) noexcept {
    return allocate(bytes, in, lifetime, writer_group());
  }
  /// The entry at this place has been written.
  void complete(location where, std::size_t bytes, std::uint32_t expires) noexcept;
  /// An entry in a segment has this end now.
  void note_end(location where, std::uint32_t expires) noexcept { note_end(segment_of(where), expires); }
  /// Nothing finds the entry any more.
  void release(location where, std::size_t bytes) noexcept;

  // What follows is for the holder of one mutex, but for reclaim.

  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  /// Segments for a limit; those that there are stay. Throws std::bad_alloc; nothing has changed then.
  void allow(std::size_t limit);

  /// A segment without entries, in no list; none if there is neither a free one nor memory for one.
  [[nodiscard]] std::uint32_t take_free() noexcept;
  /// Whether take_free() may have to find memory that was not used before.
  [[nodiscard]] bool can_grow() const noexcept {
    return !unbacked_.empty() && budget_.used() + segment_bytes_ <= budget_.limit();
  }
  /// The same of those that have memory, also where the budget is passed.
  [[nodiscard]] std::uint32_t take_freed() noexcept;
  /// Makes a segment from take_free() the open one of a lifetime of the thread's group, the newest of its queue.
  void open(std::uint32_t index, queue in, unsigned lifetime, std::uint64_t age = 0) noexcept;
  /// No more entries.
  void seal(std::uint32_t index) noexcept;
  /// All segments that are open.
  void seal_open() noexcept;
  [[nodiscard]] bool is_complete(std::uint32_t index) const noexcept;
  void unlist(std::uint32_t index) noexcept;
  /// An unlisted segment that no reader can be in. From any thread.
  void reclaim(std::uint32_t index) noexcept;
  /// Gives the memory of free segments to the system until the budget has room for that number of bytes. False: not enough.
  bool shrink_for(std::size_t bytes) noexcept;
  /// A segment that is worth a look, of a few the one in which least lives; none: there is none in which no more than
  /// most_live bytes do.
  [[nodiscard]] std::uint32_t take_loose(std::size_t most_live) noexcept;
  /// Looks for segments of which enough may have ended. False: no entry is left that was there at the last flush().
  bool find_ended(std::uint32_t now) noexcept;
  /// Looks for segments of which last_holes_one_in are holes, open ones included, in a bounded number of them: the next call
  /// goes on. False: none is worth a look now.
  bool find_holes() noexcept;
  /// Bytes of a segment that may be walked: all that was handed out, and 0 while a writer is in it.
  [[nodiscard]] std::uint32_t written(std::uint32_t index) const noexcept;
  /// What walks a segment notes all ends again.
  void forget_ends(std::uint32_t index) noexcept;
  /// All entries are worth nothing any more. Seals all segments that are open.
  void flush() noexcept;

  /// The oldest of a queue that is complete; none: there is none. Seals what a group left open when others had opened a newer
  /// segment for the same lifetime: it is as old as its first entries.
  [[nodiscard]] std::uint32_t oldest(queue in) noexcept;
  /// The oldest of a queue, open or not; none: there is none.
  [[nodiscard]] std::uint32_t first(queue in) const noexcept { return order_[index_of(in)].oldest; }
  [[nodiscard]] std::uint32_t listed(queue in) const noexcept { return order_[index_of(in)].count; }
  [[nodiscard]] std::uint32_t backed() const noexcept { return backed_; }

 private:
  struct order {
    std::uint32_t oldest = none;
    std::uint32_t newest = none;
    std::uint32_t count = 0;
  };

  static constexpr std::size_t index_of(queue q) noexcept { return static_cast<std::size_t>(q); }
  /// The open segments of a group.
  struct open_segments {
    std::array<std::atomic<std::uint32_t>, queues * lifetimes> each;
    open_segments() noexcept {
      for (auto& index : each)
        index.store(none, std::memory_order_relaxed);  // relaxed: no other thread knows the log
    }
  };
  static constexpr std::size_t kind_of(queue in, unsigned lifetime) noexcept {
    return index_of(in) * lifetimes + lifetime;
  }
  static void note_end(segment& s, std::uint32_t expires) noexcept;
  /// Seals a segment, if it is open.
  void seal_left_open(std::uint32_t index) noexcept;
  void add_loose(std::uint32_t index) noexcept;
  /// Of a segment that gets its memory for the first time.
  void keep_huge_within_limit(std::uint32_t index) noexcept;

  memory_budget& budget_;
  std::size_t segment_bytes_;
  unsigned segment_shift_;  ///< of a location to the index of its segment
  std::size_t largest_inside_;
  std::uint32_t most_;  ///< segments that have addresses
  std::uint32_t count_ = 0;
  hw::page_run pages_;
  hw::page_run segment_pages_;
  segment* segments_;
  by_writer_group<open_segments> open_;
  std::array<std::uint32_t, queues * lifetimes> newest_;  // of all groups
  std::array<order, queues> order_;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> free_{none};
  std::atomic<std::uint32_t> loose_{none};
  std::uint32_t holes_at_ = 0;  // where find_holes goes on
  std::vector<std::uint32_t> loose_taken_;
  std::size_t loose_at_ = 0;  // where take_loose goes on
  std::vector<std::uint32_t> unbacked_;
  std::uint32_t backed_ = 0;
  std::uint32_t most_backed_ = 0;  // ever
  std::uint32_t untouched_ = 0;    // the first segment that never had memory
  bool may_be_huge_ = true;
};

}  // namespace espalier::caching
