#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/btree/masstree_keys.hpp"
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
//   a container             of the keys that have this slice and go on, while they are few: for each the bytes that
//                           follow, its tail, and its value
//   the root of a layer     of such keys, once they are more
//
// A slice is compared with the length of the key in it, so "a" and "a\0" are different entries of one layer, and all
// keys that go on are one entry. The word of such an entry says by its lowest bit whether it is a container or a layer.
// So one store makes the one into the other.
//
// Deviations from the paper and its public code:
//  1. Keys with one slice may lie in several border nodes, since separators have lengths as well.
//  2. Containers are those of burst tries (Heinz, Zobel and Williams, "Burst tries: a fast, efficient data structure for
//     string keys", ACM TOIS 2002), and a full one bursts. The paper's border node has one tail for a slice, in a block
//     with the other tails of the node, and a second key makes a layer. A key comes and goes with one word of its
//     container, as with the permutation of a border node.
//  3. Layers that become empty are unlinked at once, from below to above, by the erase that empties them. Layers that
//     become small stay.
//  4. Where the keys of a burst share further slices, the layers for these are made with it.
//
// Invariants: (M1) to (M4) of masstree_layer.hpp, and
//   (S1) A layer has an entry, and so has each of its border nodes, but for one that was just split off at the end.
//   (S2) What a used slot of a container has as its tail never changes. Only the holder of the lock of the border node
//        whose word leads to the container changes it, and replaces it.
//
// Reclamation. What replaces a container, or unlinks the entry of its last key, retires it after the lock is released.
// Only the word led to it, and (S2) only one thread replaces it.
//
// A scan keeps a copy of the node where it stands in each layer. Where one of them is no longer valid, it begins again
// behind the last key that it has visited.
//
// Linearization points: those of masstree.hpp, but of a key that has a tail
//   reads                            the load of the value if what is present, which is loaded behind it, has the key, or
//                                    else that load
//   insert -> true, erase -> true    the store of what is present, of the word that leads to the container, or of the
//                                    permutation
// What a reader finds in a container that has been replaced was so when that happened, which was after the load of the
// word.
//
// Orderings: those of masstree_node.hpp. A container and a layer are published by the store of a word or of a
// permutation.

namespace espalier::btree {

template <class Map, class Value, class Traits, class Compare, class Fanout>
class masstree_of_strings : public entry_operations<Map, std::string, Value, Traits, Compare, key_slice, 3> {
  static_assert(std::is_same_v<Compare, std::less<>>,
                "keys are ordered by their bytes, as std::less<> has them");
  using base = entry_operations<Map, std::string, Value, Traits, Compare, key_slice, 3>;
  friend base;
  using base::store_;
  using base::value_in;
  using base::word_of;
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
  using container = key_container<std::uint64_t>;
  /// Keys in a container, at most. With one more they become a layer, whose root has room for all of them.
  static constexpr unsigned most_keys = (Fanout::leaf + 1) / 2;
  static_assert(most_keys <= present_keys::most_slots);
  using shape = typename container::shape;
  using burst_keys = btree::burst_keys<std::uint64_t, most_keys + 1>;
  static constexpr std::size_t width = key_slice::width;
  static constexpr std::size_t longest_key = container::most_tail_bytes / (most_keys + 1);
  static constexpr unsigned retirements = layer::retirements + 1;
  static constexpr memory_role container_role = memory_role::value;

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
    if constexpr (store::template must_visit<border>() || store::template must_visit<container>() ||
                  holder::must_visit())
      layer::destroy_all(store_, top_.root.held(), [this](const key_slice& part, std::uint64_t w) {
        for_each_value(part, w, [this](word value) { holder::discard(store_, value); });
        if (part.goes_on()) store_.destroy(container_role, container_of(w));
      });
  }

 private:
  using word_field = node_field<std::uint64_t>;

  /// Where a search stands: in the layer behind the first `depth` bytes of the key.
  struct search {
    std::size_t depth = 0;
    key_slice part;
    place at;
    border_spot where;
    std::uint64_t word = 0;  ///< of the entry at `where`, if that was found and goes on
    present_keys present;    ///< in the container to which the word leads
    unsigned slot = 0;       ///< of the key there

