#pragma once

#include <atomic>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier {

/// A node at the beginning of a larger block, with an array behind it. The node knows the bytes of the whole block,
/// which never change. Its type may say how a block of so many bytes is aligned, align_of_block(bytes).
template <class Node>
concept sized_node = requires(const Node& n) {
  { n.node_block_bytes() } noexcept -> std::same_as<std::size_t>;
};

/// Creates, retires and destroys the nodes of one map: the only caller of its placement and of its reclaimer. Nodes may
/// be of several types, and of sizes that are known only at run time.
///
/// Orderings
///   (3) settle (acq_rel) -> look (acquire): a thread that finds a home sees it made.
///
/// The store owns its placement. It also owns a reclaimer, unless it was given one to share with other maps; a shared
/// one must outlive the map.
///
/// Retired entries, and blocks in some placements, name what they belong to by its address. So the placement and the
/// reclaimer lie in an object of their own (its home), and what is moved is the pointer to it. A pin still costs one load.
/// A store that was moved away has no home, and pins a domain that all such stores share. It makes itself a home where it
/// is given nodes again.
template <class Traits>
class node_store {
 public:
  using placement_type = typename Traits::placement_type;
  using reclaimer_type = typename Traits::reclaimer_type;
  using guard_type = typename reclaimer_type::guard;

  /// If the reclaimer is null, the store creates its own. The further arguments construct the placement.
  template <class... PlacementArguments>
  explicit node_store(reclaimer_type* shared, PlacementArguments&&... arguments)
      : node_store(std::make_unique<home>(shared, std::forward<PlacementArguments>(arguments)...), shared) {}
  /// Of a map that was moved away: it has no nodes.
  node_store() noexcept : reclaimer_(&of_moved_maps()) {}

  node_store(const node_store&) = delete;
  node_store& operator=(const node_store&) = delete;

  /// Reclaims the retired nodes. The map destroys the nodes still in use, where must_visit() says so.
  ~node_store() {
    // relaxed: no other thread uses a store that is being destroyed.
    home* const mine = home_.load(std::memory_order_relaxed);
    if (mine == nullptr || is_owner_) return;
    reclaimer_->purge(&mine->owner);
    delete mine;
  }

  /// Both maps are at rest.
  void swap(node_store& other) noexcept {
    // relaxed: no other thread uses either of the two.
    home_.store(other.home_.exchange(home_.load(std::memory_order_relaxed), std::memory_order_relaxed),
                std::memory_order_relaxed);
    std::swap(reclaimer_, other.reclaimer_);
  }

  [[nodiscard, gnu::always_inline]] guard_type pin() const { return reclaimer_->pin(); }

  /// A new node, beside `near` if the placement can. Throws std::bad_alloc, and what the node's constructor throws.
  template <class Node, class... Arguments>
  [[nodiscard]] Node* create(memory_role role, const void* near, Arguments&&... arguments) {
    static_assert(!sized_node<Node>, "create_sized says how large the block of this node is");
    return create_within<Node>({sizeof(Node), alignof(Node), role}, near,
                               std::forward<Arguments>(arguments)...);
  }

  /// The same of a node whose block has `bytes` bytes, as its node_block_bytes() says from then on.
  template <sized_node Node, class... Arguments>
  [[nodiscard]] Node* create_sized(memory_role role, const void* near, std::size_t bytes,
                                   Arguments&&... arguments) {
    Node* const fresh = create_within<Node>({bytes, align_of<Node>(bytes), role}, near,
                                            std::forward<Arguments>(arguments)...);
    assert(bytes >= sizeof(Node) && fresh->node_block_bytes() == bytes);
    return fresh;
  }

  /// For a node that no other thread can reach: never published, or the map is quiescent, or the caller
  /// argues otherwise.
  template <class Node>
  void destroy(memory_role role, Node* node) noexcept {
    const std::size_t bytes = block_bytes(*node);
    const block whole{bytes, align_of<Node>(bytes), role};
    node->~Node();
    at_home().placement.deallocate(node, whole);
  }

