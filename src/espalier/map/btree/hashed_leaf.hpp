#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/hw/vector_compare.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The leaf of ordered_map: a hash table with some hundred entries. The entries of a cache line are a group, and the hash
// of a key chooses its home group. So a search knows which two lines it needs before it has read the first: the line of
// the lock, which also says which slots are used, and that of the home group. Where a home group is full, its entry lies
// in one behind it, and the group is marked as passed. With large leaves the inner nodes are few, and stay in the caches.
// What needs the entries in order sorts a copy.
//
// Invariants
//   (H1) The bit of a slot is set exactly where the slot has an entry; no two slots have the same key.
//   (H2) Between the home group of a key and that of its entry all groups are marked as passed. A mark goes only when all
//        entries of the leaf are placed anew.
//
// An insert fills a slot, marks groups, and then sets the bit, which makes the entry visible. Readers need no new version
// for that: they see the leaf before it or behind it. An erase clears the bit and renews the version. So a reader that
// has seen the bit does not validate if a later insert has used the slot.
//
// Orderings: those of sync/optimistic_lock.hpp. A reader loads the bit before the entry.

namespace espalier::btree {

template <class Key, class Word, unsigned Capacity, class Compare>
struct hashed_leaf : node_base {
  struct entry {
    optimistic_field<Key> key;
    optimistic_field<Word> word;
  };
  static constexpr unsigned in_group = std::bit_floor(hw::cache_line_bytes / sizeof(entry));
  static constexpr unsigned groups = (Capacity + in_group - 1) / in_group;
  static constexpr unsigned capacity = Capacity;
  /// With so many entries it is full: more of them would be far from their homes.
  static constexpr unsigned most = capacity < 64 ? capacity : capacity - capacity / 16;
  /// No more entries are a reason to merge with a neighbour.
  static constexpr unsigned sparse = capacity / 4;
  static_assert(capacity <= 256 && groups <= 64);
  using content = entries<Key, Word, 2 * capacity>;
  using change = entry_change<Word>;
  using outcome = entry_outcome<Word>;
  using effect = typename outcome::effect;

  hashed_leaf() noexcept : node_base(0) { hw::annotate_metadata(*this); }

  struct spot {
    unsigned index;
    bool found;
  };

  /// As in sorted_leaf.
  [[nodiscard]] static constexpr bool renews(effect done) noexcept { return done == effect::erased; }

  template <class Witness>
  [[nodiscard]] spot seek(const Witness& w, const Compare& less, const Key k) const {
    unsigned group = home_of(k);
    for (unsigned tried = 0; tried < groups; ++tried) {
      const unsigned in_use = used_in(w, group);
      unsigned equal = 0;
      for (unsigned i = 0; i < in_group; ++i) {
        const Key there = all[group * in_group + i].key.get(w);
        equal |= static_cast<unsigned>(same_key(less, there, k)) << i;
      }
      equal &= in_use;
      if (equal != 0) return {group * in_group + static_cast<unsigned>(std::countr_zero(equal)), true};
      if ((passed.get(w) >> group & 1U) == 0) break;
      group = behind(group);
    }
    return {0, false};
  }
  template <class Witness>
  [[nodiscard]] std::optional<Word> find(const Witness& w, const Compare& less, const Key k) const {
    const spot at = seek(w, less, k);
    if (!at.found) return std::nullopt;
    return all[at.index].word.get(w);
  }

  /// Changes the entry of the key. `where` is what seek() returned; since then no entry has gone, nor has the key come.
  template <class Witness>
  outcome apply(const Witness& w, const spot& where, const Key& k, const change& wanted) noexcept {
    outcome result;
    if (!where.found) {
      if (!wanted.insert_where_absent) return result;
      result.what = is_full(w) ? effect::full : effect::inserted;
      if (result.what == effect::inserted) put(w, k, wanted.word);
      return result;
    }
    entry& e = all[where.index];
    result.before = e.word.get(w);
    if (wanted.expected && !same_bits(*wanted.expected, result.before)) return result;
    if (wanted.present == change::where_present::store) {
      e.word.set(w, wanted.word);
      result.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      auto& bits = used[where.index / 64];
      bits.set(w, bits.get(w) & ~(std::uint64_t{1} << where.index % 64));
      result.what = effect::erased;
      result.left = count(w);
    }
    return result;
  }

  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    unsigned sum = 0;
    for (const auto& bits : used) sum += hw::ones(bits.get(w));
    return sum;
  }
  template <class Witness>
  [[nodiscard]] bool is_full(const Witness& w) const noexcept {
    return count(w) >= most;
  }
  template <class Witness>
  [[nodiscard]] bool is_sparse(const Witness& w) const noexcept {
    return count(w) <= sparse;
  }

