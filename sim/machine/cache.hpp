#pragma once

// One set-associative cache: which lines it holds, not what is in them. Also serves as a TLB array, whose
// "lines" are page numbers.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// A set is kept in order of use, the latest first and free ways last, so that replacement needs no clock and
/// a repeated hit compares one word. Line numbers are below line_limit. Every operation is O(ways).
class cache {
 public:
  using line_number = std::uint32_t;
  static constexpr std::uint64_t line_limit = (std::uint64_t{1} << 31) - 1;

  /// One way: a line and a mark that only the owner of the cache gives a meaning.
  class way {
   public:
    bool is_free() const noexcept { return word_ == free_word; }
    bool holds(line_number line) const noexcept { return (word_ | 1u) == ((line << 1) | 1u); }
    line_number line() const noexcept { return word_ >> 1; }
    bool marked() const noexcept { return (word_ & 1u) != 0; }
    void mark(bool on) noexcept { word_ = (word_ & ~1u) | (on ? 1u : 0u); }

   private:
    friend class cache;
    static constexpr std::uint32_t free_word = 0xffffffff;
    std::uint32_t word_ = free_word;
  };

  explicit cache(const hw::cache_shape& spec)
      : sets_(spec.sets),
        ways_(spec.ways),
        slices_(spec.slices),
        mask_((spec.sets & (spec.sets - 1)) == 0 ? spec.sets - 1 : 0),
        content_(static_cast<std::size_t>(spec.lines())) {}

  unsigned set_of(line_number line) const noexcept {
    const unsigned set = mask_ != 0 ? line & mask_ : line % sets_;
    return slices_ == 1 ? set : hw::slice_of(std::uint64_t{line} * line_bytes, slices_) * sets_ + set;
  }

  /// The way that holds the line, now the latest used of its set; null where there is none. The pointer is
  /// valid until the next change of this cache.
  way* use(line_number line) noexcept {
    way* const set = set_begin(line);
    if (set[0].holds(line)) [[likely]] {
      return set;
    }
    const unsigned at = position(set, line);
    if (at == ways_) {
      return nullptr;
    }
    const way found = set[at];
    std::memmove(set + 1, set, at * sizeof(way));
    set[0] = found;
    return set;
  }

  /// As use(), without using it.
  way* find(line_number line) noexcept {
    way* const set = set_begin(line);
    const unsigned at = position(set, line);
    return at == ways_ ? nullptr : set + at;
  }
  bool contains(line_number line) const noexcept {
    const way* const set = set_begin(line);
    return position(set, line) != ways_;
  }

  /// What insert() would return.
  std::optional<way> victim_for(line_number line) const noexcept {
    const way last = set_begin(line)[ways_ - 1];
    return last.is_free() ? std::nullopt : std::optional<way>(last);
  }

  /// Puts in a line that is absent, unmarked; returns the least recently used one that had to go.
  std::optional<way> insert(line_number line) noexcept {
    way* const set = set_begin(line);
    const way last = set[ways_ - 1];
    std::memmove(set + 1, set, (ways_ - 1) * sizeof(way));
    set[0].word_ = line << 1;
    return last.is_free() ? std::nullopt : std::optional<way>(last);
  }

  /// True where the line was there.
  bool remove(line_number line) noexcept {
    way* const set = set_begin(line);
    const unsigned at = position(set, line);
    if (at == ways_) {
      return false;
    }
    std::memmove(set + at, set + at + 1, (ways_ - 1 - at) * sizeof(way));
    set[ways_ - 1] = way{};
    return true;
  }

  void clear() noexcept { std::fill(content_.begin(), content_.end(), way{}); }

  /// Calls visitor(const way&) for each line held, in order of the sets.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (const way& w : content_) {
      if (!w.is_free()) {
        visitor(w);
      }
    }
  }

 private:
  way* set_begin(line_number line) noexcept { return content_.data() + std::size_t{set_of(line)} * ways_; }
  const way* set_begin(line_number line) const noexcept {
    return content_.data() + std::size_t{set_of(line)} * ways_;
  }
  unsigned position(const way* set, line_number line) const noexcept {
    unsigned at = 0;
    while (at < ways_ && !set[at].holds(line)) {
      ++at;
    }
    return at;
  }

  unsigned sets_;
  unsigned ways_;
  unsigned slices_;
  unsigned mask_;  // 0 where the number of sets is no power of two, or is 1
  std::vector<way> content_;
};

}  // namespace espalier::sim
