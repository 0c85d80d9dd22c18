#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/pair_exchange.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/ordered/string_leaf.hpp"
#include "espalier/map/ordered/string_load.hpp"
#include "espalier/map/ordered/string_nodes.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tree/bulk_load.hpp"
#include "espalier/map/tree/entry_operations.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// What ordered_map is for strings: a B+tree whose inner nodes compare 8 bytes (string_nodes.hpp), and whose leaves are hash
// tables (string_leaf.hpp).
//
// Essence. An inner node has a prefix. Its separators are the prefix with a slice behind it: up to 7 bytes of a string, and
// their number. So a search compares slices by vectors, as it does numbers. A separator that needs more
// than that comes into a node with a longer prefix, for which the tree grows a level at that place: it is a B+tree as far as
// 7 bytes tell keys apart, and a trie from there on, as Masstree is (Mao, Kohler and Morris, EuroSys 2012). The nodes of a
// search have some hundred children, and stay in the caches; a search waits for a line of a leaf, and for the record.
//
// Changes. Nodes are changed in place where a child comes or goes. All else makes new nodes and replaces old ones, which
// become obsolete: a split of a leaf, a merge, an inner node of another size or depth. Leaves that replace others have copies
// of the records: they are made without a lock, and get the values with the locks of the old leaves held, when the old
// records are marked as moved. So an update comes to the one or to the other.
//
//   split a leaf      its parent has room for the separator: two leaves in the place of one
//                     it cannot have it:                     a small node with two leaves
//                     a quarter lacks the parent's prefix:   a leaf for those before or behind the parent
//   renew a leaf      a third of its memory was that of records that are erased: a leaf with the others
//   inner node full   a large one in the place of a small one; two in the place of a large one
//   merge             two neighbouring leaves become one; an empty leaf goes, but the last one; so does a node with
//                     one child
//
// Locks are taken from above to below, by upgrades that do not wait. So there is no deadlock.
//
// Invariants: (L1) to (L4) of string_leaf.hpp, and
//   (S1) The separators of a node increase. Exact seeks come to the leaf that has the key, or would have it.
//   (S2) A node that is not linked is obsolete. It becomes so with its parent's lock held, before the parent's version changes.
//   (S3) An inner node has a child at least, its prefix never changes, and begins with the prefix of its parent.
//
// Progress. Finds of present keys are lock-free, and so are updates of them where the processor exchanges pairs, unless the
// record has moved: they wait until the leaves that replace its leaf are linked. All else may wait for a change of a node on
// the way, inserts and erases also for the lock of a leaf.
//
// Linearization points
//   find, contains -> present      the read of the value. Or, if the record has moved, and what replaces its leaf is linked, the
//                                  moment before it was: until then the record had the value, and a search that began
//                                  later does not come to the leaf
//   find, contains -> absent       the read of the last group, or, if that is later, the end of the leaf: it was part of
//                                  the tree when the seek came to it, and has not changed since its end (L2). Or the erase
//                                  of the record that was found, or the read of its state
//   insert -> true                 the store of the slot
//   erase -> true                  the exchange that marks the record
//   assign, update                 the exchange of state and word
//   insert -> false, erase -> false  as find
//   a visit of a scan              as find -> present
//
// Reclamation. What becomes obsolete is retired after the locks are released. Only its parent led to it (S2). Records are
// retired with their leaf, also those that were erased before: nothing else led to them (L1).
//
// Orderings: those of sync/optimistic_lock.hpp and string_leaf.hpp. A node is published by the store of its pointer with
// its parent's lock held.

