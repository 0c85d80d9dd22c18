#pragma once

#include <atomic>
#include <bit>
#include <cassert>
#include <cstdint>
#include <string_view>

// The entries of a memtable, and the versions of one user key.
//
// An entry is encoded by RocksDB, in memory of the memtable's arena: the length of the internal key, as a varint, the user
// key, 8 bytes with the sequence number and the kind of the entry (its stamp), and the value. Entries of one user key are
// in decreasing order of their stamps.
//
// A map has for each user key a word: the only entry, or the newest of a list of versions, in decreasing order. Versions
// are added and never removed. Most are newer than all others. So each has, as it is added at the head, a second link
// that skips older ones as Myers' stacks do (Applicative random-access stacks, IPL 1983): a search for a snapshot takes a
// logarithmic number of steps. Concurrent writers may come in another order: a version that is added behind the head has
// no second link, and none leads to it. The versions before it lead to it.
//
// Orderings
//   (1) the map's exchange of the word, link (release) -> next (acquire): a version is seen made.

namespace espalier::memtable {

[[nodiscard]] inline std::uint64_t load_stamp(const char* at) noexcept {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t stamp;
  __builtin_memcpy(&stamp, at, sizeof(stamp));
  return stamp;
}

/// Of a stamp: the byte that is the kind of the entry.
inline constexpr std::uint64_t any_kind = 0xff;
/// Whether two entries of a key are one for RocksDB: their sequence numbers are equal, whatever their kinds.
[[nodiscard]] inline bool same_sequence(std::uint64_t a, std::uint64_t b) noexcept {
  return (a ^ b) <= any_kind;
}

/// A user key and a stamp: of an entry, or where a search begins.
struct place {
  std::string_view user_key;
  std::uint64_t stamp;

  [[nodiscard]] static place of_internal_key(std::string_view key) noexcept {
    assert(key.size() >= sizeof(std::uint64_t));
    const std::size_t length = key.size() - sizeof(std::uint64_t);
    return {key.substr(0, length), load_stamp(key.data() + length)};
  }
  [[nodiscard, gnu::always_inline]] static place of_entry(const char* entry) noexcept {
    std::uint32_t length = static_cast<unsigned char>(*entry++);
    if (length >= 0x80) [[unlikely]] {
      length &= 0x7fU;
      for (unsigned shift = 7;; shift += 7) {
        const auto more = static_cast<unsigned char>(*entry++);
        length |= (more & 0x7fU) << shift;
        if (more < 0x80) break;
      }
    }
    return of_internal_key({entry, length});
  }
};

struct version {
  std::uint64_t stamp;
  const char* entry;
  std::atomic<version*> next{nullptr};
  const version* skip = nullptr;
  std::uint32_t depth = 0;  ///< versions below it when it was added at the head
};

/// What a map has for a user key: the pointer to an entry, or that to a version and a mark.
class key_word {
 public:
  key_word() = default;
  [[nodiscard]] static key_word of(const char* entry) noexcept {
    return key_word(reinterpret_cast<std::uintptr_t>(entry));
  }
  [[nodiscard]] static key_word of(const version* newest) noexcept {
    return key_word(reinterpret_cast<std::uintptr_t>(newest) | mark);
  }
  [[nodiscard]] const char* only_entry() const noexcept {
    return (word_ & mark) == 0 ? reinterpret_cast<const char*>(word_) : nullptr;
  }
  [[nodiscard]] version* versions() const noexcept {
    return (word_ & mark) != 0 ? reinterpret_cast<version*>(word_ & ~mark) : nullptr;
  }
  /// One of the entries.
  [[nodiscard]] const char* any_entry() const noexcept {
    const version* const v = versions();
    return v != nullptr ? v->entry : only_entry();
  }
  friend bool operator==(key_word, key_word) = default;

 private:
  explicit key_word(std::uintptr_t word) noexcept : word_(word) {}
  static constexpr std::uintptr_t mark = std::uintptr_t{1} << 63U;
  std::uintptr_t word_;
};

/// An entry of a user key. At none, the entry is null.
struct position {
  const char* entry = nullptr;
  const version* of = nullptr;  ///< null where it is the only entry

