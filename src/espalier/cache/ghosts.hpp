#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/cache/entry_log.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier::caching {

/// The keys that were evicted last, as 16 bits of their hashes. Four share a word, the newest one in front. One in 16,000 keys
/// is taken for another.
class ghosts {
 public:
  /// Throws std::bad_alloc.
  explicit ghosts(memory_budget& budget)
      : budget_(budget),
        limit_(budget.largest() / 64 / keys_a_word + 1),
        pages_(hw::map_pages(limit_ * sizeof(word), {.sparse = true})),
        words_(reinterpret_cast<word*>(pages_.data())) {}

  /// For that number of entries: a quarter as many and one for each kibibyte of the limit, but not more than entries. So small entries
  /// lose little memory to them, and large ones are remembered for longer. If their number changes by a third, what was known
  /// before is forgotten. By one thread at a time.
  void fit(std::uint64_t entries) noexcept {
    const std::uint64_t keys = std::min<std::uint64_t>(entries, entries / 4 + budget_.limit() / 1024);
    const std::size_t wanted = std::min<std::uint64_t>(keys / keys_a_word + 1, limit_);
    // relaxed, here and below: a ghost that is missed or wrong costs a hit, and no more.
    const std::size_t now = used_.load(std::memory_order_relaxed);
    if (wanted <= now + now / 2 && now <= wanted + wanted / 2) return;
    if (wanted > most_) {
      budget_.take((wanted - most_) * sizeof(word));
      most_ = wanted;
    }
    used_.store(wanted, std::memory_order_relaxed);
  }

  void add(std::uint64_t hash) noexcept {
    word* const at = word_of(hash);
    if (at == nullptr) return;
    std::uint64_t now = at->load(std::memory_order_relaxed);
    while (!at->compare_exchange_weak(now, now << 16U | mark_of(hash), std::memory_order_relaxed)) {
    }
  }

  /// Whether the key is one of them; then it is no more.
  bool take(std::uint64_t hash) noexcept {
    word* const at = word_of(hash);
    if (at == nullptr) return false;
    std::uint64_t now = at->load(std::memory_order_relaxed);
    for (unsigned shift = 0; shift < 64; shift += 16) {
      if ((now >> shift & 0xFFFFU) == mark_of(hash))
        return at->compare_exchange_strong(now, now & ~(std::uint64_t{0xFFFF} << shift),
                                           std::memory_order_relaxed);
    }
    return false;
  }

 private:
  using word = std::atomic<std::uint64_t>;
  static constexpr std::size_t keys_a_word = 4;

  // The table uses the low bits and the highest 21: these are from between.
  [[nodiscard]] static std::uint64_t mark_of(std::uint64_t hash) noexcept {
    return (hash >> 27U & 0xFFFFU) | 1U;
  }
  [[nodiscard]] word* word_of(std::uint64_t hash) const noexcept {
    const std::size_t used = used_.load(std::memory_order_relaxed);
    return used == 0 ? nullptr : words_ + static_cast<std::size_t>((hash >> 32U) * used >> 32U);
  }

  memory_budget& budget_;
  std::size_t limit_;
  hw::page_run pages_;
  word* words_;
  std::atomic<std::size_t> used_{0};
  std::size_t most_ = 0;
};

}  // namespace espalier::caching
