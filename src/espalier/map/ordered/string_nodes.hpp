#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/map/map_facade.hpp"
#include "espalier/map/ordered/string_leaf.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The nodes of a tree of strings, and how searches and scans go through them. string_tree.hpp changes them.
//
// Separators. An inner node has a prefix. Its separators are the prefix with a slice behind it (namespace slice). A node may
// cover keys without its prefix: those that are smaller belong to its first child, those that are larger to its last
// one. Between two others, a key belongs to the child behind the last separator whose slice is not above its own. So the keys
// of the map are distributed in their order. Few keys lack the prefixes on their way: a split moves them out when
// they are a quarter of a leaf.
//
// A search for a key first goes down without asking whether keys have the prefixes of the nodes, and without validation.
// What it finds is right, since a record knows whether it is in the map (string_leaf.hpp). Where it finds nothing, it goes
// again, exactly, under optimistic lock coupling. A scan begins at an exact search.
//
// Invariants: (L1) to (L4) of string_leaf.hpp, (S1) to (S3) of string_tree.hpp.
// Orderings: those of sync/optimistic_lock.hpp and string_leaf.hpp.

namespace espalier::btree {

/// What an inner node has beside its lock.
struct string_inner_base : node_base {
  string_inner_base(unsigned kind, std::size_t length) noexcept
      : node_base(kind), depth(static_cast<std::uint32_t>(length)) {}
  const std::uint32_t depth;  ///< the length of the prefix
};

/// Separators and children of an inner node, and the prefix behind them.
template <unsigned Children>
struct string_inner : inner_node<slice::type, Children, true, string_inner_base> {
  using base = inner_node<slice::type, Children, true, string_inner_base>;
  using base::depth;

  string_inner(unsigned kind, std::string_view of_separators) noexcept : base(kind, of_separators.size()) {
    std::copy(of_separators.begin(), of_separators.end(), reinterpret_cast<char*>(this + 1));
  }
  [[nodiscard]] static std::size_t bytes_for(std::size_t of_prefix) noexcept {
    return (sizeof(string_inner) + of_prefix + alignof(string_inner) - 1) & ~(alignof(string_inner) - 1);
  }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes_for(depth); }
  [[nodiscard]] std::string_view prefix() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), depth};
  }
};

/// Without a map's keys and values: the words of the records are what string_tree.hpp says.
template <class Fanout>
class string_nodes {
 protected:
  using leaf = string_leaf<Fanout::leaf>;
  /// Two kinds of inner nodes. That of a node is its level: 0 is a leaf.
  static constexpr unsigned small_kind = 1;
  static constexpr unsigned large_kind = 2;
  using small = string_inner<std::min(Fanout::inner, 16U)>;
  using large = string_inner<Fanout::inner>;
  static constexpr bool has_large = Fanout::inner > 16;
  using content = typename leaf::content;
  using section = optimistic_lock::read_section;
  using write_guard = optimistic_lock::write_guard;

  string_nodes() = default;
  ~string_nodes() = default;

  /// Both are at rest.
  void swap_with(string_nodes& other) noexcept {
    const exclusive_access rest;
    node_base* const root = anchor_.root.get(rest);
    anchor_.root.set(rest, other.anchor_.root.get(rest));
    other.anchor_.root.set(rest, root);
  }

  // In nodes and in the anchor, a pointer to an inner node is marked: with the kind of the node in its lowest bits, and the
  // length of its prefix in the highest ones. So a search reads no line of the node but those of keys and of children. A
  // pointer to a leaf is plain.

  [[nodiscard]] static node_base* marked(node_base* n) noexcept {
    if (n == nullptr || n->level == 0) return n;
    const std::uint64_t depth = as_inner(*n, [](const auto& in) { return in.depth; });
    return reinterpret_cast<node_base*>(reinterpret_cast<std::uintptr_t>(n) | n->level |
                                        std::min(depth, unmarked_depth) << depth_shift);
  }
  [[nodiscard]] static unsigned kind_of(const node_base* marked_pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(marked_pointer) & (small_kind | large_kind);
  }
  [[nodiscard]] static node_base* plain(node_base* marked_pointer) noexcept {
    return reinterpret_cast<node_base*>(reinterpret_cast<std::uintptr_t>(marked_pointer) &
                                        ((std::uintptr_t{1} << depth_shift) - 1 - (small_kind | large_kind)));
  }
  static constexpr unsigned depth_shift = 48;
  /// The node has the length of the prefix.
  static constexpr std::uint64_t unmarked_depth = 0xffff;