    /// The container in which the key is, or would be.
    [[nodiscard]] container* among() const noexcept {
      return where.found && part.goes_on() ? container_of(word) : nullptr;
    }
    /// What the key has behind the slice.
    [[nodiscard]] std::string_view tail_of(std::string_view key) const noexcept {
      return key.substr(depth + width);
    }
    void look_among(std::string_view key) noexcept {
      present = container_of(word)->present();
      slot = container_of(word)->slot_of(present, tail_of(key));
    }
    /// Where the key's value is, or null.
    [[nodiscard]] word_field* value() const noexcept {
      if (!where.found) return nullptr;
      container* const c = among();
      if (c == nullptr) return &at.leaf->word[where.slot()];
      return slot != container::no_slot && present.has(slot) ? &c->word(slot) : nullptr;
    }
  };

  [[nodiscard]] static container* container_of(std::uint64_t w) noexcept {
    return reinterpret_cast<container*>(static_cast<std::uintptr_t>(w));
  }
  [[nodiscard]] static std::uint64_t word_of(const container* c) noexcept {
    return reinterpret_cast<std::uintptr_t>(c);
  }
  [[nodiscard]] static std::uint64_t word_of(const border& root_of_layer) noexcept {
    return string_words::word_of<std::uint64_t>(static_cast<const node*>(&root_of_layer));
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
        if (root == nullptr) {
          s.look_among(key);
          return true;
        }
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

  [[nodiscard]] std::optional<word> find_word(std::string_view key) const noexcept {
    for (backoff pause;; pause.wait()) {
      search s;
      if (!seek_first(s, key)) return std::nullopt;
      while (go_on(s, key)) {
        std::optional<word> found;
        if (const word_field* const value = s.value()) {
          found = value_in(value->get());
          // The value of an insert that uses the slot again may not be visible yet.
          if (container* const c = s.among(); c != nullptr && !c->present().has(s.slot)) found.reset();
        }
        if (!s.at.changed()) return found;
        if (!layer::advance(s.at, slices{}, s.part)) break;
      }
    }
  }

  outcome apply(guard_type& guard, std::string_view key, const change& wanted) {
    resources have(store_, guard);
    for (backoff pause;; pause.wait()) {
      search s;
      if (!seek_first(s, key)) {
        if (!wanted.insert_where_absent) return {};
        if (!layer::make_root(top_, have.nodes.list)) have.nodes.provide();
        continue;
      }
      while (go_on(s, key)) {
        const bool there = s.value() != nullptr;
        // Without the lock where there is nothing to do.
        if (there ? wanted.present == change::where_present::keep : !wanted.insert_where_absent) {
          if (!s.at.changed()) return {};
        } else {
          if (!there) prepare_insert(s, key, have);
          outcome done;
          if (change_entry(s, key, wanted, have, done)) return done;
        }
        if (!layer::advance(s.at, slices{}, s.part)) break;
      }
    }
  }

  // A key that goes on comes to a container that has room for it, or with a new one in the place of that, or with a layer.
  // Blocks for these are allocated without the lock. With the lock an insert asks whether they still fit, and fills them.

  /// What an insert allocates, without a lock.
  struct resources {
    resources(store& s, guard_type& g) noexcept : guard(g), nodes(s), of(s) {}
    resources(const resources&) = delete;
    resources& operator=(const resources&) = delete;
    ~resources() {
      for (unsigned i = 0; i < provided; ++i) drop(i);
    }

    void provide(unsigned i, const shape& s) {
      if (has(i, s)) return;
      drop(i);
      provided = std::max(provided, i + 1);
      own[i] = of.template create_sized<container>(container_role, nullptr, s.bytes(), s);
    }
    [[nodiscard]] bool has(unsigned i, const shape& s) const noexcept {
      return own[i] != nullptr && own[i]->is_for(s);
    }
    [[nodiscard]] container& take(unsigned i) noexcept { return *std::exchange(own[i], nullptr); }
    void drop(unsigned i) noexcept {
      if (own[i] != nullptr) of.destroy(container_role, &take(i));
    }

    guard_type& guard;
    typename layer::template spare_nodes<store> nodes;
    store& of;
    std::array<container*, most_keys + 1> own{};
    unsigned provided = 0;  ///< behind the last of them
  };

  /// Allocates what an insert at this place needs. Throws std::bad_alloc.
  void prepare_insert(const search& s, std::string_view key, resources& have) {
    if (!s.where.found && s.where.order.size() == Fanout::leaf) have.nodes.provide();
    if (!s.part.goes_on()) return;
    if (key.size() > longest_key) throw std::bad_alloc();
    const container* const c = s.among();
    if (c == nullptr) return have.provide(0, shape{}.with(s.tail_of(key)));
    if (takes(*c, s, key)) return;
    have.guard.reserve(holder::retirements + retirements);
    if (s.present.count() != most_keys) return have.provide(0, shape_with(*c, s, key));
    const burst_keys all(*c, s.present, s.tail_of(key), 0);
    static_cast<void>(have.nodes.list.suffice(0, all.shared() + 1));
    have.nodes.provide();
    unsigned i = 0;
    all.for_each_slice([&](const key_slice& part, unsigned first, unsigned last) {
      if (part.goes_on()) have.provide(i++, all.shape_of(first, last));
    });
  }
  /// Whether the key has a slot in the container, or there is room for one.
  [[nodiscard]] static bool takes(const container& c, const search& s, std::string_view key) noexcept {
    return s.slot != container::no_slot || c.has_room(s.present, s.tail_of(key));
  }
  /// Of the container that takes the place of one without room.
  [[nodiscard]] static shape shape_with(const container& c, const search& s, std::string_view key) noexcept {
    return c.content(s.present).with(s.tail_of(key)).with_slack(most_keys);
  }

  // With the lock of the node. False if the search must go on or begin again.

  bool change_entry(search& s, std::string_view key, const change& wanted, resources& have,
                    outcome& done) noexcept {
    border& leaf = *s.at.leaf;
    auto held = leaf.version.lock();
    if (held.changed_since(s.at.seen)) return false;
    if (leaf.order.held() != s.where.order) s.where = leaf.seek(slices{}, s.part);
    if (s.where.found && s.part.goes_on()) {
      const std::uint64_t now = leaf.word[s.where.slot()].held();
      if (string_words::layer_behind<node>(s.part, now) != nullptr) return false;
      if (now != std::exchange(s.word, now) || container_of(now)->present() != s.present) s.look_among(key);
    }
    word_field* const value = s.value();
    if (value == nullptr) {
      if (!wanted.insert_where_absent) return true;
      if (!add(s, std::move(held), key, word_of(wanted.word), have)) return false;
      done.what = effect::inserted;
      return true;
    }
    done.before = value_in(value->held());
    if (!wanted.is_of(done.before)) return true;
    if (wanted.present == change::where_present::store) {
      value->set(word_of(wanted.word));
      done.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      remove(s, std::move(held), have);
      done.what = effect::erased;
    }
    return true;
  }

  bool add(search& s, typename layer::guard held, std::string_view key, std::uint64_t w,
           resources& have) noexcept {
    border& leaf = *s.at.leaf;
    container* const former = s.among();
    if (former == nullptr && leaf.is_full()) {
      static_cast<void>(layer::split(leaf, std::move(held), s.where, s.part, have.nodes.list));
      return false;
    }
    if (!s.part.goes_on()) {
      leaf.insert(held, s.where, s.part, w);
      return true;
    }
    const std::string_view tail = s.tail_of(key);
    if (former == nullptr) {
      if (!have.has(0, shape{}.with(tail))) return false;
      container& fresh = have.take(0);
      fresh.append(tail, w);
      leaf.insert(held, s.where, s.part, word_of(&fresh));
      return true;
    }
    if (takes(*former, s, key)) {
      former->insert(s.slot, tail, w);
      return true;
    }
    if (s.present.count() == most_keys) {
      if (!burst(leaf, s.where.slot(), burst_keys(*former, s.present, tail, w), have)) return false;
    } else {
      if (!have.has(0, shape_with(*former, s, key))) return false;
      container& fresh = have.take(0);
      fresh.append(*former);
      fresh.insert(container::no_slot, tail, w);
      leaf.word[s.where.slot()].set(word_of(&fresh));
    }
    held = {};
    retire(have.guard, former);
    return true;
  }

  /// The layer takes the place of a container. Above it is one for each slice that the keys share.
  bool burst(border& above, unsigned slot, const burst_keys& all, resources& have) noexcept {
    unsigned shared = all.shared();
    bool suffices = have.nodes.list.suffice(0, shared + 1);
    unsigned i = 0;
    all.for_each_slice([&](const key_slice& part, unsigned first, unsigned last) {
      if (part.goes_on()) suffices = suffices && have.has(i++, all.shape_of(first, last));
    });
    if (!suffices) return false;

    typename layer::guard none;  // not published yet
    const auto add_to = [&none](border& n, const key_slice& part, std::uint64_t w) {
      n.insert(none, n.seek(slices{}, part), part, w);
    };
    border* below = &have.nodes.list.take_border();
    i = 0;
    all.for_each_slice([&](const key_slice& part, unsigned first, unsigned last) {
      if (!part.goes_on()) return add_to(*below, part, all.word(first));
      container& fresh = have.take(i++);
      all.fill(fresh, first, last);
      add_to(*below, part, word_of(&fresh));
    });
    while (shared-- != 0) {
      border& n = have.nodes.list.take_border();
      add_to(n, all.slice(0, shared), word_of(*below));
      below->parent.set(&n);
      below = &n;
    }
    below->parent.set(&above);
    above.word[slot].set(word_of(*below));
    return true;
  }

  void remove(search& s, typename layer::guard held, resources& have) noexcept {
    border& leaf = *s.at.leaf;
    container* const former = s.among();
    if (former != nullptr && s.present.count() != 1) return former->erase(s.slot);
    typename layer::unlinked gone;
    leaf.erase(s.where);
    if (leaf.order.held().size() == 0) gone = layer::unlink(leaf, std::move(held));
    held = {};
    if (former != nullptr) retire(have.guard, former);
    layer::retire(store_, have.guard, gone);
  }

  void retire(guard_type& guard, container* c) noexcept {
    store_.template retire<container, container_role>(guard, c);
  }

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
    scanner(const masstree_of_strings& map, const Bound& bound) : map_(map), bound_(bound) {
      layers_.reserve(8);
      enter(nullptr, bound_.key().has_value());
    }

    [[nodiscard]] const std::string& key() const noexcept { return key_; }
    [[nodiscard]] typename holder::view value() const noexcept { return holder::read(value_); }

    /// To the next entry. False if there is none.
    bool next() {
      while (!layers_.empty()) {
        if (among_ != nullptr) {
          if (next_in_container()) return true;
          among_ = nullptr;
        }
        standing& in = layers_.back();
        if (in.index == in.here.found.count) {
          step();
          continue;
        }
        const unsigned e = in_direction(in.index++, in.here.found.count);
        part_ = in.here.found.key[e];
        const std::uint64_t w = in.here.found.slot[e];
        if (!in.from().admits(part_)) continue;
        at_bound_ = in.edge == begins_at::key && part_ == in.bound;
        if (node* const root = string_words::layer_behind<node>(part_, w)) {
          enter(root, at_bound_);
        } else if (part_.goes_on()) {
          among_ = container_of(w);
          present_ = among_->present();
          index_ = 0;
        } else if (!at_bound_ || !bound_.excludes_key()) {
          return visit({}, w);
        }
      }
      return false;
    }

   private:
    using position = typename layer::position;
    using slice_bound =
        scan_bound<key_slice, slices, Bound::reverse ? scan_direction::reverse : scan_direction::forward>;

    /// What the entries of a layer must lie behind: nothing, the slice of the scan's bound, whose earlier slices are those
    /// above, or the end of the node before.
    enum class begins_at : std::uint8_t { start, key, fence };

    /// In a layer.
    struct standing {
      position here;
      unsigned index = 0;  ///< of the entry that comes next
      key_slice head;      ///< of the entry above that leads here
      begins_at edge = begins_at::start;
      key_slice bound;

      [[nodiscard]] slice_bound from() const noexcept {
        if (edge == begins_at::start) return slice_bound::whole(less);
        return Bound::reverse && edge == begins_at::fence ? slice_bound::behind(less, bound)
                                                          : slice_bound::at(less, bound);
      }
      static constexpr slices less{};
    };

    [[nodiscard]] static unsigned in_direction(unsigned i, unsigned count) noexcept {
      return Bound::reverse ? count - 1 - i : i;
    }

    bool next_in_container() {
      while (index_ != present_.count()) {
        const unsigned i = present_.slot(in_direction(index_++, present_.count()));
        const std::string_view tail = among_->tail(i);
        if (at_bound_) {
          const std::string_view from = bound_.key()->substr(layers_.size() * width);
          if (bound_.precedes(tail, from) || (bound_.excludes_key() && tail == from)) continue;
        }
        const std::uint64_t w = among_->word(i).get();
        if (among_->present().has(i)) return visit(tail, w);  // as in find_word()
      }
      return false;
    }

    /// The key has these bytes behind the slice. Its first slices are still there from the key before.
    bool visit(std::string_view tail, std::uint64_t w) {
      known_ = std::min(known_, layers_.size());
      key_.resize((known_ - 1) * width);
      for (; known_ != layers_.size(); ++known_) layers_[known_].head.append_to(key_);
      part_.append_to(key_);
      key_.append(tail);
      value_ = value_in(w);
      return visited_ = true;
    }

    /// Begins again behind the key that was visited last.
    void restart() {
      if (std::exchange(visited_, false)) {
        last_ = key_;
        bound_.move_behind(last_);
      }
      layers_.clear();
      known_ = 1;
      enter(nullptr, bound_.key().has_value());
    }

    /// The layer behind the slice of the entry. Without a root, the first one.
    void enter(node* root, bool has_bound) {
      layers_.emplace_back();
      standing& in = layers_.back();
      in.head = part_;
      if (has_bound) {
        in.edge = begins_at::key;
        in.bound = key_slice::of(*bound_.key(), (layers_.size() - 1) * width);
      }
      const slice_bound from = in.from();
      const auto to = layer::to_bound(in.less, from);
      position& p = in.here;
      if (root == nullptr) {
        for (backoff pause;; pause.wait()) {
          p.at = layer::seek(map_.top_, to);
          if (!p.at) return layers_.clear();
          if (layer::template copy<Bound>(p)) return;
        }
      }
      const auto seen = root->version.stable();
      // A root that was split is the left half of its layer, and an unlinked one has no parent.
      const node* const holder_of_root = root->parent.get();
      if (!seen.deleted() && holder_of_root != nullptr &&
          holder_of_root->version.kind() != node_kind::interior) {
        p.at = layer::seek_from(root, seen, to);
        if (p.at && layer::template copy<Bound>(p)) return;
      }
      restart();
    }

    /// Behind the last entry of a node.
    void step() {
      standing& in = layers_.back();
      if (!in.here.fence) {
        layers_.pop_back();
        known_ = std::min(known_, layers_.size());
        return;
      }
      // The neighbour may have got the range of this node since, and keys there.
      in.edge = begins_at::fence;
      in.bound = *in.here.fence;
      in.index = 0;
      if (!layer::template step<Bound>(in.here) || !layer::template copy<Bound>(in.here)) restart();
    }

    const masstree_of_strings& map_;
    Bound bound_;
    std::vector<standing> layers_;
    key_slice part_;                    ///< of the entry that was reached
    bool at_bound_ = false;             ///< whether the bound has this slice too
    const container* among_ = nullptr;  ///< the container that the entry leads to
    present_keys present_;              ///< there, when it was reached
    unsigned index_ = 0;                ///< of the key there that comes next
    std::string key_;                   ///< of the last visit
    std::size_t known_ = 1;             ///< of so many layers it has the slices that lead there
    word value_{};
    bool visited_ = false;  ///< whether it is behind the bound
    std::string last_;      ///< to which the bound refers
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
            visitor(static_cast<const void*>(container_of(w)), container_of(w)->node_block_bytes(),
                    container_role);
          if constexpr (!holder::in_place)
            for_each_value(part, w, [&](word value) {
              visitor(static_cast<const void*>(value), sizeof(Value), memory_role::value);
            });
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
          if (wrong == nullptr && below == nullptr && part.goes_on())
            wrong = check_container(*container_of(w));
        });
      }
    });
    return wrong;
  }

  [[nodiscard]] static const char* check_container(const container& c) {
    const present_keys keys = c.present();
    if (keys.count() == 0 || keys.used() > most_keys) return "a container has no keys, or too many";
    for (unsigned rank = 1; rank < keys.count(); ++rank) {
      if (c.tail(keys.slot(rank)) <= c.tail(keys.slot(rank - 1))) return "a tail follows one not smaller";
    }
    return nullptr;
  }

  /// The values of an entry that leads to no layer.
  template <class Visit>
  static void for_each_value(const key_slice& part, std::uint64_t w, const Visit& visit) {
    if (!part.goes_on()) return visit(value_in(w));
    const container& c = *container_of(w);
    const present_keys keys = c.present();
    for (unsigned rank = 0; rank < keys.count(); ++rank) visit(value_in(c.word(keys.slot(rank)).held()));
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
