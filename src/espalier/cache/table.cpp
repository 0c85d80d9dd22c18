#include "espalier/cache/table.hpp"

#include <algorithm>

namespace espalier::caching {
namespace {

// No entry takes less of a segment. The one with the empty key may.
constexpr std::size_t smallest_entry = 16;

// The limit of memory has room for so many entries, each with its part of a bucket, and no more.
constexpr std::size_t most_entries(std::size_t limit) noexcept {
  constexpr std::size_t each_in_percent = smallest_entry * table::split_percent + hw::cache_line_bytes * 100;
  return limit / each_in_percent * table::split_percent + table::split_percent;
}

// As in entry_log; the table is a tenth of it.
constexpr std::size_t huge_table_from = std::size_t{512} << 20U;

constexpr std::size_t overflow_limit(std::size_t limit) noexcept { return most_entries(limit) / 7 + 2; }

std::size_t stripes_for(std::size_t limit) noexcept {
  return std::bit_floor(std::clamp<std::size_t>(limit / 65'536, 64, 4096));
}

}  // namespace

std::size_t table::buckets_for(std::size_t limit) const noexcept {
  return std::max(most_entries(limit) * 100 / split_percent, 2 * (stripe_mask_ + 1));
}

table::table(memory_budget& budget)
    : budget_(budget),
      stripe_mask_(stripes_for(budget.limit()) - 1),
      bucket_limit_(buckets_for(budget.limit())),
      stripes_(std::make_unique<stripe[]>(stripe_mask_ + 1)),
      bucket_pages_(hw::map_pages(buckets_for(budget.largest()) * sizeof(bucket),
                                  {.huge = budget.limit() >= huge_table_from, .sparse = true})),
      // Each line of overflow is there for entries that a full line before it has no room for.
      overflow_pages_(hw::map_pages(overflow_limit(budget.largest()) * sizeof(bucket), {.sparse = true})),
      overflow_free_pages_(
          hw::map_pages(overflow_limit(budget.largest()) * sizeof(std::uint32_t), {.sparse = true})),
      buckets_(reinterpret_cast<bucket*>(bucket_pages_.data())),
      overflow_(reinterpret_cast<bucket*>(overflow_pages_.data())),
      shape_((stripe_mask_ + 1) << moves_bits),
      overflow_free_(reinterpret_cast<std::uint32_t*>(overflow_free_pages_.data())) {
  budget_.take((stripe_mask_ + 1) * (sizeof(stripe) + sizeof(bucket)));
}

void table::allow(std::size_t limit) noexcept {
  const std::lock_guard moving(mover_);
  bucket_limit_ = std::max(bucket_limit_, buckets_for(limit));
}

void table::begin_move(std::size_t index) noexcept {
  // A reader that sees it sees at least the shape after the move before.
  moving_.store(index, std::memory_order_release);  // order (2): begin_move, release
  // relaxed: only the mover writes it.
  const std::uint64_t shape = moved(shape_.load(std::memory_order_relaxed));
  shape_.store(shape, std::memory_order_release);  // order (2): begin_move, release
}

void table::end_move(std::size_t more_buckets) noexcept {
  const std::uint64_t shape =
      moved(shape_.load(std::memory_order_relaxed));  // relaxed: only the mover writes it
  shape_.store(shape + (more_buckets << moves_bits),
               std::memory_order_release);  // order (2): end_move, release
}

std::uint32_t table::take_overflow() noexcept {
  const std::lock_guard held(overflow_lock_);
  if (overflow_free_count_ != 0) return overflow_free_[--overflow_free_count_];
  // relaxed, both: under the lock
  const std::size_t index = overflow_used_.load(std::memory_order_relaxed);
  overflow_used_.store(index + 1, std::memory_order_relaxed);
  if (index == 1 || index * sizeof(bucket) % hw::page_size() == 0) budget_.take(hw::page_size());
  return static_cast<std::uint32_t>(index);
}

void table::give_overflow(std::uint32_t index) noexcept {
  const std::lock_guard held(overflow_lock_);
  overflow_free_[overflow_free_count_++] = index;
}

void table::add(bucket& first, std::uint64_t word) noexcept {
  for (bucket* b = &first;;) {
    slot* last = &b->slots[slots_each - 1];
    for (slot& s : b->slots) {
      if (s.load(std::memory_order_relaxed) != 0) continue;  // relaxed: the stripe's lock orders it
      s.store(word, std::memory_order_release);              // order (1): publish, release
      return;
    }
    const std::uint64_t there = last->load(std::memory_order_relaxed);  // relaxed: as above
    if ((there & is_link) == 0) {
      const std::uint32_t index = take_overflow();
      bucket& line = overflow_[index];
      // A reader of the last slot finds its entry there, or behind the link. A reader that an older link leads here, from
      // another bucket, sees that entries have moved.
      line.slots[0].store(there, std::memory_order_release);    // order (1): publish, release
      line.slots[1].store(word, std::memory_order_release);     // order (1): publish, release
      last->store(is_link | index, std::memory_order_release);  // order (1): publish, release
      return;
    }
    b = &overflow_at(there);
  }
}

void table::insert(std::uint64_t hash, std::uint64_t word) noexcept {
  add(buckets_[index_of(hash, shape_.load(std::memory_order_acquire))], word);  // order (2): find, acquire
}

void table::erase(std::uint64_t hash, slot& at) noexcept {
  at.store(0, std::memory_order_release);  // order (1): publish, release
  const std::size_t index =
      index_of(hash, shape_.load(std::memory_order_acquire));  // order (2): find, acquire
  bucket& first = buckets_[index];
  if (!has_gaps(first) || !mover_.try_lock()) return;
  const std::lock_guard moving(mover_, std::adopt_lock);
  begin_move(index);
  close_gaps(first);
  end_move(0);
}

bool table::has_gaps(const bucket& first) const noexcept {
  std::size_t empty = 0;
  for (const bucket* b = &first;;) {
    const bucket* next = nullptr;
    std::size_t here = 0;
    for (const slot& s : b->slots) {
      const std::uint64_t word = s.load(std::memory_order_relaxed);  // relaxed: the lock orders it
      if ((word & is_link) != 0)
        next = &overflow_at(word);
      else if (word == 0)
        ++here;
    }
    // The last line goes if its entries fit into the gaps before it, and the slot of the link to it.
    if (next == nullptr) return b != &first && slots_each - here <= empty + 1;
    empty += here;
    b = next;
  }
}

void table::close_gaps(bucket& first) noexcept {
  while (has_gaps(first)) {
    slot* link = nullptr;
    bucket* b = &first;
    while ((b->slots[slots_each - 1].load(std::memory_order_relaxed) & is_link) !=
           0) {  // relaxed: the lock orders it
      link = &b->slots[slots_each - 1];
      b = &overflow_at(link->load(std::memory_order_relaxed));  // relaxed: as above
    }
    const auto line = static_cast<std::uint32_t>(link->load(std::memory_order_relaxed));  // relaxed: as above
    std::array<std::uint64_t, slots_each> left;
    for (std::size_t i = 0; i < slots_each; ++i)
      // relaxed, both: as above; a frequency that is raised between is lost.
      left[i] = b->slots[i].exchange(0, std::memory_order_release);
    link->store(0, std::memory_order_release);  // order (1): publish, release
    give_overflow(line);
    for (const std::uint64_t word : left) {
      if (word != 0) add(first, word);
    }
  }
}

}  // namespace espalier::caching