  /// Calls f with the node as what it is.
  template <class F>
  static decltype(auto) as_itself(node_base& n, F&& f) {
    if (n.level == 0) return f(static_cast<leaf&>(n));
    return as_inner(n, f);
  }
  template <class F>
  [[gnu::always_inline]] static decltype(auto) as_inner(node_base& n, F&& f) {
    if constexpr (has_large) {
      if (n.level == large_kind) return f(static_cast<large&>(n));
    }
    return f(static_cast<small&>(n));
  }

  // Searches that take what they read as a hint.

  /// From one marked pointer to the next one.
  [[nodiscard, gnu::always_inline]] static node_base* guess_child(node_base* from,
                                                                  const sliced_string& k) noexcept {
    const auto child = [&](const auto& in) __attribute__((always_inline)) {
      std::uint64_t depth = reinterpret_cast<std::uintptr_t>(from) >> depth_shift;
      if (depth == unmarked_depth) [[unlikely]]
        depth = in.depth;
      return in.guess_child(k.slice_at(depth), in.key_width());
    };
    if constexpr (has_large) {
      if (kind_of(from) == large_kind) return child(static_cast<const large&>(*plain(from)));
    }
    return child(static_cast<const small&>(*plain(from)));
  }
  /// The leaf of a key if it has the prefixes of the nodes on the way, and these do not change; null while the map is empty.
  [[nodiscard, gnu::always_inline]] leaf* guess_leaf(const sought_string& k) const noexcept {
    node_base* n = anchor_.root.get(unvalidated{});
    if (n == nullptr) return nullptr;
    while (kind_of(n) != 0) n = guess_child(n, k);
    leaf::request_pages(n);
    return static_cast<leaf*>(n);
  }
  /// Requests what an exact search for the key reads, and that leaf.
  void request_way(const sliced_string& k) const noexcept {
    node_base* n = anchor_.root.get(unvalidated{});
    if (n == nullptr) return;
    for (; kind_of(n) != 0; n = guess_child(n, k)) {
      const char* const node = reinterpret_cast<const char*>(plain(n));
      __builtin_prefetch(node);
      __builtin_prefetch(node + (kind_of(n) == large_kind ? sizeof(large) : sizeof(small)));  // the prefix
    }
    leaf::request_all(n);
  }
  /// The leaf of each of the keys, at most together_most. The searches take each step together, so that their misses
  /// overlap.
  void guess_leaves(std::span<const sought_string> keys, std::span<leaf*> leaves) const noexcept {
    node_base* const root = anchor_.root.get(unvalidated{});
    std::array<node_base*, together_most> nodes;
    for (std::size_t i = 0; i < keys.size(); ++i) nodes[i] = root;
    for (bool below = kind_of(root) != 0; below;) {
      below = false;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (kind_of(nodes[i]) == 0) continue;
        nodes[i] = guess_child(nodes[i], keys[i]);
        if (kind_of(nodes[i]) != 0) {
          static_cast<const small*>(plain(nodes[i]))->key.request();  // where keys begin in all kinds
          below = true;
        } else {
          leaf::request(nodes[i], keys[i]);
        }
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      leaves[i] = static_cast<leaf*>(nodes[i]);
      if (leaves[i] != nullptr) leaf::request_record(leaves[i], keys[i]);
    }
  }

  /// The state of the key's record. `guessed` is where the first attempt reads.
  [[nodiscard, gnu::always_inline]] std::optional<std::uint64_t> find_in(const sought_string& k,
                                                                         const leaf* guessed) const noexcept {
    if (guessed == nullptr) return std::nullopt;
    if (const auto at = guessed->seek(k); at.record != nullptr) [[likely]]
      return at.record->read();
    return find_exactly(k);
  }
  [[nodiscard, gnu::noinline]] std::optional<std::uint64_t> find_exactly(
      const sought_string& k) const noexcept {
    for (backoff pause;; pause.wait()) {
      const auto at = try_seek(by_key{k});
      if (!at) continue;
      if (at->node == nullptr) return std::nullopt;
      const auto where = at->as_leaf().seek(k);
      return where.record != nullptr ? where.record->read() : std::nullopt;
    }
  }

  // Searches that are validated.

