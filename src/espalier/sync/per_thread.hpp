#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier {

/// A T that is repaired in children of fork() (hw/fork_recovery): recover_in_child(true) is called for the element of
/// a lost thread, recover_in_child(false) for any other element, which a lost thread may have locked.
template <class T>
concept recovered_per_thread = requires(T& element, bool lost) {
  { element.recover_in_child(lost) } noexcept;
};

// Orderings
//   (1) add (release) -> at, local (acquire): a thread that finds an element sees it constructed.
//   (2) grow (acq_rel) -> table (acquire): a thread that finds a table sees what it has, and the older ones.
//   (3) made_words (acq_rel) -> own_word, read, made_words (acquire): a thread that finds the words of a counter sees them
//       constructed.
// A scan behind hw::fence_heavy() finds the element of each thread that has passed hw::fence_light() before it: in the
// newest table, or in an older one.

/// An object with one T per thread slot (hw/thread_slot.hpp). A thread's first request for its element creates it. Elements
/// live as long as the whole, so that other threads find what a thread left behind, and pass to the next thread that gets
/// the slot. T must be default-constructible, and safe to read from for_each while its thread works with it.
///
/// A table leads to the elements, and is replaced by a larger one where a thread has a slot behind its end. The larger one has
/// what the other one had when it was made. Only the thread of a slot adds its element; it may do so to a table that
/// has just been replaced. So the older tables stay, and what a table does not have is looked for in these. An object that
/// few threads use is small. The first table has room for FirstSlots elements: so it is larger than most nodes of maps, and does
/// not come between two of them in a heap.
template <class T, std::uint32_t FirstSlots = 8>
class per_thread {
 public:
  per_thread() = default;
  per_thread(const per_thread&) = delete;
  per_thread& operator=(const per_thread&) = delete;
  ~per_thread() {
    if constexpr (recovered_per_thread<T>) link_.leave();
    // relaxed, both: no other thread uses an object that is being destroyed.
    table* newest = table_.load(std::memory_order_relaxed);
    for (std::uint32_t slot = 0; slot < newest->slots; ++slot) delete look_up(newest, slot);
    while (newest != &empty_) delete_table(std::exchange(newest, newest->older));
  }

  /// The element of the calling thread. Constant time. Throws std::bad_alloc at a thread's first call, and what
  /// hw::thread_slot() throws then.
  [[nodiscard, gnu::always_inline]] T& local() {
    const std::uint32_t slot = hw::thread_slot();
    if (element* const mine = in_newest(slot)) [[likely]]
      return mine->value;
    return first(slot);
  }

  /// The same; null where there is no memory for it, or no slot. The next call then tries again.
  [[nodiscard]] T* try_local() noexcept {
    static_assert(std::is_nothrow_default_constructible_v<T>, "elements are made where nothing may throw");
    T* const present = if_made();
    return present != nullptr ? present : try_first();
  }

  /// The element of the calling thread where it exists. As fast as local().
  [[nodiscard]] T* if_made() const noexcept { return at(hw::try_thread_slot()); }

  /// The same without a call of a function: null also where a thread's first call would give it a slot, or where the table
  /// has grown since.
  [[nodiscard, gnu::always_inline]] T* if_at_hand() const noexcept {
    element* const one = in_newest(hw::detail::slot_of_thread);
    return one == nullptr ? nullptr : &one->value;
  }

  /// The element of a slot if it exists. Null for max_thread_slots.
  [[nodiscard]] T* at(std::uint32_t slot) const noexcept {
    if (element* const one = in_newest(slot)) [[likely]]
      return &one->value;
    return in_older(slot);
  }

