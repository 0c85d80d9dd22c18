#pragma once

// Which caches hold which line. Exact, unlike the directories of real machines: the directory learns of every clean
// line that a cache drops.

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// A set of private caches, by number.
class private_cache_set {
 public:
  /// The `count` caches starting at `first`.
  static private_cache_set range(unsigned first, unsigned count) noexcept {
    private_cache_set set;
    for (unsigned i = first; i < first + count; ++i) {
      set.add(i);
    }
    return set;
  }
  static private_cache_set only(unsigned i) noexcept { return range(i, 1); }

  void add(unsigned i) noexcept { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void remove(unsigned i) noexcept { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool has(unsigned i) const noexcept { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool empty() const noexcept { return (words_[0] | words_[1]) == 0; }
  unsigned size() const noexcept {
    return static_cast<unsigned>(std::popcount(words_[0]) + std::popcount(words_[1]));
  }
  private_cache_set operator&(const private_cache_set& other) const noexcept {
    private_cache_set set;
    set.words_ = {words_[0] & other.words_[0], words_[1] & other.words_[1]};
    return set;
  }
  private_cache_set without(const private_cache_set& other) const noexcept {
    private_cache_set set;
    set.words_ = {words_[0] & ~other.words_[0], words_[1] & ~other.words_[1]};
    return set;
  }
  /// Calls visitor(number) in ascending order.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (unsigned w = 0; w < words_.size(); ++w) {
      for (std::uint64_t rest = words_[w]; rest != 0; rest &= rest - 1) {
        visitor(w * 64 + static_cast<unsigned>(std::countr_zero(rest)));
      }
    }
  }
  bool operator==(const private_cache_set&) const = default;

 private:
  std::array<std::uint64_t, max_private_caches / 64> words_{};
};

/// A line's entry. All bits zero means a line that no cache holds, so that new entries need no constructor.
///
/// Invariants: an owner is the only sharer. `modified` implies an owner. A modified line is in no last-level cache of
/// another socket. `dirty_llc` names a socket that holds the line in its last-level cache; then no owner has modified
/// it and no other socket holds it.
struct directory_entry {
  private_cache_set sharers;
  std::uint64_t busy_until;
  std::uint16_t llc;  // a bit for each socket whose last-level cache holds the line
  std::uint8_t owner_plus_one;
  std::uint8_t dirty_llc_plus_one;
  bool modified;

  bool has_owner() const noexcept { return owner_plus_one != 0; }
  unsigned owner() const noexcept { return owner_plus_one - 1u; }
  void set_owner(unsigned cache) noexcept { owner_plus_one = static_cast<std::uint8_t>(cache + 1); }
  void clear_owner() noexcept {
    owner_plus_one = 0;
    modified = false;
  }
  bool in_llc(unsigned socket) const noexcept { return (llc >> socket & 1) != 0; }
  void add_llc(unsigned socket) noexcept { llc = static_cast<std::uint16_t>(llc | 1u << socket); }
  void remove_llc(unsigned socket) noexcept { llc = static_cast<std::uint16_t>(llc & ~(1u << socket)); }
  std::optional<unsigned> dirty_llc() const noexcept {
    return dirty_llc_plus_one == 0 ? std::nullopt : std::optional<unsigned>(dirty_llc_plus_one - 1u);
  }
  void set_dirty_llc(unsigned socket) noexcept { dirty_llc_plus_one = static_cast<std::uint8_t>(socket + 1); }
  void clear_dirty_llc() noexcept { dirty_llc_plus_one = 0; }
};
static_assert(sizeof(directory_entry) == 32);

/// The entries, in chunks of 2 MiB that are created on first use. References stay valid as long as the directory.
class directory {
 public:
  explicit directory(std::uint64_t lines)
      : lines_(lines), chunks_(static_cast<std::size_t>((lines + chunk_lines - 1) / chunk_lines)) {}

  directory_entry& operator[](std::uint32_t line) {
    chunk& c = chunks_[line / chunk_lines];
    if (c == nullptr) [[unlikely]] {
      c = make_chunk();
    }
    return c[line % chunk_lines];
  }

  /// Starts to load the line's entry, because a random one is not in the host's caches.
  void prefetch(std::uint32_t line) const noexcept {
    if (const chunk& c = chunks_[line / chunk_lines]; c != nullptr) {
      __builtin_prefetch(&c[line % chunk_lines], 1);
    }
  }

  /// The line's entry; null if it has none yet.
  const directory_entry* find(std::uint32_t line) const noexcept {
    const chunk& c = chunks_[line / chunk_lines];
    return c == nullptr ? nullptr : &c[line % chunk_lines];
  }

  /// Calls visitor(line, const directory_entry&) for every line that has an entry, in ascending order.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (std::uint64_t line = 0; line < lines_; ++line) {
      const chunk& c = chunks_[line / chunk_lines];
      if (c == nullptr) {
        line += chunk_lines - 1;
      } else {
        visitor(static_cast<std::uint32_t>(line), c[line % chunk_lines]);
      }
    }
  }

 private:
  static constexpr std::uint32_t chunk_lines = 1u << 16;
  struct releaser {
    void operator()(directory_entry* p) const noexcept;
  };
  using chunk = std::unique_ptr<directory_entry[], releaser>;

  static chunk make_chunk();

  std::uint64_t lines_;
  std::vector<chunk> chunks_;
};

}  // namespace espalier::sim
