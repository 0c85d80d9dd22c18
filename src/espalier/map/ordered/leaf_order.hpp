#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "espalier/map/tree/node.hpp"
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

/// The slots of at most `Most` entries by their ranks. It is changed with the lock of the leaf, and readers kept out.
template <unsigned Most>
class leaf_order {
 public:
  static constexpr unsigned slots = 256;  ///< the numbers of slots are smaller
  static_assert(Most <= slots);

  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned slot_at(const Witness& w, unsigned rank) const noexcept {
    return by_rank_[rank].get(w);
  }
  /// Makes it anew of slot_at(0) and so on.
  template <class Witness, class SlotAt>
  void assign(const Witness& w, unsigned count, const SlotAt& slot_at) noexcept {
    for (unsigned i = 0; i < count; ++i) by_rank_[i].set(w, static_cast<std::uint8_t>(slot_at(i)));
  }
  /// Removes the rank of a slot, of `known`.
  template <class Witness>
  void remove(const Witness& w, unsigned known, unsigned slot) noexcept {
    unsigned rank = 0;
    while (rank < known && by_rank_[rank].get(w) != slot) ++rank;
    for (; rank + 1 < known; ++rank) by_rank_[rank].set(w, by_rank_[rank + 1].get(w));
  }

 private:
  std::array<optimistic_field<std::uint8_t>, Most> by_rank_;
};

/// The keys whose ranks are multiples of a step, or numbers that are in the order of the keys. It is changed as the order is.
class sample_of_order {
 public:
  /// For an order of so many entries.
  [[nodiscard]] static constexpr unsigned step_of(unsigned count) noexcept {
    return std::max(1U, (count + most - 1) / most);
  }
  /// Makes it anew of key_at(0) and so on.
  template <class Witness, class KeyAt>
  void assign(const Witness& w, unsigned count, const KeyAt& key_at) noexcept {
    unsigned sampled = 0;
    for (unsigned i = step_of(count); i < count; i += step_of(count)) keys_.set(w, sampled++, key_at(i));
    keys_.clear(w, sampled, most);
  }
  /// The first key larger than k has one of these ranks, of `known`, or the one behind them. If ranks have been removed, that
  /// is likely only.
  template <class Witness>
  [[nodiscard]] rank_range likely_ranks(const Witness& w, unsigned step, unsigned known,
                                        std::uint64_t k) const noexcept {
    const auto part = static_cast<unsigned>(keys_.not_above(w, k, keys_.width()));
    return {std::min(part * step, known), std::min((part + 1) * step, known)};
  }

 private:
  static constexpr unsigned most = 16;

  sampled_keys<most> keys_;
};

}  // namespace espalier::btree