  /// Appends the entries in order.
  template <class Witness>
  void copy_to(const Witness& w, const Compare& less, content& to, const Key& = {}) const {
    const unsigned first = to.count;
    if constexpr (std::is_same_v<Key, std::uint64_t> && std::is_same_v<Compare, std::less<Key>>) {
      copy_by_range(w, to);
    } else {
      for_each(w, [&](const Key& k, const Word& v) { to.add(k, v); });
    }
    to.sort_from(first, less);
  }
  template <class Witness>
  void assign(const Witness& w, const content& from, unsigned first, unsigned last) noexcept {
    for (auto& bits : used) bits.set(w, 0);
    passed.set(w, 0);
    for (; first < last; ++first) put(w, from.key[first], from.slot[first]);
  }

  /// Requests the lines of a leaf that a search for the key is likely to read.
  static void request(const node_base* node, const Key k) noexcept {
    const auto* const of_it = static_cast<const hashed_leaf*>(node);
    __builtin_prefetch(of_it);
    __builtin_prefetch(&of_it->all[home_of(k) * in_group]);
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "lock", lock), member_of(*this, "level", level),
            member_of(*this, "used slots", used), member_of(*this, "groups passed", passed),
            member_of(*this, "entry", all, all.size())};
  }

 private:
  [[nodiscard]] static unsigned home_of(const Key k) noexcept {
    return static_cast<unsigned>((hash_of<Compare>(k) >> 32U) * groups >> 32U);
  }
  [[nodiscard]] static unsigned behind(unsigned group) noexcept {
    return group + 1 == groups ? 0 : group + 1;
  }
  template <class Witness>
  [[nodiscard]] unsigned used_in(const Witness& w, unsigned group) const noexcept {
    const unsigned first = group * in_group;
    return static_cast<unsigned>(used[first / 64].get(w) >> first % 64) & ((1U << in_group) - 1);
  }
  static constexpr unsigned slots_in(unsigned group) noexcept {
    return std::min(in_group, capacity - group * in_group);
  }

  template <class Witness>
  void put(const Witness& w, const Key& k, Word v) noexcept {
    unsigned group = home_of(k);
    unsigned in_use = used_in(w, group);
    for (; in_use == (1U << slots_in(group)) - 1; in_use = used_in(w, group)) {
      passed.set(w, passed.get(w) | std::uint64_t{1} << group);
      group = behind(group);
    }
    const unsigned slot = group * in_group + static_cast<unsigned>(std::countr_one(in_use));
    all[slot].key.set(w, k);
    all[slot].word.set(w, v);
    auto& bits = used[slot / 64];
    bits.set(w, bits.get(w) | std::uint64_t{1} << slot % 64);
  }

  template <class Witness, class Visit>
  void for_each(const Witness& w, const Visit& visit) const {
    for (unsigned i = 0; i < used.size(); ++i) {
      for (std::uint64_t bits = used[i].get(w); bits != 0; bits &= bits - 1) {
        const entry& e = all[64 * i + static_cast<unsigned>(std::countr_zero(bits))];
        visit(e.key.get(w), e.word.get(w));
      }
    }
  }

  /// Nearly in order, if the keys are distributed evenly: as a counting sort of their distances from the smallest.
  template <class Witness>
  void copy_by_range(const Witness& w, content& to) const noexcept {
    std::array<Key, capacity> keys;
    std::array<Word, capacity> words;
    unsigned n = 0;
    Key low = ~Key{0};
    Key high = 0;
    for_each(w, [&](const Key& k, const Word& v) {
      keys[n] = k;
      words[n++] = v;
      low = std::min(low, k);
      high = std::max(high, k);
    });
    if (n == 0) return;
    const auto width = static_cast<unsigned>(std::bit_width(high - low));
    const unsigned shift = width > 8 ? width - 8 : 0;
    std::array<std::uint16_t, 257> begin{};
    for (unsigned i = 0; i < n; ++i) ++begin[((keys[i] - low) >> shift) + 1];
    for (unsigned i = 0; i < 256; ++i) begin[i + 1] = static_cast<std::uint16_t>(begin[i + 1] + begin[i]);
    for (unsigned i = 0; i < n; ++i) {
      const unsigned at = to.count + begin[(keys[i] - low) >> shift]++;
      to.key[at] = keys[i];
      to.slot[at] = words[i];
    }
    to.count += n;
  }

  std::array<optimistic_field<std::uint64_t>, 4> used;
  optimistic_field<std::uint64_t> passed;  ///< a bit for each group
  alignas(hw::cache_line_bytes) std::array<entry, groups * in_group> all;
};

}  // namespace espalier::btree
