#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/map/btree/masstree_node.hpp"

// How masstree for strings holds its keys (masstree_strings.hpp): the nodes of each layer compare a slice, 8 bytes, and
// the rest of a key lies in a container, together with those of a few others.

namespace espalier::btree {

/// The part of a key that one layer compares: its next 8 bytes, as a number that orders as they do, and how many there
/// are. A key that is longer comes behind all those that end within the slice.
struct key_slice {
  static constexpr std::size_t width = 8;
  static constexpr std::uint8_t longer = 9;

  std::uint64_t bytes = 0;
  std::uint8_t length = 0;

  /// Of the key behind its first `from` bytes, of which there are at least so many.
  [[nodiscard]] static key_slice of(std::string_view key, std::size_t from) noexcept {
    const char* const at = key.data() + from;
    const std::size_t left = key.size() - from;
    if (left >= width) [[likely]]
      return {load(at), static_cast<std::uint8_t>(left == width ? width : longer)};
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < left; ++i)
      bytes |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * (width - 1 - i));
    return {bytes, static_cast<std::uint8_t>(left)};
  }
  [[nodiscard]] bool goes_on() const noexcept { return length == longer; }

  void append_to(std::string& key) const {
    const std::uint64_t in_order = in_memory_order(bytes);
    std::array<char, width> characters;
    std::memcpy(characters.data(), &in_order, width);
    key.append(characters.data(), std::min<std::size_t>(length, width));
  }

  friend bool operator==(const key_slice&, const key_slice&) = default;
  friend bool operator<(const key_slice& a, const key_slice& b) noexcept {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.length < b.length;
  }

 private:
  [[nodiscard]] static std::uint64_t load(const char* at) noexcept {
    std::uint64_t x;
    std::memcpy(&x, at, width);
    return in_memory_order(x);
  }
  [[nodiscard]] static std::uint64_t in_memory_order(std::uint64_t x) noexcept {
    return std::endian::native == std::endian::little ? __builtin_bswap64(x) : x;
  }
};

/// Both parts of a slice are loaded at the same version, but for low keys: see masstree_layer.hpp, (M2). A low key that
/// is read while it becomes smaller may be any in between: its node is about to get that range.
template <unsigned Count>
class node_keys<key_slice, Count> {
 public:
  /// Most layers have few keys.
  static constexpr bool by_halves = false;

  [[nodiscard]] key_slice get(unsigned i) const noexcept { return {bytes_[i].get(), length_[i].get()}; }
  [[nodiscard]] key_slice held(unsigned i) const noexcept { return {bytes_[i].held(), length_[i].held()}; }
  void set(unsigned i, const key_slice& k) noexcept {
    bytes_[i].set(k.bytes);
    length_[i].set(k.length);
  }

 private:
  std::array<node_field<std::uint64_t>, Count> bytes_;
  std::array<node_field<std::uint8_t>, Count> length_;
};

/// Which keys of a container are present: their slots in the order of the keys. One word, as a permutation of a border
/// node.
class present_keys {
 public:
  static constexpr unsigned most_slots = 8;

  /// Slots that have a key, present or not: the first ones.
  [[nodiscard]] unsigned used() const noexcept { return word_ >> used_shift; }
  [[nodiscard]] unsigned count() const noexcept { return word_ >> count_shift & 15U; }
  [[nodiscard]] unsigned slot(unsigned rank) const noexcept { return word_ >> rank * slot_bits & 7U; }
  [[nodiscard]] bool has(unsigned slot_of_key) const noexcept { return rank_of(slot_of_key) != count(); }

  /// With the key of that slot, which is not present, at that rank.
  [[nodiscard]] present_keys with(unsigned rank, unsigned slot_of_key) const noexcept {
    const std::uint32_t before = ranks() & below(rank);
    const std::uint32_t behind = (ranks() & ~below(rank)) << slot_bits;
    return {before | slot_of_key << rank * slot_bits | behind, count() + 1,
            std::max(used(), slot_of_key + 1)};
  }
  /// Without the key of that slot, which is present. It keeps the slot.
  [[nodiscard]] present_keys without(unsigned slot_of_key) const noexcept {
    const unsigned rank = rank_of(slot_of_key);
    return {(ranks() & below(rank)) | (ranks() >> slot_bits & ~below(rank)), count() - 1, used()};
  }

  friend bool operator==(const present_keys&, const present_keys&) = default;

  present_keys() = default;

 private:
  static constexpr unsigned slot_bits = 3;
  static constexpr unsigned count_shift = most_slots * slot_bits;
  static constexpr unsigned used_shift = count_shift + 4;

  present_keys(std::uint32_t ranks, std::uint32_t count, std::uint32_t used) noexcept
      : word_(ranks | count << count_shift | used << used_shift) {}
  [[nodiscard]] static constexpr std::uint32_t below(unsigned rank) noexcept {
    return (std::uint32_t{1} << rank * slot_bits) - 1;
  }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return word_ & below(most_slots); }
  [[nodiscard]] unsigned rank_of(unsigned slot_of_key) const noexcept {
    unsigned rank = 0;
    while (rank != count() && slot(rank) != slot_of_key) ++rank;
    return rank;
  }

  std::uint32_t word_ = 0;
};