  /// Where the pointer to a node is: in an inner node, or in the anchor.
  struct link {
    node_base* of;  ///< null for the anchor
    section seen;
    unsigned index;
  };
  struct place {
    link up;          ///< where the pointer to the node is
    node_base* node;  ///< null while the map is empty
    section here;     ///< of the node, or of the anchor while the map is empty

    [[nodiscard]] leaf& as_leaf() const noexcept { return *static_cast<leaf*>(node); }
  };

  /// Chooses the child that has a key, or would have it.
  struct by_key {
    const sought_string& k;
    template <class Inner>
    [[nodiscard, gnu::always_inline]] unsigned operator()(const Inner& in,
                                                          const section& seen) const noexcept {
      if (const int side = compare_beginning(k.key(), in.prefix()); side != 0)
        return side < 0 ? 0 : in.children.get(seen) - 1U;
      return static_cast<unsigned>(in.index_of(seen, k.slice_at(in.depth), in.key_width()));
    }
  };

  /// Goes from the root down to a leaf, or to an inner node where stop(node, link to it, section) says so.
  /// child_of(node, section) chooses the child. Nothing if a writer came between.
  /// Inlined: a place then stays in registers.
  template <class ChildOf, class Stop>
  [[nodiscard, gnu::always_inline]] inline std::optional<place> try_seek(ChildOf&& child_of,
                                                                         Stop&& stop) const noexcept {
    link up{nullptr, anchor_.lock.read(), 0};
    node_base* n = plain(anchor_.root.get(up.seen));
    if (!up.seen.validate()) return std::nullopt;
    if (n == nullptr) return place{up, n, up.seen};
    section here = n->lock.read();
    while (up.seen.validate() && !here.obsolete()) {
      if (n->level == 0) return place{up, n, here};
      node_base* below = nullptr;
      unsigned index = 0;
      as_inner(*n, [&](auto& in) __attribute__((always_inline)) {
        if (stop(in, up, here)) return;
        index = child_of(in, here);
        below = plain(in.child[index].get(here));
      });
      if (below == nullptr) return place{up, n, here};
      up = {n, here, index};  // validated when the section of the child has begun
      n = below;
      here = n->lock.read();
    }
    return std::nullopt;
  }
  template <class ChildOf>
  [[nodiscard, gnu::always_inline]] inline std::optional<place> try_seek(ChildOf&& child_of) const noexcept {
    return try_seek(child_of, [](const auto&, const link&, const section&) { return false; });
  }

  // Scans.

  /// The end of a node in the direction of a scan: a separator of an inner node. None at the end of the map.
  struct end_of_node {
    node_base* in = nullptr;
    slice::type separator{};
    std::optional<section> seen{};  ///< of the inner node

    [[nodiscard]] bool stands() const noexcept { return !seen || seen->validate(); }

    /// The smallest key that is not before the separator.
    [[nodiscard]] std::string key() const {
      std::string all(as_inner(*in, [](const auto& n) { return n.prefix(); }));
      slice::append_to(all, separator);
      if (slice::length(separator) == slice::goes_on) all.push_back('\0');
      return all;
    }
  };

  /// Where a scan stands.
  template <class Bound>
  struct position {
    place at;
    end_of_node end;            ///< of the leaf
    end_of_node end_of_parent;  ///< of the node above

    /// Whether the leaf has the range that it was found with; what was read of it before then lies there. The version of the
    /// leaf does not tell: an empty neighbour leaves it its range, and it gets keys of that range, without another version.
    [[nodiscard]] bool has_its_range() const noexcept { return at.up.seen.validate() && end.stands(); }
    /// Goes to the next leaf below the same node. False if there is none. If a writer has come between, the leaf does not have
    /// its range.
    [[nodiscard]] bool step() noexcept {
      if (at.up.of == nullptr) return false;
      const bool is_there = as_inner(*at.up.of, [&](auto& in) {
        const unsigned n = in.children.get(at.up.seen);
        if (Bound::reverse ? at.up.index == 0 : at.up.index + 1 >= n) return false;
        at.up.index += Bound::reverse ? -1U : 1U;
        node_base* const next = in.child[at.up.index].get(at.up.seen);
        end = end_below(in, at.up.seen, n, at.up.index, end_of_parent);
        at.node = plain(next);
        return kind_of(next) == 0;
      });
      if (!is_there) return false;
      at.here = at.node->lock.read();  // if it has become obsolete since, it has what it had then (L2)
      return true;
    }
    template <class Inner>
    [[nodiscard]] static end_of_node end_below(Inner& in, const section& seen, unsigned n, unsigned index,
                                               const end_of_node& end_of_it) noexcept {
      if (Bound::reverse ? index == 0 : index + 1 >= n) return end_of_it;
      return {&in, in.key.get(seen, Bound::reverse ? index - 1 : index), seen};
    }
    /// Requests the leaf that step() goes to.
    void request_next() const noexcept {
      if (at.up.of == nullptr) return;
      as_inner(*at.up.of, [&](const auto& in) {
        if (Bound::reverse ? at.up.index == 0 : at.up.index + 1U >= in.children.get(at.up.seen)) return;
        leaf::request_all(plain(in.child[at.up.index + (Bound::reverse ? -1U : 1U)].get(at.up.seen)));
      });
    }
  };

