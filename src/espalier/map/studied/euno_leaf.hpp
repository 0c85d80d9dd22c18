#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The leaf of euno_btree. It has two forms. A calm leaf is a sorted_leaf. A contended leaf has its entries, scattered over
// cache lines, in a block of its own, together with the conflict-control module of the paper.
//
// The form changes only with the leaf's lock held, and its version with it.

namespace espalier::btree {

/// Whether keys are equal exactly where their values are.
template <class Compare, class Key>
inline constexpr bool ordered_by_value =
    std::integral<Key> && (std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::less<>> ||
                           std::is_same_v<Compare, std::greater<Key>>);

/// A number that equal keys have in common: of the value of the key where the order allows it, else none.
template <class Compare, class Key>
[[nodiscard]] std::uint64_t hash_of([[maybe_unused]] const Key key) noexcept {
  if constexpr (ordered_by_value<Compare, Key>) return static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15U;
  return 0;
}

template <class Compare, class Key>
[[nodiscard]] bool same_key([[maybe_unused]] const Compare& less, const Key& a, const Key& b) {
  if constexpr (ordered_by_value<Compare, Key>)
    return a == b;
  else
    return !less(a, b) && !less(b, a);
}

/// Which design choices a tree has, beside its two regions.
struct euno_design {
  static constexpr unsigned never = ~0U;

  /// A leaf that costs a thread that many conflicts lately becomes contended. With 0 all leaves are.
  unsigned contended_after;
  /// After that many updates of a contended leaf it is asked whether it still is. Needs the locks.
  unsigned calm_after;
  bool lock_bits;   ///< locks for the keys of a contended leaf
  bool mark_bits;   ///< a filter that knows absent keys; needs the locks
  bool optimistic;  ///< searches and reads validate versions; there is no upper region
};

// The rungs of figure 13 of the paper. Each includes those before it, but the last has no marks: what its reads validate
// tells that a key is absent, too. The first one is htm_btree.
inline constexpr euno_design split_htm{euno_design::never, euno_design::never, false, false, false};
inline constexpr euno_design part_leaf{0, euno_design::never, false, false, false};
inline constexpr euno_design lock_bits{0, euno_design::never, true, false, false};
inline constexpr euno_design mark_bits{0, euno_design::never, true, true, false};
inline constexpr euno_design adaptive{4, 1U << 16, true, false, true};

/// The conflict-control module of a leaf. Operations that lose a conflict exclude others with the same key before they try
/// again, and an operation learns that a key is absent without a region.
///
/// Orderings
///   (1) set_mark (acq_rel) -> may_have (acquire): a mark that a reader sees clear was set later than this.
///   (2) clear_marks (release) -> may_have (acquire): a reader that sees a mark cleared also sees that the leaf's lock is
///       held, or its new version: it does not validate.
class conflict_control {
 public:
  static constexpr unsigned slots = 16;

  conflict_control() noexcept { hw::annotate_metadata(*this); }

  /// The lock of the keys with this hash.
  [[nodiscard]] ttas_lock& lock_of(std::uint64_t hash) noexcept { return locks_[hash >> 60].of_keys; }

  /// False if no key with this hash is in the leaf, nor was since the marks were set anew.
  [[nodiscard]] bool may_have(std::uint64_t hash) const noexcept {
    // order (1), (2): may_have, acquire
    return (marks_[hash >> 60].load(std::memory_order_acquire) & mark_of(hash)) != 0;
  }
  /// Before a key becomes visible.
  void set_mark(std::uint64_t hash) noexcept {
    // order (1): set_mark, acq_rel
    marks_[hash >> 60].fetch_or(mark_of(hash), std::memory_order_acq_rel);
  }
  /// With the leaf's lock held, before its version changes.
  void clear_marks() noexcept {
    // order (2): clear_marks, release
    for (auto& m : marks_) m.store(0, std::memory_order_release);
  }

  /// Counts operations, and how many conflicts they lost. True at the end of a period in which next to none were lost.
  bool count(unsigned operations, unsigned losses, unsigned period) noexcept {
    // relaxed: estimates that guard no data.
    if (losses != 0) losses_.fetch_add(losses, std::memory_order_relaxed);
    if (operations == 0) return false;
    const unsigned sum = operations_.fetch_add(operations, std::memory_order_relaxed) + operations;
    if (sum < period || sum - operations >= period) return false;  // of several threads, one asks
    // relaxed: as above.
    operations_.store(0, std::memory_order_relaxed);
    return losses_.exchange(0, std::memory_order_relaxed) < 1 + period / 16384;
  }

