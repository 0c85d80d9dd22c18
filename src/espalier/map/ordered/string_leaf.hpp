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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/hw/vector_compare.hpp"
#include "espalier/map/ordered/leaf_order.hpp"
#include "espalier/map/ordered/string_record.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// What a tree of strings (string_tree.hpp) has in its leaves: a hash table of pointers to records (string_record.hpp).
//
// A slot of the leaf is a pointer to a record and a tag, 16 bits of the hash of its key. Eight slots are a group, a cache line.
// The tag says which group is the home of the record. A search reads that line, compares the tags by one vector comparison,
// and reads the record whose tag is equal. Where a home group is full, its record lies in one behind it, and the group is
// marked as passed, in a bit of its first slot. So a search for a key that is present reads two lines and the key.
//
// The order of the entries (leaf_order.hpp) is made with the leaf. A scan adds what came since, or makes it anew if that is
// much. The slots of entries that were erased stay in it, until they are used again.
//
// The records of a leaf lie together, in blocks of the leaf. So a scan goes through a few pages, and not through one for
// each record. What an erased record leaves is not used again: a leaf that has lost much is made anew, as one that is
// split is, and its records are copied.
//
// Invariants
//   (L1) The key of a record never changes. A record is in one leaf until it is erased or moves: first it is marked so, and
//        then its slot is cleared, or its leaf becomes obsolete, all with the lock of the leaf held.
//   (L2) A leaf gets entries and loses them while it is part of the tree. Once it is obsolete, it never changes, and all of its
//        records have moved: their copies are in the leaves that replace it.
//   (L3) Between the home group of a record and its own all groups are marked as passed, and stay so.
//   (L4) A slot that is part of the order gets another record only while readers are kept out.
//
// So a search that has found a record asks that alone whether it is in the map, from whichever leaf it came. An update
// compares and exchanges the state of the record and its word in one step, and takes no lock. (Where the processor has no
// such step, it takes that of the leaf.) What inserts or erases takes the lock beside readers.
//
// Orderings: those of sync/optimistic_lock.hpp and string_record.hpp. A record is published by the store of its slot.