  /// Of the elements and what leads to them.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for_each([&](std::uint32_t, const T&) { sum += hw::heap_bytes<element>(); });
    // order (2): table, acquire
    for (const table* one = table_.load(std::memory_order_acquire); one != &empty_; one = one->older)
      sum += hw::heap_bytes(table_bytes(one->slots), alignof(table));
    return sum;
  }

  /// Calls visit(slot, element) for every existing element, in slot order.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const table* const newest = table_.load(std::memory_order_acquire);  // order (2): table, acquire
    for (std::uint32_t slot = 0; slot < newest->slots; ++slot) {
      if (element* const one = look_up(newest, slot)) visit(slot, one->value);
    }
  }

 private:
  using element = hw::padded<T>;
  /// With room for the elements of the first slots behind it.
  struct table {
    std::uint32_t slots = 0;
    table* older = nullptr;

    [[nodiscard]] std::atomic<element*>& of(std::uint32_t slot) const noexcept {
      return reinterpret_cast<std::atomic<element*>*>(const_cast<table*>(this) + 1)[slot];
    }
  };
  static_assert(sizeof(table) % alignof(std::atomic<element*>) == 0);
  struct no_link {};

  [[nodiscard, gnu::always_inline]] element* in_newest(std::uint32_t slot) const noexcept {
    const table* const newest = table_.load(std::memory_order_acquire);  // order (2): table, acquire
    if (slot >= newest->slots) [[unlikely]]
      return nullptr;
    return newest->of(slot).load(std::memory_order_acquire);  // order (1): local, acquire
  }

  // Separate functions, so that the fast paths need no room on the stack.

  [[nodiscard, gnu::noinline]] T* in_older(std::uint32_t slot) const noexcept {
    // order (2): table, acquire
    element* const one = look_up(table_.load(std::memory_order_acquire), slot);
    return one == nullptr ? nullptr : &one->value;
  }
  /// In a table and those that it has replaced.
  [[nodiscard]] static element* look_up(const table* in, std::uint32_t slot) noexcept {
    for (; slot < in->slots; in = in->older) {
      // order (1): at, acquire
      if (element* const one = in->of(slot).load(std::memory_order_acquire)) return one;
    }
    return nullptr;
  }

  [[gnu::noinline]] T& first(std::uint32_t slot) {
    T* const mine = add(slot);
    if (mine == nullptr) throw std::bad_alloc();
    return *mine;
  }
  [[gnu::noinline]] T* try_first() noexcept {
    const std::uint32_t slot = hw::try_thread_slot();
    return slot == hw::max_thread_slots ? nullptr : add(slot);
  }

  /// The element of the calling thread, which the newest table does not have. Null where there is no memory.
  T* add(std::uint32_t slot) {
    // First, while no thread has an element yet that a fork could leave unrepaired.
    if constexpr (recovered_per_thread<T>) link_.join(this, recover);
    table* const with_room = grown(slot);
    if (with_room == nullptr) return nullptr;
    element* mine = look_up(with_room, slot);
    if (mine == nullptr) mine = new (std::nothrow) element();
    // order (1): add, release
    if (mine != nullptr) with_room->of(slot).store(mine, std::memory_order_release);
    return mine == nullptr ? nullptr : &mine->value;
  }
  /// The newest table, which has room for the slot.
  [[nodiscard]] table* grown(std::uint32_t slot) {
    table* newest = table_.load(std::memory_order_acquire);  // order (2): table, acquire
    while (slot >= newest->slots) {
      table* const fresh = new_table(newest, std::max(FirstSlots, std::bit_ceil(slot + 1)));
      if (fresh == nullptr) return nullptr;
      // order (2): grow, acq_rel
      if (table_.compare_exchange_strong(newest, fresh, std::memory_order_acq_rel, std::memory_order_acquire))
        return fresh;
      delete_table(fresh);
    }
    return newest;
  }
  [[nodiscard]] static constexpr std::size_t table_bytes(std::uint32_t slots) noexcept {
    return sizeof(table) + slots * sizeof(std::atomic<element*>);
  }
  [[nodiscard]] static table* new_table(table* older, std::uint32_t slots) {
    void* const room = ::operator new(table_bytes(slots), std::nothrow);
    if (room == nullptr) return nullptr;
    table* const fresh = ::new (room) table{slots, older};
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      ::new (&fresh->of(slot)) std::atomic<element*>(look_up(older, slot));
    return fresh;
  }
  static void delete_table(table* one) noexcept { ::operator delete(static_cast<void*>(one)); }

  static void recover(void* all, const hw::fork_survivor& survivor) noexcept {
    static_cast<per_thread*>(all)->for_each(
        [&](std::uint32_t slot, T& element) { element.recover_in_child(survivor.lost(slot)); });
  }

  static inline constinit table empty_{};
  std::atomic<table*> table_{&empty_};
  [[no_unique_address]] std::conditional_t<recovered_per_thread<T>, hw::fork_link, no_link> link_;
};