  /// For a node that was detached under this guard, after a reserve() on it.
  template <class Node, memory_role Role>
  void retire(guard_type& guard, Node* node) noexcept {
    retire_by(
        guard, node, nullptr,
        [](const retired& entry) noexcept {
          static_cast<node_store*>(entry.owner)->destroy(Role, static_cast<Node*>(entry.object));
        },
        block_bytes(*node));
  }

  /// The same with a function that determines what to destroy; entry.owner is a store of the same blocks, which stays
  /// where it is. `bytes`: of these blocks, where they may be large.
  void retire_by(guard_type& guard, void* object, void* aux, void (*reclaim)(const retired&) noexcept,
                 [[maybe_unused]] std::size_t bytes = 0) noexcept {
    const retired entry{object, aux, &at_home().owner, reclaim};
    if constexpr (requires { guard.retire(entry, bytes); })
      guard.retire(entry, bytes);
    else
      guard.retire(entry);
  }

  /// The bytes of a node's block, for a map's visit_nodes().
  template <class Node>
  [[nodiscard]] static constexpr std::size_t block_bytes([[maybe_unused]] const Node& node) noexcept {
    if constexpr (sized_node<Node>)
      return node.node_block_bytes();
    else
      return sizeof(Node);
  }

  /// Whether a map's destructor must destroy its nodes of this type one by one.
  template <class Node>
  [[nodiscard]] static constexpr bool must_visit() noexcept {
    return !std::is_trivially_destructible_v<Node> || !placement_type::releases_on_destruction;
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    const home* const mine = home_.load(std::memory_order_acquire);  // order (3): look, acquire
    if (mine == nullptr) return {};
    memory_usage sum = mine->placement.usage();
    sum.bytes_reserved += hw::heap_bytes<home>();
    if constexpr (requires { mine->own->bytes(); }) {
      if (mine->own != nullptr) sum.bytes_reserved += mine->own->bytes();
    }
    return sum;
  }
  /// Not of a map that was moved away.
  [[nodiscard]] const placement_type& placement() const noexcept { return at_home().placement; }
  [[nodiscard]] reclaimer_type& domain() const noexcept { return *reclaimer_; }

 private:
  struct home;
  node_store(std::unique_ptr<home> mine, reclaimer_type* shared) noexcept
      : home_(mine.get()), reclaimer_(mine->own ? mine->own.get() : shared) {
    static_cast<void>(mine.release());
  }
  /// The home's own, which does not hold it and pins nothing.
  explicit node_store(home& mine) noexcept : home_(&mine), reclaimer_(nullptr), is_owner_(true) {}

  /// Of a store with nodes.
  [[nodiscard]] home& at_home() const noexcept {
    // relaxed: what led the thread to a node led it to the home.
    return *home_.load(std::memory_order_relaxed);
  }
  /// Of one that may have been moved away. Throws std::bad_alloc.
  [[nodiscard]] home& home_for_nodes() {
    home* const mine = home_.load(std::memory_order_acquire);  // order (3): look, acquire
    return mine != nullptr ? *mine : new_home();
  }
  [[gnu::noinline]] home& new_home() {
    if constexpr (std::is_default_constructible_v<placement_type>) {
      auto fresh = std::make_unique<home>(reclaimer_);
      home* present = nullptr;
      // order (3): settle, acq_rel
      if (home_.compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
        return *fresh.release();
      return *present;
    } else {
      throw std::logic_error(
          "a map that was moved away has lost its placement: assign another map to it first");
    }
  }
  /// Never destroyed: maps with static storage may be destroyed later.
  [[nodiscard]] static reclaimer_type& of_moved_maps() noexcept {
    union domain {
      domain() noexcept : one() {}
      ~domain() {}
      reclaimer_type one;
    };
    static domain shared;
    return shared.one;
  }

  template <class Node>
  [[nodiscard]] static constexpr std::size_t align_of(std::size_t bytes) noexcept {
    if constexpr (requires { Node::align_of_block(bytes); })
      return Node::align_of_block(bytes);
    else
      return alignof(Node);
  }

  template <class Node, class... Arguments>
  [[nodiscard]] Node* create_within(const block& b, const void* near, Arguments&&... arguments) {
    placement_type& placement = home_for_nodes().placement;
    void* const room = placement.allocate(b, near);
    if constexpr (std::is_nothrow_constructible_v<Node, Arguments...>) {
      return ::new (room) Node(std::forward<Arguments>(arguments)...);
    } else {
      try {
        return ::new (room) Node(std::forward<Arguments>(arguments)...);
      } catch (...) {
        placement.deallocate(room, b);
        throw;
      }
    }
  }

  std::atomic<home*> home_{nullptr};
  reclaimer_type* reclaimer_;
  bool is_owner_ = false;  ///< the home's own store, which does not hold it
};

template <class Traits>
struct node_store<Traits>::home {
  template <class... PlacementArguments>
  explicit home(reclaimer_type* shared, PlacementArguments&&... arguments)
      : placement(std::forward<PlacementArguments>(arguments)...),
        own(shared == nullptr ? std::make_unique<reclaimer_type>() : nullptr) {}