/// A few keys of a layer that have a slice in common and go on: what each has behind the slice, its tail, and its word.
/// A key keeps its slot when it is erased, and has it again when it is inserted again. What a used slot has as its tail
/// never changes. Where there is no room for another key, a larger container replaces this one.
///
/// The block has, behind the header, the words, then where each tail ends, then the tails.
///
/// Orderings: those of node_field. A slot is filled, and its word stored, before it is present. A reader loads what is
/// present first: the word of an absent key may be an old one.
template <class Word>
class alignas(node_field<Word>) key_container {
  using field = node_field<Word>;

 public:
  static constexpr unsigned no_slot = present_keys::most_slots;

  /// How much is in a container, or has room there.
  struct shape {
    unsigned count = 0;
    std::size_t tail_bytes = 0;

    [[nodiscard]] shape with(std::string_view tail) const noexcept {
      return {count + 1, tail_bytes + tail.size()};
    }
    /// For more of such keys, at most `most`: so a container is not replaced for each.
    [[nodiscard]] shape with_slack(unsigned most) const noexcept {
      if (count == 1) return *this;
      const unsigned slots = std::min(most, count + count / 2);
      return {slots, tail_bytes * slots / count};
    }
    [[nodiscard]] constexpr std::size_t bytes() const noexcept {
      return sizeof(key_container) + count * (sizeof(field) + sizeof(std::uint32_t)) +
             tail_units() * sizeof(std::uint32_t);
    }
    [[nodiscard]] constexpr std::size_t tail_units() const noexcept {
      return (tail_bytes + sizeof(std::uint32_t) - 1) / sizeof(std::uint32_t);
    }
  };
  static constexpr std::size_t most_tail_bytes = (std::size_t{1} << 30U) - 4;

  explicit key_container(const shape& room) noexcept
      : room_(static_cast<std::uint32_t>(room.tail_units() << slots_bits | room.count)) {
    std::uninitialized_value_construct_n(words(), slots());
  }

  [[nodiscard]] bool is_for(const shape& room) const noexcept {
    return slots() == room.count && tail_room() == room.tail_units() * sizeof(std::uint32_t);
  }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return shape{slots(), tail_room()}.bytes(); }
  [[nodiscard]] present_keys present() const noexcept { return present_.get(); }
  /// What those keys fill.
  [[nodiscard]] shape content(const present_keys& keys) const noexcept {
    shape sum;
    for (unsigned rank = 0; rank < keys.count(); ++rank) sum = sum.with(tail(keys.slot(rank)));
    return sum;
  }
  [[nodiscard]] bool has_room(const present_keys& keys, std::string_view another) const noexcept {
    return keys.used() < slots() && begin_of(keys.used()) + another.size() <= tail_room();
  }

  /// Of a slot that is used.
  [[nodiscard]] std::string_view tail(unsigned slot) const noexcept {
    return {tails() + begin_of(slot), ends()[slot] - begin_of(slot)};
  }
  [[nodiscard]] node_field<Word>& word(unsigned slot) noexcept { return words()[slot]; }
  [[nodiscard]] const node_field<Word>& word(unsigned slot) const noexcept { return words()[slot]; }

  /// The slot of the key with this tail, present or not, or no_slot.
  [[nodiscard]] unsigned slot_of(const present_keys& keys, std::string_view sought) const noexcept {
    const char* begin = tails();
    for (unsigned i = 0; i < keys.used(); ++i) {
      const char* const end = tails() + ends()[i];
      if (static_cast<std::size_t>(end - begin) == sought.size() && same(begin, sought)) return i;
      begin = end;
    }
    return no_slot;
  }
  /// How many present keys have smaller tails.
  [[nodiscard]] unsigned rank_of(const present_keys& keys, std::string_view sought) const noexcept {
    unsigned rank = 0;
    while (rank < keys.count() && tail(keys.slot(rank)) < sought) ++rank;
    return rank;
  }

  // Changes: with the lock that protects the container, or before it is published.

  /// Adds a key, which has this slot, or none and there is room.
  void insert(unsigned slot, std::string_view tail, Word w) noexcept {
    insert(present(), rank_of(present(), tail), slot, tail, w);
  }
  /// Adds a key that is larger than all others.
  void append(std::string_view tail, Word w) noexcept {
    insert(present(), present().count(), no_slot, tail, w);
  }
  void append(const key_container& others) noexcept {
    const present_keys keys = others.present();
    for (unsigned rank = 0; rank < keys.count(); ++rank)
      append(others.tail(keys.slot(rank)), others.word(keys.slot(rank)).held());
  }
  void erase(unsigned slot) noexcept { present_.set(present().without(slot)); }

 private:
  void insert(const present_keys& keys, unsigned rank, unsigned slot, std::string_view tail,
              Word w) noexcept {
    if (slot == no_slot) {
      slot = keys.used();
      const std::uint32_t begin = begin_of(slot);
      std::memcpy(tails() + begin, tail.data(), tail.size());
      ends()[slot] = begin + static_cast<std::uint32_t>(tail.size());
    }
    words()[slot].set(w);
    present_.set(keys.with(rank, slot));
  }

  static constexpr unsigned slots_bits = 4;
  [[nodiscard]] unsigned slots() const noexcept { return room_ & ((1U << slots_bits) - 1); }
  [[nodiscard]] std::size_t tail_room() const noexcept {
    return std::size_t{room_ >> slots_bits} * sizeof(std::uint32_t);
  }

  [[nodiscard]] std::uint32_t begin_of(unsigned slot) const noexcept {
    return slot == 0 ? 0 : ends()[slot - 1];
  }

  template <class T>
  [[nodiscard]] T* behind_header(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(this) + sizeof(*this) + offset);
  }
  [[nodiscard]] field* words() noexcept { return behind_header<field>(0); }
  [[nodiscard]] const field* words() const noexcept { return behind_header<const field>(0); }
  [[nodiscard]] std::uint32_t* ends() noexcept {
    return behind_header<std::uint32_t>(slots() * sizeof(field));
  }
  [[nodiscard]] const std::uint32_t* ends() const noexcept {
    return behind_header<const std::uint32_t>(slots() * sizeof(field));
  }
  [[nodiscard]] char* tails() noexcept { return reinterpret_cast<char*>(ends() + slots()); }
  [[nodiscard]] const char* tails() const noexcept { return reinterpret_cast<const char*>(ends() + slots()); }

  /// From behind, since what one host or folder has in common is in front. Without a call, since most tails are short.
  [[nodiscard]] static bool same(const char* a, std::string_view b) noexcept {
    constexpr std::size_t step = sizeof(std::uint64_t);
    std::size_t left = b.size();
    for (; left >= step; left -= step) {
      if (std::memcmp(a + left - step, b.data() + left - step, step) != 0) return false;
    }
    while (left != 0 && a[left - 1] == b[left - 1]) --left;
    return left == 0;
  }

  node_field<present_keys> present_;
  const std::uint32_t room_;  ///< slots in the lowest bits, then units for tails
};