  /// At rest.
  [[nodiscard]] bool is_locked() const noexcept {
    return std::any_of(locks_.begin(), locks_.end(), [](const line& l) { return l.of_keys.is_locked(); });
  }

 private:
  /// A thread that waits for a key disturbs no other one.
  struct alignas(hw::cache_line_bytes) line {
    ttas_lock of_keys;
  };

  [[nodiscard]] static std::uint32_t mark_of(std::uint64_t hash) noexcept {
    return std::uint32_t{1} << (hash >> 55 & 31);
  }

  // Only what inserts keys writes this line, which all operations read.
  alignas(hw::cache_line_bytes) std::array<std::atomic<std::uint32_t>, slots> marks_{};
  std::array<line, slots> locks_;
  alignas(hw::cache_line_bytes) std::atomic<std::uint32_t> operations_{0};
  std::atomic<std::uint32_t> losses_{0};
};
static_assert(conflict_control::slots == 16, "the upper four bits of a hash choose the slot");

/// The entries of a contended leaf, without an order. A key keeps its entry when it is erased, until another key needs the
/// place. So to insert it again, to overwrite it and to erase it change the line of its word, and no other. Only a key
/// that comes new writes a line of keys, which all searches read.
///
/// Orderings: those of optimistic_field. A writer stores the word before it makes the key present, and a reader loads the
/// word after it has seen the key present: the word of an absent key may be an old one.
template <class Key, class Word, unsigned Capacity>
class scattered_entries {
  /// More than a calm leaf has, so that keys that come again still have their entries. What a split, or an exchange
  /// between neighbours, leaves in one leaf fits a calm one.
  static constexpr unsigned most = 5 * Capacity / 3;
  static constexpr unsigned keys_in_line = 7;

 public:
  static constexpr unsigned segments = std::max(2U, most / keys_in_line);
  static constexpr unsigned per_segment = std::min(keys_in_line, most / segments);
  static constexpr unsigned capacity = segments * per_segment;

  scattered_entries() noexcept {
    for (const segment& s : segments_) hw::annotate_metadata(s);
  }

  /// The entry that a key has or had, or `capacity`.
  template <class Witness, class Compare>
  [[nodiscard]] unsigned seek(const Witness& w, const Compare& less, const Key k) const {
    for (unsigned s = 0; s < segments; ++s) {
      // Without a branch for each key.
      unsigned equal = 0;
      for (unsigned i = 0; i < per_segment; ++i) {
        const Key there = segments_[s].key[i].get(w);
        equal |= static_cast<unsigned>(same_key(less, there, k)) << i;
      }
      equal &= (1U << segments_[s].count.get(w)) - 1;
      if (equal != 0) return s * per_segment + static_cast<unsigned>(std::countr_zero(equal));
    }
    return capacity;
  }
  template <class Witness>
  [[nodiscard]] bool is_present(const Witness& w, unsigned entry) const noexcept {
    return lines_[entry].present.get(w);
  }
  /// The word of an entry, if its key is present.
  template <class Witness>
  [[nodiscard]] std::optional<Word> read(const Witness& w, unsigned entry) const noexcept {
    if (!is_present(w, entry)) return std::nullopt;  // before the word
    return lines_[entry].word.get(w);
  }

  /// The key of an entry is present, with that word.
  template <class Witness>
  void set(const Witness& w, unsigned entry, Word v) noexcept {
    lines_[entry].word.set(w, v);
    lines_[entry].present.set(w, true);  // after the word
  }
  template <class Witness>
  void erase(const Witness& w, unsigned entry) noexcept {
    lines_[entry].present.set(w, false);
  }
  /// Adds an entry for a key that has none, where none was, else where a key is absent. `start` is the first segment to be
  /// tried. False if all keys are present.
  template <class Witness>
  bool insert(const Witness& w, unsigned start, const Key& k, Word v) noexcept {
    const unsigned entry = free_entry(w, start);
    if (entry == capacity) return false;
    segment& of_it = segments_[entry / per_segment];
    of_it.key[entry % per_segment].set(w, k);
    if (entry % per_segment == of_it.count.get(w)) of_it.count.set(w, entry % per_segment + 1);
    set(w, entry, v);
    return true;
  }
  template <class Witness>
  void clear(const Witness& w) noexcept {
    for (segment& s : segments_) s.count.set(w, 0);
  }