namespace espalier::btree {

template <class Map, class Value, class Traits, class Compare, class Fanout>
class string_tree : public entry_operations<Map, std::string, Value, Traits, Compare, std::uint64_t, 0>,
                    protected string_nodes<Fanout> {
  static_assert(ordered_by_bytes<std::string, Compare>,
                "keys are ordered by their bytes, as std::less<> has them, or std::greater<>");
  // Nodes have keys in increasing order in any case. A map in decreasing order is the mirror of one in increasing order: its
  // scans run the other way, and it reads the entries of a load from their end.
  static constexpr bool is_mirrored = std::is_same_v<Compare, std::greater<>>;
  using base = entry_operations<Map, std::string, Value, Traits, Compare, std::uint64_t, 0>;
  friend base;

  using nodes = string_nodes<Fanout>;
  using typename nodes::content;
  using typename nodes::large;
  using typename nodes::leaf;
  using typename nodes::small;

 public:
  using base::base;
  using typename base::guard_type;

  static constexpr std::size_t node_bytes = sizeof(leaf);
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = leaf::capacity;

 protected:
  using base::store_;
  using base::value_in;
  using base::word_of;
  using typename base::change;
  using typename base::contract;
  friend contract;
  using storage = stored_map<Map, std::string, Value, Compare, node_store<Traits>, std::uint64_t>;
  friend storage;
  using nodes::anchor_;
  using nodes::as_inner;
  using nodes::find_in;
  using nodes::guess_leaf;
  using nodes::guess_leaves;
  using nodes::has_large;
  using nodes::kind_of;
  using nodes::large_kind;
  using nodes::marked;
  using nodes::plain;
  using nodes::root_at_rest;
  using nodes::same_records;
  using nodes::small_kind;
  using nodes::try_seek;
  using nodes::visit_below;
  using typename base::effect;
  using typename base::holder;
  using typename base::outcome;
  using typename base::store;
  using typename base::word;
  using typename nodes::by_key;
  using typename nodes::link;
  using typename nodes::place;
  using typename nodes::section;
  using typename nodes::write_guard;

  static constexpr memory_role record_role = memory_role::value;
  /// Nodes that one change unlinks, at most.
  static constexpr unsigned unlinked_most = 3;

  /// No other thread may use the map any more.
  ~string_tree() {
    if constexpr (store::template must_visit<leaf>() || store::template must_visit<record_block>() ||
                  holder::must_visit())
      destroy_below(root_at_rest());
  }

  /// Both maps are at rest.
  void swap_with(string_tree& other) noexcept {
    base::swap_with(other);
    nodes::swap_with(other);
  }

  [[nodiscard]] static std::optional<word> value_of(const std::optional<std::uint64_t>& found) noexcept {
    return found ? std::optional(value_in(*found)) : std::nullopt;
  }
  [[nodiscard]] std::optional<word> find_word(std::string_view key) const noexcept {
    const sought_string k(key);
    return value_of(find_in(k, guess_leaf(k)));
  }

  // Changes of entries.

  outcome apply(guard_type& guard, std::string_view key, const change& wanted) {
    const sought_string k(key);
    unpublished<store, record_block> fresh(store_, record_role);
    // What is likely there needs no validation.
    if (wanted.present != change::where_present::keep) {
      if (leaf* const guessed = guess_leaf(k); guessed != nullptr) {
        if (const auto where = guessed->seek(k); where.record != nullptr) {
          if (const auto done = change_found(guard, k, *guessed, where, wanted)) return *done;
        }
      }
    }
    for (backoff pause;; pause.wait()) {
      const auto at = try_seek(by_key{k});
      if (!at) continue;
      if (at->node == nullptr) {
        if (!wanted.insert_where_absent) return {};
        make_block(fresh, key);  // or an empty leaf would be there where it fails
        plant(*at);
        continue;
      }
      leaf& of_key = at->as_leaf();
      if (wanted.insert_where_absent) of_key.records.request_room();
      const auto where = of_key.seek(k);
      if (where.record != nullptr) {
        if (wanted.present == change::where_present::keep) {
          // Else it was erased while this thread looked.
          if (where.record->read()) return {};
        } else if (const auto done = change_found(guard, k, of_key, where, wanted)) {
          return *done;
        }
        continue;
      }
      if (!wanted.insert_where_absent) return {};
      if (of_key.is_full()) {
        make_room(guard, k);
        continue;
      }
      const std::size_t bytes = string_record::bytes_for(key.size());
      if (!of_key.records.has_room(bytes)) make_block(fresh, key);
      const auto room = of_key.room_for(k.tag());
      write_guard held = room.in_order ? at->here.upgrade() : at->here.upgrade_beside_readers();
      if (!held) continue;
      if (of_key.is_full() || !of_key.has(room) || of_key.seek(k).record != nullptr ||
          (!of_key.records.has_room(bytes) && fresh.get() == nullptr)) {
        held.release_unchanged();
        continue;
      }
      of_key.put(held, room, k.tag(), &add_record(of_key, key, word_of(wanted.word), fresh));
      if (!room.in_order) held.release_unchanged();
      return outcome{.what = effect::inserted};
    }
  }

  /// For a record with this key.
  static void make_block(unpublished<store, record_block>& fresh, std::string_view key) {
    if (key.size() > string_record::longest_key) throw std::length_error("a key of 4 GiB or more");
    if (fresh.get() != nullptr) return;
    const std::size_t bytes = record_block::bytes_for(string_record::bytes_for(key.size()));
    fresh.emplace_sized(nullptr, bytes, bytes);
  }

  /// Adds a record to a leaf: in the new block if the leaf has no room.
  static string_record& add_record(leaf& to, std::string_view key, std::uint64_t w,
                                   unpublished<store, record_block>& fresh) noexcept {
    return to.records.has_room(string_record::bytes_for(key.size()))
               ? to.records.add(key, w)
               : to.records.add(key, w, fresh.release());
  }

  /// A leaf that is not published yet, with copies of records, or with new ones.
  class pending_leaf {
   public:
    /// For so many bytes of records.
    pending_leaf(string_tree& of, std::size_t of_records) : map_(of) {
      const std::size_t bytes = leaf::bytes_for(of_records);
      made_ = map_.store_.template create_sized<leaf>(memory_role::leaf, nullptr, bytes, bytes);
    }
    pending_leaf(string_tree& of, const content& all, unsigned first, unsigned last)
        : pending_leaf(of, bytes_for(all, first, last)) {
      for (unsigned i = first; i < last; ++i) add(all.key(i), all.tag(i), 0);
      finish();
    }
    pending_leaf(const pending_leaf&) = delete;
    pending_leaf& operator=(const pending_leaf&) = delete;
    ~pending_leaf() {
      if (made_ != nullptr) string_tree::destroy(map_.store_, made_);
    }

    /// Keys come in order.
    void add(std::string_view key, std::uint64_t tag, std::uint64_t w) {
      unpublished<store, record_block> fresh(map_.store_, record_role);
      if (!made_->records.has_room(string_record::bytes_for(key.size()))) make_block(fresh, key);
      records_.add(add_record(*made_, key, w, fresh), tag);
    }
    void finish() noexcept { made_->assign(records_); }
    /// The copies get the words of those that they were made of, from `first` on. The locks of their leaves are held.
    leaf* publish(const content& all, unsigned first) noexcept {
      for (unsigned i = 0; i < records_.count; ++i) records_.record(i).move_from(all.record(first + i));
      return publish();
    }
    leaf* publish() noexcept { return std::exchange(made_, nullptr); }
    /// Of a leaf that will not be published.
    void discard_values() noexcept {
      for (unsigned i = 0; i < records_.count; ++i) map_.discard_value(records_.record(i));
    }

   private:
    /// With a quarter more for records to come, if the leaf has room for so many.
    [[nodiscard]] static std::size_t bytes_for(const content& all, unsigned first, unsigned last) noexcept {
      std::size_t bytes = 0;
      for (unsigned i = first; i < last; ++i) bytes += all.record(i).bytes();
      const std::size_t n = last - first;
      return bytes + bytes * std::min<std::size_t>(n / 4, leaf::capacity - n) / std::max<std::size_t>(n, 1);
    }

    string_tree& map_;
    leaf* made_;
    content records_;
  };

  /// Stores in a record or erases it. Nothing if it is not, or no longer, in the map, or its leaf changes.
  [[nodiscard]] std::optional<outcome> change_found(guard_type& guard, const sought_string& k, leaf& of_key,
                                                    const typename leaf::spot& where, const change& wanted) {
    string_record& r = *where.record;
    const bool erases = wanted.present == change::where_present::erase;
    write_guard held;
    if (erases || !hw::exchanges_pairs) {
      const section seen = of_key.lock.try_read();
      if (!seen.steady()) return std::nullopt;
      // A record that is not erased does not leave its leaf until that is obsolete.
      held = seen.upgrade_beside_readers();
      if (!held) return std::nullopt;
    }
    std::optional<outcome> done = outcome{};
    for (bool changed = false; !changed;) {
      const auto now = r.read();
      if (!now || r.has_moved()) {
        done = std::nullopt;
        break;
      }
      done->before = value_in(*now);
      if (!wanted.is_of(done->before)) break;
      changed = erases ? r.erase(*now) : r.update(*now, word_of(wanted.word));
      if (changed) done->what = erases ? effect::erased : effect::stored;
    }
    if (!held) return done;
    if (done && done->what == effect::erased) {
      of_key.remove(held, where.slot);
      done->left = of_key.count();
    }
    held.release_unchanged();
    if (done && done->what == effect::erased) tidy(guard, k, done->left, of_key.records.is_wasteful());
    return done;
  }

  /// The first leaf.
  void plant(const place& at) {
    pending_leaf fresh(*this, 0);
    if (write_guard held = at.here.upgrade()) anchor_.root.set(held, fresh.publish());
  }

  // Room for an entry.

  /// The lock of what has the pointer to a node.
  [[nodiscard]] static write_guard lock(const link& l) noexcept { return l.seen.upgrade(); }
  /// The locks of a node and of what has the pointer to it.
  struct locked_place {
    write_guard up;
    write_guard node;

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(node); }
    void release_unchanged() noexcept {
      node.release_unchanged();
      up.release_unchanged();
    }
    /// The node has left the tree.
    void release_obsolete() noexcept {
      node.release_obsolete();
      up.release();
    }
  };
  /// Both or none.
  [[nodiscard]] static locked_place lock(const place& at) noexcept {
    locked_place held{lock(at.up), {}};
    if (held.up && !(held.node = at.here.upgrade())) held.up.release_unchanged();
    return held;
  }
  void replace(const link& l, const write_guard& held, node_base* next) noexcept {
    if (l.of == nullptr)
      anchor_.root.set(held, marked(next));
    else
      as_inner(*l.of, [&](auto& in) { in.child[l.index].set(held, marked(next)); });
  }