  placement_type placement;
  std::unique_ptr<reclaimer_type> own;
  node_store owner{*this};  ///< what retired entries name
};

/// Destroys a node that was never published when the scope is left, unless release() was called.
template <class Store, class Node>
class unpublished {
 public:
  unpublished(Store& store, memory_role role) noexcept : store_(store), role_(role) {}
  unpublished(const unpublished&) = delete;
  unpublished& operator=(const unpublished&) = delete;
  ~unpublished() {
    if (node_ != nullptr) store_.destroy(role_, node_);
  }

  template <class... Arguments>
  Node& emplace(const void* near, Arguments&&... arguments) {
    node_ = store_.template create<Node>(role_, near, std::forward<Arguments>(arguments)...);
    return *node_;
  }

  template <class... Arguments>
  Node& emplace_sized(const void* near, std::size_t bytes, Arguments&&... arguments) {
    node_ = store_.template create_sized<Node>(role_, near, bytes, std::forward<Arguments>(arguments)...);
    return *node_;
  }

  [[nodiscard]] Node* get() const noexcept { return node_; }
  Node* release() noexcept { return std::exchange(node_, nullptr); }

 private:
  Store& store_;
  memory_role role_;
  Node* node_ = nullptr;
};

/// A value that fits an atomic machine word.
template <class Value>
concept word_value = std::is_trivially_copyable_v<Value> && std::is_copy_assignable_v<Value> &&
                     std::is_default_constructible_v<Value> && sizeof(Value) <= sizeof(void*) &&
                     std::atomic<Value>::is_always_lock_free;

/// One that is compared bit by bit. Of padding, which a copy need not keep, a comparison could fail for ever.
template <class Value>
concept comparable_word =
    word_value<Value> && (std::has_unique_object_representations_v<Value> || std::is_floating_point_v<Value>);

/// How a node of a concurrent tree holds its value: as the word itself, or, if the value is no word, as a pointer to a
/// cell that never changes. An assignment then replaces the cell. In both cases a reader copies one consistent value
/// and a writer stores one word. A tree that moves entries between nodes by compare-exchange always asks for cells
/// (Cells): values repeat, addresses of cells under a guard do not.
///
/// Assigning in place is linearizable beside an erase that does not look at the value. Let t be the moment at which the
/// erase makes the node unreachable. Assignments and reads of this node before t take effect when they happen. Those
/// after t belong to operations that reached the node before t, so t lies inside each of their intervals. All of them
/// take effect immediately before the erase, in the order in which they access the value's word. No two of them are
/// ordered in real time (each spans t), and no operation that begins after t can reach the node. An erase that returned
/// the value would have to freeze it first.
///
/// Orderings
///   (1) assign (release) -> read_value (acquire) in map/bst/external_map.hpp, read_value (acquire) in
///       map/bst/log_int.hpp: what the writer did before it stored the value, its cell included, is visible to a thread
///       that finds the value.
///   (2) assign (acq_rel) -> assign (acq_rel): a cell is seen constructed by the thread that retires it.
template <class Store, class Value, bool Cells = !word_value<Value>>
struct value_holder {
  static_assert(Cells || word_value<Value>, "a value that is no word lies in a cell of its own");
  static constexpr bool in_place = !Cells;
  using word = std::conditional_t<in_place, Value, const Value*>;
  /// A cell is not copied to be read. The reader's guard keeps it.
  using view = std::conditional_t<in_place, Value, const Value&>;

