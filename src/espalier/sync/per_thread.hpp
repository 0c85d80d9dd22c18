#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier {

/// A T that is repaired in children of fork() (hw/fork_recovery): recover_in_child(true) is called for the element of
/// a lost thread, recover_in_child(false) for any other element, which a lost thread may have locked.
template <class T>
concept recovered_per_thread = requires(T& element, bool lost) {
  { element.recover_in_child(lost) } noexcept;
};

// Orderings
//   (1) add_block (acq_rel) -> local, at, add_block (acquire): a thread that finds a block sees its elements
//       constructed. The acquire of add_block is needed only where the exchange fails and finds another block.
//   (2) made_words (acq_rel) -> own_word, read, made_words (acquire): a thread that finds the words of a counter sees them
//       constructed.
// A scan behind hw::fence_heavy() finds the block of each thread that has passed hw::fence_light() before it.

/// An object with one T per thread slot (hw/thread_slot.hpp). A thread's first request for its element creates a
/// block of elements. Elements live as long as the whole, so that other threads find what a thread left behind, and
/// pass to the next thread that gets the slot. T must be default-constructible, and safe to read from for_each while
/// its thread works with it.
template <class T>
class per_thread {
 public:
  per_thread() = default;
  per_thread(const per_thread&) = delete;
  per_thread& operator=(const per_thread&) = delete;
  ~per_thread() {
    if constexpr (recovered_per_thread<T>) link_.leave();
    // relaxed: no other thread uses an object that is being destroyed.
    for (auto& b : blocks_) delete b.load(std::memory_order_relaxed);
  }

  /// The element of the calling thread. Constant time. Throws std::bad_alloc at the first call in a block, and what
  /// hw::thread_slot() throws at a thread's first call.
  [[nodiscard, gnu::always_inline]] T& local() {
    const std::uint32_t slot = hw::thread_slot();
    // order (1): local, acquire
    block* const b = blocks_[slot / per_block].load(std::memory_order_acquire);
    if (b == nullptr) [[unlikely]]
      return first(slot);
    return (*b)[slot % per_block].value;
  }

  /// The same; null where there is no memory for it, or no slot. The next call then tries again.
  [[nodiscard]] T* try_local() noexcept {
    static_assert(std::is_nothrow_default_constructible_v<T>, "elements are made where nothing may throw");
    T* const present = if_made();
    return present != nullptr ? present : try_first();
  }

  /// The element of the calling thread where its block exists. As fast as local().
  [[nodiscard]] T* if_made() const noexcept { return at(hw::try_thread_slot()); }

  /// The element of a slot if its block exists. Null for max_thread_slots.
  [[nodiscard]] T* at(std::uint32_t slot) const noexcept {
    block* const b = blocks_[slot / per_block].load(std::memory_order_acquire);  // order (1): at, acquire
    return b == nullptr ? nullptr : &(*b)[slot % per_block].value;
  }

  /// Calls visit(slot, element) for every existing element, in slot order.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const std::uint32_t used = hw::thread_slots_used();
    for (std::uint32_t slot = 0; slot < used; ++slot) {
      if (T* const element = at(slot)) visit(slot, *element);
    }
  }

 private:
  static constexpr std::uint32_t per_block = 16;
  using block = std::array<hw::padded<T>, per_block>;
  struct no_link {};

  // Separate functions, so that the fast paths need no room on the stack.

  [[gnu::noinline]] T& first(std::uint32_t slot) { return *add_block(slot, new block()); }

  [[gnu::noinline]] T* try_first() noexcept {
    const std::uint32_t slot = hw::try_thread_slot();
    if (slot == hw::max_thread_slots) return nullptr;
    auto* const fresh = new (std::nothrow) block();
    return fresh == nullptr ? nullptr : add_block(slot, fresh);
  }

  /// The element of a slot, in that block or in one that another thread added first.
  T* add_block(std::uint32_t slot, block* fresh) noexcept {
    // First, while no thread has an element yet that a fork could leave unrepaired.
    if constexpr (recovered_per_thread<T>) link_.join(this, recover);
    block* present = nullptr;
    // order (1): add_block, acq_rel
    if (blocks_[slot / per_block].compare_exchange_strong(present, fresh, std::memory_order_acq_rel,
                                                          std::memory_order_acquire))
      present = fresh;
    else
      delete fresh;
    return &(*present)[slot % per_block].value;
  }

  static void recover(void* all, const hw::fork_survivor& survivor) noexcept {
    static_cast<per_thread*>(all)->for_each(
        [&](std::uint32_t slot, T& element) { element.recover_in_child(survivor.lost(slot)); });
  }

  // The last one stays empty: the fast path of a thread without a slot finds null there.
  mutable std::array<std::atomic<block*>, hw::max_thread_slots / per_block + 1> blocks_{};
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
    const words* const all = stripes_.load(std::memory_order_acquire);  // order (2): read, acquire
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
    const words* const all = stripes_.load(std::memory_order_acquire);  // order (2): own_word, acquire
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
    words* present = stripes_.load(std::memory_order_acquire);  // order (2): made_words, acquire
    if (present != nullptr) return present;
    auto* const fresh = new (std::nothrow) words();
    if (fresh == nullptr) return nullptr;
    // order (2): made_words, acq_rel
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