  /// A separator between two keys as a node with this prefix has it. Nothing if it cannot: the keys differ before the end
  /// of the prefix, or behind the slice.
  template <class Inner>
  [[nodiscard]] static std::optional<slice::type> separator_in(const Inner& in, std::string_view left,
                                                               std::string_view right) noexcept {
    if (!right.starts_with(in.prefix())) return std::nullopt;
    if (!left.starts_with(in.prefix())) return 0;
    const slice::type a = slice::at(left, in.depth);
    const slice::type b = slice::at(right, in.depth);
    return a == b ? std::nullopt : std::optional(slice::shortest_between(a, b));
  }

  static constexpr std::size_t links_expected = 16;

  /// Makes one change so that the leaf of the key has room, or will have after more of them.
  void make_room(guard_type& guard, const sought_string& k) {
    guard.reserve(unlinked_most + holder::retirements);  // of the value, later
    // The links that lead to the node, from the anchor on. A search allocates nothing: it counts those that have no room.
    std::vector<link> way;
    std::size_t length = links_expected;
    const auto full = [&](const auto& in, const link& up, const section& seen) {
      if (length++ < way.capacity()) way.push_back(up);
      return in.is_full(seen);
    };
    std::optional<place> at;
    do {
      way.clear();
      way.reserve(length + 1);
      length = 0;
      at = try_seek(by_key{k}, full);
    } while (length >= way.capacity());
    if (!at || at->node == nullptr) return;
    way.push_back(at->up);
    if (at->node->level == 0)
      split_leaf(guard, *at, way, k);
    else
      as_inner(*at->node, [&](auto& in) { enlarge(guard, *at, in, k); });
  }

