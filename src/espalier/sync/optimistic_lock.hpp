#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "espalier/sync/backoff.hpp"

// A lock that readers do not write. A reader notes the lock's version, reads, and validates: the version is still the
// same, so no writer changed what was read. For nodes of search trees that are read far more often than changed.
//
// Cha, Hwang, Kim and Kwon, "Cache-Conscious Concurrency Control of Main-Memory Indexes on Shared-Memory Multiprocessor
// Systems", VLDB 2001, for B+trees; with upgrades and obsolete nodes: Leis, Scheibner, Kemper and Neumann, "The ART of
// Practical Synchronization", DaMoN 2016.
//
//   struct node {
//     optimistic_lock lock;
//     optimistic_field<node*> next;
//   };
//
//   // Read. Nothing that was loaded may be used before validate() has confirmed it.
//   optimistic_lock::read_section seen = n.lock.read();
//   if (seen.obsolete()) return restart;         // the node has left the structure
//   node* const next = n.next.load(seen);
//   if (!seen.validate()) return restart;        // a writer came between
//
//   // Change what was read: the upgrade validates and locks in one step.
//   if (optimistic_lock::write_guard held = seen.upgrade()) {
//     n.next.store(held, next->next_of_next);
//   }                                            // unlocked, with a new version
//
//   // Remove a node: after the last pointer to it is gone, with its lock held.
//   held.release_obsolete();
//
// Lock coupling: take the child's section, then validate the parent's. The child then was the parent's child when its
// version was read.
//
// Invariants
//   - The version changes with each release() and release_obsolete(), and never returns to an earlier value (before
//     2^62 of them).
//   - An obsolete lock is never locked again.
//
// Progress. read() waits while a writer holds the lock; validate() and upgrade() never wait. Writers exclude one another.
// No order among waiting threads.
//
// Orderings
//   (1) release (release) -> read (acquire): a section that begins at a version sees all that its writer stored.
//   (2) store (release) -> load (acquire): a reader that loads a field of a writer also sees that the writer took the
//       lock, so its validate(), which reads the version after the load, fails.
//   (3) release (release) -> upgrade (acquire): a holder sees all that earlier holders did, those too that released
//       the lock unchanged.

namespace espalier {

class optimistic_lock {
  // Bit 0: held. Bit 1: obsolete. Above: a count.
  using version = std::uint64_t;
  static constexpr version held_bit = 1;
  static constexpr version obsolete_bit = 2;
  static constexpr version one_change = 4;

 public:
  class read_section;
  class write_guard;

  optimistic_lock() = default;
  optimistic_lock(const optimistic_lock&) = delete;
  optimistic_lock& operator=(const optimistic_lock&) = delete;

  /// Begins to read what the lock protects. Waits while a writer holds it.
  [[nodiscard]] read_section read() noexcept;

  /// Waits for the lock. The guard is empty if the lock is obsolete.
  [[nodiscard]] write_guard lock() noexcept;

  /// For a transaction that subscribes to the lock, and for checks at rest.
  [[nodiscard]] bool is_locked() const noexcept {
    return (word_.load(std::memory_order_relaxed) & held_bit) != 0;  // relaxed: a glimpse, orders nothing
  }

 private:
  std::atomic<version> word_{0};
};

/// What one thread has read since read(). A value of two words; copies validate alike.
class optimistic_lock::read_section {
 public:
  /// Whether the lock was obsolete when the section began. Such a section is never upgraded; what it reads no longer
  /// changes.
  [[nodiscard]] bool obsolete() const noexcept { return (seen_ & obsolete_bit) != 0; }

  /// True if no writer has held the lock since read(), or only such as changed nothing: then all that optimistic fields
  /// gave in this section was there at one moment, which is now. May be called again and again.
  [[nodiscard]] bool validate() const noexcept {
    // relaxed: the loads of fields before it are acquire, so none of them moves behind it; see (2).
    return of_->word_.load(std::memory_order_relaxed) == seen_;
  }

  /// Validates and locks in one step. The guard is empty if the section is no longer valid. Never waits.
  [[nodiscard]] write_guard upgrade() const noexcept;

