#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/std_mutex.hpp"

// The node of occ_avl (occ_avl.hpp), its layouts, and the operations on a single node.
//
// Orderings
//   (1) set_child (release) -> read_edge (acquire) in occ_avl.hpp: nodes are seen constructed, versions as changing.
//   (3) toggle_presence, correct_height (release) -> read_status (acquire) in occ_avl.hpp: the value belongs to it.
//   (4) set_child (release) -> parent_now (acquire): the parent, whose lock is taken next, is seen constructed.
// The numbers are those of occ_avl.hpp, which has (2) and (5) besides.

namespace espalier {

/// Where a seek continues that finds a node on its path changed.
enum class retry_from : std::uint8_t {
  /// At the deepest unchanged node: the seek is a recursion, whose frames keep the path, from the second attempt on.
  ancestor,
  /// At the top: the seek is a loop, which keeps one node and its version.
  root
};

/// The nodes of the two implementations in the study of ATC 2018.
enum class occ_avl_published : std::uint8_t {
  /// setbench's, from synchrobench: a mutex, two fields that an AVL tree has no use for, the version last.
  scattered,
  /// ASCYLIB's: one line, the height first.
  one_line
};

struct occ_avl_by_synchrobench {
  static constexpr std::string_view name = "occ_avl";
  static constexpr retry_from retry = retry_from::ancestor;
  static constexpr bool reads_validate = true;
  static constexpr occ_avl_published published = occ_avl_published::scattered;
};
struct occ_avl_by_ascylib : occ_avl_by_synchrobench {
  static constexpr std::string_view name = "occ_avl_2";
  static constexpr occ_avl_published published = occ_avl_published::one_line;
};
/// The study's "-ret".
struct occ_avl_from_root : occ_avl_by_ascylib {
  static constexpr retry_from retry = retry_from::root;
};
/// The study's "-unsafe": it shows what validation costs while no thread writes.
struct occ_avl_unsafe : occ_avl_from_root {
  static constexpr bool reads_validate = false;
};

/// A placement that splits nodes, as split_clusters does: the first front_bytes of a node lie apart from its
/// other rest_bytes, which lie at rest_of(node).
template <class P>
concept splitting_placement = placement<P> && requires(const void* front) {
  { P::rest_of(front) } noexcept -> std::same_as<void*>;
  { P::front_bytes } -> std::convertible_to<std::size_t>;
  { P::rest_bytes } -> std::convertible_to<std::size_t>;
};

/// The holder of a node's lock reads relaxed what is written under it. A relaxed read without the lock is a
/// guess, unless its comment says otherwise.
template <class Key, class Word, class Traits, class Design>
class occ_avl_node {
  static constexpr bool compact = Traits::layout_type::shape == node_shape::compact;
  static constexpr bool scattered = !compact && Design::published == occ_avl_published::scattered;

 public:
  /// Whether a node lies in two places: what seeks read, and the rest.
  static constexpr bool split = compact && splitting_placement<typename Traits::placement_type>;

  using placement_type = typename Traits::placement_type;
  using lock_type = std::conditional_t<scattered, std_mutex, typename Traits::lock_type>;
  static_assert(lockable<lock_type>, "a lock with a queue node will not do");

  // Bits 0 to 7: the height. Above: a count of 24 bits, odd while the key is present. A find takes two lives of
  // a key for one only if 2^23 of them end between two of its loads.
  using state = std::uint32_t;
  static constexpr state height_bits = 0xff;
  static constexpr state one_change = height_bits + 1;
  static constexpr state present_leaf = one_change | 1U;

  struct node;
  using edge = std::atomic<node*>;

  // The fields that a seek reads of each node on its path.
  struct front_fields {
    Key key;
    std::array<edge, 2> child;
    optimistic_version version{};
  };
  // The fields that it reads of the node with its key, and those of updates.
  struct rest_fields {
    std::atomic<Word> value;
    std::atomic<state> status;
    lock_type lock{};
    edge parent{nullptr};

