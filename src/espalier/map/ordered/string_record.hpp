#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pair_exchange.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The records of a tree of strings, each with a key and its value, and the blocks that they lie in. What leads to them is in
// string_leaf.hpp, with the invariants.
//
// Orderings
//   (1) change (seq_cst) -> get (acquire) in sync/optimistic_lock.hpp: a word is seen with what its writer did before,
//       such as the value that it leads to.

namespace espalier::btree {

/// A key and the word of its value.
class alignas(hw::word_pair) string_record {
 public:
  static constexpr std::size_t longest_key = std::numeric_limits<std::uint32_t>::max();

  string_record(std::string_view key, std::uint64_t first_word) noexcept
      : state_(key.size()), word_(first_word) {
    std::copy(key.begin(), key.end(), reinterpret_cast<char*>(this + 1));
  }
  [[nodiscard]] static std::size_t bytes_for(std::size_t length) noexcept {
    return (sizeof(string_record) + length + alignof(string_record) - 1) & ~(alignof(string_record) - 1);
  }
  /// With the key.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_for(size()); }

  [[nodiscard]] std::string_view key() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), size()};
  }
  [[nodiscard, gnu::always_inline]] bool has(std::string_view key) const noexcept {
    return size() == key.size() &&
           (key.empty() || std::memcmp(reinterpret_cast<const char*>(this + 1), key.data(), key.size()) == 0);
  }

  /// The word, or nothing if the entry is erased. If it has moved, the word is the last one that it had here.
  [[nodiscard]] std::optional<std::uint64_t> read() const noexcept {
    if ((state_.get(unvalidated{}) & erased_bit) != 0) return std::nullopt;
    // The last one, if the entry has been erased since.
    return word_.get(unvalidated{});
  }
  /// Whether the entry is in another leaf, or is about to be.
  [[nodiscard]] bool has_moved() const noexcept { return (state_.get(unvalidated{}) & moved_bit) != 0; }
  /// That of an entry that is not published, or that is erased.
  [[nodiscard]] std::uint64_t last_word() const noexcept { return word_.get(unvalidated{}); }

  // An update or an erase of the entry, if it has the expected word. False if it has not, or is erased, or has moved.

  /// Where pairs are exchanged, by any thread, else with the lock of its leaf.
  [[nodiscard]] bool update(std::uint64_t expected, std::uint64_t next) noexcept {
    return change(expected, size(), next);
  }
  /// With the lock of its leaf.
  [[nodiscard]] bool erase(std::uint64_t expected) noexcept {
    return change(expected, size() | erased_bit, expected);
  }
  /// Moves the entry to this record, which is not published. With the lock of the other one's leaf.
  void move_from(string_record& other) noexcept {
    std::uint64_t w = other.last_word();
    while (!other.change(w, size() | moved_bit, w)) w = other.last_word();
    word_.set(exclusive_access{}, w);
  }

 private:
  static constexpr std::uint64_t erased_bit = std::uint64_t{1} << 63U;
  static constexpr std::uint64_t moved_bit = std::uint64_t{1} << 62U;

  [[nodiscard]] std::size_t size() const noexcept {
    return state_.get(unvalidated{}) & ~(erased_bit | moved_bit);
  }
  [[nodiscard]] bool change(std::uint64_t expected, std::uint64_t next_state, std::uint64_t next) noexcept {
    if constexpr (hw::exchanges_pairs) {
      // order (1): change, seq_cst
      return hw::exchange_pair(this, {size(), expected}, {next_state, next});
    } else {
      if (!read() || has_moved() || word_.get(unvalidated{}) != expected) return false;
      word_.set(exclusive_access{}, next);
      state_.set(exclusive_access{}, next_state);
      return true;
    }
  }

  optimistic_field<std::uint64_t>
      state_;  ///< the length of the key, which lies behind, and whether it is erased or has moved
  optimistic_field<std::uint64_t> word_;
};

/// Memory for records of one leaf. They lie behind it.
struct alignas(string_record) record_block {
  explicit record_block(std::size_t of_all) noexcept : bytes(of_all) {}

  /// For a record of these bytes, and for others if it is a short one.
  [[nodiscard]] static std::size_t bytes_for(std::size_t record) noexcept {
    return record > longest_shared ? sizeof(record_block) + record : shared_bytes;
  }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes; }
  [[nodiscard]] char* begin() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] char* end() noexcept { return reinterpret_cast<char*>(this) + bytes; }

  const std::size_t bytes;
  record_block* next = nullptr;

 private:
  /// Each leaf has a block that is not full, and each block an end that is too short for a record. With records of 80 bytes
  /// and leaves of 150 of them, both cost 4 %.
  static constexpr std::size_t shared_bytes = 1024;
  static constexpr std::size_t longest_shared = shared_bytes / 4;
};

/// Where the records of a leaf lie: behind the leaf, and in blocks. What changes it has the lock of the leaf.
class record_space {
 public:
  /// With the memory between `begin` and `end`.
  record_space(char* begin, char* end) noexcept : room_(begin), end_(end), held_(bytes_between(begin, end)) {}

  /// A hint without the lock.
  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept { return bytes <= room_bytes(); }
  /// Adds a record. There is room for it.
  string_record& add(std::string_view key, std::uint64_t word) noexcept {
    auto* const made = ::new (room()) string_record(key, word);
    room_.set(exclusive_access{}, room() + string_record::bytes_for(key.size()));
    return *made;
  }
  /// Adds a record and the block that was made for it.
  string_record& add(std::string_view key, std::uint64_t word, record_block* block) noexcept {
    auto* const made = ::new (block->begin()) string_record(key, word);
    block->next = std::exchange(first_, block);
    held_.set(exclusive_access{}, held_.get(exclusive_access{}) + block->bytes);
    char* const rest = block->begin() + string_record::bytes_for(key.size());
    if (bytes_between(rest, block->end()) >= room_bytes()) {
      room_.set(exclusive_access{}, rest);
      end_.set(exclusive_access{}, block->end());
    }
    return *made;
  }
  /// A record of so many bytes is erased.
  void lose(std::size_t bytes) noexcept {
    lost_.set(exclusive_access{}, lost_.get(exclusive_access{}) + bytes);
  }
  /// Whether the records would have a third less memory in another leaf.
  [[nodiscard]] bool is_wasteful() const noexcept {
    return 3 * lost_.get(unvalidated{}) > held_.get(unvalidated{}) + slack;
  }

  /// Requests the memory of the next record.
  void request_room() const noexcept { hw::request_lines(room(), 2 * hw::cache_line_bytes); }
  template <class Visit>
  void for_each_block(const Visit& visit) const {
    for (record_block* b = first_; b != nullptr;) visit(*std::exchange(b, b->next));
  }

 private:
  [[nodiscard]] static std::size_t bytes_between(const char* begin, const char* end) noexcept {
    return static_cast<std::size_t>(end - begin);
  }
  [[nodiscard]] char* room() const noexcept { return room_.get(unvalidated{}); }
  [[nodiscard]] std::size_t room_bytes() const noexcept {
    return bytes_between(room(), end_.get(unvalidated{}));
  }
  /// A leaf is not made anew for less than that.
  static constexpr std::size_t slack = 2048;

  optimistic_field<char*> room_;  ///< for the next record
  optimistic_field<char*> end_;   ///< of the room
  record_block* first_ = nullptr;
  optimistic_field<std::size_t> held_;  ///< bytes of all memory
  optimistic_field<std::size_t> lost_;  ///< bytes of records that are erased
};

}  // namespace espalier::btree
