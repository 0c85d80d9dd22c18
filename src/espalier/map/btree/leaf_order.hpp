#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The order of the entries of a leaf that is a hash table (hashed_leaf.hpp, string_leaf.hpp), for scans: a list of the slots
// in the order of their keys when it was made, with a sample of these keys. So a scan that begins at a key reads the
// entries that it visits, and few others. A leaf says when it is made, and what of it lasts when entries come and go.

namespace espalier::btree {

/// Some ranks, from the first one to the one before `last`. The rank of an entry is the number of entries with smaller keys.
struct rank_range {
  unsigned first;
  unsigned last;
};

/// Of at most `Most` entries. The sample has keys, or numbers that are in the order of the keys.
template <unsigned Most>
class leaf_order {
 public:
  static constexpr unsigned slots = 256;  ///< the numbers of slots are smaller
  static_assert(Most <= slots);

  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned slot_at(const Witness& w, unsigned rank) const noexcept {
    return by_rank_[rank].get(w);
  }
  /// The first key larger than k has one of these ranks, of `known`, or the one behind them. If ranks have been removed, that
  /// is likely only.
  template <class Witness>
  [[nodiscard]] rank_range likely_ranks(const Witness& w, unsigned known, std::uint64_t k) const noexcept {
    const auto part = static_cast<unsigned>(sample_.not_above(w, k, sample_.width()));
    const unsigned step = step_.get(w);
    return {std::min(part * step, known), std::min((part + 1) * step, known)};
  }

  // With the lock of the leaf, and readers kept out.

  /// Makes it anew. slot_at(rank) and key_at(rank) tell of what.
  template <class Witness, class SlotAt, class KeyAt>
  void assign(const Witness& w, unsigned count, const SlotAt& slot_at, const KeyAt& key_at) noexcept {
    const unsigned step = std::max(1U, (count + sample_most - 1) / sample_most);
    step_.set(w, static_cast<std::uint16_t>(step));
    for (unsigned i = 0; i < count; ++i) by_rank_[i].set(w, static_cast<std::uint8_t>(slot_at(i)));
    unsigned sampled = 0;
    for (unsigned i = step; i < count; i += step) sample_.set(w, sampled++, key_at(i));
    sample_.clear(w, sampled, sample_most);
  }
  /// Removes the rank of a slot, of `known`.
  template <class Witness>
  void remove(const Witness& w, unsigned known, unsigned slot) noexcept {
    unsigned rank = 0;
    while (rank < known && by_rank_[rank].get(w) != slot) ++rank;
    for (; rank + 1 < known; ++rank) by_rank_[rank].set(w, by_rank_[rank + 1].get(w));
  }

  /// Requests all lines.
  void request() const noexcept { hw::request_lines(this, sizeof(*this)); }

 private:
  static constexpr unsigned sample_most = 16;

  sampled_keys<sample_most> sample_;  ///< the keys whose ranks are multiples of the step
  std::array<optimistic_field<std::uint8_t>, Most> by_rank_;
  optimistic_field<std::uint16_t> step_;
};

}  // namespace espalier::btree