    rest_fields(Word v, state s) noexcept : value(v), status(s) {}
  };

  struct split_fields : front_fields {
    split_fields(const Key& k, Word v, state s) noexcept : front_fields{k, {}} {
      ::new (placement_type::rest_of(this)) rest_fields(v, s);
    }
  };

  // Fields of seeks first: 32 of 56 bytes.
  struct compact_fields {
    Key key;
    std::array<edge, 2> child;
    optimistic_version version{};
    std::atomic<Word> value;
    edge parent{nullptr};
    lock_type lock{};
    std::atomic<state> status;

    compact_fields(const Key& k, Word v, state s) noexcept : key(k), child{}, value(v), status(s) {}
  };

  struct scattered_fields {
    Key key;
    std::atomic<Word> value;
    std::array<edge, 2> child;
    edge parent{nullptr};
    std::uint64_t index{};
    std::int64_t color{};
    lock_type lock{};
    std::atomic<state> status;
    optimistic_version version{};

    scattered_fields(const Key& k, Word v, state s) noexcept : key(k), value(v), child{}, status(s) {}
  };

  struct one_line_fields {
    std::atomic<state> status;
    Key key;
    std::atomic<Word> value;
    optimistic_version version{};
    edge parent{nullptr};
    std::array<edge, 2> child;
    lock_type lock{};

    one_line_fields(const Key& k, Word v, state s) noexcept : status(s), key(k), value(v), child{} {}
  };

  using unsplit_fields = std::conditional_t<compact, compact_fields,
                                            std::conditional_t<scattered, scattered_fields, one_line_fields>>;
  using fields = std::conditional_t<split, split_fields, unsplit_fields>;

  struct alignas(Traits::layout_type::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;

    /// Where value, status, lock and parent are.
    [[nodiscard]] auto& rest() noexcept {
      if constexpr (split)
        return *std::launder(static_cast<rest_fields*>(placement_type::rest_of(this)));
      else
        return *this;
    }
    [[nodiscard]] const auto& rest() const noexcept { return const_cast<node*>(this)->rest(); }

    [[nodiscard]] node* child_on(std::size_t side) const noexcept {
      // relaxed: written under the node's lock; a guess without it.
      return this->child[side].load(std::memory_order_relaxed);
    }
    [[nodiscard]] bool has_two_children() const noexcept {
      return child_on(0) != nullptr && child_on(1) != nullptr;
    }
    [[nodiscard]] std::size_t side_of(const node& of) const noexcept { return child_on(0) == &of ? 0 : 1; }

    /// Changes only under the lock of the node that it returns. A caller without that lock takes it, and then
    /// reads again.
    [[nodiscard]] node* parent_now() const noexcept {
      // order (4): parent_now, acquire
      return rest().parent.load(std::memory_order_acquire);
    }

    void set_child(std::size_t side, node* below) noexcept {
      // order (1), (4): set_child, release
      this->child[side].store(below, std::memory_order_release);
      if (below != nullptr) below->rest().parent.store(this, std::memory_order_release);
    }

    /// Without the lock, true is no guess: an unlinked node stays unlinked.
    [[nodiscard]] bool is_unlinked() const noexcept { return this->version.now().obsolete(); }

    /// relaxed: written under the node's lock. The height of a child may be read without it.
    [[nodiscard]] state status_now() const noexcept { return rest().status.load(std::memory_order_relaxed); }

    /// From absent to present, or back. order (3): toggle_presence, release
    void toggle_presence() noexcept {
      rest().status.store(status_now() + one_change, std::memory_order_release);
    }

    void correct_height() noexcept {
      const state height = height_over(height_of(child_on(0)), height_of(child_on(1)));
      // order (3): correct_height, release: this store begins a release sequence of its own.
      rest().status.store((status_now() & ~height_bits) | height, std::memory_order_release);
    }

    /// Unlinks a child that has at most one child itself. Both nodes are locked.
    void unlink(node& below) noexcept {
      set_child(side_of(below), below.child_on(below.child_on(0) != nullptr ? 0 : 1));
      // After the edge: a seek that finds the version obsolete reads the edge again and goes on.
      below.version.make_obsolete();
    }

    [[nodiscard]] bool is_parent_of(const node& n) const noexcept {
      return n.parent_now() == this && !is_unlinked();
    }

    // LP: contains, insert(false), erase(false). order (3): read_status, acquire
    [[nodiscard]] bool is_present() const noexcept {
      return occ_avl_node::is_present(rest().status.load(std::memory_order_acquire));
    }

    [[nodiscard]] bool is_held() const noexcept {
      if constexpr (elidable<lock_type>) return rest().lock.is_locked();
      return false;
    }
  };