  [[nodiscard]] static view read(word w) noexcept {
    if constexpr (in_place)
      return w;
    else
      return *w;
  }

  /// For a word that no other thread can reach.
  static void discard(Store& store, word w) noexcept {
    if constexpr (!in_place) {
      if (w != nullptr) store.destroy(memory_role::value, const_cast<Value*>(w));
    }
  }

  /// Retirements that one assignment needs reserved.
  static constexpr unsigned retirements = in_place ? 0 : 1;

  /// Replaces the value of a node that this thread reached under the guard.
  static void assign(Store& store, typename Store::guard_type& guard, std::atomic<word>& target,
                     word fresh) noexcept {
    if constexpr (in_place) {
      // order (1): assign, release
      target.store(fresh, std::memory_order_release);
    } else {
      // order (1), (2): assign, acq_rel: one step, so that each old cell is retired exactly once.
      retire(store, guard, target.exchange(fresh, std::memory_order_acq_rel));
    }
  }

  /// For a word that this thread has replaced under the guard, after a reserve() on it.
  static void retire(Store& store, typename Store::guard_type& guard, word old) noexcept {
    if constexpr (!in_place) store.template retire<Value, memory_role::value>(guard, const_cast<Value*>(old));
  }

  /// Whether a map's destructor must visit its nodes to destroy their values.
  [[nodiscard]] static constexpr bool must_visit() noexcept {
    return !in_place && Store::template must_visit<Value>();
  }

  /// A word for a value that is not published yet, discarded when the scope is left, unless release() was called. An
  /// operation that tries several times has the same word each time.
  class pending {
   public:
    explicit pending(Store& store) noexcept : store_(store) {}
    pending(const pending&) = delete;
    pending& operator=(const pending&) = delete;
    ~pending() { discard(store_, word_); }
    /// The word, made of the value where there is none. Throws std::bad_alloc where a cell is needed, and what the
    /// value's constructor throws: there is still no word then.
    template <class Source>
    word get(Source&& value) {
      if constexpr (in_place)
        word_ = value;
      else if (word_ == nullptr)
        word_ = store_.template create<Value>(memory_role::value, nullptr, std::forward<Source>(value));
      return word_;
    }
    /// The value that was moved to get() is there again, if it was one to move from and is not published.
    template <class Source>
    void restore(Source& value) noexcept {
      if constexpr (!in_place && !std::is_const_v<Source>) {
        if (word_ != nullptr) replace(value, std::move(const_cast<Value&>(*word_)));
      }
    }
    /// Before the next attempt of an operation that stores another value then.
    void reset() noexcept { discard(store_, std::exchange(word_, word{})); }
    void release() noexcept { word_ = word{}; }

   private:
    Store& store_;
    word word_{};
  };
};

/// A node with an entry that is not linked yet, and its value's word. They are made at the first attempt of an operation, kept
/// over its retries, and freed unless release() was called.
template <class Store, class Node, class Holder>
struct unpublished_entry {
  explicit unpublished_entry(Store& store) noexcept : word(store), made(store, memory_role::node) {}

  /// The node, of a constructor that takes the key and the word. The value is another one only after a reset of the word.
  template <class Key, class Source>
  Node& prepare(const void* near, const Key& key, Source&& value) {
    const auto held = word.get(std::forward<Source>(value));
    if (made.get() == nullptr) return made.emplace(near, key, held);
    // relaxed: published by what links the node.
    made.get()->value.store(held, std::memory_order_relaxed);
    return *made.get();
  }
  /// To be called once the node is linked.
  void release() noexcept {
    made.release();
    word.release();
  }