  /// The leaf where a scan begins.
  template <class Bound>
  [[nodiscard]] std::optional<position<Bound>> try_seek_bound(const Bound& bound) const {
    std::optional<sliced_string> k;
    if (bound.key()) request_way(k.emplace(*bound.key()));
    end_of_node end;
    end_of_node end_of_parent;
    const auto at = try_seek([&](auto& in, const section& seen) {
      const unsigned n = in.children.get(seen);
      const unsigned index = std::min(index_of(in, seen, n, bound, k), n - 1);
      end_of_parent = end;
      end = position<Bound>::end_below(in, seen, n, index, end_of_parent);
      return index;
    });
    if (!at) return std::nullopt;
    return position<Bound>{*at, end, end_of_parent};
  }
  template <class Inner, class Bound>
  [[nodiscard]] static unsigned index_of(const Inner& in, const section& seen, unsigned n, const Bound& bound,
                                         const std::optional<sliced_string>& k) noexcept {
    if (!k) return Bound::reverse ? n - 1 : 0;
    if (const int side = compare_beginning(k->key(), in.prefix()); side != 0) return side < 0 ? 0 : n - 1;
    const slice::type part = k->slice_at(in.depth);
    const auto index = static_cast<unsigned>(in.key.not_above(seen, part, in.key_width()));
    if (Bound::reverse && bound.excludes_key() && index > 0 && in.key.get(seen, index - 1) == part) {
      // The keys that are smaller lie left of a separator that is this key itself.
      const bool is_separator = slice::length(part) != slice::goes_on ||
                                (k->key().size() == in.depth + 8U && k->key().back() == '\0');
      if (is_separator) return index - 1;
    }
    return index;
  }