namespace espalier::btree {

/// Eight bytes of a string as a number in the order of the bytes.
[[nodiscard]] inline std::uint64_t eight_bytes(const char* from) noexcept {
  std::uint64_t all;
  std::memcpy(&all, from, sizeof(all));
  if constexpr (std::endian::native == std::endian::little) all = __builtin_bswap64(all);
  return all;
}

/// How many bytes two strings have in common at their beginnings.
[[nodiscard]] inline std::size_t common_prefix(std::string_view a, std::string_view b) noexcept {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t n = 0;
  for (; n + 8 <= most; n += 8) {
    if (const std::uint64_t differ = eight_bytes(&a[n]) ^ eight_bytes(&b[n]); differ != 0)
      return n + static_cast<unsigned>(std::countl_zero(differ)) / 8;
  }
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

/// Which side of the strings that begin with `prefix` a string is on: 0 if it is one of them.
[[nodiscard, gnu::always_inline]] inline int compare_beginning(std::string_view key,
                                                               std::string_view prefix) noexcept {
  const std::size_t n = prefix.size();
  if (n > key.size()) [[unlikely]]
    return key.compare(prefix) < 0 ? -1 : 1;  // a beginning of the prefix is smaller
  std::size_t at = 0;
  for (; at + 8 <= n; at += 8) {
    const std::uint64_t a = eight_bytes(&key[at]);
    const std::uint64_t b = eight_bytes(&prefix[at]);
    if (a != b) return a < b ? -1 : 1;
  }
  if (at == n) return 0;
  if (n < 8) return key.substr(0, n).compare(prefix);
  const std::uint64_t a = eight_bytes(key.data() + n - 8);
  const std::uint64_t b = eight_bytes(prefix.data() + n - 8);
  return a == b ? 0 : a < b ? -1 : 1;
}

/// A slice of a string: 7 of its bytes from some depth on, as many as it has there, and in the lowest byte how many those
/// are, or 8 if there are more. Slices at one depth are in the order of their strings, if these agree up to there.
namespace slice {
using type = std::uint64_t;
inline constexpr unsigned width = 7;
inline constexpr unsigned goes_on = 8;

[[nodiscard]] constexpr unsigned length(type s) noexcept { return s & 0xffU; }

/// Of a string whose last 8 bytes are `last`. (Of a shorter one they are its bytes, with zeros before them.)
[[nodiscard, gnu::always_inline]] inline type at(std::string_view key, std::uint64_t last,
                                                 std::size_t depth) noexcept {
  if (depth >= key.size()) return 0;
  const std::size_t rest = key.size() - depth;
  if (rest >= 8) [[likely]]
    return (eight_bytes(key.data() + depth) & ~std::uint64_t{0xff}) | goes_on;
  return last << (8 * (8 - rest)) | rest;
}
[[nodiscard]] inline std::uint64_t last_bytes(std::string_view key) noexcept {
  if (key.size() >= 8) return eight_bytes(key.data() + key.size() - 8);
  std::uint64_t all = 0;
  for (const char c : key) all = all << 8U | static_cast<unsigned char>(c);
  return all;
}
[[nodiscard]] inline type at(std::string_view key, std::size_t depth) noexcept {
  return at(key, last_bytes(key), depth);
}
/// The shortest slice that is larger than `smaller` and not larger than `larger`.
[[nodiscard]] inline type shortest_between(type smaller, type larger) noexcept {
  const auto same = static_cast<unsigned>(std::countl_zero(smaller ^ larger)) / 8;
  if (same >= width) return larger;
  return (larger & ~(~std::uint64_t{0} >> (8 * (same + 1)))) | (same + 1);
}
/// What it has of the string.
inline void append_to(std::string& to, type s) {
  for (unsigned i = 0; i < std::min(length(s), width); ++i)
    to.push_back(static_cast<char>(s >> (56 - 8 * i)));
}
}  // namespace slice

/// A key that is cut into slices. It refers to the key.
class sliced_string {
 public:
  explicit sliced_string(std::string_view key) noexcept : key_(key), last_(slice::last_bytes(key)) {}

  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard, gnu::always_inline]] slice::type slice_at(std::size_t depth) const noexcept {
    return slice::at(key_, last_, depth);
  }

 protected:
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }

 private:
  std::string_view key_;
  std::uint64_t last_;
};

/// The same with what a search in a leaf compares.
class sought_string : public sliced_string {
 public:
  sought_string() noexcept : sought_string(std::string_view()) {}
  explicit sought_string(std::string_view key) noexcept : sliced_string(key) {
    std::uint64_t h = key.size() * first_factor;
    if (key.size() >= 16) [[likely]] {
      // Four parts of 16 bytes, which overlap if there are less than 64: without a branch for each length.
      const std::size_t end = key.size() - 16;
      const auto part = [&](std::size_t at) {
        return folded(load(key.data() + at) ^ second_factor, load(key.data() + at + 8) ^ h);
      };
      h = part(0) + part(std::min<std::size_t>(16, end)) * 3 + part(std::min<std::size_t>(32, end)) * 5 +
          part(end) * 7;
      for (std::size_t at = 48; at < end; at += 16) h = part(at);
    } else {
      h = folded((key.size() >= 8 ? load(key.data()) : 0) ^ second_factor, last() ^ h);
    }
    tag_ = (h ^ h >> 32U) & 0x7fffU;
    tag_ |= used;
  }

  [[nodiscard]] std::uint64_t tag() const noexcept { return tag_; }

  /// In each tag. So a slot without a record, which is zero, has the tag of no key.
  static constexpr std::uint64_t used = 0x8000U;

 private:
  [[nodiscard]] static std::uint64_t load(const char* from) noexcept {
    std::uint64_t all;
    std::memcpy(&all, from, sizeof(all));
    return all;
  }
  /// Both halves of the product.
  [[nodiscard]] static std::uint64_t folded(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using wide = unsigned __int128;
    const wide product = static_cast<wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }
  static constexpr std::uint64_t first_factor = 0x9e3779b97f4a7c15U;
  static constexpr std::uint64_t second_factor = 0xd6e8feb86659fd93U;

  std::uint64_t tag_;
};

/// Requests the two lines that most records have.
inline void request_beginning(const string_record* r) noexcept {
  hw::request_lines(r, 2 * hw::cache_line_bytes);
}

