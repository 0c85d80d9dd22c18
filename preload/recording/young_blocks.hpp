#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/recording/block_table.hpp"
#include "preload/recording/futex_lock.hpp"

namespace espalier::preload {

/// The last blocks that a thread got and still holds, before they enter the table that all threads share. Most blocks
/// die young, and one that dies here costs no locked instruction.
///
/// put(), take(): only for the owner, wait-free. moved() and take_of_other() exclude each other by the lock. One
/// thread frees a block, so take() and take_of_other() never compete for one.
class young_blocks {
 public:
  static constexpr std::size_t places = 64;

  /// True where the place of a block is free; otherwise moved() frees it. put() may also replace a block of the same
  /// address: its free was not seen.
  [[nodiscard]] bool has_room(std::uintptr_t address) const noexcept {
    return place_of(address).address.load(std::memory_order_relaxed) == 0;
  }
  /// Only for the owner.
  [[nodiscard]] bool holds(std::uintptr_t address) const noexcept {
    return place_of(address).address.load(std::memory_order_relaxed) == address;
  }
  /// The requested bytes of a block that it holds.
  [[nodiscard]] std::uint64_t asked_for(std::uintptr_t address) const noexcept {
    return place_of(address).asked.load(std::memory_order_relaxed);
  }
  void put(const block_record& block) noexcept {
    place& to = place_of(block.address);
    // relaxed: published by the address.
    to.asked.store(block.asked, std::memory_order_relaxed);
    to.held.store(block.held, std::memory_order_relaxed);
    to.site.store(block.site, std::memory_order_relaxed);
    // order: put (release) -> look (acquire)
    to.address.store(block.address, std::memory_order_release);
    // relaxed: only the owner counts.
    put_.store(put_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool take(std::uintptr_t address, block_record* taken) noexcept {
    if (!holds(address)) return false;
    take_held(address, taken);
    return true;
  }
  /// The same for a block that it is known to hold.
  void take_held(std::uintptr_t address, block_record* taken) noexcept {
    place& at = place_of(address);
    if (taken != nullptr) *taken = look(at);
    at.address.store(0, std::memory_order_release);
  }

  /// The same for a block that another thread frees.
  bool take_of_other(std::uintptr_t address, block_record* taken) noexcept {
    place& at = place_of(address);
    if (at.address.load(std::memory_order_acquire) != address) return false;
    const futex_guard guard(lock_);
    if (at.address.load(std::memory_order_acquire) != address) return false;
    if (taken != nullptr) *taken = look(at);
    at.address.store(0, std::memory_order_release);
    return true;
  }

  /// Moves the block in an address's place to the table. False where the table refuses it: then it is lost.
  /// `replaced` as in block_table::insert().
  [[nodiscard]] bool moved(std::uintptr_t address, block_table& to,
                           std::uint64_t* replaced = nullptr) noexcept {
    const futex_guard guard(lock_);
    return moved(place_of(address), to, replaced);
  }
  [[nodiscard]] bool all_moved(block_table& to, std::uint64_t* replaced = nullptr) noexcept {
    const futex_guard guard(lock_);
    bool good = true;
    for (place& each : places_) good &= moved(each, to, replaced);
    return good;
  }

  /// Blocks ever put here that did not enter the table from here.
  [[nodiscard]] std::uint64_t not_moved() const noexcept {
    return put_.load(std::memory_order_relaxed) - moved_.load(std::memory_order_relaxed);
  }

  /// While the owner is kept out, under the lock.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    for (const place& each : places_) {
      if (each.address.load(std::memory_order_acquire) != 0) visitor(look(each));
    }
  }
  futex_lock& lock() noexcept { return lock_; }

 private:
  struct place {
    std::atomic<std::uintptr_t> address;  // 0: free
    std::atomic<std::uint64_t> asked;
    std::atomic<std::uint64_t> held;
    std::atomic<std::uint32_t> site;
  };

  static std::size_t index_of(std::uintptr_t address) noexcept {
    return (address >> 4U ^ address >> 10U) % places;
  }
  place& place_of(std::uintptr_t address) noexcept { return places_[index_of(address)]; }
  [[nodiscard]] const place& place_of(std::uintptr_t address) const noexcept {
    return places_[index_of(address)];
  }
  static block_record look(const place& at) noexcept {
    return {at.address.load(std::memory_order_acquire), at.asked.load(std::memory_order_relaxed),
            at.held.load(std::memory_order_relaxed), at.site.load(std::memory_order_relaxed)};
  }
  bool moved(place& from, block_table& to, std::uint64_t* replaced) noexcept {
    const block_record block = look(from);
    if (block.address == 0) return true;
    // The table first: a thread that finds the place empty then finds the block in the table.
    const bool entered = to.insert(block, replaced);
    from.address.store(0, std::memory_order_release);
    moved_.store(moved_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return entered;
  }

  std::array<place, places> places_;
  std::atomic<std::uint64_t> put_;
  std::atomic<std::uint64_t> moved_;
  futex_lock lock_;
};

}  // namespace espalier::preload