  [[nodiscard]] static bool is_present(state s) noexcept { return (s & one_change) != 0; }
  [[nodiscard]] static bool same_presence(state a, state b) noexcept { return ((a ^ b) & ~height_bits) == 0; }

  [[nodiscard]] static unsigned height_of(const node* n) noexcept {
    return n == nullptr ? 0 : n->status_now() & height_bits;
  }
  /// Bounded, in case hundreds of threads stop before they repair one path.
  [[nodiscard]] static unsigned height_over(unsigned a, unsigned b) noexcept {
    return std::min(1 + std::max(a, b), unsigned{height_bits});
  }
  [[nodiscard]] static bool balanced(unsigned a, unsigned b) noexcept { return a <= b + 1 && b <= a + 1; }

  /// What a node needs, in the order in which condition() checks for it.
  enum class repair : std::uint8_t { none, unlink, rotation, height };

  /// For a locked node. The heights of its children are read without their locks: a thread that changes one
  /// examines this node afterwards.
  [[nodiscard]] static repair condition(const node& n) noexcept {
    if (!n.has_two_children() && !n.is_present()) return repair::unlink;
    const unsigned l = height_of(n.child_on(0));
    const unsigned r = height_of(n.child_on(1));
    if (!balanced(l, r)) return repair::rotation;
    return height_of(&n) == height_over(l, r) ? repair::none : repair::height;
  }

  /// From before the first change of edges by which a node loses keys to behind the last.
  using shrinking = optimistic_version::write_guard;

  /// For the nodes that a rotation gives other children and larger ranges: after the edges, and before the others are
  /// steady again (deviation 11 in occ_avl.hpp).
  static void renew(node& upper, node& lower) noexcept {
    upper.version.renew();
    lower.version.renew();
  }

  /// The child on the high side takes the node's place. All three are locked. Only the node shrinks.
  static void rotate(node& parent, node& n, node& child, std::size_t high) noexcept {
    const std::size_t low = 1 - high;
    const shrinking n_shrinks = n.version.change();
    n.set_child(high, child.child_on(low));
    const std::size_t side = parent.side_of(n);
    child.set_child(low, &n);
    parent.set_child(side, &child);
    renew(parent, child);
    n.correct_height();
    child.correct_height();
  }

  /// The inner child of the child on the high side takes the node's place. All four are locked. The node and
  /// the child shrink.
  static void rotate(node& parent, node& n, node& child, node& inner, std::size_t high) noexcept {
    const std::size_t low = 1 - high;
    const shrinking n_shrinks = n.version.change();
    const shrinking child_shrinks = child.version.change();
    n.set_child(high, inner.child_on(low));
    child.set_child(low, inner.child_on(high));
    const std::size_t side = parent.side_of(n);
    inner.set_child(high, &child);
    inner.set_child(low, &n);
    parent.set_child(side, &inner);
    renew(parent, inner);
    n.correct_height();
    child.correct_height();
    inner.correct_height();
  }

  static_assert(
      [] {
        if constexpr (split)
          return placement_type::front_bytes == sizeof(node) &&
                 placement_type::rest_bytes == sizeof(rest_fields);
        return true;
      }(),
      "the placement splits nodes of other sizes");
  static constexpr std::size_t bytes = sizeof(node) + (split ? sizeof(rest_fields) : 0);

