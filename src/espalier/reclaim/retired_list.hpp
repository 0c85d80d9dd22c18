#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

// What a thread has retired, in bags that wait for a stamp: the part of a reclaimer that does not depend on what its stamps are.
//
// Orderings
//   (1) count_reclaimed (relaxed) -> counts (acquire): the load of `retired` follows that of `reclaimed`. The stores are
//       relaxed: C++ alone does not order them for a thread that does not take the lock.
//   (2) keep_spare (release) -> recover_in_child (fork): a child finds spare bags with complete links, wherever the fork stopped
//       the thread. The fence binds the compiler only; the lock orders the threads.

namespace espalier {

/// Entries of one thread. Only this thread reserves and retires; any thread may reclaim what waits. Each bag has a stamp, the
/// largest of its entries' ones. A bag is sealed when it is full, or when its entries free 64 KiB.
class alignas(hw::cache_line_bytes) retired_list {
 public:
  /// The stamp of a bag that has none yet.
  static constexpr std::uint64_t no_stamp = std::uint64_t{1} << 63U;

  retired_list() = default;
  retired_list(const retired_list&) = delete;
  retired_list& operator=(const retired_list&) = delete;
  /// Leaks nothing but entries: reclaim_all() comes before.
  ~retired_list();

  /// Room for n retirements, whatever n is. It stays reserved if they do not come. Throws std::bad_alloc. Returns whether it has
  /// sealed a bag, of which the caller then tries to reclaim some.
  [[nodiscard]] bool reserve(std::size_t n) {
    if (n <= room_ && current_frees_ < bag::heavy_bytes) [[likely]]
      return false;
    return reserve_more(n);
  }
  /// After a reserve(). Returns whether the caller is to try to reclaim some: a bag was sealed. `bytes`: what the entry's
  /// reclamation frees, about. Later stamps of a thread are never smaller.
  [[nodiscard]] bool retire(const retired& entry, std::size_t bytes, std::uint64_t stamp) noexcept;

  /// Gives the stamp new_stamp() to the sealed bags that have none, if there are any.
  template <class NewStamp>
  void stamp_sealed(const NewStamp& new_stamp) noexcept {
    const lock_guard hold(lock_);
    std::uint64_t stamp = no_stamp;
    for (bag* b = sealed_first_; b != nullptr; b = b->next) {
      if (b->stamp != no_stamp) continue;
      if (stamp == no_stamp) stamp = new_stamp();
      b->stamp = stamp;
    }
  }
  /// Reclaims the sealed bags whose stamps are so much older than `now`.
  void collect(std::uint64_t now, std::uint64_t grace) noexcept;
  /// Likewise the entries of the bag that is being filled, if there are any and ready(stamp) is true of its stamp, which ready may
  /// change. Returns how many entries still wait.
  template <class Ready>
  std::size_t collect_current(const Ready& ready) noexcept {
    const lock_guard hold(lock_);
    if (current_ != nullptr && current_->count != 0 && ready(current_->stamp)) reclaim(*current_);
    std::size_t waiting = current_ != nullptr ? current_->count : 0;
    for (const bag* b = sealed_first_; b != nullptr; b = b->next) waiting += b->count;
    return waiting;
  }
  /// Reclaims the entries of one owner.
  void purge(const void* owner) noexcept;
  /// Reclaims all entries. No other thread may use the list.
  void reclaim_all() noexcept;

  [[nodiscard]] std::size_t bytes() noexcept;

  struct counts {
    std::uint64_t retired;
    std::uint64_t reclaimed;
  };
  /// Exact at quiescence.
  [[nodiscard]] counts counted() const noexcept;

  void recover_in_child(bool lost) noexcept;

 private:
  /// Entries, with room for them behind it. Most bags have two KiB: one attempt to reclaim, which may be a system call with
  /// interrupts, per bag. Where a guard has kept many of them waiting, the next ones are pages of their own, which return to the OS
  /// at once when the guard has ended.
  struct bag {
    bag* next = nullptr;
    std::uint64_t stamp = 0;
    std::size_t count = 0;
    hw::page_run pages;  // none in a small one
    std::size_t capacity;

    static constexpr std::size_t small_bytes = std::size_t{2} << 10U;
    static constexpr std::size_t large_bytes = std::size_t{1} << 20U;
    /// A bag is sealed early when its entries free so much.
    static constexpr std::size_t heavy_bytes = std::size_t{64} << 10U;
    /// So many sealed bags of a thread wait before the next one is large.
    static constexpr std::size_t many = 64;

    [[nodiscard]] static bag* make(bool large);
    static void destroy(bag* b) noexcept;

    [[nodiscard]] std::size_t bytes() const noexcept;
    [[nodiscard]] bool is_large() const noexcept { return pages.data() != nullptr; }
    [[nodiscard]] std::size_t room() const noexcept { return capacity - count; }
    [[nodiscard]] retired* entries() noexcept { return std::launder(reinterpret_cast<retired*>(this + 1)); }
    void add(const retired& entry) noexcept {
      ::new (static_cast<void*>(entries() + count++)) retired(entry);
    }
    void reclaim_all() noexcept;
    /// Reclaims the entries of one owner and closes the gaps.
    std::size_t purge(const void* owner) noexcept;

   private:
    bag(hw::page_run own, std::size_t bytes) noexcept;
  };

  [[nodiscard]] bool reserve_more(std::size_t n);
  [[nodiscard]] bag* fresh_bag() const { return bag::make(sealed_count_ >= bag::many); }
  [[nodiscard]] bool seal_if_heavy();
  void seal() noexcept;
  void reclaim(bag& b) noexcept;

  // Under `lock_`, so that other threads can take over what an ended one left.
  ttas_lock lock_;
  std::uint32_t current_frees_ = 0;  // bytes, about. Only the list's thread uses it
  bag* current_ = nullptr;
  bag* sealed_first_ = nullptr;
  bag* sealed_last_ = nullptr;
  std::uint32_t sealed_count_ = 0;
  // For so many retirements at least. Only the list's thread uses it, and writes it with the lock. Other threads empty the current bag,
  // and add spare ones: that makes more room.
  std::uint32_t room_ = 0;
  bag* spares_ = nullptr;  // empty, linked
  std::atomic<std::uint64_t> retired_{0};
  std::atomic<std::uint64_t> reclaimed_{0};
};
static_assert(sizeof(retired_list) == hw::cache_line_bytes);

}  // namespace espalier