/// A signed sum that many threads add to and few read. After some additions each thread adds to a word of its own, so that
/// counting does not become the contended line. Before, and where there is no memory for such words, they share one: a sum that
/// is seldom added to is small.
class striped_counter {
 public:
  /// So many additions share a word.
  static constexpr unsigned first_additions = 1024;

  striped_counter() = default;
  striped_counter(const striped_counter&) = delete;
  striped_counter& operator=(const striped_counter&) = delete;
  // relaxed: no other thread uses a counter that is being destroyed.
  ~striped_counter() { delete stripes_.load(std::memory_order_relaxed); }

  void add(std::int64_t amount) noexcept {
    std::atomic<std::int64_t>* const mine = own_word();
    if (mine == nullptr) [[unlikely]]
      return add_shared(amount);
    // relaxed, and no read-modify-write: only this thread writes the word, and a sum needs no order.
    mine->store(mine->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  /// Exchanges two sums. No thread may use either of the two.
  void swap(striped_counter& other) noexcept {
    // relaxed, all of it: what excludes the other threads orders it.
    const auto exchange = [](auto& a, auto& b) {
      a.store(b.exchange(a.load(std::memory_order_relaxed), std::memory_order_relaxed),
              std::memory_order_relaxed);
    };
    exchange(stripes_, other.stripes_);
    exchange(shared_, other.shared_);
    exchange(additions_, other.additions_);
  }

  /// The sum; exact when no thread is adding.
  [[nodiscard]] std::int64_t read() const noexcept {
    // relaxed: exact only when no thread adds.
    std::int64_t sum = shared_.load(std::memory_order_relaxed);
    const words* const all = stripes_.load(std::memory_order_acquire);  // order (3): read, acquire
    if (all == nullptr) return sum;
    // relaxed: as above.
    all->for_each([&](std::uint32_t, const std::atomic<std::int64_t>& word) {
      sum += word.load(std::memory_order_relaxed);
    });
    return sum;
  }

 private:
  using words = per_thread<std::atomic<std::int64_t>>;

  [[nodiscard, gnu::always_inline]] std::atomic<std::int64_t>* own_word() const noexcept {
    const words* const all = stripes_.load(std::memory_order_acquire);  // order (3): own_word, acquire
    return all == nullptr ? nullptr : all->if_made();
  }
  /// One of the first additions, a thread's first one to its own word, or one without memory for that.
  [[gnu::noinline]] void add_shared(std::int64_t amount) noexcept {
    std::atomic<std::int64_t>* mine = nullptr;
    // relaxed, both: about so many.
    if (additions_.load(std::memory_order_relaxed) >= first_additions) {
      if (words* const all = made_words()) mine = all->try_local();
    } else {
      additions_.fetch_add(1, std::memory_order_relaxed);
    }
    // relaxed: a sum needs no order.
    (mine != nullptr ? *mine : shared_).fetch_add(amount, std::memory_order_relaxed);
  }
  /// Null where there is no memory for them.
  [[nodiscard]] words* made_words() noexcept {
    words* present = stripes_.load(std::memory_order_acquire);  // order (3): made_words, acquire
    if (present != nullptr) return present;
    auto* const fresh = new (std::nothrow) words();
    if (fresh == nullptr) return nullptr;
    // order (3): made_words, acq_rel
    if (stripes_.compare_exchange_strong(present, fresh, std::memory_order_acq_rel,
                                         std::memory_order_acquire))
      return fresh;
    delete fresh;
    return present;
  }

  std::atomic<words*> stripes_{nullptr};
  std::atomic<std::int64_t> shared_{0};
  std::atomic<unsigned> additions_{0};
};

}  // namespace espalier
