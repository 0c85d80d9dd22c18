#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
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
//   node* const next = n.next.get(seen);
//   if (!seen.validate()) return restart;        // a writer came between
//
//   // Change what was read: the upgrade validates and locks in one step.
//   if (optimistic_lock::write_guard held = seen.upgrade()) {
//     n.next.set(held, next->next_of_next);
//   }                                            // unlocked, with a new version
//
//   // Change it by steps each of which readers may see: they do not wait, and their sections stay valid.
//   if (optimistic_lock::write_guard held = seen.upgrade_beside_readers()) ...
//
//   // Remove a node: after the last pointer to it is gone, with its lock held.
//   held.release_obsolete();
//
// Lock coupling: take the child's section, then validate the parent's. The child then was the parent's child when its
// version was read.
//
// Invariants
//   - The version changes with each change that ends, and never returns to an earlier value (before 2^60 of them).
//   - What is obsolete stays so, and is never locked again.
//
// Progress. read() and validate_once_free() wait while a writer changes the object, but not for one beside readers;
// validate() and upgrade() never wait. Writers exclude one another. No order among waiting threads.
//
// Orderings
//   (1) release, mark, renew, make_obsolete (release) -> now (acquire): a section that begins at a version sees all that its
//       writer stored.
//   (2) set (release) -> get (acquire): a reader that loads a field of a writer also sees that the writer began its
//       change, so its validate(), which reads the version after the load, fails.
//   (3) release (release) -> upgrade, try_lock_beside_readers (acquire): a holder sees all that earlier holders did, those
//       too that released the lock unchanged.

namespace espalier {

/// The version alone, in one word, for an object whose writers exclude one another by a lock of another kind. Fields
/// are loaded with acquire between read() and validate(), and stored with release during a change, as (2) requires.
class optimistic_version {
 public:
  /// What mark() may say of the object. What it means is for its users to say.
  enum class hint : std::uint64_t { first = 4, second = 8 };

  /// The version that a reader saw; at first that of a new object.
  class stamp {
   public:
    /// Whether the object had left its structure. What it holds no longer changes.
    [[nodiscard]] bool obsolete() const noexcept { return (word_ & obsolete_bit) != 0; }
    /// Whether a writer was changing the object. No section begins with such a stamp.
    [[nodiscard]] bool changing() const noexcept { return (word_ & changing_bit) != 0; }
    /// Neither.
    [[nodiscard]] bool steady() const noexcept { return (word_ & (changing_bit | obsolete_bit)) == 0; }
    /// Whether mark() was called with it since the last change.
    [[nodiscard]] bool has(hint h) const noexcept { return (word_ & static_cast<std::uint64_t>(h)) != 0; }

   private:
    friend optimistic_version;
    friend class optimistic_lock;
    std::uint64_t word_ = 0;
  };

  /// A change in progress, or nothing. Ends it at its end, with a new version.
  class [[nodiscard]] write_guard {
   public:
    write_guard() = default;
    write_guard(write_guard&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), before_(other.before_) {}
    write_guard& operator=(write_guard&& other) noexcept {
      const write_guard earlier(std::move(*this));  // ends
      of_ = std::exchange(other.of_, nullptr);
      before_ = other.before_;
      return *this;
    }
    ~write_guard() {
      if (of_ != nullptr) release();
    }

    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }

    /// Sections that began earlier fail.
    void release() noexcept { leave((before_.word_ & ~hint_bits) + one_change); }
    /// Where nothing was changed: sections that began earlier stay valid.
    void release_unchanged() noexcept { leave(before_.word_); }
    /// The object has left the structure: sections that began earlier fail, and later ones are obsolete.
    void release_obsolete() noexcept { leave(obsolete_bit); }

   private:
    friend optimistic_version;
    friend class optimistic_lock;
    write_guard(optimistic_version& of, stamp before) noexcept : of_(&of), before_(before) {}

    void leave(std::uint64_t next) noexcept {
      assert(of_ != nullptr && "an empty guard releases nothing");
      // order (1), (3): release, release
      std::exchange(of_, nullptr)->word_.store(next, std::memory_order_release);
    }

    optimistic_version* of_ = nullptr;
    stamp before_;
  };

  [[nodiscard]] stamp now() const noexcept {
    stamp seen;
    seen.word_ = word_.load(std::memory_order_acquire);  // order (1): now, acquire
    return seen;
  }

