#pragma once

#include <concepts>
#include <utility>

namespace espalier {

/// A mutual-exclusion lock. unlock() releases what lock() acquires. The concept promises nothing else: no fairness,
/// no recursion, no unlocking by another thread.
template <class L>
concept lockable = std::default_initializable<L> && requires(L& lock) {
  lock.lock();
  { lock.try_lock() } -> std::same_as<bool>;
  { lock.unlock() } noexcept;
};

/// A lock to which a hardware transaction can subscribe by reading its state.
template <class L>
concept elidable = lockable<L> && requires(const L& lock) {
  { lock.is_locked() } noexcept -> std::same_as<bool>;
};

/// Whether the lock is held; false for a lock that does not know. For checks at quiescence.
template <lockable L>
[[nodiscard]] bool is_seen_held(const L& lock) noexcept {
  if constexpr (elidable<L>) return lock.is_locked();
  return false;
}

/// A queue lock: each acquisition brings its own queue node, which must outlive the critical section. The
/// node is explicit, so that one thread may hold several such locks.
template <class L>
concept queue_lockable = std::default_initializable<L> && requires(L& lock, typename L::queue_node& node) {
  lock.lock(node);
  { lock.try_lock(node) } -> std::same_as<bool>;
  { lock.unlock(node) } noexcept;
};

/// Holds a lock of either kind for a scope; carries the queue node where there is one.
template <class L>
class lock_guard;

template <lockable L>
class [[nodiscard]] lock_guard<L> {
 public:
  explicit lock_guard(L& lock) : lock_(lock) { lock_.lock(); }
  ~lock_guard() { lock_.unlock(); }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  L& lock_;
};

template <queue_lockable L>
class [[nodiscard]] lock_guard<L> {
 public:
  explicit lock_guard(L& lock) : lock_(lock) { lock_.lock(node_); }
  ~lock_guard() { lock_.unlock(node_); }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  L& lock_;
  typename L::queue_node node_;
};

template <class L>
lock_guard(L&) -> lock_guard<L>;

/// Either kind of lock: what the lock slot of map_traits accepts.
template <class L>
concept any_lock = lockable<L> || queue_lockable<L>;

}  // namespace espalier
