#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/btree/masstree_layer.hpp"
#include "espalier/map/btree/masstree_node.hpp"
#include "espalier/map/btree/masstree_words.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/backoff.hpp"

// masstree for strings: a trie of B+trees (masstree.hpp). Each tree, a layer, compares 8 bytes of the keys, a slice. An
// entry of a layer is
//
//   a value                 of a key that ends within the slice, after 0 to 8 bytes of it
//   a tail                  the value of a key that goes on, and the bytes that follow: the only key with this slice
//   the root of a layer     of the keys that have this slice and go on, once there are two
//
// A slice is compared with the length of the key in it, so "a" and "a\0" are different entries of one layer, and all
// keys that go on are one entry. The word of such an entry says by its lowest bit whether it is a tail or a layer. So
// one store makes the one into the other.
//
// Deviations from the paper and its public code:
//  1. Keys with one slice may lie in several border nodes, since separators have lengths as well.
//  2. A tail is a block of its own with the value in it, not a part of the node. It says how long its key is, and is
//     compared from behind. So it serves in any deeper layer, and making a layer copies no bytes of a key.
//  3. Layers that become empty are unlinked at once, from below to above, by the erase that empties them.
//  4. A chain of layers for a long common part of two keys is made layer by layer. Each step leaves the map as it was.
//
// Invariants: (M1) to (M4) of masstree_layer.hpp, and
//   (S1) A layer has an entry, and so has each of its border nodes, but for one that was just split off at the end.
//   (S2) A tail has at least the bytes behind the slice of the layer that it is in.
//
// Reclamation. An erase retires the tail of its key after it has unlinked the entry and released the lock. What makes a
// layer retires the tail of a key that ends within the slice there. A tail that goes to the new layer stays the same.
//
// A scan keeps a copy of the node where it stands in each layer. Where one of them is no longer valid, it begins again
// behind the last key that it has visited.
//
// Linearization points: those of masstree.hpp, but for reads of a key that has a tail: the load of the word that leads
// to it, or of its value if that is newer. A value in a tail that has been replaced was current when the new layer was
// stored.
//
// Orderings: those of masstree_node.hpp. A tail and a layer are published by the store of a word or of a permutation.

namespace espalier::btree {

/// The part of a key that one layer compares: its next 8 bytes, as a number that orders as they do, and how many there
/// are. A key that is longer comes behind all those that end within the slice.
struct key_slice {
  static constexpr std::size_t width = 8;
  static constexpr std::uint8_t longer = 9;

  std::uint64_t bytes = 0;
  std::uint8_t length = 0;

  /// Of the key behind its first `from` bytes, of which there are at least so many.
  [[nodiscard]] static key_slice of(std::string_view key, std::size_t from) noexcept {
    const char* const at = key.data() + from;
    const std::size_t left = key.size() - from;
    if (left >= width) [[likely]]
      return {load(at), static_cast<std::uint8_t>(left == width ? width : longer)};
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < left; ++i)
      bytes |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * (width - 1 - i));
    return {bytes, static_cast<std::uint8_t>(left)};
  }
  [[nodiscard]] bool goes_on() const noexcept { return length == longer; }

  void append_to(std::string& key) const {
    const std::uint64_t in_order = in_memory_order(bytes);
    std::array<char, width> characters;
    std::memcpy(characters.data(), &in_order, width);
    key.append(characters.data(), std::min<std::size_t>(length, width));
  }

  // Without a branch between the two.
  friend bool operator<(const key_slice& a, const key_slice& b) noexcept {
    return static_cast<bool>(
        static_cast<unsigned>(a.bytes < b.bytes) |
        (static_cast<unsigned>(a.bytes == b.bytes) & static_cast<unsigned>(a.length < b.length)));
  }

 private:
  [[nodiscard]] static std::uint64_t load(const char* at) noexcept {
    std::uint64_t x;
    std::memcpy(&x, at, width);
    return in_memory_order(x);
  }
  [[nodiscard]] static std::uint64_t in_memory_order(std::uint64_t x) noexcept {
    return std::endian::native == std::endian::little ? __builtin_bswap64(x) : x;
  }
};

/// Both parts of a slice are loaded at the same version, but for low keys: see masstree_layer.hpp, (M2). A low key that
/// is read while it becomes smaller may be any in between: its node is about to get that range.
template <unsigned Count>
class node_keys<key_slice, Count> {
 public:
  /// Most layers have few keys.
  static constexpr bool by_halves = false;