  /// The version at which a section begins. Waits while a writer changes the object.
  [[nodiscard]] stamp read() const noexcept {
    const stamp seen = now();
    return seen.changing() ? read_after_change() : seen;
  }

  /// What one thread has read since try_read(): as a section of optimistic_lock.
  class read_section {
   public:
    [[nodiscard]] bool steady() const noexcept { return seen_.steady(); }
    [[nodiscard]] bool has(hint h) const noexcept { return seen_.has(h); }
    [[nodiscard]] bool validate() const noexcept { return of_->validate(seen_); }

   private:
    friend optimistic_version;
    read_section(const optimistic_version& of, stamp seen) noexcept : of_(&of), seen_(seen) {}

    const optimistic_version* of_;
    stamp seen_;
  };
  /// Begins to read without a wait: the section is one if it is steady.
  [[nodiscard]] read_section try_read() const noexcept { return {*this, now()}; }

  /// True if no writer has changed the object since it had that version. May be called again and again.
  [[nodiscard]] bool validate(stamp seen) const noexcept {
    // relaxed: the loads of fields before it are acquire, so none of them moves behind it; see (2).
    return word_.load(std::memory_order_relaxed) == seen.word_;
  }

  /// For the only writer. Sections that began earlier fail from now on.
  write_guard change() noexcept {
    const stamp before = now();
    assert(before.steady() && "one writer at a time, and none of an object that has left");
    // relaxed: the stores of fields behind it are release; see (2).
    word_.store(before.word_ | changing_bit, std::memory_order_relaxed);
    return {*this, before};
  }

  /// For a thread that excludes the writers, and has seen what they did: a hint for those that begin to read from now on. It
  /// lasts until a change ends. Sections that began earlier fail.
  void mark(hint h) noexcept {
    // order (1): mark, release. Those that begin here see what earlier writers stored.
    word_.store(now().word_ | static_cast<std::uint64_t>(h), std::memory_order_release);
  }

  /// For the only writer, after a change of one field: sections that began earlier fail, once they see what the writer
  /// stores from now on.
  void renew() noexcept {
    // order (1): renew, release
    word_.store(now().word_ + one_change, std::memory_order_release);
  }

  /// For the only writer, without a change: as release_obsolete().
  // order (1): make_obsolete, release
  void make_obsolete() noexcept { word_.store(obsolete_bit, std::memory_order_release); }

 private:
  friend class optimistic_lock;

  // Not inlined: a seek would prepare the wait on each level.
  [[nodiscard, gnu::noinline]] stamp read_after_change() const noexcept {
    stamp seen = now();
    for (backoff pause; seen.changing(); seen = now()) pause.wait();
    return seen;
  }

  // Bit 0: changing. Bit 1: obsolete. Bits 2 and 3: the hints; of an optimistic_lock the first is a writer beside readers. Above: a
  // count.
  static constexpr std::uint64_t changing_bit = 1;
  static constexpr std::uint64_t obsolete_bit = 2;
  static constexpr std::uint64_t hint_bits =
      static_cast<std::uint64_t>(hint::first) | static_cast<std::uint64_t>(hint::second);
  static constexpr std::uint64_t one_change = 16;

  std::atomic<std::uint64_t> word_{0};
};

/// A version whose bit for a change is the lock of the writers.
class optimistic_lock {
  using stamp = optimistic_version::stamp;

 public:
  using write_guard = optimistic_version::write_guard;
  class subscription;

  /// What one thread has read since read(). A value of two words; copies validate alike.
  class read_section {
   public:
    /// Whether the lock was obsolete when the section began. Such a section is never upgraded.
    [[nodiscard]] bool obsolete() const noexcept { return seen_.obsolete(); }
    /// Whether it was not, and no writer held it: else a section of try_read() is none.
    [[nodiscard]] bool steady() const noexcept { return seen_.steady(); }

    /// True if no writer has held the lock since read(), or only such as changed nothing: then all that optimistic
    /// fields gave in this section was there at one moment, which is now. May be called again and again. Writers beside
    /// readers have not held it in this sense, unless they have released it with a new version.
    [[nodiscard]] bool validate() const noexcept {
      // relaxed: as in optimistic_version.
      return (of_->word_.load(std::memory_order_relaxed) & ~held_bit) == seen_.word_;
    }

