#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "espalier/cache/cache_entry.hpp"

// How an entry lies in a segment, or in an extent: 12 bytes, the parts that not every entry has, the key, the value.

namespace espalier::caching {

/// Where an entry begins: units of four bytes from the start of the log, 40 bits. 0: nowhere.
using location = std::uint64_t;
inline constexpr unsigned location_bits = 40;
inline constexpr std::size_t location_unit = 4;

enum mark : std::uint32_t {
  is_fetched = 1U << 0U,
  is_stale = 1U << 1U,
  is_claimed = 1U << 2U,
  has_flags = 1U << 3U,
  has_end = 1U << 4U,
  has_own_version = 1U << 5U,
  is_large = 1U << 6U,   ///< it lies in an extent
  is_filler = 1U << 7U,  ///< no entry, only its room
};

/// What decides how many bytes an entry takes.
struct entry_shape {
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  std::uint32_t marks = 0;
};

class entry {
 public:
  static constexpr std::uint64_t version_limit = std::uint64_t{1} << 40U;
  static constexpr std::uint32_t accessed_limit = 1U << 24U;
  /// Of head_bytes().
  static constexpr std::size_t longest_head = 32;

  /// Bytes from the start of the entry to its key.
  [[nodiscard]] static constexpr std::size_t head_bytes(std::uint32_t marks) noexcept {
    return heads[marks / has_flags % heads.size()];
  }
  [[nodiscard]] static constexpr std::size_t bytes_of(const entry_shape& shape) noexcept {
    const std::size_t bytes = head_bytes(shape.marks) + shape.key_bytes + shape.value_bytes;
    return (bytes + location_unit - 1) / location_unit * location_unit;
  }

  /// Writes all but the value.
  static entry& make(std::byte* at, const entry_shape& shape, std::string_view key,
                     const cache_change& change, std::uint64_t version, std::uint32_t now) noexcept {
    entry& e = *new (at) entry;
    // relaxed: publishing the entry orders it.
    e.word_.store(now % accessed_limit << 8U | shape.marks, std::memory_order_relaxed);
    e.version_low_ = static_cast<std::uint32_t>(version);
    e.version_high_ = static_cast<std::uint8_t>(version >> 32U);
    e.key_bytes_ = static_cast<std::uint8_t>(key.size());
    e.value_bytes_ = static_cast<std::uint16_t>(shape.value_bytes);
    if ((shape.marks & has_end) != 0) new (e.end_word()) std::atomic<std::uint32_t>(change.expires);
    if ((shape.marks & has_flags) != 0) e.put(shape.marks, has_flags, change.flags);
    if ((shape.marks & has_own_version) != 0) e.put(shape.marks, has_own_version, change.version);
    if ((shape.marks & is_large) != 0)
      e.put(shape.marks, is_large, static_cast<std::uint32_t>(shape.value_bytes));
    std::memcpy(e.raw() + head_bytes(shape.marks), key.data(), key.size());
    return e;
  }
  /// Room that holds nothing.
  static void make_filler(std::byte* at, std::size_t bytes) noexcept {
    entry& e = *new (at) entry;
    e.word_.store(is_filler, std::memory_order_relaxed);  // relaxed: as above
    e.key_bytes_ = static_cast<std::uint8_t>(bytes >> 16U);
    e.value_bytes_ = static_cast<std::uint16_t>(bytes);
  }