  [[nodiscard]] static position at(const version* v) noexcept {
    return v != nullptr ? position{v->entry, v} : position{};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return entry != nullptr; }
};

[[nodiscard]] inline version* next_of(const version& v) noexcept {
  return v.next.load(std::memory_order_acquire);  // order (1): next, acquire
}

/// The last version whose stamp is larger. `newest` is such a one.
[[nodiscard]] inline const version* last_above(const version* newest, std::uint64_t stamp) noexcept {
  const version* at = newest;
  while (true) {
    const version* to = at->skip;
    if (to == nullptr || to->stamp <= stamp) to = next_of(*at);
    if (to == nullptr || to->stamp <= stamp) return at;
    at = to;
  }
}

// Searches among the entries of a user key.

[[nodiscard]] inline position newest(key_word w) noexcept {
  const version* const v = w.versions();
  return v != nullptr ? position::at(v) : position{w.only_entry(), nullptr};
}
/// The first one whose stamp is not larger.
[[nodiscard, gnu::always_inline]] inline position first_from(key_word w, std::uint64_t stamp) noexcept {
  if (const char* const only = w.only_entry(); only != nullptr) [[likely]]
    return place::of_entry(only).stamp <= stamp ? position{only, nullptr} : position{};
  const version* const v = w.versions();
  return position::at(v->stamp <= stamp ? v : next_of(*last_above(v, stamp)));
}
/// The last one whose stamp is not smaller.
[[nodiscard]] inline position last_up_to(key_word w, std::uint64_t stamp) noexcept {
  if (const char* const only = w.only_entry(); only != nullptr)
    return place::of_entry(only).stamp >= stamp ? position{only, nullptr} : position{};
  if (stamp == 0) {
    // No stamp is below the last one's; the search is for those above.
    const version* last = last_above(w.versions(), 0);
    if (const version* const zero = next_of(*last); zero != nullptr) last = zero;
    return position::at(last);
  }
  const version* const v = w.versions();
  return v->stamp >= stamp ? position::at(last_above(v, stamp - 1)) : position{};
}
[[nodiscard]] inline position oldest(key_word w) noexcept { return last_up_to(w, 0); }
[[nodiscard]] inline position older(position p) noexcept {
  return p.of != nullptr ? position::at(next_of(*p.of)) : position{};
}
[[nodiscard]] inline position newer(key_word w, position p) noexcept {
  const version* const v = w.versions();
  if (v == nullptr || p.of == nullptr || v->stamp <= p.of->stamp) return {};
  return position::at(last_above(v, p.of->stamp));
}

/// Adds one entry to a user key. Make is a function that makes a version.
template <class Make>
class adding {
 public:
  adding(const char* entry, std::uint64_t stamp, Make make) noexcept
      : entry_(entry), stamp_(stamp), make_(std::move(make)) {}

  /// The word that takes the place of another one: the same where the entry is to be added behind its head, or is there.
  [[nodiscard]] key_word word_after(key_word now) {
    outcome_ = outcome::added;
    if (const char* const only = now.only_entry(); only != nullptr) {
      const std::uint64_t other = place::of_entry(only).stamp;
      if (same_sequence(other, stamp_)) return present(now);
      version& old = made(former_, only, other);
      version& mine = made(mine_, entry_, stamp_);
      return other < stamp_ ? above(mine, old) : above(old, mine);
    }
    version& head = *now.versions();
    if (same_sequence(head.stamp, stamp_)) return present(now);
    if (head.stamp > stamp_) {
      outcome_ = outcome::behind;
      return now;
    }
    return above(made(mine_, entry_, stamp_), head);
  }
  /// After word_after() has returned the word that the map has. False if the entry was there.
  [[nodiscard]] bool finish(key_word now) {
    if (outcome_ != outcome::behind) return outcome_ == outcome::added;
    version& mine = made(mine_, entry_, stamp_);
    mine.skip = nullptr;
    const version* before = now.versions();
    while (true) {
      before = last_above(before, stamp_);
      if (same_sequence(before->stamp, stamp_)) return false;
      version* after = next_of(*before);
      if (after != nullptr && after->stamp > stamp_) continue;  // another thread came between
      if (after != nullptr && same_sequence(after->stamp, stamp_)) return false;
      // relaxed: published by the exchange.
      mine.next.store(after, std::memory_order_relaxed);
      // order (1): link, release. relaxed where it fails: it is read again.
      if (const_cast<version*>(before)->next.compare_exchange_strong(after, &mine, std::memory_order_release,
                                                                     std::memory_order_relaxed))
        return true;
    }
  }

 private:
  enum class outcome : std::uint8_t { added, present, behind };

  [[nodiscard]] key_word present(key_word now) noexcept {
    outcome_ = outcome::present;
    return now;
  }
  [[nodiscard]] version& made(version*& where, const char* entry, std::uint64_t stamp) {
    if (where == nullptr) where = make_();
    where->entry = entry;
    where->stamp = stamp;
    // relaxed: no other thread sees it yet.
    where->next.store(nullptr, std::memory_order_relaxed);
    where->skip = nullptr;
    where->depth = 0;
    return *where;
  }
  [[nodiscard]] static key_word above(version& head, version& below) noexcept {
    // relaxed: published by the exchange of the word.
    head.next.store(&below, std::memory_order_relaxed);
    head.depth = below.depth + 1;
    const version* const far = below.skip;
    const bool alike =
        far != nullptr && far->skip != nullptr && below.depth - far->depth == far->depth - far->skip->depth;
    head.skip = alike ? far->skip : &below;
    return key_word::of(&head);
  }

  const char* entry_;
  std::uint64_t stamp_;
  Make make_;
  version* mine_ = nullptr;
  version* former_ = nullptr;
  outcome outcome_ = outcome::added;
};

}  // namespace espalier::memtable