    /// The same, but waits for a writer that holds the lock: where it fails, each later validation fails, too. One that
    /// fails beside a writer may succeed again, if that writer changes nothing.
    [[nodiscard]] bool validate_once_free() const noexcept {
      return validate() || (of_->read().word_ & ~held_bit) == seen_.word_;
    }

    /// Validates and locks in one step. The guard is empty if the section is no longer valid. Never waits.
    [[nodiscard]] write_guard upgrade() const noexcept {
      return locked_with(optimistic_version::changing_bit);
    }
    /// The same for a change that readers may see at each of its steps. Excludes other writers.
    [[nodiscard]] write_guard upgrade_beside_readers() const noexcept { return locked_with(held_bit); }

   private:
    friend optimistic_lock;
    read_section(optimistic_version& of, stamp seen) noexcept : of_(&of), seen_(seen) {
      seen_.word_ &= ~held_bit;
    }

    [[nodiscard]] write_guard locked_with(std::uint64_t bit) const noexcept {
      std::uint64_t expected = seen_.word_;
      // relaxed: a hint. A lock that is held is not written: its line may stay with the holder.
      if (of_->word_.load(std::memory_order_relaxed) != expected) return {};
      // order (3): upgrade, acquire. relaxed where it fails: the caller starts again.
      if (obsolete() || !of_->word_.compare_exchange_strong(
                            expected, expected | bit, std::memory_order_acquire, std::memory_order_relaxed))
        return {};
      return {*of_, seen_};
    }

    optimistic_version* of_;
    stamp seen_;
  };

  /// Begins to read what the lock protects. Waits while a writer holds it.
  [[nodiscard]] read_section read() noexcept { return {version_, version_.read()}; }

  /// The same without a wait: the section is one if it is steady.
  [[nodiscard]] read_section try_read() noexcept { return {version_, version_.now()}; }

  /// For a change that readers may see at each of its steps. The guard is empty if a writer holds the lock, or it is
  /// obsolete. Never waits.
  [[nodiscard]] write_guard try_lock_beside_readers() noexcept {
    hw::request_to_write(&version_);  // x86 loads it before the exchange
    stamp before;
    // A bit that is set beside a holder's goes with it, and an obsolete lock is obsolete with it.
    // order (3): try_lock_beside_readers, acquire
    before.word_ = version_.word_.fetch_or(held_bit, std::memory_order_acquire);
    if (before.obsolete() || is_locked(before)) return {};
    return {version_, before};
  }

  /// Begins to read in a transaction. From now on the lock is in the read set: no holder comes beside the transaction.
  [[nodiscard]] subscription subscribe() noexcept;

  /// Waits for the lock. The guard is empty if the lock is obsolete.
  [[nodiscard]] write_guard lock() noexcept {
    for (backoff pause;; pause.wait()) {
      const read_section seen = read();
      if (seen.obsolete()) return {};
      if (write_guard held = seen.upgrade()) return held;
    }
  }

  /// In a transaction that has found the lock free: sections that began earlier fail, as after a writer.
  void renew() noexcept { version_.renew(); }

  /// For a transaction that subscribes to the lock, and for checks at rest.
  [[nodiscard]] bool is_locked() const noexcept { return is_locked(version_.now()); }

 private:
  // Of the version's word: a writer beside readers.
  static constexpr auto held_bit = static_cast<std::uint64_t>(optimistic_version::hint::first);
  [[nodiscard]] static bool is_locked(stamp seen) noexcept {
    return seen.changing() || (seen.word_ & held_bit) != 0;
  }

  optimistic_version version_;
};

static_assert(sizeof(optimistic_lock) == 8 && std::atomic<std::uint64_t>::is_always_lock_free,
              "this processor has no lock-free atomics of that size");

/// A witness that no other thread changes or reads the object: it is not published yet, the structure is at rest, or the
/// caller is inside a transaction, or holds a lock that excludes all others. Code that is written for sections and guards
/// takes it for either of them.
struct exclusive_access {
  [[nodiscard]] explicit constexpr operator bool() const noexcept { return true; }
  [[nodiscard]] static constexpr bool obsolete() noexcept { return false; }
  [[nodiscard]] static constexpr bool validate() noexcept { return true; }
  [[nodiscard]] static constexpr exclusive_access upgrade() noexcept { return {}; }
  static constexpr void release_unchanged() noexcept {}
  static constexpr void release_obsolete() noexcept {}
};

