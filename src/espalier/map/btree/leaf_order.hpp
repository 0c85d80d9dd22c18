#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The order of the entries of a leaf that is a hash table (hashed_leaf.hpp), for scans.
//
// It is a list of the slots in the order of their keys when it was made, with a sample of these keys, and a few slots that
// entries came to later. So a scan reads the entries that it visits, and neither reads nor sorts the others. A scan makes it
// (hashed_leaf.hpp says when), and it lasts until an entry goes, or too many have come.

namespace espalier::btree {

template <unsigned Most>
class leaf_order {
 public:
  static constexpr unsigned slots = 256;  ///< the numbers of slots are smaller
  static constexpr unsigned later_most = 7;

  /// Some ranks, from the first one to the one before `last`.
  struct rank_range {
    unsigned first;
    unsigned last;
  };
  /// The slots of entries that came later, at most later_most.
  struct later_slots {
    std::uint64_t all;
    [[nodiscard]] unsigned count() const noexcept { return all & 0xffU; }
    [[nodiscard]] unsigned operator[](unsigned i) const noexcept { return all >> 8 * (i + 1) & 0xffU; }
  };

  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned slot_at(const Witness& w, unsigned rank) const noexcept {
    return by_rank_[rank].get(w);
  }
  /// Among which ranks the first key is that is not below k, of `known`; or it is the one behind them.
  template <class Witness>
  [[nodiscard]] rank_range likely_ranks(const Witness& w, unsigned known, std::uint64_t k) const noexcept {
    const auto part = static_cast<unsigned>(k == 0 ? 0 : sample_.not_above(w, k - 1, sample_.width()));
    const unsigned step = sample_step(known);
    return {std::min(part * step, known), std::min((part + 1) * step, known)};
  }
  template <class Witness>
  [[nodiscard]] later_slots later(const Witness& w) const noexcept {
    return {later_.get(w)};
  }

  // With the lock of the leaf.

  /// An entry comes to that slot. False if there is no room.
  template <class Witness>
  [[nodiscard]] bool add_later(const Witness& w, unsigned slot) noexcept {
    const later_slots now = later(w);
    if (now.count() == later_most) return false;
    later_.set(w, (now.all | std::uint64_t{slot} << 8 * (now.count() + 1)) + 1);
    return true;
  }
  /// Makes it anew, of entries in order with their slots.
  template <class Witness, class Sorted>
  void assign(const Witness& w, const Sorted& all) noexcept {
    unsigned sampled = 0;
    const unsigned step = sample_step(all.count);
    for (unsigned i = 0; i < all.count; ++i) by_rank_[i].set(w, all.slot[i]);
    for (unsigned i = step; i < all.count; i += step) sample_.set(w, sampled++, all.key[i]);
    sample_.clear(w, sampled, sample_most);
    later_.set(w, 0);
  }

  /// Requests all lines.
  void request() const noexcept { hw::request_lines(this, sizeof(*this)); }

 private:
  static constexpr unsigned sample_most = 16;
  /// The sample has each key at such a distance.
  [[nodiscard]] static unsigned sample_step(unsigned known) noexcept {
    return std::max(1U, (known + sample_most - 1) / sample_most);
  }

  sampled_keys<sample_most> sample_;
  std::array<optimistic_field<std::uint8_t>, Most> by_rank_;
  optimistic_field<std::uint64_t> later_;  ///< a byte each, and in the lowest one their number
};

}  // namespace espalier::btree