  /// Calls visit(record, word) for the records that the bound admits, in order, until it returns false.
  template <class Bound, class Compare, class Visit>
  void scan_records(const Bound& bound, const Compare& less, const Visit& visit) const {
    Bound from = bound;
    std::string reached;  // what `from` refers to, after the first leaf
    std::optional<position<Bound>> at;
    end_of_node before;                   // of the leaf before, if the scan has stepped to this one
    const string_record* last = nullptr;  // the last one visited in this leaf
    const auto begin_behind = [&](std::string&& end, bool excluded) {
      reached = std::move(end);
      from = excluded ? Bound::behind(less, reached) : Bound::at(less, reached);
      before = {};
      at.reset();
    };
    for (backoff pause;;) {
      if (!at) {
        at = try_seek_bound(from);
        if (!at) {
          pause.wait();
          continue;
        }
        if (at->at.node == nullptr) return;
      }
      last = nullptr;
      const auto enter = [&](const string_record& r, std::uint64_t w) {
        last = &r;
        return visit(r, w);
      };
      const progress_of_scan done = visit_leaf(*at, from, before.in == nullptr, enter);
      if (done == progress_of_scan::over) return;
      if (done == progress_of_scan::interrupted) {
        if (last != nullptr)
          begin_behind(std::string(last->key()), true);
        else if (before.in != nullptr)
          begin_behind(before.key(), Bound::reverse);
        else
          at.reset();
        pause.wait();
        continue;
      }
      if (at->end.in == nullptr) return;
      const end_of_node end = at->end;
      if (at->step())
        before = end;
      else
        begin_behind(end.key(), Bound::reverse);
    }
  }
  /// Visits the records of a leaf, those that the bound admits if it is to be asked. Interrupted where a writer came between.
  template <class Bound, class Enter>
  [[nodiscard]] static progress_of_scan visit_leaf(position<Bound>& p, const Bound& from, bool asks,
                                                   const Enter& enter) {
    leaf& here = p.at.as_leaf();
    const section& seen = p.at.here;
    const auto visit_all = [&](unsigned n, rank_range likely, const auto& record_at, const auto& is_valid) {
      unsigned i = 0;
      if (asks && from.key())
        i = count_before_place(n, likely, record_at,
                               [&](const string_record& r) { return !from.admits(r.key()); });
      if (!is_valid()) return progress_of_scan::interrupted;
      const unsigned leaf_requested_at = std::max(i, n - std::min(n, leaf_requested_ahead));
      unsigned ahead = records_ahead_at_first;
      for (unsigned requested = i; i < n; ++i) {
        if (i == leaf_requested_at) p.request_next();
        for (; requested < std::min(i + ahead, n); ++requested) request_beginning(record_at(requested));
        ahead = std::min(ahead + 1, records_ahead);
        const string_record* const r = record_at(i);
        if (!is_valid()) return progress_of_scan::interrupted;
        if (r == nullptr) continue;
        if (const auto found = r->read(); found && !enter(*r, *found)) return progress_of_scan::over;
      }
      return progress_of_scan::through;
    };
    const auto rank = [](unsigned i, unsigned n) { return Bound::reverse ? n - 1 - i : i; };
    if (here.is_ordered(seen)) {
      if (!p.has_its_range()) return progress_of_scan::interrupted;
      const unsigned n = here.ranks(seen);
      rank_range likely{0, n};
      if (asks && from.key()) {
        likely = here.likely_ranks(seen, n, sliced_string(*from.key()));
        if (Bound::reverse) likely = {n - likely.last, n - likely.first};
      }
      return visit_all(
          n, likely, [&, n](unsigned i) { return here.at_rank(seen, rank(i, n)); },
          [&] { return seen.validate(); });
    }
    content all;
    if (!try_copy(p.at, all) || !p.has_its_range()) return progress_of_scan::interrupted;
    return visit_all(
        all.count, {0, all.count}, [&](unsigned i) { return &all.record(rank(i, all.count)); },
        [] { return true; });
  }
  // So many records before they are visited. Most scans end soon: a scan requests few at first.
  static constexpr unsigned records_ahead_at_first = 8;
  static constexpr unsigned records_ahead = 24;
  static constexpr unsigned leaf_requested_ahead = 32;

  /// Copies the records of a leaf, in order, and lets it keep that. False if a writer came between.
  [[nodiscard]] static bool try_copy(const place& at, content& all) {
    leaf& here = at.as_leaf();
    all.count = 0;
    here.copy_to(at.here, all);
    if (!at.here.validate()) return false;
    if (write_guard held = at.here.upgrade()) {
      if (same_records(here, all))
        here.keep_order(held, all);
      else
        held.release_unchanged();
    }
    return true;
  }

  /// Whether a leaf has the records that were copied, from `first` to `last`.
  [[nodiscard]] static bool same_records(const leaf& n, const content& all, unsigned first,
                                         unsigned last) noexcept {
    if (n.count() != last - first) return false;
    for (unsigned i = first; i < last; ++i) {
      if (!n.has({&all.record(i), all.index[i]})) return false;
    }
    return true;
  }
  [[nodiscard]] static bool same_records(const leaf& n, const content& all) noexcept {
    return same_records(n, all, 0, all.count);
  }

  [[nodiscard]] node_base* root_at_rest() const noexcept {
    return plain(anchor_.root.get(exclusive_access{}));
  }
  /// Children before their parent.
  template <class Visit>
  static void visit_below(node_base* n, const Visit& visit) {
    if (n == nullptr) return;
    as_itself(*n, [&]<class Node>(Node& node) {
      if constexpr (!std::is_same_v<Node, leaf>) {
        for (unsigned i = 0; i < node.children.get(exclusive_access{}); ++i)
          visit_below(plain(node.child[i].get(exclusive_access{})), visit);
      }
      visit(node);
    });
  }

  struct anchor {
    optimistic_lock lock;
    optimistic_field<node_base*> root;
  };
  // Readers share its lock with updates, and const maps are read.
  mutable anchor anchor_;
};

}  // namespace espalier::btree
