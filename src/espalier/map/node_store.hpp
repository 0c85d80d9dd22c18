#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "espalier/map/map_traits.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier {

/// Creates, retires and destroys the nodes of one map: the only caller of its placement and of its reclaimer.
///
/// The store owns its placement. It also owns a reclaimer, unless it was given one to share with other maps; a shared
/// one must outlive the map. Retired entries name the store by its address, so it cannot be moved.
template <class Traits>
class node_store {
 public:
  using placement_type = typename Traits::placement_type;
  using reclaimer_type = typename Traits::reclaimer_type;
  using guard_type = typename reclaimer_type::guard;

  /// If the reclaimer is null, the store creates its own. The further arguments construct the placement.
  template <class... PlacementArguments>
  explicit node_store(reclaimer_type* shared, PlacementArguments&&... arguments)
      : placement_(std::forward<PlacementArguments>(arguments)...),
        own_(shared == nullptr ? std::make_unique<reclaimer_type>() : nullptr),
        reclaimer_(shared == nullptr ? own_.get() : shared) {}

  node_store(const node_store&) = delete;
  node_store& operator=(const node_store&) = delete;

  /// Reclaims the retired nodes. The map destroys the nodes still in use, where must_visit() says so.
  ~node_store() { reclaimer_->purge(this); }

  [[nodiscard]] guard_type pin() const { return reclaimer_->pin(); }

  /// A new node, beside `near` if the placement can. Throws std::bad_alloc.
  template <class Node, class... Arguments>
  [[nodiscard]] Node* create(memory_role role, const void* near, Arguments&&... arguments) {
    static_assert(std::is_nothrow_constructible_v<Node, Arguments...>,
                  "the constructor of a node must not throw: its memory would be lost");
    void* const memory = placement_.allocate(request<Node>(role), near);
    return ::new (memory) Node(std::forward<Arguments>(arguments)...);
  }

  /// For a node that no other thread can reach: never published, or the map is quiescent, or the caller
  /// argues otherwise.
  template <class Node>
  void destroy(memory_role role, Node* node) noexcept {
    node->~Node();
    placement_.deallocate(node, request<Node>(role));
  }

  /// For a node that was detached under this guard, after a reserve() on it.
  template <class Node, memory_role Role>
  void retire(guard_type& guard, Node* node) noexcept {
    retire_by(guard, node, nullptr, [](const retired& entry) noexcept {
      static_cast<node_store*>(entry.owner)->destroy(Role, static_cast<Node*>(entry.object));
    });
  }

  /// The same with a function that determines what to destroy; entry.owner is this store.
  void retire_by(guard_type& guard, void* object, void* aux,
                 void (*reclaim)(const retired&) noexcept) noexcept {
    guard.retire(retired{object, aux, this, reclaim});
  }

  /// Whether a map's destructor must destroy its nodes of this type one by one.
  template <class Node>
  [[nodiscard]] static constexpr bool must_visit() noexcept {
    return !std::is_trivially_destructible_v<Node> || !placement_type::releases_on_destruction(sizeof(Node));
  }

  [[nodiscard]] memory_usage usage() const noexcept { return placement_.usage(); }
  [[nodiscard]] const placement_type& placement() const noexcept { return placement_; }
  [[nodiscard]] reclaimer_type& domain() noexcept { return *reclaimer_; }

 private:
  template <class Node>
  static constexpr block request(memory_role role) noexcept {
    return block{sizeof(Node), alignof(Node), role};
  }

  placement_type placement_;
  std::unique_ptr<reclaimer_type> own_;
  reclaimer_type* reclaimer_;
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

  [[nodiscard]] Node* get() const noexcept { return node_; }
  Node* release() noexcept { return std::exchange(node_, nullptr); }

 private:
  Store& store_;
  memory_role role_;
  Node* node_ = nullptr;
};

}  // namespace espalier