  /// A large node in the place of a full small one, or two in the place of a large one.
  template <class Inner>
  void enlarge(guard_type& guard, const place& at, Inner& in, const sought_string& k) {
    constexpr bool splits = !has_large || std::is_same_v<Inner, large>;
    using larger = std::conditional_t<has_large, large, small>;
    constexpr unsigned kind = has_large ? large_kind : small_kind;
    typename Inner::content all;
    in.copy_to(at.here, std::less<>(), all, 0);
    if (!at.here.validate()) return;
    unpublished<store, larger> left(store_, memory_role::node);
    unpublished<store, larger> right(store_, memory_role::node);
    unpublished<store, small> root(store_, memory_role::node);
    const auto create = [&](auto& fresh) {
      fresh.emplace_sized(nullptr, larger::bytes_for(in.depth), kind, in.prefix());
    };
    create(left);
    if constexpr (!splits) {
      left.get()->assign(exclusive_access{}, all, 0, all.count);
      locked_place held = lock(at);
      if (!held) return;
      replace(at.up, held.up, left.release());
      held.release_obsolete();
    } else {
      create(right);
      // At the end where keys come in order; else near the middle, where the node above can have the separator.
      const slice::type part = k.slice_at(in.depth);
      unsigned middle = all.count / 2;
      std::optional<slice::type> above;
      const auto goes_above = [&](unsigned m) -> std::optional<slice::type> {
        if (at.up.of == nullptr) return std::nullopt;
        return as_inner(*at.up.of,
                        [&](const auto& up) { return separator_from(up, in.prefix(), all.key[m]); });
      };
      if (part >= all.key[all.count - 1])
        middle = all.count - Inner::fewest;
      else if (part < all.key[Inner::fewest - 1])
        middle = Inner::fewest;
      above = goes_above(middle);
      for (unsigned away = 1; !above && away < all.count / 4; ++away) {
        for (const unsigned m : {all.count / 2 - away, all.count / 2 + away}) {
          if (!above && (above = goes_above(m))) middle = m;
        }
      }
      left.get()->assign(exclusive_access{}, all, 0, middle);
      right.get()->assign(exclusive_access{}, all, middle, all.count);
      if (!above) root.emplace_sized(nullptr, small::bytes_for(in.depth), small_kind, in.prefix());
      locked_place held = lock(at);
      if (!held) return;
      link_pair(at.up, held.up, left.release(), above, all.key[middle], right.release(), root.release());
      held.release_obsolete();
    }
    this->retire_node(guard, &in);
  }
  /// The separator of a node with this prefix as one above it has it, exactly.
  template <class Inner>
  [[nodiscard]] static std::optional<slice::type> separator_from(const Inner& up, std::string_view prefix,
                                                                 slice::type s) noexcept {
    if (!prefix.starts_with(up.prefix())) return std::nullopt;
    const std::size_t more = prefix.size() - up.depth;
    if (more == 0) return s;
    if (slice::length(s) == slice::goes_on || more + slice::length(s) > slice::width) return std::nullopt;
    slice::type whole = 0;
    for (std::size_t i = 0; i < more; ++i)
      whole |= slice::type{static_cast<unsigned char>(prefix[up.depth + i])} << (56 - 8 * i);
    return whole | (s & ~slice::type{0xff}) >> 8 * more | (slice::length(s) + more);
  }

  /// Puts two nodes where one was: into the node above if it can have the separator, or below a new one.
  void link_pair(const link& up, const write_guard& held, node_base* left, std::optional<slice::type> above,
                 slice::type separator, node_base* right, small* fresh) noexcept {
    if (fresh != nullptr) {
      fresh->begin_with(marked(left), separator, marked(right));
      replace(up, held, fresh);
    } else {
      as_inner(*up.of, [&](auto& in) {
        in.insert(held, up.index, *above, marked(right));
        in.child[up.index].set(held, marked(left));
      });
    }
  }

