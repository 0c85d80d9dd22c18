#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pair_exchange.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/hw/vector_compare.hpp"
#include "espalier/map/ordered/leaf_order.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The leaf of ordered_map: a hash table with some hundred entries. A cache line has a group of keys and their words, four
// if words have 8 bytes, and the hash of a key chooses its home group. So a search reads two lines, and knows both before it
// has read either: that of the range of keys that the leaf covers, and that of the home group. With large leaves the inner
// nodes are few, and stay in the caches. What needs the entries in order sorts a copy, but for scans: the second one that
// comes to a leaf, with no erase between, makes its order (leaf_order.hpp), and those behind it read no more than they visit.
//
// Where a home group is full, its entry lies in the first group with room on a way round all groups, and each group that the
// key passes is marked. The hash chooses one of eight steps for the way: with one step for all keys, full groups side by
// side would send all their keys through each other. A group has four marks, and the hash of the key chooses one: a small
// Bloom filter of the keys that have passed the group. So half as many searches for absent keys go on behind a group as
// with one mark. They cost a wait for another line, which the processor does not foresee.
//
// A slot without an entry has a key that no search looks for there: its way begins at the group behind, and comes to this
// one last, where no search goes. So a group has all that a search needs, and no key of the user is reserved.
//
// An update of an entry takes no lock: it compares and exchanges key and word in one step. That finds the key in its slot
// only while the entry is in the map. (Where words do not have 8 bytes, or the processor has no such step, it takes the lock
// as an insert does.) A split, a merge, or a leaf that shares with its neighbour moves no more entries than have to go, and
// those of the giving leaf that are not at home. It takes them from their slots: first all keys, and then the words.
//
// Invariants
//   (H1) No two slots have the same key, but for slots without an entry.
//   (H2) Each group on the way of a key before the one with its entry has the mark of the key, and they are fewer than
//        groups - 1. A mark goes only when all entries of the leaf are placed anew.
//   (H3) The keys of the leaf lie in its range. The ranges of all leaves that are not obsolete cover each key once.
//   (H4) A slot has a key only while its entry is in the map, and this is the only slot that has it.
//   (H5) While the leaf is ordered, the slot of each entry is one of the order. Its key has not changed since, or it has none:
//        an erase ends the order before it releases the lock.
//   (H6) `in_use` has the slots with entries, and is read and written with the lock.
//   (H7) While a key leaves its slot otherwise than by an erase, and while the range changes, the lock is held without readers,
//        and `placement` is changing. Behind that it has another version, or is obsolete.
//
// What concerns one entry takes the lock beside readers; hashed_tree.hpp says when it searches before. An insert learns from the
// line of the lock which slots are free, so it waits for no group on its way but the one where it looks for its key. It marks
// groups, stores the word, and then stores the key, which makes the entry visible; an update stores the word. Readers see the
// leaf before it or behind it. An erase removes the key and renews the version: a reader of the lock that has seen the key does
// not validate if a later insert has used the slot.
//
// Scans read the lock. A find does not, nor the numbers of entries beside it: inserts and erases write that line, and each of
// them would take it from the caches of all finds. Key and word come in one load, so a find needs no version for them. That a
// key is absent holds while no entry moves: a key that was there all the time was in one slot, in a group on its way. So
// finds validate `placement`, a version that splits and merges change, and which lies with the range and the marks. (In
// leaves with 8 entries at most all that is one line.) Where an entry is not loaded in one step, a find reads the lock, too.
//
// A reader of the lock loads the key before the word. Its orderings, and those of the lock, are those of
// sync/optimistic_lock.hpp.
//
// Orderings
//   (1) update (seq_cst) -> give (seq_cst): an update that still finds the key comes before the fence, and the leaf that
//       gives the entry then reads its word.

namespace espalier::btree {

/// How many entries a leaf has, whether it is ordered, and the slots of those that came since its order was made. One word:
/// a reader sees what belongs together.
class entry_counts {
 public:
  static constexpr unsigned later_most = 6;
  static constexpr unsigned most = 250;  ///< entries

  constexpr entry_counts() = default;
  [[nodiscard]] constexpr unsigned entries() const noexcept { return static_cast<unsigned>(all_ & 0xffU); }
  [[nodiscard]] constexpr bool is_ordered() const noexcept { return state() >= ordered; }
  /// Whether the next scan is to make the order.
  [[nodiscard]] constexpr bool order_is_wanted() const noexcept { return state() == order_wanted; }
  /// Entries of the order.
  [[nodiscard]] constexpr unsigned ranks() const noexcept { return state() - ordered; }
  /// At most later_most.
  [[nodiscard]] constexpr unsigned later() const noexcept { return entries() - ranks(); }
  [[nodiscard]] constexpr unsigned later_slot(unsigned i) const noexcept {
    return static_cast<unsigned>(all_ >> 8 * (i + 2) & 0xffU);
  }

  [[nodiscard]] static constexpr entry_counts not_ordered(unsigned entries) noexcept {
    return entry_counts(entries);
  }
  [[nodiscard]] static constexpr entry_counts in_order(unsigned entries) noexcept {
    return entry_counts(entries | std::uint64_t{entries + ordered} << 8U);
  }
  [[nodiscard]] constexpr entry_counts with_order_wanted() const noexcept {
    return entry_counts(entries() | std::uint64_t{order_wanted} << 8U);
  }
  /// With another entry. If there is no room for its slot, the leaf is ordered no more.
  [[nodiscard]] constexpr entry_counts with(unsigned slot) const noexcept {
    const entry_counts more(all_ + 1);
    if (!is_ordered()) return more;
    return later() == later_most ? not_ordered(more.entries())
                                 : entry_counts(more.all_ | std::uint64_t{slot} << 8 * (later() + 2));
  }

 private:
  // What `state` may be. More than `ordered`: the number of entries in the order.
  static constexpr unsigned order_wanted = 1;
  static constexpr unsigned ordered = 2;