  /// The node above the top. It has no key and never shrinks; its right edge leads to the tree. It lies in the
  /// map, unless nodes are split: it must then lie where its rest can be found.
  template <class Store>
  class inner_head {
   public:
    explicit inner_head(Store&) noexcept {}
    [[nodiscard]] node& operator*() noexcept { return node_; }
    [[nodiscard]] const node& operator*() const noexcept { return node_; }

   private:
    node node_{Key{}, Word{}, 0};
  };
  template <class Store>
  class outer_head {
   public:
    /// Throws std::bad_alloc.
    explicit outer_head(Store& store)
        : owner_(store),
          node_(store.template create<node>(memory_role::node, nullptr, Key{}, Word{}, state{0})) {}
    outer_head(const outer_head&) = delete;
    outer_head& operator=(const outer_head&) = delete;
    ~outer_head() { owner_.destroy(memory_role::node, node_); }
    [[nodiscard]] node& operator*() noexcept { return *node_; }
    [[nodiscard]] const node& operator*() const noexcept { return *node_; }

   private:
    Store& owner_;
    node* node_;
  };
  template <class Store>
  using head = std::conditional_t<split, outer_head<Store>, inner_head<Store>>;

  /// The rest of a split node as if it followed the front.
  static constexpr auto members = [] {
    using front = std::conditional_t<split, front_fields, fields>;
    using others = std::conditional_t<split, rest_fields, fields>;
    constexpr std::size_t from = split ? sizeof(front_fields) : 0;
    constexpr node_member key{"key", offsetof(front, key), sizeof(front::key), search_use::all};
    constexpr node_member child{"child", offsetof(front, child), sizeof(front::child), search_use::half};
    constexpr node_member version{"version", offsetof(front, version), sizeof(front::version),
                                  search_use::all};
    constexpr node_member value{"value", from + offsetof(others, value), sizeof(others::value)};
    constexpr node_member parent{"parent", from + offsetof(others, parent), sizeof(others::parent)};
    constexpr node_member lock{"lock", from + offsetof(others, lock), sizeof(others::lock)};
    constexpr node_member status{"presence / height", from + offsetof(others, status),
                                 sizeof(others::status)};
    if constexpr (split) {
      return std::to_array<node_member>({key, child, version, value, status, lock, parent});
    } else if constexpr (compact) {
      return std::to_array<node_member>({key, child, version, value, parent, lock, status});
    } else if constexpr (scattered) {
      constexpr node_member index{"index", offsetof(fields, index), sizeof(fields::index)};
      constexpr node_member color{"color", offsetof(fields, color), sizeof(fields::color)};
      return std::to_array<node_member>({key, value, child, parent, index, color, lock, status, version});
    } else {
      return std::to_array<node_member>({status, key, value, version, parent, child, lock});
    }
  }();

 private:
  static_assert(edge::is_always_lock_free, "this processor has no lock-free atomics of that size");
  static constexpr bool words = sizeof(Key) == 8 && alignof(Key) == 8 && sizeof(std::atomic<Word>) == 8 &&
                                sizeof(lock_type) == (scattered ? 40 : 4);  // 48 on ARM64
  static_assert(!words || !split ||
                    (sizeof(front_fields) == 32 && sizeof(rest_fields) == 24 && sizeof(node) == 32),
                "the layout of a node, on which the measured figures rest, has changed");
  static_assert(!words || !compact ||
                    (offsetof(unsplit_fields, key) == 0 && offsetof(unsplit_fields, child) == 8 &&
                     offsetof(unsplit_fields, version) == 24 && offsetof(unsplit_fields, value) == 32 &&
                     offsetof(unsplit_fields, parent) == 40 && offsetof(unsplit_fields, lock) == 48 &&
                     offsetof(unsplit_fields, status) == 52 && sizeof(unsplit_fields) == 56),
                "the layout of a node, on which the measured figures rest, has changed");
  static_assert(!words || compact || sizeof(unsplit_fields) == (scattered ? 112 : 64),
                "the layout of a node, on which the measured figures rest, has changed");
};

}  // namespace espalier