/// What a transaction has read since subscribe(). Whether the lock was free then is all that there is to validate.
class optimistic_lock::subscription : public exclusive_access {
 public:
  [[nodiscard]] bool obsolete() const noexcept { return section_.obsolete(); }
  [[nodiscard]] bool validate() const noexcept { return free_; }
  /// What the transaction has read, for what comes after its commit. Only if it validates.
  [[nodiscard]] read_section committed() const noexcept { return section_; }

 private:
  friend optimistic_lock;
  subscription(optimistic_version& of, stamp seen) noexcept : section_(of, seen), free_(!is_locked(seen)) {}

  read_section section_;
  bool free_;
};

inline optimistic_lock::subscription optimistic_lock::subscribe() noexcept {
  return {version_, version_.now()};
}

/// The witness of a reader that takes what it loads as a hint, and validates what it comes to, or validates another version
/// than that of the lock.
struct unvalidated {};

namespace detail {

/// An atomic's load and store for a value that no machine word holds: word by word, so a load beside a store may mix two
/// values.
template <class T>
  requires(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>)
class atomic_words {
 public:
  static constexpr std::size_t count = (sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);

  atomic_words() = default;
  explicit atomic_words(const T& value) noexcept {
    store(value, std::memory_order_relaxed);  // relaxed: no other thread can reach it yet.
  }

  [[nodiscard]] T load(std::memory_order order) const noexcept {
    std::array<std::uint64_t, count> copy;
    for (std::size_t i = 0; i < count; ++i) copy[i] = words_[i].load(order);
    T value;
    std::memcpy(static_cast<void*>(&value), copy.data(), sizeof(T));
    return value;
  }
  void store(const T& value, std::memory_order order) noexcept {
    std::array<std::uint64_t, count> copy{};
    std::memcpy(copy.data(), &value, sizeof(T));
    for (std::size_t i = 0; i < count; ++i) words_[i].store(copy[i], order);
  }

 private:
  std::array<std::atomic<std::uint64_t>, count> words_{};
};

template <class T>
inline constexpr bool is_atomic_word =
    sizeof(T) <= sizeof(std::uint64_t) && std::atomic<T>::is_always_lock_free;

}  // namespace detail

/// Whether a field of that type is loaded in several steps: get() beside a writer may then mix two values, and only
/// after a validation is the result a value at all.
template <class T>
inline constexpr bool loaded_in_parts = sizeof(T) > sizeof(std::uint64_t);

/// A field that an optimistic_lock protects. Each access shows a witness of that lock: a section to load, a guard to store,
/// exclusive_access to do either, or unvalidated for a hint. Which lock it is, is the caller's care. On x86 the accesses are plain moves.
template <class T>
  requires(std::is_trivially_copyable_v<T>)
class optimistic_field {
 public:
  optimistic_field() = default;
  /// Of an object that no other thread can reach yet.
  explicit optimistic_field(T value) noexcept : value_(value) {}

  /// Not to be relied on before the section is validated.
  [[nodiscard]] T get(const optimistic_lock::read_section&) const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): get, acquire
  }
  /// acquire: the pointer to an object that is published with it.
  [[nodiscard]] T get(unvalidated) const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): get, acquire
  }
  /// acquire: earlier transactions may have stored it, and they release no lock.
  [[nodiscard]] T get(const optimistic_lock::write_guard&) const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): get, acquire
  }
  void set(const optimistic_lock::write_guard& held, T value) noexcept {
    assert(held && "a field is written with its lock held");
    static_cast<void>(held);
    value_.store(value, std::memory_order_release);  // order (2): set, release
  }

  /// The accesses of others come before or after, by what excludes them; the acquire is free, and shows the compiler and
  /// ThreadSanitizer what the commit of a transaction orders.
  [[nodiscard]] T get(exclusive_access) const noexcept {
    return value_.load(std::memory_order_acquire);  // order (2): get, acquire
  }
  void set(exclusive_access, T value) noexcept {
    value_.store(value, std::memory_order_release);  // order (2): set, release
  }

 private:
  std::conditional_t<detail::is_atomic_word<T>, std::atomic<T>, detail::atomic_words<T>> value_{};
};

}  // namespace espalier