  // relaxed, here and below: finding the entry orders what was written before; what changes later is one word each.
  [[nodiscard]] std::uint32_t marks() const noexcept { return word_.load(std::memory_order_relaxed) & 0xFFU; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    const std::uint32_t m = marks();
    if ((m & is_filler) != 0) return std::size_t{key_bytes_} << 16U | value_bytes_;
    return bytes_of({key_bytes_, value_bytes(m), m});
  }
  [[nodiscard]] std::string_view key() const noexcept { return {raw() + head_bytes(marks()), key_bytes_}; }
  [[nodiscard]] bool has_key(std::string_view key) const noexcept {
    return key_bytes_ == key.size() && std::memcmp(raw() + head_bytes(marks()), key.data(), key.size()) == 0;
  }
  /// The cache's own version; what users see may be theirs.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return std::uint64_t{version_high_} << 32U | version_low_;
  }
  [[nodiscard]] std::uint32_t end() const noexcept {
    return (marks() & has_end) == 0 ? cache_entry::never : end_word()->load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_in_extent() const noexcept { return (marks() & is_large) != 0; }
  [[nodiscard]] char* value() noexcept { return raw() + head_bytes(marks()) + key_bytes_; }

  [[nodiscard]] cache_entry seen(std::uint32_t now) const noexcept {
    const std::uint32_t word = word_.load(std::memory_order_relaxed);
    const std::uint32_t m = word & 0xFFU;
    cache_entry s;
    s.value = {raw() + head_bytes(m) + key_bytes_, value_bytes(m)};
    s.version = (m & has_own_version) != 0 ? part<std::uint64_t>(m, has_own_version) : version();
    s.flags = (m & has_flags) != 0 ? part<std::uint32_t>(m, has_flags) : 0;
    s.expires = end();
    s.accessed = now - (now - (word >> 8U)) % accessed_limit;
    s.fetched = (m & is_fetched) != 0;
    s.stale = (m & is_stale) != 0;
    s.claimed = (m & is_claimed) != 0;
    return s;
  }

  /// Notes a get: at the first one, and once a minute.
  void note_get(std::uint32_t now) noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    const std::uint32_t age = (now - (word >> 8U)) % accessed_limit;
    if ((word & is_fetched) != 0 && age < 60) return;
    // relaxed: the word stands alone. One that fails has met a newer note, or marks that count more.
    word_.compare_exchange_strong(word, now % accessed_limit << 8U | (word & 0xFFU) | is_fetched,
                                  std::memory_order_relaxed);
  }
  /// Under the lock of the key.
  void set_marks(bool stale, bool claimed) noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    std::uint32_t next = 0;
    do {
      next = (word & ~std::uint32_t{is_stale | is_claimed}) | (stale ? is_stale : 0U) |
             (claimed ? is_claimed : 0U);
    } while (!word_.compare_exchange_weak(word, next, std::memory_order_relaxed));
  }
  void set_end(std::uint32_t end) noexcept { end_word()->store(end, std::memory_order_relaxed); }

  /// Copies an entry that changes no more but by gets.
  void copy_to(std::byte* at, std::size_t bytes) const noexcept {
    entry& to = *new (at) entry;
    to.word_.store(word_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    std::memcpy(at + sizeof(word_), reinterpret_cast<const std::byte*>(this) + sizeof(word_),
                sizeof(entry) - sizeof(word_));
    std::size_t from = sizeof(entry);
    if ((marks() & has_end) != 0) {
      new (to.end_word()) std::atomic<std::uint32_t>(end());
      from += sizeof(std::uint32_t);
    }
    std::memcpy(at + from, reinterpret_cast<const std::byte*>(this) + from, bytes - from);
  }

 private:
  entry() = default;

  /// By the marks from has_flags to is_large. A change of an entry looks here six times.
  static constexpr auto heads = [] {
    std::array<std::uint8_t, 2 * is_large / has_flags> bytes{};
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      const std::uint32_t marks = i * has_flags;
      bytes[i] = static_cast<std::uint8_t>(
          12 + ((marks & has_end) != 0 ? 4 : 0) + ((marks & has_flags) != 0 ? 4 : 0) +
          ((marks & has_own_version) != 0 ? 8 : 0) + ((marks & is_large) != 0 ? 4 : 0));
    }
    return bytes;
  }();

  [[nodiscard]] char* raw() noexcept { return reinterpret_cast<char*>(this); }
  [[nodiscard]] const char* raw() const noexcept { return reinterpret_cast<const char*>(this); }
  [[nodiscard]] std::atomic<std::uint32_t>* end_word() noexcept {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(raw() + sizeof(entry));
  }
  [[nodiscard]] const std::atomic<std::uint32_t>* end_word() const noexcept {
    return reinterpret_cast<const std::atomic<std::uint32_t>*>(raw() + sizeof(entry));
  }
  [[nodiscard]] std::size_t value_bytes(std::uint32_t marks) const noexcept {
    return (marks & is_large) != 0 ? part<std::uint32_t>(marks, is_large) : value_bytes_;
  }
  /// Where a part lies: after those with smaller marks. The end is first, because it changes.
  [[nodiscard]] static constexpr std::size_t place(std::uint32_t marks, mark part) noexcept {
    return head_bytes(marks & ((part - 1) | has_end));
  }
  template <class T>
  void put(std::uint32_t marks, mark which, const T& value) noexcept {
    std::memcpy(raw() + place(marks, which), &value, sizeof(T));
  }
  template <class T>
  [[nodiscard]] T part(std::uint32_t marks, mark which) const noexcept {
    T value;
    std::memcpy(&value, raw() + place(marks, which), sizeof(T));
    return value;
  }

  std::atomic<std::uint32_t> word_;  ///< the last access, 24 bits, and the marks
  std::uint32_t version_low_;
  std::uint8_t version_high_;
  std::uint8_t key_bytes_;
  std::uint16_t value_bytes_;
};

static_assert(sizeof(entry) == entry::head_bytes(0) && alignof(entry) == location_unit,
              "the bytes an entry takes, on which the measured density rests, have changed");

}  // namespace espalier::caching
