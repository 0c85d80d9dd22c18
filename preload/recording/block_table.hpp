#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/kernel/futex_lock.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {

/// A live block of the program.
struct block_record {
  std::uintptr_t address;
  std::uint64_t asked;  ///< bytes
  std::uint64_t held;   ///< usable bytes: malloc_usable_size()
  std::uint32_t site;

  friend bool operator==(const block_record&, const block_record&) = default;
};

/// The live blocks by address, stored outside the program's heap. An entry has 16 bytes; at most five eighths of the
/// entries are in use. Removal shifts entries back, so there are no tombstones.
///
/// Any thread may insert and erase; a block may be erased by another thread than the one that inserted it. insert,
/// erase: constant expected time except for the growth of a shard, under the shard's lock. Constant-initialised and
/// never destroyed: the program may allocate before its first constructor and after its last destructor.
class block_table {
 public:
  static constexpr std::uintptr_t address_limit = std::uintptr_t{1} << 48U;
  static constexpr std::uint64_t asked_limit = (std::uint64_t{1} << 40U) - 1;
  static constexpr std::uint32_t site_limit = (std::uint32_t{1} << 24U) - 1;

  explicit constexpr block_table(memory_budget& budget) noexcept : budget_(budget) {}
  block_table(const block_table&) = delete;
  block_table& operator=(const block_table&) = delete;

  /// Replaces an entry with the same address: the free of that block was not seen. False where memory for growth is
  /// refused, the address is null or beyond address_limit, or the site beyond site_limit. Sizes beyond asked_limit
  /// are stored as asked_limit. `held` is exact where it exceeds `asked` by less than exact_slack; otherwise the
  /// excess is rounded up to multiples of a page. Adds to `*replaced`, if not null, the requested bytes of the entry
  /// that was replaced.
  [[nodiscard]] bool insert(const block_record& block, std::uint64_t* replaced = nullptr) noexcept;
  static constexpr std::uint64_t exact_slack = 0xf000;

  /// True where the address was in the table; `*removed`, if not null, then gets the removed entry.
  bool erase(std::uintptr_t address, block_record* removed = nullptr) noexcept;

  /// Between these two only the caller may use the table, and must neither insert nor erase.
  void lock_all() noexcept;
  void unlock_all() noexcept;

  /// Inserts a block again that was just erased and is not freed yet: it counts once.
  [[nodiscard]] bool put_back(const block_record& block) noexcept;

  struct counts {
    std::uint64_t used = 0;
    std::uint64_t inserted = 0;
  };
  /// Entries, and blocks ever inserted, while other threads continue.
  [[nodiscard]] counts counted() noexcept;

  /// The number of entries. Between lock_all() and unlock_all(), or while no other thread uses the table.
  [[nodiscard]] std::size_t size() const noexcept;

  /// Blocks ever inserted. Conditions as for size().
  [[nodiscard]] std::uint64_t inserted() const noexcept;

  /// Calls visitor(const block_record&) for each entry, in no order. Conditions as for size().
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    for (const shard& part : shards_) {
      for (std::size_t i = 0; i < part.capacity; ++i) {
        if (part.entries[i].key != 0) visitor(unpacked(part.entries[i]));
      }
    }
  }

  /// Removes all entries. Conditions as for size().
  void clear() noexcept;

 private:
  /// The low 48 bits of the key are the address, those above the slack. The low 40 bits of the value are the
  /// requested bytes, those above the site.
  struct entry {
    std::uint64_t key;
    std::uint64_t value;
  };
  struct alignas(64) shard {
    futex_lock lock;
    std::size_t used = 0;
    std::uint64_t inserted = 0;
    std::size_t capacity = 0;  // 0 or a power of two
    entry* entries = nullptr;
  };
  static constexpr unsigned shard_bits = 6;
  static constexpr std::size_t first_capacity = 256;

  static entry packed(const block_record& block) noexcept;
  static block_record unpacked(const entry& packed) noexcept;
  static std::uint64_t hash_of(std::uint64_t key) noexcept;
  static std::size_t home_of(const entry& of, std::size_t mask) noexcept;
  shard& shard_of(std::uintptr_t address) noexcept;
  bool grow(shard& part) noexcept;

  memory_budget& budget_;
  std::array<shard, std::size_t{1} << shard_bits> shards_{};
};

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