  [[nodiscard]] key_slice get(unsigned i) const noexcept { return {bytes_[i].get(), length_[i].get()}; }
  [[nodiscard]] key_slice held(unsigned i) const noexcept { return {bytes_[i].held(), length_[i].held()}; }
  void set(unsigned i, const key_slice& k) noexcept {
    bytes_[i].set(k.bytes);
    length_[i].set(k.length);
  }

 private:
  std::array<node_field<std::uint64_t>, Count> bytes_;
  std::array<node_field<std::uint8_t>, Count> length_;
};

/// The value of a key that goes on behind the slice of its layer, and at least the bytes behind that slice. They never
/// change. When the key goes to a deeper layer, a shorter end of them is compared.
template <class Word>
struct key_tail {
  key_tail(std::string_view key, std::size_t from) noexcept
      : key_bytes(static_cast<std::uint32_t>(key.size())),
        bytes(static_cast<std::uint32_t>(key.size() - from)) {
    std::memcpy(reinterpret_cast<char*>(this + 1), key.data() + from, bytes);
  }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return sizeof(*this) + bytes; }

  /// What the key has behind its first `from` bytes.
  [[nodiscard]] std::string_view behind(std::size_t from) const noexcept {
    return {reinterpret_cast<const char*>(this + 1) + (bytes - (key_bytes - from)), key_bytes - from};
  }
  [[nodiscard]] bool is_of(std::string_view key, std::size_t from) const noexcept {
    return key.size() == key_bytes && behind(from) == key.substr(from);
  }

  node_field<Word> value;
  const std::uint32_t key_bytes;
  const std::uint32_t bytes;
};

/// The words of layers of strings: a value where the key ends within the slice, otherwise a tail, or the root of the
/// next layer with the lowest bit set.
struct string_words {
  static constexpr bool any = true;

  template <class Node>
  [[nodiscard]] static Node* layer_behind(const key_slice& k, std::uint64_t w) noexcept {
    return k.goes_on() && (w & 1U) != 0 ? reinterpret_cast<Node*>(static_cast<std::uintptr_t>(w - 1))
                                        : nullptr;
  }
  template <class Word, class Node>
  [[nodiscard]] static Word word_of(Node* root) noexcept {
    return static_cast<Word>(reinterpret_cast<std::uintptr_t>(root)) + 1;
  }
};

template <class Map, class Value, class Traits, class Compare, class Fanout>
class masstree_of_strings : public entry_operations<Map, std::string, Value, Traits, Compare, key_slice, 3> {
  static_assert(std::is_same_v<Compare, std::less<>>,
                "keys are ordered by their bytes, as std::less<> has them");
  using base = entry_operations<Map, std::string, Value, Traits, Compare, key_slice, 3>;
  friend base;
  using base::store_;
  using typename base::change;
  using typename base::effect;
  using typename base::holder;
  using typename base::outcome;
  using typename base::store;
  using typename base::word;
  using slices = std::less<key_slice>;
  using layer = masstree_layer<node_version, key_slice, std::uint64_t, slices, string_words, Fanout,
                               typename Traits::layout_type>;
  using border = typename layer::border;
  using place = typename layer::place;
  using node = typename layer::node;
  using tail = key_tail<word>;
  static constexpr std::size_t width = key_slice::width;
  static constexpr unsigned retirements = layer::retirements + 1;
  static constexpr memory_role tail_role = memory_role::value;

 public:
  using typename base::guard_type;

  static constexpr std::size_t node_bytes = sizeof(border);
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;