  /// Whether the segment of an entry has no key that is present.
  template <class Witness>
  [[nodiscard]] bool is_segment_empty(const Witness& w, unsigned entry) const noexcept {
    const unsigned s = entry / per_segment;
    for (unsigned i = 0; i < segments_[s].count.get(w); ++i)
      if (is_present(w, s * per_segment + i)) return false;
    return true;
  }
  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    unsigned sum = 0;
    for_each(w, [&sum](const Key&, const Word&) { ++sum; });
    return sum;
  }
  /// Calls visit(key, word) for each key that is present.
  template <class Witness, class Visit>
  void for_each(const Witness& w, Visit&& visit) const {
    for (unsigned s = 0; s < segments; ++s) {
      const unsigned n = segments_[s].count.get(w);
      for (unsigned i = 0; i < n; ++i) {
        const std::optional<Word> word = read(w, s * per_segment + i);
        if (word) visit(segments_[s].key[i].get(w), *word);
      }
    }
  }

 private:
  struct alignas(hw::cache_line_bytes) segment {
    optimistic_field<std::uint32_t> count;
    std::array<optimistic_field<Key>, per_segment> key;
  };
  static_assert(sizeof(Key) > 8 || sizeof(segment) == hw::cache_line_bytes);
  struct alignas(hw::cache_line_bytes) line {
    optimistic_field<Word> word;
    optimistic_field<bool> present;
  };

  template <class Witness>
  [[nodiscard]] unsigned free_entry(const Witness& w, unsigned start) const noexcept {
    for (unsigned tried = 0; tried < segments; ++tried) {
      const unsigned s = (start + tried) % segments;
      const unsigned n = segments_[s].count.get(w);
      if (n != per_segment) return s * per_segment + n;
    }
    for (unsigned tried = 0; tried < capacity; ++tried) {
      const unsigned entry = (start % segments * per_segment + tried) % capacity;
      if (!is_present(w, entry)) return entry;
    }
    return capacity;
  }

  std::array<segment, segments> segments_;
  std::array<line, capacity> lines_;
};

/// What a contended leaf has in a block of its own.
template <class Key, class Word, unsigned Capacity, euno_design Design>
struct contended_form {
  static constexpr bool locks = Design.lock_bits;
  static constexpr bool marks = Design.mark_bits;
  struct nothing {};

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    std::vector<node_member> all;
    if constexpr (locks) all.push_back(member_of(*this, "conflict control", control));
    all.push_back(member_of(*this, "entries", entries));
    return all;
  }

  /// Whether the leaf has a key with this hash, as far as its marks tell.
  [[nodiscard]] bool may_have([[maybe_unused]] std::uint64_t hash) const noexcept {
    if constexpr (marks) return control.may_have(hash);
    return true;
  }

  [[no_unique_address]] std::conditional_t<locks, conflict_control, nothing> control;
  scattered_entries<Key, Word, Capacity> entries;
};

template <class Contended>
struct euno_leaf_base : node_base {
  using node_base::node_base;
  optimistic_field<Contended*> form;  ///< null in a calm leaf
};