  constexpr explicit entry_counts(std::uint64_t all) noexcept : all_(all) {}
  [[nodiscard]] constexpr unsigned state() const noexcept {
    return static_cast<unsigned>(all_ >> 8U & 0xffU);
  }

  std::uint64_t all_ = 0;  ///< from the lowest byte on: the entries, the state, the slots
};

/// Which slots have entries.
template <unsigned Groups, unsigned InGroup>
class slots_in_use {
 public:
  /// A bit for each slot of the group that has no entry.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned free_in(const Witness& w, unsigned g) const noexcept {
    return static_cast<unsigned>(~words_[g / groups_each].get(w) >> place_of(g)) & ((1U << InGroup) - 1);
  }
  template <class Witness>
  [[gnu::always_inline]] void take(const Witness& w, unsigned g, unsigned slot) noexcept {
    auto& some = words_[g / groups_each];
    some.set(w, some.get(w) | std::uint64_t{1} << (place_of(g) + slot));
  }
  template <class Witness>
  [[gnu::always_inline]] void give(const Witness& w, unsigned g, unsigned slot) noexcept {
    auto& some = words_[g / groups_each];
    some.set(w, some.get(w) & ~(std::uint64_t{1} << (place_of(g) + slot)));
  }

 private:
  static constexpr unsigned width = InGroup <= 4 ? 4 : 8;
  static constexpr unsigned groups_each = 64 / width;
  [[nodiscard]] static constexpr unsigned place_of(unsigned g) noexcept { return g % groups_each * width; }

  std::array<optimistic_field<std::uint64_t>, (Groups + groups_each - 1) / groups_each> words_;
};

template <class Word, unsigned Capacity>
struct hashed_leaf : node_base {
  using key_type = std::uint64_t;
  using less = std::less<key_type>;
  /// As many as a line has room for, words of the usual 8 bytes: 4.
  static constexpr unsigned in_group = hw::cache_line_bytes / (sizeof(key_type) + sizeof(Word));
  static constexpr unsigned capacity = Capacity;
  /// With so many entries it is full: more of them would be far from their homes.
  static constexpr unsigned most =
      capacity < 64 ? capacity : std::min(capacity - capacity / 32, (capacity / in_group - 1) * in_group);
  /// As many as the capacity asks for, and enough for `most` entries in all groups but one.
  static constexpr unsigned groups =
      capacity < 64 ? (capacity + in_group - 1) / in_group + 1 : capacity / in_group;
  /// Of a group.
  static constexpr unsigned marks = 4;
  static constexpr unsigned bits = std::numeric_limits<std::uint64_t>::digits;
  static constexpr key_type largest = std::numeric_limits<key_type>::max();
  static_assert(in_group >= 4 && in_group <= 7);
  /// No more entries are a reason to merge with a neighbour.
  static constexpr unsigned sparse = capacity / 4;
  /// A neighbour that has no more of them gets half of what a full leaf has more. So leaves are fuller: with keys that
  /// come in random order 75 %, and not 68.
  static constexpr unsigned few_for_a_neighbour = std::min(capacity * 5 / 8, most - 2);
  /// What a split leaves in a leaf.
  static constexpr unsigned fewest = 1;
  using content = entries<key_type, Word, 2 * capacity>;
  using change = entry_change<Word>;
  using outcome = entry_outcome<Word>;
  using effect = typename outcome::effect;

  /// Whether an update exchanges key and word.
  static constexpr bool updates_in_place = hw::exchanges_pairs && sizeof(Word) == sizeof(std::uint64_t);

  /// A line. A slot is a number of the order in which a comparison of a line finds them.
  struct alignas(hw::cache_line_bytes) group_of_pairs {
    struct alignas(alignof(hw::word_pair)) entry {
      optimistic_field<key_type> key;
      optimistic_field<Word> word;
    };
    [[nodiscard]] auto& key(unsigned slot) noexcept { return all[slot].key; }
    [[nodiscard]] auto& word(unsigned slot) noexcept { return all[slot].word; }
    [[nodiscard]] const auto& key(unsigned slot) const noexcept { return all[slot].key; }
    [[nodiscard]] const auto& word(unsigned slot) const noexcept { return all[slot].word; }
    std::array<entry, in_group> all;
  };
  struct alignas(hw::cache_line_bytes) group_of_two_parts {
    [[nodiscard]] auto& key(unsigned slot) noexcept { return keys[slot]; }
    [[nodiscard]] auto& word(unsigned slot) noexcept { return words[slot]; }
    [[nodiscard]] const auto& key(unsigned slot) const noexcept { return keys[slot]; }
    [[nodiscard]] const auto& word(unsigned slot) const noexcept { return words[slot]; }
    std::array<optimistic_field<key_type>, in_group> keys;
    std::array<optimistic_field<Word>, in_group> words;
  };
  using group = std::conditional_t<updates_in_place, group_of_pairs, group_of_two_parts>;
  static_assert(groups * in_group <= leaf_order<most>::slots && most <= entry_counts::most);

  /// Covers all keys.
  hashed_leaf() noexcept : node_base(0) {
    static_assert(absent_keys_are_not_sought());
    hw::annotate_metadata(*this);
    for (unsigned g = 0; g < groups; ++g) {
      for (unsigned i = 0; i < in_group; ++i) all[g].key(i).set(exclusive_access{}, absent_in(g));
    }
  }

  struct spot {
    unsigned group;
    unsigned slot;  ///< in the group
    bool found;
  };

