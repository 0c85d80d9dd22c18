#pragma once

#include <atomic>
#include <type_traits>

#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// A value that fits an atomic machine word.
template <class Value>
concept word_value = std::is_trivially_copyable_v<Value> && std::is_default_constructible_v<Value> &&
                     sizeof(Value) <= sizeof(void*) && std::atomic<Value>::is_always_lock_free;

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
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>,
                "values are copied while others read them: they must be trivially copyable");

  static constexpr bool in_place = !Cells;
  using word = std::conditional_t<in_place, Value, const Value*>;

  /// Throws std::bad_alloc where a cell is needed.
  [[nodiscard]] static word make(Store& store, const Value& value) {
    if constexpr (in_place)
      return value;
    else
      return store.template create<Value>(memory_role::value, nullptr, value);
  }

  [[nodiscard]] static Value read(word w) noexcept {
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

  /// A word for a value that is not published yet, discarded when the scope is left, unless release() was called.
  class pending {
   public:
    explicit pending(Store& store) noexcept : store_(store) {}
    pending(const pending&) = delete;
    pending& operator=(const pending&) = delete;
    ~pending() {
      if (made_) discard(store_, word_);
    }
    /// The word, which stands for this value from now on. Throws std::bad_alloc.
    word get(const Value& value) {
      if (!made_) {
        word_ = make(store_, value);
        made_ = true;
      } else if constexpr (in_place) {
        word_ = value;
      } else {
        *const_cast<Value*>(word_) = value;
      }
      return word_;
    }
    void release() noexcept { made_ = false; }

   private:
    Store& store_;
    word word_{};
    bool made_ = false;
  };
};

}  // namespace espalier