  // Quiescent only, for tests and inspection. They call themselves for each layer.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    visit_layer(top_.root.held(), visitor);
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (top_.version.is_locked()) return "the anchor is locked";
    node* const root = top_.root.held();
    return root == nullptr ? nullptr : check_layer(*root, top_);
  }

 protected:
  using typename base::contract;
  friend contract;

  ~masstree_of_strings() {
    if constexpr (store::template must_visit<border>() || store::template must_visit<tail>() ||
                  holder::must_visit())
      layer::destroy_all(store_, top_.root.held(), [this](const key_slice& part, std::uint64_t w) {
        holder::discard(store_, value_in(part, w));
        if (part.goes_on()) store_.destroy(tail_role, tail_of(w));
      });
  }

 private:
  /// Where a search stands: in the layer behind the first `depth` bytes of the key.
  struct search {
    std::size_t depth = 0;
    key_slice part;
    place at;
    border_spot where;
    std::uint64_t word = 0;  ///< of the entry at `where`, if that was found and goes on

    [[nodiscard]] tail* other() const noexcept {
      return where.found && part.goes_on() ? tail_of(word) : nullptr;
    }
  };

  [[nodiscard]] static tail* tail_of(std::uint64_t w) noexcept {
    return reinterpret_cast<tail*>(static_cast<std::uintptr_t>(w));
  }
  [[nodiscard]] static std::uint64_t word_of(const tail* t) noexcept {
    return reinterpret_cast<std::uintptr_t>(t);
  }
  [[nodiscard]] static std::uint64_t word_of(word value) noexcept {
    std::uint64_t w = 0;
    std::memcpy(&w, &value, sizeof(value));
    return w;
  }
  [[nodiscard]] static word value_in(const key_slice& part, std::uint64_t w) noexcept {
    if (part.goes_on()) return tail_of(w)->value.get();
    word value;
    std::memcpy(&value, &w, sizeof(value));
    return value;
  }

  /// The border node of the key in the first layer. False while the map is empty.
  [[nodiscard]] bool seek_first(search& s, std::string_view key) const noexcept {
    s.depth = 0;
    s.part = key_slice::of(key, 0);
    s.at = layer::seek(top_, layer::to(slices{}, s.part));
    return static_cast<bool>(s.at);
  }

  /// On to the place of the key's entry, which is in the last layer on the way that there is. False if the search must
  /// begin again.
  [[nodiscard]] static bool go_on(search& s, std::string_view key) noexcept {
    while (true) {
      s.where = s.at.leaf->seek(slices{}, s.part);
      if (!s.where.found || !s.part.goes_on()) return true;
      s.word = s.at.leaf->word[s.where.slot()].get();
      if (!s.at.changed()) {
        node* const root = string_words::layer_behind<node>(s.part, s.word);
        if (root == nullptr) return true;
        layer::prefetch(root);
        const auto seen = root->version.stable();
        if (!s.at.changed()) {
          s.depth += width;
          s.part = key_slice::of(key, s.depth);
          s.at = layer::seek_from(root, seen, layer::to(slices{}, s.part));
          if (!s.at) return false;
          continue;
        }
      }
      if (!layer::advance(s.at, slices{}, s.part)) return false;
    }
  }

  /// Whether the entry that the search has found is that of the key.
  [[nodiscard]] static bool is_there(const search& s, std::string_view key) noexcept {
    const tail* const other = s.other();
    return s.where.found && (other == nullptr || other->is_of(key, s.depth + width));
  }

  [[nodiscard]] std::optional<word> find_word(std::string_view key) const noexcept {
    for (backoff pause;; pause.wait()) {
      search s;
      if (!seek_first(s, key)) return std::nullopt;
      while (go_on(s, key)) {
        std::optional<word> found;
        if (is_there(s, key))
          found = value_in(s.part, s.part.goes_on() ? s.word : s.at.leaf->word[s.where.slot()].get());
        if (!s.at.changed()) return found;
        if (!layer::advance(s.at, slices{}, s.part)) break;
      }
    }
  }

  /// What an update allocates, without a lock.
  struct resources {
    resources(masstree_of_strings& map, guard_type& g)
        : guard(g), nodes(map.store_), own(map.store_, tail_role) {}

    /// With room for the tail that a new layer makes superfluous.
    void provide_nodes() {
      guard.reserve(holder::retirements + retirements);
      nodes.provide();
    }

    guard_type& guard;
    typename layer::template spare_nodes<store> nodes;
    unpublished<store, tail> own;
  };

  outcome apply(guard_type& guard, std::string_view key, const change& wanted) {
    resources have(*this, guard);
    for (backoff pause;; pause.wait()) {
      search s;
      if (!seek_first(s, key)) {
        if (!wanted.insert_where_absent) return {};
        if (!layer::make_root(top_, have.nodes.list)) have.provide_nodes();
        continue;
      }
      while (go_on(s, key)) {
        const bool there = is_there(s, key);
        // Without the lock where there is nothing to do.
        if (there ? wanted.present == change::where_present::keep : !wanted.insert_where_absent) {
          if (!s.at.changed()) return {};
        } else {
          if (!there) prepare(s, key, have);
          outcome done;
          if (change_entry(s, key, wanted, have, done)) return done;
        }
        if (!layer::advance(s.at, slices{}, s.part)) break;
      }
    }
  }

  /// Allocates what an insert at this place needs. Throws std::bad_alloc.
  void prepare(const search& s, std::string_view key, resources& have) {
    if (s.other() != nullptr || s.where.order.size() == Fanout::leaf) have.provide_nodes();
    if (s.other() != nullptr || !s.part.goes_on()) return;
    const std::size_t from = s.depth + width;
    if (have.own.get() != nullptr && have.own.get()->bytes >= key.size() - from) return;
    if (key.size() > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();
    if (have.own.get() != nullptr) store_.destroy(tail_role, have.own.release());
    have.own.emplace_sized(nullptr, sizeof(tail) + (key.size() - from), key, from);
  }

  /// With the lock of the node. False if the search must go on or begin again.
  bool change_entry(search& s, std::string_view key, const change& wanted, resources& have,
                    outcome& done) noexcept {
    border& leaf = *s.at.leaf;
    auto held = leaf.version.lock();
    if (held.changed_since(s.at.seen)) return false;
    if (leaf.order.held() != s.where.order) s.where = leaf.seek(slices{}, s.part);
    if (s.where.found && s.part.goes_on()) {
      s.word = leaf.word[s.where.slot()].held();
      if (string_words::layer_behind<node>(s.part, s.word) != nullptr) return false;
    }
    if (!is_there(s, key)) {
      if (!wanted.insert_where_absent) return true;
      return add_entry(s, std::move(held), wanted.word, have, done);
    }
    node_field<std::uint64_t>& slot = leaf.word[s.where.slot()];
    done.before = value_in(s.part, s.part.goes_on() ? s.word : slot.held());
    if (wanted.expected && !same_bits(*wanted.expected, done.before)) return true;
    if (wanted.present == change::where_present::store) {
      if (s.part.goes_on())
        tail_of(s.word)->value.set(wanted.word);
      else
        slot.set(word_of(wanted.word));
      done.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      leaf.erase(s.where);
      done.what = effect::erased;
      typename layer::unlinked gone;
      if (leaf.order.held().size() == 0) gone = layer::unlink(leaf, std::move(held));
      held = {};
      if (s.part.goes_on()) retire(have.guard, tail_of(s.word));
      layer::retire(store_, have.guard, gone);
    }
    return true;
  }

  /// Where the key is absent. False if that is only a step on the way.
  bool add_entry(search& s, typename layer::guard held, word value, resources& have, outcome& done) noexcept {
    border& leaf = *s.at.leaf;
    if (tail* const other = s.other()) {
      if (have.nodes.list.suffice(0)) push_down(s, std::move(held), *other, have);
      return false;
    }
    if (leaf.is_full()) {
      static_cast<void>(layer::split(leaf, std::move(held), s.where, s.part, have.nodes.list));
      return false;
    }
    if (s.part.goes_on()) {
      if (have.own.get() == nullptr) return false;
      have.own.get()->value.set(value);
    }
    leaf.insert(held, s.where, s.part, s.part.goes_on() ? word_of(have.own.release()) : word_of(value));
    done.what = effect::inserted;
    return true;
  }

  /// Two keys share a slice: the one that is there goes to a layer of its own, to which the other will follow.
  void push_down(search& s, typename layer::guard held, tail& other, resources& have) noexcept {
    border& root = have.nodes.list.take_border();
    const std::string_view rest = other.behind(s.depth + width);
    const key_slice part = key_slice::of(rest, 0);
    typename layer::guard none;  // not published yet
    root.insert(none, root.seek(slices{}, part), part,
                part.goes_on() ? word_of(&other) : word_of(other.value.held()));
    root.parent.set(s.at.leaf);
    s.at.leaf->word[s.where.slot()].set(string_words::word_of<std::uint64_t>(static_cast<node*>(&root)));
    held = {};
    if (!part.goes_on()) retire(have.guard, &other);
  }

  void retire(guard_type& guard, tail* t) noexcept { store_.template retire<tail, tail_role>(guard, t); }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    scanner<Bound> s(*this, bound);
    while (s.next()) {
      if (!visit(s.key(), s.value())) return;
    }
  }

  /// Goes through the entries of all layers in order.
  template <class Bound>
  class scanner {
   public:
    scanner(const masstree_of_strings& map, const Bound& bound) : map_(map), bound_(bound) { restart(); }

    [[nodiscard]] const std::string& key() const noexcept { return key_; }
    [[nodiscard]] Value value() const noexcept { return holder::read(value_); }

    /// To the next entry. False if there is none.
    bool next() {
      if (visited_) {
        last_ = key_;
        bound_.move_behind(last_);
      }
      while (!layers_.empty()) {
        standing& in = layers_.back();
        if (in.index == in.here.found.count) {
          step();
          continue;
        }
        const unsigned e = Bound::reverse ? in.here.found.count - 1 - in.index : in.index;
        ++in.index;
        if (visits(in.here.found.key[e], in.here.found.slot[e])) return visited_ = true;
      }
      return false;
    }

   private:
    using position = typename layer::position;
    struct standing {
      position here;
      unsigned index = 0;  ///< of the entry that comes next
    };

    /// Whether an entry is one to be visited. Enters the layer that is behind it.
    bool visits(const key_slice& part, std::uint64_t w) {
      key_.resize((layers_.size() - 1) * width);
      part.append_to(key_);
      if (node* const root = string_words::layer_behind<node>(part, w)) {
        if (!is_passed(key_)) enter(root);
        return false;
      }
      if (part.goes_on()) key_.append(tail_of(w)->behind(key_.size()));
      if (!bound_.admits(key_)) return false;
      value_ = value_in(part, w);
      return true;
    }

    /// Whether all keys that begin like this come before the bound.
    [[nodiscard]] bool is_passed(std::string_view head) const {
      return bound_.key() && bound_.precedes(head, bound_.key()->substr(0, head.size()));
    }

    void restart() {
      layers_.clear();
      key_.clear();
      enter(nullptr);
    }

    /// The layer of the keys that begin with key_. Without a root, the first one.
    void enter(node* root) {
      const bool on_way = bound_.key() && bound_.key()->starts_with(key_);
      const key_slice part = on_way ? key_slice::of(*bound_.key(), key_.size()) : key_slice{};
      using slice_bound =
          scan_bound<key_slice, slices, Bound::reverse ? scan_direction::reverse : scan_direction::forward>;
      const slices less;
      const slice_bound from = on_way ? slice_bound::at(less, part) : slice_bound::whole(less);
      const auto to = layer::to_bound(less, from);
      position p;
      if (root == nullptr) {
        for (backoff pause;; pause.wait()) {
          p.at = layer::seek(map_.top_, to);
          if (!p.at) return;
          if (layer::template copy<Bound>(p)) return layers_.push_back({p});
        }
      }
      const auto seen = root->version.stable();
      // A root that was split is the left half of its layer, and an unlinked one has no parent.
      const node* const holder_of_root = root->parent.get();
      if (!seen.deleted() && holder_of_root != nullptr &&
          holder_of_root->version.kind() != node_kind::interior) {
        p.at = layer::seek_from(root, seen, to);
        if (p.at && layer::template copy<Bound>(p)) return layers_.push_back({p});
      }
      restart();
    }

    /// Behind the last entry of a node.
    void step() {
      position& p = layers_.back().here;
      if (!p.fence) return layers_.pop_back();
      if (!layer::template step<Bound>(p) || !layer::template copy<Bound>(p)) return restart();
      layers_.back().index = 0;
    }

    const masstree_of_strings& map_;
    Bound bound_;
    std::string key_;
    std::string last_;
    bool visited_ = false;
    word value_{};
    std::vector<standing> layers_;
  };

  template <class Visitor>
  static void visit_layer(node* root, Visitor& visitor) {
    layer::visit_below(root, [&]<class Node>(const Node& n) {
      constexpr bool is_border = std::is_same_v<Node, border>;
      visitor(static_cast<const void*>(&n), sizeof(n), is_border ? memory_role::leaf : memory_role::node);
      if constexpr (is_border) {
        for_each_entry(n, [&](const key_slice& part, std::uint64_t w) {
          if (node* const below = string_words::layer_behind<node>(part, w))
            return visit_layer(below, visitor);
          if (part.goes_on())
            visitor(static_cast<const void*>(tail_of(w)), tail_of(w)->node_block_bytes(), tail_role);
          if constexpr (!holder::in_place)
            visitor(static_cast<const void*>(value_in(part, w)), sizeof(Value), memory_role::value);
        });
      }
    });
  }

  [[nodiscard]] static const char* check_layer(node& root, node& holder_of_root) {
    const char* wrong = layer::check(root, holder_of_root, slices{});
    layer::visit_below(&root, [&]<class Node>(Node& n) {
      if constexpr (std::is_same_v<Node, border>) {
        for_each_entry(n, [&](const key_slice& part, std::uint64_t w) {
          node* const below = string_words::layer_behind<node>(part, w);
          if (wrong == nullptr && below != nullptr) wrong = check_layer(*below, n);
        });
      }
    });
    return wrong;
  }

  template <class Visit>
  static void for_each_entry(const border& n, const Visit& visit) {
    const permutation order = n.order.held();
    for (unsigned rank = 0; rank < order.size(); ++rank)
      visit(n.key.held(order.slot(rank)), n.word[order.slot(rank)].held());
  }

  // Readers take its version, which updates lock, and const maps are read.
  mutable typename layer::anchor top_;
};

}  // namespace espalier::btree