  typename Holder::pending word;
  unpublished<Store, Node> made;
};

/// Chooses the constructor of a map without a store.
struct moved_away {};

/// What every map over a node_store has besides its algorithm: the store, its constructors, and the names of the
/// contract. A map derives from it with its own type. Copied is what its nodes have of a key.
template <class Map, class Key, class Value, class Compare, class Store, class Copied = Key>
class stored_map : public map_facade<Map, Key, Value, Compare, typename Store::guard_type> {
  static_assert(std::is_trivially_copyable_v<Copied>,
                "keys are copied while other threads use them: they must be trivially copyable, which "
                "std::string is not; use a number, an index or a fixed array of characters");
  using facade = map_facade<Map, Key, Value, Compare, typename Store::guard_type>;

 public:
  using reclaimer_type = typename Store::reclaimer_type;
  using typename facade::guard_type;

  /// If the domain is null, the map creates its own; a shared one must outlive the map. The further arguments construct
  /// the placement.
  template <class... PlacementArguments>
  explicit stored_map(reclaimer_type* domain = nullptr, PlacementArguments&&... placement)
      : store_(domain, std::forward<PlacementArguments>(placement)...) {}
  /// With a comparator that has a state.
  template <class... PlacementArguments>
  explicit stored_map(const Compare& less, reclaimer_type* domain = nullptr,
                      PlacementArguments&&... placement)
      : facade(less), store_(domain, std::forward<PlacementArguments>(placement)...) {}
  stored_map(const stored_map&) = delete;
  stored_map& operator=(const stored_map&) = delete;

  [[nodiscard, gnu::always_inline]] guard_type pin() const { return store_.pin(); }
  [[nodiscard]] bool is_protected_by(const guard_type& guard) const noexcept {
    return guard.protects(store_.domain());
  }

  /// The placement's, and with what else the map has. Memory that values have elsewhere is not in it, nor that of a domain
  /// which maps share.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = store_.usage();
    sum.bytes_reserved += sizeof(Map) + static_cast<const Map&>(*this).bytes_of_threads();
    return sum;
  }
  /// The same with what values have elsewhere: the sum of bytes_of(value), as std::string::capacity, over a scan.
  template <class F>
    requires std::invocable<F&, const Value&>
  [[nodiscard]] memory_usage usage(F bytes_of) const {
    std::uint64_t elsewhere = 0;
    static_cast<const Map&>(*this).scan(
        [&](const auto&, const auto& value) { elsewhere += static_cast<std::uint64_t>(bytes_of(value)); });
    memory_usage sum = usage();
    sum.bytes_in_use += elsewhere;
    sum.bytes_reserved += elsewhere;
    return sum;
  }
  [[nodiscard]] const auto& placement() const noexcept { return store_.placement(); }
  [[nodiscard]] reclaimer_type& domain() noexcept { return store_.domain(); }

 protected:
  using store = Store;

  /// Records that a map keeps for each thread, apart from its store.
  [[nodiscard]] static std::size_t bytes_of_threads() noexcept { return 0; }

  /// What a map is that was moved away.
  stored_map(moved_away, const Compare& less) noexcept(std::is_nothrow_copy_constructible_v<Compare>)
      : facade(less) {}
  ~stored_map() = default;

  /// Both maps are at rest. A map that can be moved adds what leads to its nodes.
  void swap_with(stored_map& other) noexcept {
    facade::swap_with(other);
    store_.swap(other.store_);
  }

  /// Retires an unlinked node with all that Map::destroy(store, node) frees, and likewise another that was unlinked with
  /// it, if any. For maps that have this function.
  template <class Node>
  void retire_node(guard_type& guard, Node* n, Node* other = nullptr) noexcept {
    store_.retire_by(
        guard, n, other,
        [](const retired& entry) noexcept {
          Store& owner = *static_cast<Store*>(entry.owner);
          Map::destroy(owner, static_cast<Node*>(entry.object));
          if (entry.aux != nullptr) Map::destroy(owner, static_cast<Node*>(entry.aux));
        },
        Store::block_bytes(*n) + (other != nullptr ? Store::block_bytes(*other) : 0));
  }

  alignas(hw::false_sharing_bytes) Store store_;
};

}  // namespace espalier
