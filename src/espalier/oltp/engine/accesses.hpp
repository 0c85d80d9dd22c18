#pragma once

#include "espalier/oltp/engine/table_base.hpp"

// The rows that an attempt has used, and the memory of its copies.

namespace espalier::oltp::engine {

/// Of each kind of memory an attempt leaves at most this to the next one of its thread.
inline constexpr std::size_t kept_bytes = std::size_t{1} << 20;

template <class T>
void empty(std::vector<T>& all) noexcept {
  if (all.empty()) return;
  if (all.capacity() > kept_bytes / sizeof(T))  // NOLINT(bugprone-sizeof-expression): of any type
    std::vector<T>().swap(all);
  else
    all.clear();
}

/// Memory for the copies of rows of one attempt.
class arena {
 public:
  /// Aligned to 8. Throws std::bad_alloc.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    bytes = 8 * words_of(std::max<std::size_t>(bytes, 1));
    for (; block_ < blocks_.size(); ++block_, used_ = 0) {
      if (blocks_[block_].bytes - used_ >= bytes) {
        std::byte* const at = blocks_[block_].memory.get() + used_;
        used_ += bytes;
        return at;
      }
    }
    const std::size_t size = std::max(bytes, block_bytes);
    blocks_.push_back({std::make_unique<std::byte[]>(size), size});
    bytes_ += size;
    used_ = bytes;
    return blocks_.back().memory.get();
  }
  void reset() noexcept {
    if (bytes_ > kept_bytes) {
      blocks_.clear();
      bytes_ = 0;
    }
    block_ = 0;
    used_ = 0;
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{32} << 10;
  struct block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };
  std::vector<block> blocks_;
  std::size_t bytes_ = 0;  ///< of all blocks
  std::size_t block_ = 0;
  std::size_t used_ = 0;
};

inline constexpr std::uint32_t none = ~std::uint32_t{0};

/// A row that the attempt has read, locked or written.
struct access {
  stored_row* of;
  std::byte* contents;               ///< as the attempt sees them: in place, or a copy
  std::byte* former = nullptr;       ///< of contents that were changed in place
  std::uint64_t number = 0;          ///< Silo: when the row was read
  std::uint32_t last_change = none;  ///< of an index, in the list of the attempt
  lock_mode held = lock_mode::none;  ///< two-phase locking
  bool read = false;                 ///< Silo: the number is validated
  bool absent = true;                ///< in what the protocol has read
  bool writes = false;
  bool inserted = false;
  bool appended = false;  ///< inserted into no index
  bool erased = false;
  bool changing = false;  ///< the program's function of an update runs
  bool listed = false;    ///< in the part of a range that drop_duplicates() looks at

  /// Whether there is such a row for this attempt.
  [[nodiscard]] bool is_there() const noexcept { return !absent && !erased; }
};

/// All accesses of an attempt, which are found by their rows.
class access_list {
 public:
  [[nodiscard]] access& operator[](std::uint32_t at) noexcept { return all_[at]; }
  [[nodiscard]] const access& operator[](std::uint32_t at) const noexcept { return all_[at]; }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

  /// The access whose contents are these; null: there is none at that place. As pointers: a size would be a division.
  [[nodiscard]] access* with(std::uint32_t at, const std::byte* contents) noexcept {
    access* const one = all_.data() + at;
    return one < std::to_address(all_.end()) && one->contents == contents ? one : nullptr;
  }
  /// `none` for a row that was not used.
  [[nodiscard]] std::uint32_t find(const stored_row* r) const noexcept {
    for (std::size_t slot = slot_of(r, table_.size()); table_[slot] != 0;
         slot = (slot + 1) & (table_.size() - 1)) {
      if (all_[table_[slot] - 1].of == r) return table_[slot] - 1;
    }
    return none;
  }
  /// Of a row that was not used. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t add(stored_row* r) {
    if (2 * (all_.size() + 1) > table_.size()) fill_table(2 * table_.size());
    all_.push_back({.of = r, .contents = r->data});
    std::size_t slot = slot_of(r, table_.size());
    while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
    const auto at = static_cast<std::uint32_t>(all_.size());
    table_[slot] = at;
    return at - 1;
  }
  /// Before the first find() after clear(). Throws std::bad_alloc.
  void make_table() {
    if (table_.empty()) fill_table(least_slots);
  }
  void clear() noexcept {
    if (table_.size() * sizeof(table_[0]) > kept_bytes) {
      empty(table_);
    } else {
      for (const access& a : all_) {
        for (std::size_t slot = slot_of(a.of, table_.size()); table_[slot] != 0;
             slot = (slot + 1) & (table_.size() - 1))
          table_[slot] = 0;
      }
    }
    empty(all_);
  }

 private:
  static constexpr std::size_t least_slots = 64;
  static std::size_t slot_of(const stored_row* r, std::size_t slots) noexcept {
    return (reinterpret_cast<std::uintptr_t>(r) * 0x9E3779B97F4A7C15U >> 20) & (slots - 1);
  }
  void fill_table(std::size_t slots) {
    std::vector<std::uint32_t> fresh(slots, 0);
    for (std::uint32_t i = 0; i < all_.size(); ++i) {
      std::size_t slot = slot_of(all_[i].of, slots);
      while (fresh[slot] != 0) slot = (slot + 1) & (slots - 1);
      fresh[slot] = i + 1;
    }
    table_.swap(fresh);
  }

  std::vector<access> all_;
  std::vector<std::uint32_t> table_;  ///< open addressing: 1 + index of the access; 0: none
};

}  // namespace espalier::oltp::engine
