#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "preload/recording/futex_lock.hpp"
#include "preload/recording/memory_budget.hpp"

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

}  // namespace espalier::preload