/// How many of `count` records in order come before some place: before(record) is true for these. It reads the likely ones
/// first. record_at(i) may be null, which comes with the one behind it.
template <class RecordAt, class Before>
[[nodiscard]] unsigned count_before_place(unsigned count, rank_range likely, const RecordAt& record_at,
                                          const Before& before) {
  const auto is_before = [&](unsigned i) {
    for (; i < count; ++i) {
      if (const string_record* const r = record_at(i); r != nullptr) return before(*r);
    }
    return false;
  };
  // Those that are read next are requested together: some at the same distances, then all.
  const auto place_in = [&](rank_range range) {
    auto [first, last] = range;
    constexpr unsigned together = 24;
    while (last - first > together) {
      const unsigned step = (last - first + 7) / 8;
      for (unsigned i = first + step; i < last; i += step) request_beginning(record_at(i));
      while (first + step < last && is_before(first + step)) first += step;
      last = std::min(first + step, last);
    }
    for (unsigned i = first; i < last; ++i) request_beginning(record_at(i));
    while (first < last) {
      const unsigned middle = first + (last - first) / 2;
      if (is_before(middle))
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  };
  const unsigned place = place_in(likely);
  if (place == likely.last && place != count && is_before(place)) return place_in({place + 1, count});
  if (place == likely.first && place != 0 && !is_before(place - 1)) return place_in({0, place - 1});
  return place;
}

/// The records of a leaf or of two, in order.
template <unsigned Most>
struct ordered_records {
  unsigned count = 0;
  std::array<std::uint64_t, Most + 1> slot;  // one more, for a slot without a record
  std::array<std::uint8_t, Most + 1> index;  ///< of the slot in its leaf

  [[nodiscard]] string_record& record(unsigned i) const noexcept {
    return *reinterpret_cast<string_record*>(slot[i] & record_bits);
  }
  [[nodiscard]] std::string_view key(unsigned i) const noexcept { return record(i).key(); }
  [[nodiscard]] std::uint64_t tag(unsigned i) const noexcept { return slot[i] >> tag_shift; }
  void add(string_record& r, std::uint64_t tag) noexcept { slot[count++] = slot_of(r, tag); }

  [[nodiscard]] static std::uint64_t slot_of(string_record& r, std::uint64_t tag) noexcept {
    return tag << tag_shift | reinterpret_cast<std::uintptr_t>(&r);
  }
  static constexpr unsigned tag_shift = 48;
  static constexpr std::uint64_t record_bits = 0x0000'ffff'ffff'fff0U;
};

template <unsigned Capacity>
struct string_leaf : node_base {
  static constexpr unsigned in_group = hw::cache_line_bytes / sizeof(std::uint64_t);
  static constexpr unsigned groups = std::bit_ceil(std::max(2U, Capacity / in_group));
  static constexpr unsigned slots = groups * in_group;
  /// With so many entries it is full: more of them would be far from their homes.
  static constexpr unsigned capacity = std::min(Capacity, slots - slots / 16);
  /// No more entries are a reason to merge with a neighbour.
  static constexpr unsigned sparse = capacity / 4;
  static_assert(slots <= leaf_order<1>::slots);
  using content = ordered_records<2 * slots>;

  /// With memory for records behind it, in a block of so many bytes.
  explicit string_leaf(std::size_t of_all = sizeof(string_leaf)) noexcept
      : node_base(0),
        records(reinterpret_cast<char*>(this + 1), reinterpret_cast<char*>(this) + of_all),
        all_bytes(of_all) {
    hw::annotate_metadata(*this);
  }
  /// With memory for so many bytes of records.
  [[nodiscard]] static std::size_t bytes_for(std::size_t of_records) noexcept {
    // Records of more bytes together have a block each.
    if (of_records > most_behind) return sizeof(string_leaf);
    return size_class::bytes_for(sizeof(string_leaf) + of_records, alignof(string_leaf));
  }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return all_bytes; }

  struct spot {
    string_record* record = nullptr;
    unsigned slot = 0;
  };

  /// The record of a key, if the leaf has it.
  [[nodiscard, gnu::always_inline]] spot seek(const sought_string& k) const noexcept {
    unsigned g = home_of(k.tag());
    for (unsigned tried = 0; tried < groups; ++tried) {
      for (unsigned equal = with_tag(g, k.tag()); equal != 0; equal &= equal - 1) {
        const auto i = g * in_group + static_cast<unsigned>(std::countr_zero(equal));
        string_record* const r = record_in(slot[i].get(unvalidated{}));
        if (r != nullptr && r->has(k.key())) [[likely]]
          return {r, i};
      }
      if (!is_passed(g)) break;
      g = behind(g);
    }
    return {};
  }
  [[nodiscard]] bool has(const spot& where) const noexcept {
    return record_in(slot[where.slot].get(unvalidated{})) == where.record;
  }

  [[nodiscard]] bool is_full() const noexcept { return size.get(unvalidated{}) >= capacity; }
  [[nodiscard]] unsigned count() const noexcept { return size.get(unvalidated{}); }

  /// The slot for a record with this tag, while the leaf is not full: one that is not part of the order, if its group has
  /// one.
  struct room {
    unsigned slot;
    bool in_order;  ///< the record comes there only while readers are kept out (L4)
  };
  [[nodiscard]] room room_for(std::uint64_t tag) const noexcept {
    unsigned g = home_of(tag);
    for (unsigned tried = 1; tried < groups && with_tag(g, 0) == 0; ++tried) g = behind(g);
    const unsigned all = with_tag(g, 0) | (1U << in_group);  // some slot, where an insert came between
    const unsigned unlisted = all & ~listed_in(g) & ((1U << in_group) - 1);
    const unsigned i = static_cast<unsigned>(std::countr_zero(unlisted != 0 ? unlisted : all)) % in_group;
    return {g * in_group + i, (listed_in(g) >> i & 1U) != 0};
  }
  /// Whether the slot is still free.
  [[nodiscard]] bool has(const room& r) const noexcept {
    return record_in(slot[r.slot].get(unvalidated{})) == nullptr;
  }
  /// Adds a record there. The slot is free.
  template <class Witness>
  void put(const Witness& w, const room& to, std::uint64_t tag, string_record* r) noexcept {
    for (unsigned g = home_of(tag); g != to.slot / in_group; g = behind(g)) {
      auto& first = slot[g * in_group];
      first.set(w, first.get(w) | passed_bit);
    }
    if (to.in_order) {
      order.remove(w, ranks(w), to.slot);
      sorted.set(w, static_cast<std::uint16_t>(sorted.get(w) - 1));
      auto& some = listed_in_order[to.slot / 64];
      some.set(w, some.get(w) & ~(std::uint64_t{1} << to.slot % 64));
    }
    unordered.set(w, static_cast<std::uint16_t>(unordered.get(w) + 1));
    set_slot(w, to.slot, content::slot_of(*r, tag));
    size.set(w, static_cast<std::uint16_t>(count() + 1));
  }
  /// Removes a record that is erased.
  template <class Witness>
  void remove(const Witness& w, unsigned at) noexcept {
    records.lose(record_in(slot[at].get(w))->bytes());
    set_slot(w, at, 0);
    size.set(w, static_cast<std::uint16_t>(count() - 1));
    if ((listed_in(at / in_group) >> at % in_group & 1U) == 0)
      unordered.set(w, static_cast<std::uint16_t>(unordered.get(w) - 1));
  }

  // A leaf whose order has all of its entries is read by ranks.

  template <class Witness>
  [[nodiscard]] bool is_ordered(const Witness& w) const noexcept {
    return unordered.get(w) == 0;
  }
  template <class Witness>
  [[nodiscard]] unsigned ranks(const Witness& w) const noexcept {
    return std::min<unsigned>(sorted.get(w), capacity);
  }
  /// Null where the record has been erased.
  template <class Witness>
  [[nodiscard, gnu::always_inline]] string_record* at_rank(const Witness& w, unsigned rank) const noexcept {
    return record_in(slot[order.slot_at(w, rank) % slots].get(w));
  }
  /// Where a key would be in the order, as far as the sample tells.
  template <class Witness>
  [[nodiscard]] rank_range likely_ranks(const Witness& w, unsigned known,
                                        const sliced_string& k) const noexcept {
    return sample.likely_ranks(w, step.get(w), known, k.slice_at(depth.get(w)));
  }

  /// Appends the records in order. Those of a leaf that changes are to be validated.
  template <class Witness>
  void copy_to(const Witness& w, content& all) const {
    const unsigned first = all.count;
    const auto add = [&](unsigned i) {
      const std::uint64_t s = slot[i].get(w) & ~passed_bit;
      all.slot[all.count] = s;
      all.index[all.count] = static_cast<std::uint8_t>(i);
      all.count += unsigned{s != 0};
    };
    const unsigned known = ranks(w);
    std::array<std::uint8_t, capacity + 1> before_rank;  // so many are there
    for (unsigned i = 0; i < known; ++i) {
      before_rank[i] = static_cast<std::uint8_t>(all.count - first);
      add(order.slot_at(w, i) % slots);
    }
    before_rank[known] = static_cast<std::uint8_t>(all.count - first);
    const unsigned in_order = all.count;
    for (unsigned i = 0; i < slots; i += 64) {
      std::uint64_t others = ~listed_in_order[i / 64].get(w);
      if (slots < 64) others &= (std::uint64_t{1} << slots % 64) - 1;
      // A reader beside a writer may see a record twice.
      for (; others != 0 && all.count - first < slots; others &= others - 1)
        add(i + static_cast<unsigned>(std::countr_zero(others)));
    }
    const unsigned more = all.count - in_order;
    if (more == 0) return;
    if (more > few) {
      for (unsigned i = first; i < all.count; ++i) request_beginning(&all.record(i));
      return merge(all, first, in_order);
    }
    for (unsigned i = in_order; i < all.count; ++i) request_beginning(&all.record(i));
    for (unsigned i = in_order; i < all.count; ++i) {
      const rank_range likely = likely_ranks(w, known, sliced_string(all.key(i)));
      insert_in_order(all, first, i, {before_rank[likely.first], before_rank[likely.last] + (i - in_order)});
    }
  }
  /// Keeps the order of its entries, which copy_to() has found.
  template <class Witness>
  void keep_order(const Witness& w, const content& all) noexcept {
    std::array<std::uint64_t, order_words> listed{};
    for (unsigned i = 0; i < all.count; ++i)
      listed[all.index[i] / 64] |= std::uint64_t{1} << all.index[i] % 64;
    for (unsigned i = 0; i < order_words; ++i) listed_in_order[i].set(w, listed[i]);
    const std::size_t common = all.count == 0 ? 0 : common_prefix(all.key(0), all.key(all.count - 1));
    const std::size_t behind = std::min<std::size_t>(common, std::numeric_limits<std::uint16_t>::max());
    depth.set(w, static_cast<std::uint16_t>(behind));
    order.assign(w, all.count, [&](unsigned i) { return all.index[i]; });
    sample.assign(w, all.count, [&](unsigned i) { return slice::at(all.key(i), behind); });
    step.set(w, static_cast<std::uint16_t>(sample.step_of(all.count)));
    sorted.set(w, static_cast<std::uint16_t>(all.count));
    unordered.set(w, 0);
  }
  /// Adds records to an empty leaf that no other thread can reach, and keeps their order.
  void assign(const content& all) noexcept {
    const exclusive_access alone;
    content own;
    std::array<std::uint8_t, groups> used{};
    for (unsigned i = 0; i < all.count; ++i) {
      const std::uint64_t s = all.slot[i];
      unsigned g = home_of(s >> tag_shift);
      for (; used[g] == in_group; g = behind(g))
        slot[g * in_group].set(alone, slot[g * in_group].get(alone) | passed_bit);
      const unsigned at = g * in_group + used[g]++;
      slot[at].set(alone, s);
      own.slot[own.count] = s;
      own.index[own.count++] = static_cast<std::uint8_t>(at);
    }
    size.set(alone, static_cast<std::uint16_t>(own.count));
    keep_order(alone, own);
  }

  /// Requests the line that a search for the key reads first.
  static void request(const node_base* node, const sought_string& k) noexcept {
    __builtin_prefetch(&static_cast<const string_leaf*>(node)->slot[home_of(k.tag()) * in_group]);
  }
  /// Requests the record that such a search finds.
  static void request_record(const node_base* node, const sought_string& k) noexcept {
    const auto& of_it = *static_cast<const string_leaf*>(node);
    const unsigned g = home_of(k.tag());
    if (const unsigned equal = of_it.with_tag(g, k.tag()); equal != 0)
      __builtin_prefetch(record_in(
          of_it.slot[g * in_group + static_cast<unsigned>(std::countr_zero(equal))].get(unvalidated{})));
  }
  /// Requests the translations of the pages behind the first one, with a line of each. Most records lie there, and the
  /// processor walks the page table while it waits for the line that leads to one of them. In huge pages the lines are
  /// wasted, which costs nothing that can be measured; a third one would.
  static void request_pages(const node_base* node) noexcept {
    constexpr std::size_t page = 4096;  // the smallest that there is
    __builtin_prefetch(reinterpret_cast<const char*>(node) + page);
    __builtin_prefetch(reinterpret_cast<const char*>(node) + 2 * page);
  }
  /// Requests all lines.
  static void request_all(const node_base* node) noexcept { hw::request_lines(node, sizeof(string_leaf)); }

  /// What is wrong with the leaf, or null.
  [[nodiscard]] const char* check() const {
    const exclusive_access rest;
    unsigned n = 0;
    for (unsigned i = 0; i < slots; ++i) {
      const string_record* const r = record_in(slot[i].get(rest));
      if (r == nullptr) continue;
      ++n;
      if (!r->read() || r->has_moved()) return "a leaf has a record that is erased, or has moved";
      if (!has_memory_of(*r)) return "a record lies in no memory of its leaf";
      if (const spot at = seek(sought_string(r->key())); at.record != r || at.slot != i)
        return "a search in a leaf does not find a record";
    }
    unsigned listed = 0;
    unsigned others = 0;
    for (unsigned i = 0; i < slots; ++i) {
      const bool is_listed = (listed_in(i / in_group) >> i % in_group & 1U) != 0;
      listed += unsigned{is_listed};
      others += unsigned{!is_listed && record_in(slot[i].get(rest)) != nullptr};
    }
    if (listed != ranks(rest) || others != unordered.get(rest))
      return "a leaf has more or fewer records out of order than it counts";
    if (n != count()) return "a leaf has more or fewer records than it counts";
    content all;
    copy_to(rest, all);
    if (all.count != n) return "the order of a leaf lacks a record";
    for (unsigned i = 1; i < all.count; ++i) {
      if (all.key(i) <= all.key(i - 1)) return "a key follows one not smaller";
    }
    return nullptr;
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    return {member_of(*this, "lock", lock),
            member_of(*this, "level", level),
            member_of(*this, "entries", size),
            member_of(*this, "entries in order", sorted),
            member_of(*this, "other entries", unordered),
            member_of(*this, "room for records", records),
            member_of(*this, "which are in order", listed_in_order),
            member_of(*this, "record", slot, slot.size()),
            member_of(*this, "sample of the order", sample),
            member_of(*this, "order", order)};
  }

 private:
  [[nodiscard]] bool has_memory_of(const string_record& r) const noexcept {
    const auto has = [&r](const void* block, std::size_t of_it) {
      const auto behind_begin =
          reinterpret_cast<std::uintptr_t>(&r) - reinterpret_cast<std::uintptr_t>(block);
      return behind_begin < of_it && r.bytes() <= of_it - behind_begin;
    };
    bool is_there = has(this + 1, all_bytes - sizeof(*this));
    records.for_each_block([&](const record_block& b) { is_there = is_there || has(&b, b.bytes); });
    return is_there;
  }
  static constexpr std::size_t most_behind = std::size_t{1} << 20U;
  static constexpr unsigned tag_shift = content::tag_shift;
  static constexpr std::uint64_t passed_bit = 1;
  static constexpr unsigned order_words = (slots + 63) / 64;
  /// So few records are put in order one by one.
  static constexpr unsigned few = 16;

  [[nodiscard]] static unsigned home_of(std::uint64_t tag) noexcept { return tag % groups; }
  [[nodiscard]] static unsigned behind(unsigned g) noexcept { return (g + 1) % groups; }
  [[nodiscard]] static string_record* record_in(std::uint64_t s) noexcept {
    return reinterpret_cast<string_record*>(s & content::record_bits);
  }
  [[nodiscard]] bool is_passed(unsigned g) const noexcept {
    return (slot[g * in_group].get(unvalidated{}) & passed_bit) != 0;
  }
  /// A bit for each slot of the group that is part of the order.
  [[nodiscard]] unsigned listed_in(unsigned g) const noexcept {
    return listed_in_order[g / 8].get(unvalidated{}) >> 8 * (g % 8) & 0xffU;
  }

  /// A bit for each slot of the group with this tag.
  [[nodiscard, gnu::always_inline]] unsigned with_tag(unsigned g, std::uint64_t tag) const noexcept {
    const auto* const line = &slot[g * in_group];
    if (const hw::vector_width width = hw::vectors(); width != hw::vector_width::none) [[likely]]
      return hw::equal_highest(reinterpret_cast<const std::uint64_t*>(line), tag, width);
    unsigned equal = 0;
    for (unsigned i = 0; i < in_group; ++i)
      equal |= unsigned{line[i].get(unvalidated{}) >> tag_shift == tag} << i;
    return equal;
  }
  template <class Witness>
  void set_slot(const Witness& w, unsigned at, std::uint64_t s) noexcept {
    slot[at].set(w, s | (slot[at].get(w) & passed_bit));
  }
  /// Moves record i to its place among those from `first` on, which are in order. `likely` counts from there.
  static void insert_in_order(content& all, unsigned first, unsigned i, rank_range likely) {
    const std::uint64_t s = all.slot[i];
    const std::uint8_t index = all.index[i];
    const std::string_view key = all.key(i);
    const unsigned at = first + count_before_place(
                                    i - first, likely, [&](unsigned j) { return &all.record(first + j); },
                                    [&](const string_record& r) { return r.key() < key; });
    std::copy_backward(&all.slot[at], &all.slot[i], &all.slot[i + 1]);
    std::copy_backward(&all.index[at], &all.index[i], &all.index[i + 1]);
    all.slot[at] = s;
    all.index[at] = index;
  }

  /// Puts the records from `first` on in order. Those before `unordered` are so.
  static void merge(content& all, unsigned first, unsigned unordered) {
    struct item {
      slice::type part;  ///< behind what all keys have in common
      std::uint64_t slot;
      std::uint8_t index;
    };
    std::array<item, slots> items;
    std::array<item, slots> merged;
    const unsigned n = all.count - first;
    const unsigned known = unordered - first;
    const std::string_view smallest = all.key(first);
    std::size_t depth = smallest.size();
    for (unsigned i = known == 0 ? 1 : known - 1; i < n; ++i)
      depth = std::min(depth, common_prefix(smallest.substr(0, depth), all.key(first + i)));
    for (unsigned i = 0; i < n; ++i)
      items[i] = {slice::at(all.key(first + i), depth), all.slot[first + i], all.index[first + i]};
    const auto before = [](const item& a, const item& b) {
      return a.part != b.part ? a.part < b.part : record_in(a.slot)->key() < record_in(b.slot)->key();
    };
    std::sort(items.begin() + known, items.begin() + n, before);
    std::merge(items.begin(), items.begin() + known, items.begin() + known, items.begin() + n, merged.begin(),
               before);
    for (unsigned i = 0; i < n; ++i) {
      all.slot[first + i] = merged[i].slot;
      all.index[first + i] = merged[i].index;
    }
  }

  optimistic_field<std::uint16_t> size;
  optimistic_field<std::uint16_t> sorted;     ///< entries of the order
  optimistic_field<std::uint16_t> unordered;  ///< entries that are not part of it
  optimistic_field<std::uint16_t> depth;      ///< of the slices in the sample
  optimistic_field<std::uint16_t> step;       ///< between their ranks
 public:
  record_space records;

 private:
  const std::size_t all_bytes;  ///< with the memory behind the leaf
  std::array<optimistic_field<std::uint64_t>, order_words> listed_in_order;
  alignas(hw::cache_line_bytes) std::array<optimistic_field<std::uint64_t>, slots> slot;
  sample_of_order sample;
  leaf_order<capacity> order;
};

}  // namespace espalier::btree