  /// Splits a full leaf.
  void split_leaf(guard_type& guard, const place& at, const std::vector<link>& way, const sought_string& k) {
    leaf& of_key = at.as_leaf();
    content all;
    of_key.copy_to(at.here, all);
    if (!at.here.validate() || all.count < leaf::capacity) return;
    const unsigned n = all.count;
    if (at.up.of != nullptr) {
      // Keys without the parent's prefix are the first or the last ones.
      const auto [before, behind] = as_inner(*at.up.of, [&](const auto& in) {
        unsigned first = 0;
        while (first < n && compare_beginning(all.key(first), in.prefix()) < 0) ++first;
        unsigned last = n;
        while (last > first && compare_beginning(all.key(last - 1), in.prefix()) > 0) --last;
        return std::pair(first, n - last);
      });
      if (4 * before >= n) return move_out(guard, at, way, all, before, true);
      if (4 * behind >= n) return move_out(guard, at, way, all, n - behind, false);
    }
    unsigned middle = n / 2;
    std::optional<slice::type> above;
    const auto goes_above = [&](unsigned m) -> std::optional<slice::type> {
      if (at.up.of == nullptr) return std::nullopt;
      return as_inner(*at.up.of,
                      [&](const auto& in) { return separator_in(in, all.key(m - 1), all.key(m)); });
    };
    // At the end where keys come in order, else near the middle.
    if (k.key() > all.key(n - 1))
      above = goes_above(middle = n - 1);
    else if (k.key() < all.key(0))
      above = goes_above(middle = 1);
    for (unsigned away = 0; !above && away <= n / 4; ++away) {
      for (const unsigned m : {n / 2 - away, n / 2 + away}) {
        if (!above && m > 0 && m < n && (above = goes_above(m))) middle = m;
      }
    }
    slice::type separator = 0;
    unpublished<store, small> parent(store_, memory_role::node);
    if (!above) {
      // The middle half has a longer prefix: it is that of a node for two leaves.
      const unsigned first = n / 4;
      const unsigned last = n - 1 - n / 4;
      const std::string_view prefix = all.key(first).substr(0, common_prefix(all.key(first), all.key(last)));
      const auto part = [&](unsigned i) { return slice::at(all.key(i), prefix.size()); };
      for (unsigned away = 0; separator == 0; ++away) {
        for (const unsigned m : {n / 2 - std::min(away, n / 2), n / 2 + away}) {
          if (separator == 0 && m > first && m <= last && part(m - 1) != part(m)) {
            separator = slice::shortest_between(part(m - 1), part(m));
            middle = m;
          }
        }
      }
      parent.emplace_sized(nullptr, small::bytes_for(prefix.size()), small_kind, prefix);
    }
    pending_leaf left(*this, all, 0, middle);
    pending_leaf right(*this, all, middle, n);
    locked_place held = lock(at);
    if (!held) return;
    if (!same_records(of_key, all)) return held.release_unchanged();
    link_pair(at.up, held.up, left.publish(all, 0), above, separator, right.publish(all, middle),
              parent.release());
    held.release_obsolete();
    this->retire_node(guard, &of_key);
  }

  /// Moves the keys that lack the prefix of their parent to a leaf of their own: the first ones before the parent, or
  /// the last ones behind it; or before or behind a node above whose prefix they lack, too.
  void move_out(guard_type& guard, const place& at, const std::vector<link>& way, content& all,
                unsigned middle, bool first_ones) {
    leaf& of_key = at.as_leaf();
    const std::string_view nearest = all.key(first_ones ? middle - 1 : middle);
    // way[top] leads to the node that they leave.
    unsigned top = 0;
    while (starts_with_prefix(*way[top + 1].of, nearest)) ++top;
    const link& out = way[top];
    node_base* const left_node = way[top + 1].of;
    const std::string_view of_node = as_inner(*left_node, [](const auto& in) { return in.prefix(); });
    const std::string_view smaller = first_ones ? nearest : of_node;
    const std::string_view larger = first_ones ? of_node : nearest;
    std::optional<slice::type> above;
    if (out.of != nullptr) {
      above = as_inner(*out.of, [&](const auto& in) -> std::optional<slice::type> {
        if (in.is_full(out.seen) || !smaller.starts_with(in.prefix())) return std::nullopt;
        return separator_in(in, smaller, larger);
      });
    }
    const std::size_t depth = common_prefix(smaller, larger);
    unpublished<store, small> root(store_, memory_role::node);
    if (!above) root.emplace_sized(nullptr, small::bytes_for(depth), small_kind, larger.substr(0, depth));
    const unsigned first_moved = first_ones ? 0 : middle;
    const unsigned first_left = first_ones ? middle : 0;
    pending_leaf moved(*this, all, first_moved, first_ones ? middle : all.count);
    pending_leaf left(*this, all, first_left, first_ones ? all.count : middle);
    // A search between the two nodes must begin again.
    std::vector<write_guard> held(way.size());
    bool all_held = true;
    for (unsigned i = top; all_held && i < way.size(); ++i) {
      held[i] = lock(way[i]);
      all_held = static_cast<bool>(held[i]);
    }
    write_guard of_leaf = all_held ? at.here.upgrade() : write_guard();
    if (!of_leaf || !same_records(of_key, all)) {
      if (of_leaf) of_leaf.release_unchanged();
      for (write_guard& h : held) {
        if (h) h.release_unchanged();
      }
      return;
    }
    replace(at.up, held.back(), left.publish(all, first_left));
    const slice::type separator =
        slice::shortest_between(slice::at(smaller, depth), slice::at(larger, depth));
    node_base* const out_leaf = moved.publish(all, first_moved);
    link_pair(out, held[top], first_ones ? out_leaf : left_node, above, separator,
              first_ones ? left_node : out_leaf, root.release());
    of_leaf.release_obsolete();
    for (std::size_t i = way.size(); i > top; --i) held[i - 1].release();
    this->retire_node(guard, &of_key);
  }
  [[nodiscard]] static bool starts_with_prefix(node_base& n, std::string_view key) noexcept {
    return as_inner(n, [&](const auto& in) { return key.starts_with(in.prefix()); });
  }