template <class Key, class Word, unsigned Capacity, class Compare, euno_design Design>
struct euno_leaf
    : sorted_leaf<Key, Word, Capacity, euno_leaf_base<contended_form<Key, Word, Capacity, Design>>> {
  using contended = contended_form<Key, Word, Capacity, Design>;
  using base = sorted_leaf<Key, Word, Capacity, euno_leaf_base<contended>>;
  using base::form;
  using scattered = scattered_entries<Key, Word, Capacity>;
  using content = entries<Key, Word, 2 * scattered::capacity>;
  using typename base::change;
  using typename base::outcome;
  using effect = typename outcome::effect;

  // Two neighbours of which one is sparse can be evened, whatever their forms.
  static_assert((scattered::capacity + base::sparse + 1) / 2 <= Capacity &&
                3 * Capacity / 4 <= scattered::capacity);

  euno_leaf() noexcept { hw::annotate_metadata(form); }

  /// Where the entry of a key is, or would be. In a contended leaf also where the key had one: `found` then tells that no
  /// other key has its place.
  struct spot : base::spot {
    contended* in = nullptr;  ///< null in a calm leaf
    unsigned start = 0;       ///< the segment of a new entry, if it has room
  };

  template <class Witness>
  [[nodiscard]] spot seek(const Witness& w, const Compare& less, const Key k) const {
    contended* const of_it = form.get(w);
    if (of_it == nullptr) return {base::seek(w, less, k)};
    const unsigned entry = of_it->entries.seek(w, less, k);
    return {{entry, entry != scattered::capacity}, of_it};
  }

  template <class Witness>
  [[nodiscard]] std::optional<Word> find(const Witness& w, const Compare& less, const Key k) const {
    const contended* const of_it = form.get(w);
    if (of_it == nullptr) return base::find(w, less, k);
    const unsigned entry = of_it->entries.seek(w, less, k);
    if (entry == scattered::capacity) return std::nullopt;
    return of_it->entries.read(w, entry);
  }

  /// Whether the leaf has the key of that spot.
  template <class Witness>
  [[nodiscard]] static bool is_present(const Witness& w, const spot& where) noexcept {
    return where.found && (where.in == nullptr || where.in->entries.is_present(w, where.index));
  }

  /// Changes the entry of the key. After an erase from a contended leaf, the caller counts what is left.
  template <class Witness>
  outcome apply(const Witness& w, const spot& where, const Key& k, const change& wanted) noexcept {
    if (where.in == nullptr) return base::apply(w, where, k, wanted);
    scattered& all = where.in->entries;
    outcome result;
    const std::optional<Word> before = where.found ? all.read(w, where.index) : std::nullopt;
    if (!before) {
      if (!wanted.insert_where_absent) return result;
      result.what = effect::inserted;
      if (where.found)
        all.set(w, where.index, wanted.word);
      else if (!all.insert(w, where.start, k, wanted.word))
        result.what = effect::full;
      return result;
    }
    result.before = *before;
    if (!wanted.is_of(result.before)) return result;
    if (wanted.present == change::where_present::store) {
      all.set(w, where.index, wanted.word);
      result.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      all.erase(w, where.index);
      result.what = effect::erased;
    }
    return result;
  }

  template <class Witness>
  [[nodiscard]] unsigned count(const Witness& w) const noexcept {
    const contended* const of_it = form.get(w);
    return of_it == nullptr ? base::count(w) : of_it->entries.count(w);
  }
  template <class Witness>
  [[nodiscard]] bool is_full(const Witness& w) const noexcept {
    const contended* const of_it = form.get(w);
    return of_it == nullptr ? base::is_full(w) : of_it->entries.count(w) == scattered::capacity;
  }
  template <class Witness>
  [[nodiscard]] bool is_sparse(const Witness& w) const noexcept {
    return count(w) <= base::sparse;
  }

  /// Appends the entries in order.
  template <class Witness>
  void copy_to(const Witness& w, const Compare& less, content& all, const Key& = {}) const {
    const contended* const of_it = form.get(w);
    if (of_it == nullptr) return base::copy_to(w, less, all);
    const unsigned first = all.count;
    of_it->entries.for_each(w, [&](const Key& k, Word v) { all.add(k, v); });
    all.sort_from(first, less);
  }
  template <class Witness>
  void assign(const Witness& w, const content& all, unsigned from, unsigned to) noexcept {
    contended* const of_it = form.get(w);
    if (of_it == nullptr) return base::assign(w, all, from, to);
    of_it->entries.clear(w);
    if constexpr (contended::marks) of_it->control.clear_marks();
    for (unsigned i = from; i < to; ++i) {
      if constexpr (contended::marks) of_it->control.set_mark(hash_of<Compare>(all.key[i]));
      of_it->entries.insert(w, i, all.key[i], all.slot[i]);
    }
  }

  /// Gives the leaf another form: a contended one, which no other thread has seen, or null for the calm one. Returns the
  /// block of the former one. The entries must fit: see fits().
  contended* change_form(const optimistic_lock::write_guard& held, const Compare& less,
                         contended* to) noexcept {
    content all;
    copy_to(held, less, all);
    contended* const former = form.get(held);
    form.set(held, to);
    assign(held, all, 0, all.count);
    return former;
  }
  template <class Witness>
  [[nodiscard]] bool fits(const Witness& w, const contended* to) const noexcept {
    return count(w) <= (to == nullptr ? Capacity : scattered::capacity);
  }

  /// For programs that show nodes.
  [[nodiscard]] std::vector<node_member> members() const {
    std::vector<node_member> all = base::members();
    all.insert(all.begin() + 2, member_of(*this, "contended form", form));  // behind lock and level
    return all;
  }

  // Quiescent only.

  [[nodiscard]] contended* attachment() const noexcept { return form.get(exclusive_access{}); }

  /// What is wrong with the contended form, or null.
  [[nodiscard]] const char* check() const noexcept {
    const contended* const of_it = attachment();
    const char* wrong = nullptr;
    if constexpr (contended::marks) {
      if (of_it != nullptr && of_it->control.is_locked()) return "a lock bit is set";
      if (of_it != nullptr)
        of_it->entries.for_each(exclusive_access{}, [&](const Key& k, const Word&) {
          if (!of_it->control.may_have(hash_of<Compare>(k))) wrong = "the mark of a key is clear";
        });
    }
    return wrong;
  }
};

}  // namespace espalier::btree