  /// Whether the key is in the leaf if it is in the map, unless the leaf is obsolete.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] bool covers(const Witness& w, key_type k) const noexcept {
    return k - low.get(w) <= span.get(w);
  }
  /// The smallest key that it covers, and the largest one.
  template <class Witness>
  [[nodiscard]] key_type first_covered(const Witness& w) const noexcept {
    return low.get(w);
  }
  template <class Witness>
  [[nodiscard]] key_type last_covered(const Witness& w) const noexcept {
    return low.get(w) + span.get(w);
  }
  template <class Witness>
  void cover(const Witness& w, key_type from, key_type to) noexcept {
    low.set(w, from);
    span.set(w, to - from);
  }

  template <class Witness>
  [[nodiscard, gnu::always_inline]] spot seek(const Witness& w, const less&,
                                              const key_type k) const noexcept {
    const search_end at = search(w, k, hw::vectors());
    return {at.mark / marks, first_of(at.equal), at.equal != 0};
  }
  /// Whether the key is present; its word then is in `found`.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] bool find(const Witness& w, const key_type k,
                                              Word& found) const noexcept {
    const search_end at = search(w, k, hw::vectors());
    found = all[at.mark / marks].word(first_of(at.equal)).get(w);  // not used where the key is absent
    return at.equal != 0;
  }
  /// The same beside inserts and erases: validated by `placement`. Requires that loads_entries(width).
  [[nodiscard, gnu::always_inline]] bool find_beside_writers(const key_type k, Word& found,
                                                             hw::vector_width width) const noexcept {
    const search_end at = search(unvalidated{}, k, width);
    const hw::word_pair entry = entry_at(at);
    found = std::bit_cast<Word>(entry.second);
    return entry.first == k;
  }
  /// The same in two parts, of which the first one calls no function. False: the search goes on behind the key's home group.
  /// The key is present if the entry is its.
  [[nodiscard, gnu::always_inline]] bool find_at_home(const key_type k, hw::word_pair& entry,
                                                      hw::vector_width width) const noexcept {
    search_end at;
    if (!search_home(unvalidated{}, k, width, at)) [[unlikely]]
      return false;
    entry = entry_at(at);
    return true;
  }
  [[nodiscard]] hw::word_pair find_behind_home(const key_type k) const noexcept {
    return entry_at(search_behind(mark_of(k), k));
  }
  /// Whether an entry is loaded in one step, by a processor with these vectors.
  [[nodiscard]] static bool loads_entries(hw::vector_width width) noexcept {
    return updates_in_place && hw::loads_pairs(width);
  }
  /// Stores a value in the entry that seek() has found. Nothing if the slot does not have the key any more.
  [[nodiscard, gnu::always_inline]] std::optional<outcome> try_store(const spot& where, const key_type k,
                                                                     const change& wanted) noexcept
    requires updates_in_place
  {
    auto& e = all[where.group].all[where.slot];
    while (true) {
      const Word now = e.word.get(unvalidated{});
      if (!wanted.is_of(now)) return outcome{};
      if (exchange(e, k, now, k, wanted.word)) return outcome{.what = effect::stored, .before = now};
      if (e.key.get(unvalidated{}) != k) return std::nullopt;
    }
  }
  /// Changes the entry of the key. `where` is what seek() returned; since then no entry has gone, nor has the key come.
  template <class Witness>
  [[gnu::always_inline]] outcome apply(const Witness& w, const spot& where, const key_type k,
                                       const change& wanted) noexcept {
    outcome result;
    if (!where.found) {
      if (!wanted.insert_where_absent) return result;
      result.what = is_full(w) ? effect::full : effect::inserted;
      if (result.what == effect::inserted) put(w, k, wanted.word);
      return result;
    }
    if (wanted.present == change::where_present::keep) return result;
    group& g = all[where.group];
    do {
      result.before = g.word(where.slot).get(w);
      if (!wanted.is_of(result.before)) return result;
    } while (!change_found(w, g, where, k, result.before, wanted));
    if (wanted.present == change::where_present::store) {
      result.what = effect::stored;
    } else {
      result.left = count(w) - 1;
      counts.set(w, entry_counts::not_ordered(result.left));
      in_use.give(w, where.group, where.slot);
      result.what = effect::erased;
    }
    return result;
  }

  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    return counts.get(w).entries();
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
  void copy_to(const Witness& w, const less& by, content& to, const key_type = {}) const noexcept {
    copy_to(w, by, to, 0, largest);
  }
  /// Those with keys from `first` to `last`.
  template <class Witness>
  [[gnu::noinline]] void copy_to(const Witness& w, const less& by, content& to, key_type first,
                                 key_type last) const noexcept {
    gathered some;
    gather(w, first, last, some);
    append_in_order(by, some, to, [&](std::size_t i) { return word_in(some.slot[i]).get(w); });
  }
  /// Copies the entries from that key on, in the direction of a scan: about as many as wanted, if the keys are distributed
  /// evenly. Returns the last key of the range with all that were copied. Nothing if a writer came between.
  [[nodiscard]] std::optional<key_type> try_copy(const optimistic_lock::read_section& seen, key_type from,
                                                 bool reverse, unsigned wanted,
                                                 content& found) const noexcept;
  /// Adds entries. There is room for them.
  template <class Witness>
  [[gnu::noinline]] void assign(const Witness& w, const content& from, unsigned first,
                                unsigned last) noexcept {
    place_all(
        w, last - first, [&](unsigned i) { return from.key[first + i]; },
        [&](unsigned i) { return from.slot[first + i]; });
    counts.set(w, entry_counts::not_ordered(count(w) + last - first));
  }

  // Leaves that give and get entries are held without readers, and their placements are changing.

  /// Gives a fresh leaf, which becomes the right neighbour, the upper half of the entries. Where the key for which there is to
  /// be room lies before or behind all of them, one of the leaves keeps all but one. Returns the smallest key that the
  /// right one may have.
  template <class Witness>
  [[gnu::noinline]] key_type give_half(const Witness& w, hashed_leaf& fresh, key_type coming) noexcept {
    const gathered mine = gather_all(w);
    const std::size_t rank = coming > mine.largest    ? mine.count - fewest
                             : coming < mine.smallest ? fewest
                                                      : (mine.count + 1) / 2;
    return give_behind(w, mine, rank, fresh, w);
  }
  /// Gives entries to the right neighbour, which has fewer, or takes some of its, so that both have about as many. Returns as
  /// above; nothing where both have about as many, and keep them.
  template <class Witness, class RightWitness>
  [[gnu::noinline]] std::optional<key_type> share(const Witness& w, hashed_leaf& right,
                                                  const RightWitness& rw) noexcept {
    const unsigned here = count(w);
    const unsigned half = (here + right.count(rw) + 1) / 2;
    // key_between() is as far off at most: the one that gets entries has room for them.
    if (here > half + capacity / 16) return give_behind(w, gather_all(w), half, right, rw);
    if (here + capacity / 16 >= half) return std::nullopt;
    const gathered of_right = right.gather_all(rw);
    const key_type separator = key_between(of_right, half - here);
    right.give(rw, of_right, 0, separator - 1, *this, w);
    return separator;
  }
  /// Gives a neighbour, or a leaf of another size, which has room for them, all entries.
  template <class Witness, unsigned OtherCapacity, class OtherWitness>
  [[gnu::noinline]] void give_all(const Witness& w, hashed_leaf<Word, OtherCapacity>& other,
                                  const OtherWitness& ow) noexcept {
    give(w, gather_all(w), 0, largest, other, ow);
  }

  // The order that scans make. It needs a version: the section in which a scan reads it, and the entries, is to be validated.

  /// A scan has come to the leaf, which is not ordered. Makes the order if one has before, and no entry went since. False if
  /// the leaf is not ordered yet; so it is where a writer comes between.
  [[nodiscard]] bool want_order(const optimistic_lock::read_section& seen) noexcept;
  /// Calls visit(key, word) for the keys from that one on, which the leaf covers, in order, or in reverse, until it returns
  /// false. False if a writer has come between: each entry is validated before its visit, and so is the end, but some may have
  /// been visited. `now` says that the leaf is ordered. Calls near_end() when the last entries were requested.
  template <bool Reverse, class Section, class NearEnd, class Visit>
  [[nodiscard, gnu::always_inline]] bool visit_in_order(const Section& seen, const entry_counts now,
                                                        key_type from, const NearEnd& near_end,
                                                        Visit& visit) const {
    const unsigned known = now.ranks();
    later_entries<Reverse> later(*this, seen, now, from);
    // Ranks are counted from where the scan begins.
    const auto slot_at = [&](unsigned i) __attribute__((always_inline)) {
      return order.slot_at(seen, Reverse ? known - 1 - i : i);
    };
    const auto likely = begin_of_scan<Reverse>(seen, known, from);
    unsigned requested = likely.first;
    const auto request_to = [&](unsigned end) __attribute__((always_inline)) {
      for (end = std::min(end, known); requested < end; ++requested)
        __builtin_prefetch(&key_in(slot_at(requested)), 0, 2);
      if (requested == known) near_end();
    };
    request_to(likely.last + requested_first);
    for (unsigned i = likely.first; i < known; request_to(i + requested_ahead)) {
      for (const unsigned end = std::min(i + requested_together, known); i < end; ++i) {
        const unsigned slot = slot_at(i);
        const key_type k = key_in(slot).get(seen);
        const Word v = word_in(slot).get(seen);
        // Before the scan, or just erased.
        if (is_before<Reverse>(k, from) || k == absent_in(slot / in_group)) [[unlikely]]
          continue;
        while (later.comes_before(k)) {
          if (!seen.validate()) return false;
          if (!later.visit_next(visit)) return true;
        }
        if (!seen.validate()) [[unlikely]]
          return false;
        if (!visit(k, v)) return true;
      }
    }
    if (!seen.validate()) return false;
    while (later.has_next()) {
      if (!later.visit_next(visit)) break;
    }
    return true;
  }
  /// Requests what a scan reads first of a leaf that is ordered.
  void request_order() const noexcept {
    hw::request_lines(this, static_cast<std::size_t>(reinterpret_cast<const char*>(&all) -
                                                     reinterpret_cast<const char*>(this)));
  }

  /// Requests the line of the lock. To read: as many inserts and erases may find that there is nothing to do, and would have
  /// taken it from those that write it. Inlined: g++ removes calls of functions that only request.
  [[gnu::always_inline]] void request_lock() const noexcept { __builtin_prefetch(this); }

  /// Requests the lines of an insert beside those of a search: half of the keys that come to a leaf find their home full.
  [[gnu::always_inline]] void request_room(const key_type k) const noexcept {
    request_lock();
    __builtin_prefetch(&all[next_mark(mark_of(k), k) / marks]);
  }

  /// Requests the lines of a leaf that a search for the key is likely to read.
  static void request(const node_base* node, const key_type k) noexcept {
    const auto* const of_it = static_cast<const hashed_leaf*>(node);
    __builtin_prefetch(&of_it->placement);
    __builtin_prefetch(&of_it->all[mark_of(k) / marks]);
  }

  /// Requests all lines.
  static void request_all(const node_base* node) noexcept { hw::request_lines(node, sizeof(hashed_leaf)); }

  /// What is wrong with the leaf, or null.
  [[nodiscard]] const char* check() const noexcept {
    const exclusive_access rest;
    if (!placement.now().steady()) return "a reachable leaf is said to change, or to have left";
    unsigned n = 0;
    for (unsigned g = 0; g < groups; ++g) {
      for (unsigned i = 0; i < in_group; ++i) {
        const key_type k = all[g].key(i).get(rest);
        if ((in_use.free_in(rest, g) >> i & 1U) != unsigned{k == absent_in(g)})
          return "a leaf does not know which of its slots have entries";
        if (k == absent_in(g)) continue;
        ++n;
        if (!covers(rest, k)) return "a leaf does not cover a key that it has";
        if (const spot at = seek(rest, less{}, k); !at.found || at.group != g || at.slot != i)
          return "a search in a leaf does not find an entry";
      }
    }
    if (n > most) return "a leaf has more entries than it may";
    return n == count(rest) ? nullptr : "a leaf has more or fewer entries than it counts";
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "lock", lock),
            member_of(*this, "level", level),
            member_of(*this, "numbers of entries", counts),
            member_of(*this, "slots in use", in_use),
            member_of(*this, "order", order),
            member_of(*this, "version of the placement", placement),
            member_of(*this, "marks of passed groups", passed, passed.size()),
            member_of(*this, "smallest key covered", low),
            member_of(*this, "span of the keys covered", span),
            member_of(*this, "sample of the order", sample),
            member_of(*this, "group", all, all.size())};
  }

 private:
  template <class, unsigned>
  friend struct hashed_leaf;

  // The slots of all groups are numbered. Pairs lie end to end, which a compiler does not see in the general form.

  [[nodiscard]] const auto& key_in(std::size_t slot) const noexcept {
    if constexpr (updates_in_place)
      return pairs()[slot].key;
    else
      return all[slot / in_group].key(static_cast<unsigned>(slot % in_group));
  }
  [[nodiscard]] const auto& word_in(std::size_t slot) const noexcept {
    if constexpr (updates_in_place)
      return pairs()[slot].word;
    else
      return all[slot / in_group].word(static_cast<unsigned>(slot % in_group));
  }
  [[nodiscard]] const typename group_of_pairs::entry* pairs() const noexcept {
    static_assert(sizeof(group_of_pairs) == in_group * sizeof(typename group_of_pairs::entry));
    return reinterpret_cast<const typename group_of_pairs::entry*>(&all);
  }

  /// Where a scan from a key on begins among the ranks, counted in its direction: there at the first, or at the last.
  template <bool Reverse, class Section>
  [[nodiscard]] rank_range begin_of_scan(const Section& seen, unsigned known, key_type k) const noexcept {
    const unsigned step = sample.step_of(known);
    if constexpr (Reverse) {
      if (k == largest) return {0, 0};
      const rank_range behind = sample.likely_ranks(seen, step, known, k);
      return {known - behind.last, known - behind.first};
    } else {
      return k == 0 ? rank_range{0, 0} : sample.likely_ranks(seen, step, known, k - 1);
    }
  }
  /// In the direction of a scan.
  template <bool Reverse>
  [[nodiscard]] static constexpr bool is_before(key_type a, key_type b) noexcept {
    return Reverse ? a > b : a < b;
  }
  /// The entries from that key on that came after the order was made, in the order of a scan.
  template <bool Reverse>
  class later_entries {
   public:
    template <class Section>
    later_entries(const hashed_leaf& of, const Section& seen, const entry_counts now,
                  key_type from) noexcept {
      for (unsigned i = 0; i < now.later(); ++i) {
        const unsigned slot = now.later_slot(i);
        const key_type k = of.key_in(slot).get(seen);
        const Word v = of.word_in(slot).get(seen);
        if (is_before<Reverse>(k, from) || k == absent_in(slot / in_group)) continue;
        unsigned at = count_++;
        for (; at != 0 && is_before<Reverse>(k, key_[at - 1]); --at) {
          key_[at] = key_[at - 1];
          word_[at] = word_[at - 1];
        }
        key_[at] = k;
        word_[at] = v;
      }
    }
    [[nodiscard]] bool has_next() const noexcept { return next_ != count_; }
    [[nodiscard]] bool comes_before(key_type k) const noexcept {
      return has_next() && is_before<Reverse>(key_[next_], k);
    }
    template <class Visit>
    [[nodiscard]] bool visit_next(Visit& visit) {
      const unsigned i = next_++;
      return visit(key_[i], word_[i]);
    }

   private:
    unsigned count_ = 0;
    unsigned next_ = 0;
    std::array<key_type, entry_counts::later_most> key_;
    std::array<Word, entry_counts::later_most> word_;
  };
  /// A scan requests the lines of so many entries before it reads the first one, then some together, so far ahead.
  static constexpr unsigned requested_first = 32;
  static constexpr unsigned requested_together = 8;
  static constexpr unsigned requested_ahead = 48;

  // The marks of all groups are numbered: mark / marks is the group.

  /// The group where a search ends, and the slots in it that have the key.
  struct search_end {
    unsigned mark;
    unsigned equal;
  };
  /// In the home group without a branch that depends on whether the key is there: which of some keys are, no processor
  /// predicts.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] search_end search(const Witness& w, const key_type k,
                                                      hw::vector_width width) const noexcept {
    search_end at;
    if (!search_home(w, k, width, at)) [[unlikely]]
      return search_behind(at.mark, k);
    return at;
  }
  /// Whether it ends there.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] bool search_home(const Witness& w, const key_type k,
                                                     hw::vector_width width, search_end& at) const noexcept {
    at.mark = mark_of(k);
    at.equal = with_key(w, at.mark / marks, k, width);
    return (marked(w, at.mark) & unsigned{at.equal == 0}) == 0;
  }
  [[nodiscard, gnu::always_inline]] hw::word_pair entry_at(const search_end& at) const noexcept {
    return hw::load_pair(&all[at.mark / marks].all[first_of(at.equal)]);
  }
  /// In the groups behind the home. The caller has the lock, or validates what it has found.
  [[nodiscard, gnu::noinline]] search_end search_behind(unsigned at, const key_type k) const noexcept {
    const unvalidated w;
    unsigned equal = 0;
    for (unsigned tried = 1; tried < groups - 1 && equal == 0 && marked(w, at) != 0; ++tried) {
      at = next_mark(at, k);
      equal = with_key(w, at / marks, k, hw::vectors());
    }
    return {at, equal};
  }

  /// The mark of a key in its home group.
  [[nodiscard]] static constexpr unsigned mark_of(key_type k) noexcept {
    return static_cast<unsigned>((k * multiplier >> 32U) * (groups * marks) >> 32U);
  }
  /// The mark of the same key in the group where a search for it goes on.
  [[nodiscard]] static constexpr unsigned next_mark(unsigned mark, key_type k) noexcept {
    const unsigned next = mark + steps[(k * multiplier >> step_shift) % steps.size()] * marks;
    return next < groups * marks ? next : next - groups * marks;
  }
  static constexpr unsigned step_shift = 48;
  /// Each of them leads once round all groups.
  static constexpr std::array<std::uint8_t, 8> steps = [] {
    std::array<std::uint8_t, 8> all{};
    unsigned step = 0;
    for (std::uint8_t& next : all) {
      do step = step % groups + 1;
      while (std::gcd(step, groups) != 1);
      next = static_cast<std::uint8_t>(step);
    }
    return all;
  }();
  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned marked(const Witness& w, unsigned mark) const noexcept {
    return static_cast<unsigned>(passed[mark / bits].get(w) >> mark % bits & 1U);
  }
  template <class Witness>
  void mark(const Witness& w, unsigned mark) noexcept {
    auto& some = passed[mark / bits];
    some.set(w, some.get(w) | std::uint64_t{1} << mark % bits);
  }
  /// The key of the slots of a group that have no entry. Its way ends there.
  [[nodiscard]] static constexpr key_type absent_in(unsigned g) noexcept { return absent_keys[g]; }
  static constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15U;
  static constexpr std::uint64_t inverse = 0xf1de83e19937733dU;
  static_assert(multiplier * inverse == 1);
  static constexpr std::array<key_type, groups> absent_keys = [] {
    std::array<key_type, groups> all{};
    for (unsigned g = 0; g < groups; ++g) {
      const std::uint64_t home = (g + 1) % groups;
      // The first hash of that home with the first step, which is 1.
      const std::uint64_t first = (((home << 32U) + groups - 1) / groups) << 32U;
      constexpr std::uint64_t to_first_step = std::uint64_t{steps.size()} << step_shift;
      all[g] = (first + to_first_step - 1) / to_first_step * to_first_step * inverse;
    }
    return all;
  }();
  [[nodiscard]] static constexpr bool absent_keys_are_not_sought() noexcept {
    for (unsigned g = 0; g < groups; ++g) {
      unsigned at = mark_of(absent_in(g));
      for (unsigned tried = 1; tried < groups; ++tried, at = next_mark(at, absent_in(g)))
        if (at / marks == g) return false;
    }
    return true;
  }

  /// A bit for each slot of the group that has the key. It is that of the key's place among the words of the line.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] unsigned with_key(const Witness& w, unsigned g, key_type k,
                                                      hw::vector_width width) const noexcept {
    if (width != hw::vector_width::none) [[likely]]
      return hw::equal_to(reinterpret_cast<const std::uint64_t*>(&all[g]), k, width) & bits_of_keys;
    unsigned equal = 0;
    for (unsigned i = 0; i < in_group; ++i) equal |= unsigned{all[g].key(i).get(w) == k} << i * key_stride;
    return equal;
  }
  static constexpr unsigned key_stride = updates_in_place ? 2 : 1;
  static constexpr unsigned bits_of_keys = [] {
    unsigned bits_of_all = 0;
    for (unsigned i = 0; i < in_group; ++i) bits_of_all |= 1U << i * key_stride;
    return bits_of_all;
  }();
  /// The first of these slots, or the last one of the group where there is none.
  [[nodiscard]] static constexpr unsigned first_of(unsigned some) noexcept {
    return static_cast<unsigned>(std::countr_zero(some | 1U << (in_group - 1) * key_stride)) / key_stride;
  }

  [[nodiscard]] static bool exchange(typename group_of_pairs::entry& e, key_type k, Word now,
                                     key_type next_key, Word next) noexcept {
    // order (1): update, seq_cst
    return hw::exchange_pair(&e, {k, std::bit_cast<std::uint64_t>(now)},
                             {next_key, std::bit_cast<std::uint64_t>(next)});
  }
  /// Stores or erases with the lock held. False if an update came between.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] bool change_found(const Witness& w, group& g, const spot& where,
                                                      key_type k, Word now, const change& wanted) noexcept {
    const bool erases = wanted.present == change::where_present::erase;
    if constexpr (updates_in_place) {
      return exchange(g.all[where.slot], k, now, erases ? absent_in(where.group) : k,
                      erases ? now : wanted.word);
    } else {
      if (erases)
        g.key(where.slot).set(w, absent_in(where.group));
      else
        g.word(where.slot).set(w, wanted.word);
      return true;
    }
  }

  struct gathered {
    static constexpr std::size_t room = (groups + 2) * in_group;  // as gather_pairs() needs it
    std::array<key_type, room> key;
    std::array<std::uint64_t, room> slot;
    std::size_t count;
    key_type smallest;
    key_type largest;
  };
  template <class Witness>
  [[nodiscard, gnu::always_inline]] gathered gather_all(const Witness& w) const noexcept {
    gathered some;
    gather(w, 0, largest, some);
    return some;
  }
  /// Gathers the keys from `first` to `last`, with their slots.
  template <class Witness>
  void gather(const Witness& w, key_type first, key_type last, gathered& to) const noexcept {
    const key_type range = last - first;
    if constexpr (hw::gathers_pairs && updates_in_place) {
      if (hw::vectors() == hw::vector_width::avx512) {
        const hw::gathered_pairs found =
            hw::gather_pairs(&all, absent_keys, first, range, to.key.data(), to.slot.data());
        to.count = std::min<std::size_t>(found.count, most);  // as below
        to.smallest = found.smallest;
        to.largest = found.largest;
        return;
      }
    }
    std::size_t n = 0;
    for (unsigned g = 0; g < groups; ++g) {
      const std::size_t before = n;
      for (unsigned i = 0; i < in_group; ++i) {
        const key_type k = all[g].key(i).get(w);
        to.key[n] = k;
        to.slot[n] = g * in_group + i;
        n += std::size_t{k - first <= range};  // without a branch, which no processor predicts
      }
      if (const key_type absent = absent_in(g); absent - first <= range) [[unlikely]] {
        std::size_t kept = before;
        for (std::size_t i = before; i < n; ++i) {
          to.key[kept] = to.key[i];
          to.slot[kept] = to.slot[i];
          kept += std::size_t{to.key[i] != absent};
        }
        n = kept;
      }
    }
    to.count = std::min<std::size_t>(n, most);  // a reader beside a writer may have seen an entry twice
    to.smallest = to.key[0];
    to.largest = to.key[0];
    for (std::size_t i = 1; i < to.count; ++i) {
      to.smallest = std::min(to.smallest, to.key[i]);
      to.largest = std::max(to.largest, to.key[i]);
    }
  }
  /// Appends the gathered entries in order, with what slot(i) has for the one at i.
  template <class To, class SlotOf>
  static void append_in_order(const less& by, const gathered& from, To& to, const SlotOf& slot) noexcept {
    const unsigned begin = to.count;
    if (from.count > few) {
      append_nearly_in_order(from, to, slot);
    } else {
      // It is no more than `most`, which g++ does not see.
      for (std::size_t i = 0; i < std::min<std::size_t>(from.count, most); ++i) to.add(from.key[i], slot(i));
    }
    to.sort_from(begin, by);
  }
  /// By a counting sort of their distances from the smallest key. They are in order but for a few if the keys are
  /// distributed evenly.
  template <class To, class SlotOf>
  static void append_nearly_in_order(const gathered& from, To& to, const SlotOf& slot) noexcept {
    const std::size_t n = from.count;
    const auto& keys = from.key;
    const auto width = static_cast<unsigned>(std::bit_width(from.largest - from.smallest));
    const unsigned shift = width > part_bits ? width - part_bits : 0;
    const auto part_of = [=, smallest = from.smallest](key_type k) { return (k - smallest) >> shift; };
    // Of each part of the range the number of entries, and then where the first one goes.
    std::array<std::uint8_t, 1U << part_bits> parts{};
    for (std::size_t i = 0; i < n; ++i) ++parts[part_of(keys[i])];
    sum_up(parts);
    const unsigned begin = to.count;
    to.count += static_cast<unsigned>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = begin + parts[part_of(keys[i])]++;
      to.key[at] = keys[i];
      to.slot[at] = slot(i);
    }
  }
  /// A counting sort takes longer than the insertion of so many.
  static constexpr std::size_t few = 16;
  static constexpr unsigned part_bits = 9;
  static_assert(most <= std::numeric_limits<std::uint8_t>::max(),
                "a leaf of ordered_map has 255 entries at most: the sort counts in bytes");
  /// Gives each number the sum of those before it. All together are less than 256.
  static void sum_up(std::array<std::uint8_t, 1U << part_bits>& numbers) noexcept {
    constexpr std::uint64_t each_byte = 0x0101'0101'0101'0101U;
    std::uint64_t before = 0;
    for (unsigned i = 0; i < numbers.size(); i += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &numbers[i], 8);
      if constexpr (std::endian::native == std::endian::big) eight = __builtin_bswap64(eight);
      const std::uint64_t sums = eight * each_byte;
      eight = (sums << 8U) + before * each_byte;
      if constexpr (std::endian::native == std::endian::big) eight = __builtin_bswap64(eight);
      std::memcpy(&numbers[i], &eight, 8);
      before += sums >> 56U;
    }
  }

  /// One more than there are: a loop without a branch stores behind the last one.
  static constexpr unsigned room_for_all = most + 1;
  /// A key such that about `rank` of the entries, of which there are two at least, have smaller ones: one of them at least
  /// has, and one has not.
  [[nodiscard]] static key_type key_between(const gathered& some, std::size_t rank) noexcept {
    if (rank <= 1) return some.smallest + 1;
    if (rank + 1 >= some.count) return some.largest;
    const auto width = static_cast<unsigned>(std::bit_width(some.largest - some.smallest));
    const unsigned shift = width > part_bits ? width - part_bits : 0;
    std::array<std::uint8_t, 1U << part_bits> parts{};
    for (std::size_t i = 0; i < some.count; ++i) ++parts[(some.key[i] - some.smallest) >> shift];
    std::size_t part = 0;
    std::size_t before = 0;
    while (before + parts[part] < rank) before += parts[part++];
    // The ends of a part divide well if it has few entries.
    const std::size_t behind = before + parts[part];
    if (before != 0 && rank - before < some.count / 16) return some.smallest + (key_type{part} << shift);
    if (behind != some.count && behind - rank < some.count / 16)
      return some.smallest + (key_type{part + 1} << shift);
    auto keys = some.key;
    const auto at = keys.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(keys.begin(), at, keys.begin() + static_cast<std::ptrdiff_t>(some.count));
    return *at;
  }
  /// Gives the entries from about that rank on, neither none nor all. Returns the smallest key that `right` may have.
  template <class Witness, class OtherWitness>
  [[gnu::always_inline]] key_type give_behind(const Witness& w, const gathered& mine, std::size_t rank,
                                              hashed_leaf& right, const OtherWitness& ow) noexcept {
    const key_type separator = key_between(mine, rank);
    give(w, mine, separator, largest, right, ow);
    return separator;
  }
  /// Moves the entries from one key to another, and those home for which there is room then.
  template <class Witness, class Other, class OtherWitness>
  [[gnu::noinline]] void give(const Witness& w, const gathered& mine, key_type first, key_type last,
                              Other& other, const OtherWitness& ow) noexcept {
    const key_type range = last - first;
    std::array<std::uint8_t, room_for_all> going;
    std::array<std::uint8_t, room_for_all> again;
    unsigned goes = 0;
    unsigned stays = 0;
    for (unsigned i = 0; i < mine.count; ++i) {
      const key_type k = mine.key[i];
      // Without a branch, which no processor predicts.
      const auto is_going = static_cast<unsigned>(k - first <= range);
      const auto is_home = static_cast<unsigned>(mark_of(k) / marks == mine.slot[i] / in_group);
      going[goes] = static_cast<std::uint8_t>(i);
      again[stays] = static_cast<std::uint8_t>(i);
      goes += is_going;
      stays += (is_going | is_home) ^ 1U;
    }
    const auto leave = [&](unsigned i) {
      const auto slot = static_cast<unsigned>(mine.slot[i]);
      all[slot / in_group].key(slot % in_group).set(w, absent_in(slot / in_group));
      in_use.give(w, slot / in_group, slot % in_group);
    };
    for (unsigned i = 0; i < goes; ++i) leave(going[i]);
    for (unsigned i = 0; i < stays; ++i) leave(again[i]);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // order (1): give, seq_cst
    const auto placed = [&](auto& to, const auto& tw, unsigned many, const auto& which) {
      std::array<Word, room_for_all> words;
      for (unsigned i = 0; i < many; ++i) words[i] = word_in(mine.slot[which[i]]).get(w);
      to.place_all(
          tw, many, [&](unsigned i) { return mine.key[which[i]]; }, [&](unsigned i) { return words[i]; });
    };
    for (auto& some : passed) some.set(w, 0);
    placed(other, ow, goes, going);
    placed(*this, w, stays, again);
    counts.set(w, entry_counts::not_ordered(static_cast<unsigned>(mine.count) - goes));
    other.counts.set(ow, entry_counts::not_ordered(other.count(ow) + goes));
  }

  /// Adds entries that are not counted yet. There is room for them. First those that have room at home: the others might take
  /// it.
  template <class Witness, class KeyAt, class WordAt>
  void place_all(const Witness& w, unsigned many, const KeyAt& key_at, const WordAt& word_at) noexcept {
    std::array<std::uint8_t, room_for_all> others;
    unsigned left = 0;
    for (unsigned i = 0; i < many; ++i) {
      const key_type k = key_at(i);
      const unsigned home = mark_of(k) / marks;
      if (const unsigned free = in_use.free_in(w, home); free != 0)
        store_at(w, {home, static_cast<unsigned>(std::countr_zero(free)), false}, k, word_at(i));
      else
        others[left++] = static_cast<std::uint8_t>(i);
    }
    for (unsigned i = 0; i < left; ++i) {
      const key_type k = key_at(others[i]);
      store_at(w, spot_for(w, k), k, word_at(others[i]));
    }
  }
  /// Where the key goes. The leaf is not full.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] spot spot_for(const Witness& w, key_type k) noexcept {
    unsigned at = mark_of(k);
    unsigned free = in_use.free_in(w, at / marks);
    for (; free == 0; free = in_use.free_in(w, at / marks)) {
      // Finds read the line of the marks: it is written as seldom as may be.
      if (marked(w, at) == 0) mark(w, at);
      at = next_mark(at, k);
    }
    return {at / marks, static_cast<unsigned>(std::countr_zero(free)), false};
  }
  template <class Witness>
  [[gnu::always_inline]] void store_at(const Witness& w, const spot& where, key_type k, Word v) noexcept {
    all[where.group].word(where.slot).set(w, v);
    in_use.take(w, where.group, where.slot);
    all[where.group].key(where.slot).set(w, k);
  }
  template <class Witness>
  [[gnu::always_inline]] void put(const Witness& w, key_type k, Word v) noexcept {
    const spot where = spot_for(w, k);
    // Before the key: what a thread finds, its scans visit.
    counts.set(w, counts.get(w).with(where.group * in_group + where.slot));
    store_at(w, where, k, v);
  }

 public:
  // With the lock in a line, what inserts and erases write, and finds do not read.
  optimistic_field<entry_counts> counts;

 private:
  slots_in_use<groups, in_group> in_use;
  leaf_order<most> order;

  // A line for finds.
  static constexpr unsigned words_of_marks = (groups * marks + bits - 1) / bits;
  static constexpr std::size_t read_by_finds = (3 + words_of_marks) * sizeof(std::uint64_t);
  static constexpr std::size_t before_them = sizeof(node_base) + sizeof(entry_counts) +
                                             sizeof(slots_in_use<groups, in_group>) +
                                             sizeof(leaf_order<most>);
  static constexpr bool share_a_line =
      before_them % hw::cache_line_bytes + read_by_finds <= hw::cache_line_bytes;

 public:
  /// Changes with the range, and while entries come or go by a split or a merge.
  alignas(share_a_line ? alignof(optimistic_version) : hw::cache_line_bytes) optimistic_version placement;

 private:
  std::array<optimistic_field<std::uint64_t>, words_of_marks> passed;
  optimistic_field<key_type> low;
  optimistic_field<key_type> span{~key_type{0}};  ///< from there to the largest one

  sample_of_order sample;
  std::array<group, groups> all;
};