/// The keys of a full container and one more, which become a layer.
template <class Word, unsigned Count>
class burst_keys {
  using container = key_container<Word>;

 public:
  burst_keys(const container& full, const present_keys& keys, std::string_view tail, Word w) noexcept {
    const unsigned at = full.rank_of(keys, tail);
    for (unsigned i = 0; i < Count; ++i) {
      const bool is_new = i == at;
      const unsigned slot = is_new ? 0 : keys.slot(i < at ? i : i - 1);
      tail_[i] = is_new ? tail : full.tail(slot);
      word_[i] = is_new ? w : full.word(slot).held();
    }
    const std::string_view first = tail_.front();
    const auto same = std::ranges::mismatch(first, tail_.back()).in1 - first.begin();
    shared_ =
        static_cast<unsigned>(std::min(static_cast<std::size_t>(same), first.size() - 1) / key_slice::width);
  }

  /// So many further slices all of them have, and go on behind these.
  [[nodiscard]] unsigned shared() const noexcept { return shared_; }
  /// The slice at that index. From shared() on keys differ.
  [[nodiscard]] key_slice slice(unsigned i, std::size_t index) const noexcept {
    return key_slice::of(tail_[i], index * key_slice::width);
  }
  [[nodiscard]] Word word(unsigned i) const noexcept { return word_[i]; }
  /// Calls f(slice, first, last) for each slice in which keys differ: those from `first` to before `last` have it.
  template <class F>
  void for_each_slice(const F& f) const {
    for (unsigned first = 0, last = 0; first < Count; first = last) {
      const key_slice part = slice(first, shared_);
      while (++last < Count && slice(last, shared_) == part) {
      }
      f(part, first, last);
    }
  }
  /// The container of such keys, if they go on.
  [[nodiscard]] typename container::shape shape_of(unsigned first, unsigned last) const noexcept {
    typename container::shape s;
    for (; first != last; ++first) s = s.with(rest(first));
    return s;
  }
  void fill(container& fresh, unsigned first, unsigned last) const noexcept {
    for (; first != last; ++first) fresh.append(rest(first), word_[first]);
  }

 private:
  [[nodiscard]] std::string_view rest(unsigned i) const noexcept {
    return tail_[i].substr((shared_ + std::size_t{1}) * key_slice::width);
  }

  std::array<std::string_view, Count> tail_;
  std::array<Word, Count> word_;
  unsigned shared_;
};

/// The words of layers of strings: a value where the key ends within the slice, otherwise a container, or the root of
/// the next layer with the lowest bit set.
struct string_words {
  static constexpr bool any = true;

  template <class Node>
  [[nodiscard]] static Node* layer_behind(const key_slice& k, std::uint64_t w) noexcept {
    return k.goes_on() && (w & 1U) != 0 ? reinterpret_cast<Node*>(static_cast<std::uintptr_t>(w - 1))
                                        : nullptr;
  }
  template <class Word, class Node>
  [[nodiscard]] static Word word_of(Node* root) noexcept {
    return static_cast<Word>(reinterpret_cast<std::uintptr_t>(root)) + 1;
  }
};

}  // namespace espalier::btree