  // A load.

  template <indexed_entries Iterator>
  void do_bulk_load(Iterator first, std::size_t n, unsigned threads) {
    if constexpr (is_mirrored)
      load_increasing(backwards<Iterator>{first, n}, n, threads);
    else
      load_increasing(first, n, threads);
  }
  template <class Iterator>
  struct backwards {
    using difference_type = std::iter_difference_t<Iterator>;
    [[nodiscard]] decltype(auto) operator[](difference_type i) const {
      return first[static_cast<difference_type>(n) - 1 - i];
    }
    Iterator first;
    std::size_t n;
  };
  template <indexed_entries Iterator>
  void load_increasing(Iterator first, std::size_t n, unsigned threads) {
    if (n == 0) return;
    check_order(first, n, threads);
    const string_load_plan<Iterator, leaf::capacity> plan(first, n);
    loaded_nodes made(*this, plan.leaves().size());
    make_all(plan.leaves().size(), threads,
             [&](std::size_t i) { made.make_leaf(first, i, plan.leaves()[i]); });
    for (const auto& node : plan.nodes()) {
      const auto& [key, value] = first[static_cast<std::iter_difference_t<Iterator>>(node.key)];
      made.make_inner_nodes(std::string_view(key).substr(0, node.depth), node.children);
    }
    destroy_below(root_at_rest());  // the leaf of a map that has become empty
    anchor_.root.set(exclusive_access{}, marked(std::exchange(made.nodes[0], nullptr)));
  }
  /// A plan of keys without order would have no end.
  template <class Iterator>
  void check_order(const Iterator first, std::size_t n, unsigned threads) {
    constexpr std::size_t together = 256;
    make_all(nodes_for(n, together), threads, [&](std::size_t part) {
      for (std::size_t i = std::max<std::size_t>(1, part * together); i < std::min(n, (part + 1) * together);
           ++i) {
        const auto at = static_cast<std::iter_difference_t<Iterator>>(i);
        const auto& [left, left_value] = first[at - 1];
        const auto& [right, right_value] = first[at];
        // As views: what the range has in the place of keys may compare otherwise, or not at all.
        if (std::string_view(left) >= std::string_view(right)) this->throw_unsorted();
      }
    });
  }

  /// The nodes of a load: first the leaves. An inner node takes the place of its first child, so that they always have every
  /// node exactly once below them. If the load ends before the map has them, they are freed.
  struct loaded_nodes {
    loaded_nodes(string_tree& of, std::size_t leaves) : map(of), nodes(leaves) {}
    loaded_nodes(const loaded_nodes&) = delete;
    loaded_nodes& operator=(const loaded_nodes&) = delete;
    ~loaded_nodes() {
      for (node_base* const n : nodes) map.destroy_below(n);
    }

    template <class Iterator, class Planned>
    void make_leaf(const Iterator first, std::size_t place, const Planned& planned) {
      const auto entry = [&](std::size_t i) -> decltype(auto) {
        return first[static_cast<std::iter_difference_t<Iterator>>(i)];
      };
      std::size_t bytes = 0;
      for (std::size_t i = planned.begin; i < planned.end; ++i) {
        const auto& [key, value] = entry(i);
        bytes += string_record::bytes_for(std::string_view(key).size());
      }
      pending_leaf fresh(map, bytes);
      try {
        for (std::size_t i = planned.begin; i < planned.end; ++i) {
          const auto& [key, value] = entry(i);
          typename holder::pending cell(map.store_);
          fresh.add(key, sought_string(key).tag(), word_of(cell.get(value)));
          cell.release();
        }
      } catch (...) {
        fresh.discard_values();
        throw;
      }
      fresh.finish();
      nodes[place] = fresh.publish();
    }

    /// Nodes with the same prefix above the children, level by level.
    template <class Child>
    void make_inner_nodes(std::string_view prefix, std::vector<Child> children) {
      using largest = std::conditional_t<has_large, large, small>;
      while (children.size() > 1) {
        const std::size_t count = nodes_for(children.size(), loaded(largest::capacity));
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t begin = begin_of(i, count, children.size());
          const auto group =
              std::span(children).subspan(begin, begin_of(i + 1, count, children.size()) - begin);
          if (group.size() <= small::capacity)
            make_node<small>(small_kind, prefix, group);
          else
            make_node<largest>(large_kind, prefix, group);
          children[i] = group.front();
        }
        children.resize(count);
      }
    }
    template <class Inner, class Child>
    void make_node(unsigned kind, std::string_view prefix, std::span<Child> children) {
      unpublished<store, Inner> fresh(map.store_, memory_role::node);
      fresh.emplace_sized(nullptr, Inner::bytes_for(prefix.size()), kind, prefix);
      typename Inner::content all;
      for (const Child& c : children) all.add(c.separator, marked(std::exchange(nodes[c.place], nullptr)));
      fresh.get()->assign(exclusive_access{}, all, 0, all.count);
      nodes[children.front().place] = fresh.release();
    }