 private:
  friend optimistic_lock;
  read_section(optimistic_lock& of, version seen) noexcept : of_(&of), seen_(seen) {}

  optimistic_lock* of_;
  version seen_;
};

/// The right to write what the lock protects, or nothing. Unlocks at its end, with a new version.
class [[nodiscard]] optimistic_lock::write_guard {
 public:
  write_guard() = default;
  write_guard(write_guard&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), before_(other.before_) {}
  write_guard& operator=(write_guard&& other) noexcept {
    if (this != &other) {
      if (of_ != nullptr) release();
      of_ = std::exchange(other.of_, nullptr);
      before_ = other.before_;
    }
    return *this;
  }
  ~write_guard() {
    if (of_ != nullptr) release();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }

  /// Unlocks. Sections that began earlier fail.
  void release() noexcept { leave(before_ + one_change); }

  /// Unlocks what the holder has not changed. Sections that began earlier stay valid.
  void release_unchanged() noexcept { leave(before_); }

  /// Unlocks for good: the protected object has left the structure. Sections that began earlier fail; later ones are
  /// obsolete.
  void release_obsolete() noexcept { leave((before_ + one_change) | obsolete_bit); }

 private:
  friend optimistic_lock;
  friend read_section;
  write_guard(optimistic_lock& of, version before) noexcept : of_(&of), before_(before) {}

  void leave(version next) noexcept {
    assert(of_ != nullptr && "an empty guard releases nothing");
    // order (1), (3): release, release
    std::exchange(of_, nullptr)->word_.store(next, std::memory_order_release);
  }

  optimistic_lock* of_ = nullptr;
  version before_ = 0;
};

inline optimistic_lock::read_section optimistic_lock::read() noexcept {
  // order (1): read, acquire
  version seen = word_.load(std::memory_order_acquire);
  for (backoff pause; (seen & held_bit) != 0; seen = word_.load(std::memory_order_acquire)) pause.wait();
  return {*this, seen};
}

inline optimistic_lock::write_guard optimistic_lock::read_section::upgrade() const noexcept {
  version expected = seen_;
  // order (3): upgrade, acquire. relaxed where it fails: the caller starts again.
  if (obsolete() || !of_->word_.compare_exchange_strong(expected, seen_ | held_bit, std::memory_order_acquire,
                                                        std::memory_order_relaxed))
    return {};
  return {*of_, seen_};
}

inline optimistic_lock::write_guard optimistic_lock::lock() noexcept {
  for (backoff pause;; pause.wait()) {
    const read_section seen = read();
    if (seen.obsolete()) return {};
    if (write_guard held = seen.upgrade()) return held;
  }
}

static_assert(sizeof(optimistic_lock) == 8 && std::atomic<std::uint64_t>::is_always_lock_free,
              "this processor has no lock-free atomics of that size");

/// A field that an optimistic_lock protects. Each access shows a witness of that lock: a section to load, a guard to store.
/// Which lock it is, is the caller's care. On x86 the accesses are plain moves.
template <class T>
  requires(std::is_trivially_copyable_v<T> && std::atomic<T>::is_always_lock_free)
class optimistic_field {
 public:
  optimistic_field() = default;
  /// Of an object that no other thread can reach yet.
  explicit optimistic_field(T value) noexcept : value_(value) {}

  /// Not to be relied on before the section is validated.
  [[nodiscard]] T load(const optimistic_lock::read_section&) const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): load, acquire
  }
  /// relaxed: only the holder of the lock writes.
  [[nodiscard]] T load(const optimistic_lock::write_guard&) const noexcept {
    return value_.load(std::memory_order_relaxed);
  }
  void store(const optimistic_lock::write_guard& held, T value) noexcept {
    assert(held && "a field is written with its lock held");
    static_cast<void>(held);
    value_.store(value, std::memory_order_release);  // order (2): store, release
  }

  /// While no other thread can change the field: before the object is published, or at rest. relaxed for that reason.
  [[nodiscard]] T at_rest() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

}  // namespace espalier