// Not inline: the library has these for words of 8 bytes, so that programs do not compile them (hashed_tree.cpp).

template <class Word, unsigned Capacity>
bool hashed_leaf<Word, Capacity>::want_order(const optimistic_lock::read_section& seen) noexcept {
  if (!counts.get(seen).order_is_wanted()) {
    if (auto held = seen.upgrade_beside_readers()) {
      counts.set(held, counts.get(held).with_order_wanted());
      held.release_unchanged();
    }
    return false;
  }
  const gathered some = gather_all(seen);
  if (!seen.validate()) return false;
  entries<key_type, std::uint8_t, most> sorted;
  append_in_order(less{}, some, sorted,
                  [&](std::size_t i) { return static_cast<std::uint8_t>(some.slot[i]); });
  auto held = seen.upgrade();
  if (!held) return false;
  // Within a version a leaf gets entries at most.
  if (count(held) != sorted.count) {
    held.release_unchanged();
    return false;
  }
  order.assign(held, sorted.count, [&](unsigned i) { return sorted.slot[i]; });
  sample.assign(held, sorted.count, [&](unsigned i) { return sorted.key[i]; });
  counts.set(held, entry_counts::in_order(sorted.count));
  return true;
}

template <class Word, unsigned Capacity>
auto hashed_leaf<Word, Capacity>::try_copy(const optimistic_lock::read_section& seen, const key_type from,
                                           const bool reverse, const unsigned wanted,
                                           content& found) const noexcept -> std::optional<key_type> {
  const key_type first = first_covered(seen);
  const key_type last = last_covered(seen);
  key_type end = reverse ? first : last;
  if (const unsigned entries_now = count(seen); entries_now > wanted) {
    const key_type part = (last - first) / entries_now * wanted + wanted;
    if (part < (reverse ? from - end : end - from)) end = reverse ? from - part : from + part;
  }
  found.count = 0;
  copy_to(seen, less{}, found, reverse ? end : from, reverse ? from : end);
  if (!seen.validate()) return std::nullopt;
  return end;
}

}  // namespace espalier::btree