    string_tree& map;
    std::vector<node_base*> nodes;
  };

  // After erases.

  void tidy(guard_type& guard, const sought_string& k, unsigned left, bool is_wasteful) noexcept {
    if (left != leaf::sparse && left != 0 && !is_wasteful) [[likely]]
      return;
    try {
      for (unsigned steps = merges_most; steps != 0 && try_merge(guard, k); --steps) {
      }
    } catch (const std::bad_alloc&) {
      // The nodes stay as they are.
    }
  }
  /// Changes after one erase, at most.
  static constexpr unsigned merges_most = 64;

  /// Makes one change to the leaf of the key, or to the nodes above it. False if there is nothing to do, or to be done.
  bool try_merge(guard_type& guard, const sought_string& k) {
    guard.reserve(unlinked_most + holder::retirements);  // of the value, later
    const auto has_one_child = [](const auto& in, const link&, const section& seen) {
      return in.children.get(seen) == 1;
    };
    const auto at = try_seek(by_key{k}, has_one_child);
    if (!at) return true;
    if (at->node == nullptr) return false;
    if (at->node->level != 0) return drop_parent(guard, *at);
    leaf& sparse = at->as_leaf();
    if (at->up.of != nullptr && sparse.count() <= leaf::sparse &&
        as_inner(*at->up.of, [&](auto& in) { return merge_below(guard, *at, in, sparse); }))
      return true;
    return sparse.records.is_wasteful() && renew(guard, *at, sparse);
  }
  /// A leaf without what its erased records have left. Where a writer comes between, it is for the next erase.
  bool renew(guard_type& guard, const place& at, leaf& old) {
    content all;
    old.copy_to(at.here, all);
    if (!at.here.validate()) return false;
    pending_leaf fresh(*this, all, 0, all.count);
    locked_place held = lock(at);
    if (held && !same_records(old, all)) held.release_unchanged();
    if (!held) return false;
    replace(at.up, held.up, fresh.publish(all, 0));
    held.release_obsolete();
    this->retire_node(guard, &old);
    return true;
  }
  /// The only child of a node takes its place.
  bool drop_parent(guard_type& guard, const place& at) {
    locked_place held = lock(at);
    if (!held) return true;
    as_inner(*at.node, [&](auto& in) {
      replace(at.up, held.up, plain(in.child[0].get(held.node)));
      held.release_obsolete();
      this->retire_node(guard, &in);
    });
    return true;
  }
  /// Merges a leaf with a neighbour if both fill three quarters of one, or removes it if it is empty.
  template <class Inner>
  bool merge_below(guard_type& guard, const place& at, Inner& in, leaf& sparse) {
    const unsigned index = at.up.index;
    const unsigned children = in.children.get(at.up.seen);
    for (const bool before : {true, false}) {
      if (before ? index == 0 : index + 1 >= children) continue;
      const unsigned first = before ? index - 1 : index;
      node_base* const other = in.child[before ? index - 1 : index + 1].get(at.up.seen);
      if (!at.up.seen.validate()) return true;
      if (kind_of(other) != 0) continue;
      leaf& neighbour = *static_cast<leaf*>(other);
      if (4 * (neighbour.count() + sparse.count()) > 3 * leaf::capacity) continue;
      const section there = neighbour.lock.read();
      leaf& left = before ? neighbour : sparse;
      leaf& right = before ? sparse : neighbour;
      content all;
      left.copy_to(before ? there : at.here, all);
      const unsigned of_left = all.count;
      right.copy_to(before ? at.here : there, all);
      if (all.count > leaf::capacity || !at.here.validate() || !there.validate()) return true;
      pending_leaf fresh(*this, all, 0, all.count);
      locked_place held = lock(at);
      if (!held) return true;
      write_guard other_held = there.upgrade();
      if (!other_held || !same_records(left, all, 0, of_left) ||
          !same_records(right, all, of_left, all.count)) {
        if (other_held) other_held.release_unchanged();
        held.release_unchanged();
        return true;
      }
      in.erase_behind(held.up, first);
      in.child[first].set(held.up, fresh.publish(all, 0));
      other_held.release_obsolete();
      held.release_obsolete();
      this->retire_node(guard, &sparse, &neighbour);
      return true;
    }
    if (sparse.count() != 0 || children == 1) return false;
    locked_place held = lock(at);
    if (held && sparse.count() != 0) held.release_unchanged();
    if (!held) return true;
    // Its neighbour gets its range.
    if (index == 0) in.child[0].set(held.up, in.child[1].get(held.up));
    in.erase_behind(held.up, index == 0 ? 0 : index - 1);
    held.release_obsolete();
    this->retire_node(guard, &sparse);
    return true;
  }

  // As in map_facade.hpp.

  /// The bound of the same scan in the order of the nodes.
  template <class Bound>
  [[nodiscard]] static auto mirrored(const Bound& bound) noexcept {
    using other = scan_bound<std::string, std::less<>,
                             Bound::reverse ? scan_direction::forward : scan_direction::reverse>;
    const std::less<> less;
    if (!bound.key()) return other::whole(less);
    return bound.excludes_key() ? other::behind(less, *bound.key()) : other::at(less, *bound.key());
  }
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    const auto visit_record = [&](const string_record& r, std::uint64_t w) {
      return visit(r.key(), holder::read(value_in(w)));
    };
    if constexpr (is_mirrored)
      nodes::scan_records(mirrored(bound), std::less<>(), visit_record);
    else
      nodes::scan_records(bound, this->key_comp(), visit_record);
  }
  template <class KeyAt>
  void do_request(guard_type&, std::size_t count, const KeyAt& key_at) const noexcept {
    std::array<sought_string, together_most> keys;
    std::array<leaf*, together_most> leaves;
    for (std::size_t i = 0; i < count; ++i) keys[i] = sought_string(key_at(i));
    guess_leaves(std::span(keys).first(count), leaves);
  }
  std::size_t do_find_batch(guard_type&, std::span<const std::string_view> keys,
                            std::span<std::optional<Value>> results) const {
    std::array<sought_string, together_most> together;
    std::array<leaf*, together_most> leaves;
    std::size_t present = 0;
    for (std::size_t from = 0; from < keys.size(); from += together_most) {
      const std::size_t n = std::min(together_most, keys.size() - from);
      for (std::size_t i = 0; i < n; ++i) together[i] = sought_string(keys[from + i]);
      guess_leaves(std::span(together).first(n), leaves);
      for (std::size_t i = 0; i < n; ++i) {
        const auto found = value_of(find_in(together[i], leaves[i]));
        results[from + i].reset();  // values need no assignment
        if (found) results[from + i].emplace(holder::read(*found));
        if (found) ++present;
      }
    }
    return present;
  }

 public:
  [[nodiscard]] static std::vector<node_type> node_types() {
    std::vector<node_type> all{
        {memory_role::leaf, "leaf", sizeof(leaf), leaf().members()},
        {memory_role::node, "small inner node", sizeof(small), small(1, {}).members()}};
    if constexpr (has_large)
      all.push_back({memory_role::node, "large inner node", sizeof(large), large(1, {}).members()});
    return all;
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    visit_below(root_at_rest(), [&]<class Node>(Node& n) {
      if constexpr (std::is_same_v<Node, leaf>) {
        visitor(static_cast<const void*>(&n), n.node_block_bytes(), memory_role::leaf);
        n.records.for_each_block(
            [&](record_block& b) { visitor(static_cast<const void*>(&b), b.bytes, record_role); });
        if constexpr (!holder::in_place) {
          for_each_record(n, [&](string_record& r) {
            visitor(static_cast<const void*>(word_in(r)), sizeof(Value), memory_role::value);
          });
        }
      } else {
        visitor(static_cast<const void*>(&n), n.node_block_bytes(), memory_role::node);
      }
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (anchor_.lock.is_locked()) return "the anchor is locked";
    const char* wrong = nullptr;
    visit_below(root_at_rest(), [&]<class Node>(Node& n) {
      const char* const of_node = check_node(n);
      if (wrong == nullptr) wrong = of_node;
    });
    return wrong;
  }

 private:
  template <class Node>
  [[nodiscard]] const char* check_node(Node& n) const {
    const exclusive_access rest;
    if (n.lock.is_locked()) return "a reachable node is locked";
    if (n.lock.read().obsolete()) return "a reachable node is obsolete";
    if constexpr (std::is_same_v<Node, leaf>) {
      if (const char* const wrong = n.check()) return wrong;
      const char* wrong = nullptr;
      for_each_record(n, [&](const string_record& r) {
        const sought_string k(r.key());
        const auto at = try_seek(by_key{k});
        if (!at || at->node != &n) wrong = "a key is in a leaf to which no search for it leads";
      });
      return wrong;
    } else {
      const unsigned children = n.children.get(rest);
      if (children < 1 || children > Node::capacity) return "an inner node has no children, or too many";
      for (unsigned i = 1; i + 1 < children; ++i) {
        if (n.key.get(rest, i) <= n.key.get(rest, i - 1)) return "a separator follows one not smaller";
      }
      for (unsigned i = 0; i < children; ++i) {
        node_base* const child = n.child[i].get(rest);
        const auto begins = [&](const auto& in) { return in.prefix().starts_with(n.prefix()); };
        if (kind_of(child) != 0 && !as_inner(*plain(child), begins))
          return "the prefix of a node does not begin with that of its parent";
      }
      return nullptr;
    }
  }

  /// No other thread reaches the node.
  void destroy_below(node_base* n) noexcept {
    visit_below(n, [this]<class Node>(Node& below) {
      if constexpr (std::is_same_v<Node, leaf>)
        for_each_record(below, [this](string_record& r) { this->discard_value(r); });
      string_tree::destroy(this->store_, &below);
    });
  }
  [[nodiscard]] static word word_in(const string_record& r) noexcept { return value_in(r.last_word()); }
  void discard_value(const string_record& r) noexcept { holder::discard(store_, word_in(r)); }
  static void destroy(store& from, leaf* n) noexcept {
    n->records.for_each_block([&from](record_block& b) { from.destroy(record_role, &b); });
    from.destroy(memory_role::leaf, n);
  }
  template <unsigned Children>
  static void destroy(store& from, string_inner<Children>* n) noexcept {
    from.destroy(memory_role::node, n);
  }

  template <class Visit>
  static void for_each_record(const leaf& n, const Visit& visit) {
    content all;
    n.copy_to(exclusive_access{}, all);
    for (unsigned i = 0; i < all.count; ++i) visit(all.record(i));
  }
};

}  // namespace espalier::btree
